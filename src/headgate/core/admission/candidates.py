"""A dry run: what might be started, and what would become of it.

A scheduler that starts its work by itself only wants a verdict: which of its candidates would be
let in now, which would wait, and why.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from headgate.core.key_patterns import parse_key
from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable
from headgate.core.quantities import parse_priority, parse_task, parse_tokens, parse_weight, shown
from headgate.core.roles import parse_roles
from headgate.core.table_fields import Field, Fields, nearest, read_options
from headgate.core.times import Seconds
from headgate.errors import UsageError

START, DEFER = "start", "defer"
KeyOf = Callable[[list[str]], str | None]
"""What a command uses, if that can be told from the command; else None."""
_LONG_AGO = 100_000_000
_SUCH = '{"key": "anthropic/claude-opus-4-6"}'


class Candidate(NamedTuple):
    """Work that might be started. The fields are those of `Gate.slot`."""

    key: str | None = None
    priority: str | int | None = None
    task: str | None = None
    weight: int = 1
    since: float | None = None
    tokens: int = 0
    name: str = ""
    """What its owner calls it; comes back with the verdict."""
    roles: str = ""


class Verdict(NamedTuple):
    """What would become of one candidate. The last five are None if it would start."""

    verdict: str
    """`start` or `defer`."""
    name: str
    key: str
    task: str
    priority: int
    weight: int
    code: str | None = None
    pool: str | None = None
    reason: str | None = None
    position: int | None = None
    """Where it would stand in the longest of the lines that hold it up."""
    eta: Seconds | None = None
    """In how many seconds it might start; None also where that cannot be told."""


class Plan(NamedTuple):
    """A verdict for each candidate, in the order in which they were given."""

    verdicts: tuple[Verdict, ...]
    at: Seconds

    @property
    def starts(self) -> tuple[Verdict, ...]:
        """Those that would be let in now."""
        return tuple(one for one in self.verdicts if one.verdict == START)

    @property
    def deferred(self) -> tuple[Verdict, ...]:
        """Those that would have to wait."""
        return tuple(one for one in self.verdicts if one.verdict == DEFER)


def read_candidate(
    record: object, key_of: KeyOf | None = None
) -> tuple[Candidate | None, list[str]]:
    """A candidate from a decoded JSON object; or None, and all that is wrong with it."""
    if not isinstance(record, Mapping):
        return None, [f"found {kind(record)}, expected an object such as {_SUCH}"]
    wrong: list[str] = []
    ours = {name: record[name] for name in _FIELDS if record.get(name) is not None}
    said = read_options(ours, _FIELDS, wrong)
    if "role" in said:
        said["roles"] = parse_roles([*said.get("roles", "").split(), *said.pop("role").split()])
    command, key = said.pop("command", ""), said.pop("model", None)
    if "key" in record and "model" in record:
        wrong.append("found both key and model, which mean the same; keep one")
    if key is None and "key" not in said and command and key_of is not None and not wrong:
        key = key_of(_words(command))
    id, name = said.pop("id", ""), said.pop("name", "")
    named = name or id or said.get("task") or _program(command)
    candidate = Candidate(**{"key": key, **said, "name": named})
    for name in record:
        meant = _meant(name[:40]) if name not in _FIELDS else ""
        if meant:
            wrong.append(f"found the field {shown(name)}; did you mean {meant}?")
    return (None if wrong else candidate), wrong


def _key(value: object) -> str:
    return parse_key(value)  # type: ignore[arg-type]  # it checks for text itself


def _command(value: object) -> str | list[str]:
    """A command as it was given; it is not shown, for it may hold a prompt or a secret."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return value
    raise UsageError(
        f"bad command: found {kind(value)}, expected text or a list of texts, not empty"
    )


def _words(command: str | list[str]) -> list[str]:
    """The words of a command, as a shell would take them."""
    if not isinstance(command, str):
        return command
    import shlex

    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return command.split()


def _program(command: str | list[str]) -> str:
    """The program's name, after settings such as A=b: the least that tells commands apart."""
    words = command.split(maxsplit=20)[:20] if isinstance(command, str) else command
    name = next((word for word in words if "=" not in word), "").rpartition("/")[2]
    return printable(name[:60], "?")


def _moment(value: object) -> float:
    """Seconds since the epoch, from a number or a date with its time zone."""
    at = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        at = float(value) if abs(value) < 2**52 else math.nan
    elif isinstance(value, str) and len(value) <= 64:
        from datetime import datetime

        try:
            found = datetime.fromisoformat(value.strip())
            at = found.timestamp() if found.tzinfo else math.nan
        except (ValueError, OverflowError):
            pass
    if not at >= _LONG_AGO:
        raise UsageError(
            f"bad since {shown(value)}: expected seconds since the epoch, or a date with its time "
            "zone such as 2026-04-28T09:30:00Z"
        )
    return at


def _label(value: object) -> str:
    """What its owner calls it: text or a number."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    return parse_task(value, "id or name")


_FIELDS: Fields = {
    "key": Field(_key, ""),
    "model": Field(_key, ""),
    "priority": Field(parse_priority, ""),
    "weight": Field(parse_weight, ""),
    "tokens": Field(parse_tokens, ""),
    "since": Field(_moment, ""),
    "task": Field(parse_task, ""),
    "roles": Field(parse_roles, ""),
    "role": Field(parse_roles, ""),
    "command": Field(_command, ""),
    "id": Field(_label, ""),
    "name": Field(_label, ""),
}
"""What a record may say of a candidate; `model` is another word for `key`. The rest is not ours."""


def kind(value: object) -> str:
    """What sort of JSON value this is, for a message that must not repeat it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "text" if value.strip() else "empty text"
        case list():
            return "a list" if value else "an empty list"
        case _:
            return "an object"


@lru_cache(maxsize=1024)
def _meant(name: str) -> str:
    """The field that a name is a misspelling of; what is not close to any is not ours."""
    return nearest(name, _FIELDS, 0.8)
