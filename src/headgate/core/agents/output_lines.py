"""What one line of an agent's output tells: whether work goes on, a tool call, a session's id.

Output comes as text or as JSON events, one a line. Of a tool call's input only a digest is kept.
Whatever comes in, nothing here raises.
"""

import json
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from headgate.core.agents.profile import OutputLine, Profile, Tool
from headgate.core.agents.resume_command import SESSION
from headgate.core.answers.classify import classify_line
from headgate.core.answers.signals import REFUSALS
from headgate.core.user_patterns import Pattern, user_pattern

_LONGEST_EVENT = 2**20
_LONG = 10_000
_LONGEST_TEXT = 2_000
_MOST_CALLS = 100
_ODD = re.compile(r"[^\w.:/-]+")
_BLANK = OutputLine()


def read(profile: Profile, line: str) -> OutputLine:
    """What a line tells, by the built-in rules for refusals."""
    seen = look(profile, line)[1]
    if seen.progress:
        said = classify_line(line, profile.speaks or profile.name)
        if said and said.kind in REFUSALS:
            return seen._replace(progress=False)
    return seen


def tells_no_session(profile: Profile, lines: Iterable[str]) -> bool:
    """Whether an agent has said that the session that it was to go on with is not there."""
    return any(
        _compiled(pattern, builtin=profile.builtin).match(line[:_LONGEST_TEXT])
        for line in lines
        for pattern in profile.no_session
    )


def look(profile: Profile, line: str) -> tuple[bool, OutputLine]:
    """Whether a line is an event, and what it tells as long as it is no refusal."""
    if profile.kind and line[:200].lstrip()[:1] == "{":
        if len(line) > _LONGEST_EVENT:
            return True, OutputLine(progress=True)  # nobody reports a retry in a megabyte
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
            if len(line) >= _LONG:  # it was cut
                return True, OutputLine(progress=True)
        if isinstance(event, dict):
            kind = _kind(profile.kind, event)
            if kind:
                return True, _event(profile, event, kind)
    text = line[:_LONGEST_TEXT]
    if not text or text.isspace():
        return False, _BLANK
    session = ""
    if profile.session_line:
        found = _compiled(profile.session_line, builtin=profile.builtin).match(text)
        session = _session(found[1]) if found else ""
    retries = any(
        _compiled(pattern, builtin=profile.builtin).match(text) for pattern in profile.retries
    )
    asks = ""
    if profile.asks:
        found = _compiled(profile.asks, builtin=profile.builtin).match(text)
        asks = found[1] or "" if found else ""
    return False, OutputLine(not retries, "", session, message=not retries, asks=asks)


def _event(profile: Profile, event: dict[str, object], kind: str) -> OutputLine:
    told = (_session(_at(event, path)) for path in profile.session)
    well = not any(_holds(event, test) for test in profile.unless)
    return OutputLine(
        progress=well and _is_one(profile.progress, kind),
        tool=" ".join(_calls(profile.tools, event, kind)),
        session=next(filter(None, told), ""),
        error=not profile.errors or _is_one(profile.errors, kind),
        finished=well and _is_one(profile.finished, kind),
        message=well and _is_one(profile.messages or profile.progress, kind),
    )


def _kind(paths: tuple[str, ...], event: object) -> str:
    found = (_at(event, path) for path in paths)
    return "/".join(part[:100] for part in found if isinstance(part, str))


@lru_cache(maxsize=1024)
def _is_one(kinds: tuple[str, ...], kind: str) -> bool:
    return any(fnmatchcase(kind, wanted) for wanted in kinds)


def _calls(tools: tuple[Tool, ...], event: object, kind: str) -> list[str]:
    found: list[str] = []
    for tool in tools:
        if _is_one((tool.on,), kind):
            for call in _each(event, tool.at):
                if all(_at(call, path) == value for path, value in tool.where.items()):
                    found.append(_identity(call, tool))
                if len(found) >= _MOST_CALLS:
                    break
    return found


def _identity(call: object, tool: Tool) -> str:
    from hashlib import blake2b  # which loads all of OpenSSL

    name = _at(call, tool.name)
    known = _ODD.sub("_", name[:60]) if isinstance(name, str) and name else "tool"
    try:
        text = json.dumps(_at(call, tool.input), sort_keys=True)
    except (ValueError, RecursionError):
        text = ""
    return f"{known}#{blake2b(text.encode(), digest_size=8).hexdigest()}"


def _each(event: object, path: str) -> Iterator[object]:
    if not path.endswith("[]"):
        yield _at(event, path)
        return
    found = _at(event, path.removesuffix("[]"))
    if isinstance(found, list):
        yield from found


def _at(value: object, path: str) -> object:
    """What is at a path; None if nothing. The empty path is the value itself."""
    for step in path.split(".") if path else ():
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _holds(event: object, test: str) -> bool:
    path, equals, wanted = test.partition("=")
    found = _at(event, path)
    return found == wanted if equals else bool(found)


def _session(value: object) -> str:
    return value if isinstance(value, str) and SESSION.match(value) else ""


@lru_cache(maxsize=1024)
def _compiled(pattern: str, *, builtin: bool) -> Pattern:
    return re.compile(pattern) if builtin else user_pattern(pattern)
