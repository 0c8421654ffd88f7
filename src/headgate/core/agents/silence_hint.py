"""How to make an agent talk that prints nothing while it works."""

from collections.abc import Sequence

from headgate.core.agents.find_profile import writes_events
from headgate.core.agents.profile import Profile

_BESIDES = {"claude": " --verbose"}
"""What an agent wants with its option for events."""


_NOT_ON_A_SCREEN = {"-p", "--print", "--prompt"}
"""Without these an agent draws on a terminal, and is anything but silent."""


def silence_hint(profile: Profile, argv: Sequence[str]) -> str:
    """A sentence for those who wait for an agent that was started so; empty if it talks."""
    if not profile.silent or not profile.event_options or writes_events(profile, argv):
        return ""
    if not _NOT_ON_A_SCREEN.intersection(argv):
        return ""
    option = profile.event_options[0] + _BESIDES.get(profile.name, "")
    return f"{profile.name} prints nothing until it has ended; with {option} it tells what it does"
