"""An id of ours for a new session, so that an agent that never tells its own can be resumed.

Only for what would otherwise begin anew: a run that writes text, names no session, and goes on with
none. The id is made from whose it is, so that it is told from an agent's own without being kept.
"""

import hashlib
import re
from collections.abc import Sequence

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.find_profile import writes_events
from headgate.core.agents.profile import Profile
from headgate.core.agents.resume_command import free_words

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")


def session_id(store: str, job: int, attempt: int, tries: int = 0) -> str:
    """The id for a try of a job, in the form of a random UUID."""
    digest = hashlib.sha256(f"{store}:{job}:{attempt}:{tries}".encode()).hexdigest()
    variant = "89ab"[int(digest[16], 16) % 4]
    parts = (digest[:8], digest[8:12], f"4{digest[13:16]}", f"{variant}{digest[17:20]}")
    return "-".join((*parts, digest[20:32]))


def is_given(session: str, store: str, job: int, attempts: int) -> bool:
    """Whether a session of a job has an id of ours."""
    numbers = range(1, attempts + 1) if session else ()
    return any(session == session_id(store, job, n, again) for n in numbers for again in (0, 1))


def takes_one(profile: Profile, argv: Sequence[str]) -> bool:
    """Whether a command begins a session that can have an id of ours, if its version knows that."""
    if not (profile.given_since and profile.session_options and profile.resume):
        return False
    if writes_events(profile, argv):
        return False
    args = argv[unwrap(argv).at + 1 :]
    own = {*profile.session_options, *profile.drops, *profile.unresumable}
    if any(arg.partition("=")[0] in own for arg in args):
        return False
    words = free_words(profile, args)
    return not (words and words[0] in profile.other_commands)


def with_session(profile: Profile, argv: Sequence[str], session: str) -> list[str]:
    """The command with an id for its session."""
    at = unwrap(argv).at + 1
    return [*argv[:at], profile.session_options[0], session, *argv[at:]]


def is_since(version: str, since: str) -> bool:
    """Whether a version is a certain one or a later one; not if it cannot be read."""
    here, there = _VERSION.match(version), _VERSION.match(since)
    return bool(here and there and _numbers(here) >= _numbers(there))


def _numbers(found: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part or 0) for part in found.groups())
