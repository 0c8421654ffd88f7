"""Tables with named fields: what a field may be, and one way to read a table of them.

A reader takes a value as it was given and returns it checked, or raises a UsageError. What is wrong
with a table is told for all of its fields at once.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_duration, shown
from headgate.core.times import Ms
from headgate.core.user_patterns import user_pattern
from headgate.errors import UsageError

TIME = 'a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'
"""What parse_duration takes, for a message."""
FLAG = "true or false"


class Field(NamedTuple):
    """One field of a table."""

    read: Callable[[object], Any] | None
    """Its reader; None if it is a table or a list of tables, which somebody else reads."""
    allowed: str
    """Its type or range, as a message says it after "expected"."""
    default: str = ""
    """What counts without it, as it would be written; empty for nothing."""
    text: str = ""
    """One sentence for people."""
    required: bool = False


Fields = Mapping[str, Field]
"""The fields of a table by their names."""


class FieldRefused(UsageError):
    """Refused in words of its own: what was found needs an explanation, or is not to be told."""


def read_fields(
    table: Mapping[str, object],
    fields: Fields,
    wrong: Callable[[str, str], None],
    shown: Callable[[object], str] = shown,
) -> dict[str, Any]:
    """The values of the fields that a table names, without those that are refused.

    `wrong` is told what is wrong with which field, with "" for the table as a whole. Names that
    are no fields are the caller's matter.
    """
    values = {}
    for name, field in fields.items():
        if name not in table:
            if field.required:
                wrong("", f"{name}: missing, expected {field.allowed}")
            continue
        if field.read is None:
            continue
        try:
            values[name] = field.read(table[name])
        except FieldRefused as refusal:
            wrong(name, f"{refusal}; expected {field.allowed}")
        except re.error as error:
            wrong(name, f"found {shown(table[name])} ({error}), expected {field.allowed}")
        except (UsageError, ValueError, OverflowError):  # the latter two by numbers of any length
            wrong(name, f"found {shown(table[name])}, expected {field.allowed}")
    return values


def read_options(said: Mapping[str, object], fields: Fields, wrong: list[str]) -> dict[str, Any]:
    """The same for options and JSON objects, of which a message begins with the word "bad".

    The reader of a field that does not say what is allowed has words of its own.
    """
    values = {}
    for name, found in said.items():
        field = fields.get(name)
        if field is None:
            wrong.append(f"{shown(name)}: {unknown(name, fields)}")
        elif field.read is not None:
            try:
                values[name] = field.read(found)
            except UsageError as error:
                own = isinstance(error, FieldRefused) or not field.allowed
                bad = f"bad {name} {shown(found)}: expected {field.allowed}"
                wrong.append(str(error) if own else bad)
    return values


def unknown(name: str, known: Iterable[str]) -> str:
    """What is wrong with a name that is no field."""
    near = nearest(name, known)
    meant = f"; did you mean {near}?" if near else ""
    return f"unknown; allowed here: {', '.join(known)}{meant}"


def shortened(lines: Sequence[str], most: int = 20) -> list[str]:
    """The first of many lines of a message, and how many there are beside."""
    more = [f"and {len(lines) - most} more like these"] if len(lines) > most else []
    return [*lines[:most], *more]


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The known name that another was probably meant to be; "" if none is alike."""
    from difflib import get_close_matches

    return "".join(get_close_matches(name[:40].lower(), known, 1, alike))


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise UsageError("neither true nor false")
    return value


def number(value: object) -> int:
    """A whole number of any size."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UsageError("not a whole number; in quotes it is text")


def whole(least: int, most: int) -> Callable[[object], int]:
    """A reader of whole numbers within bounds."""

    def read(value: object) -> int:
        found = number(value)
        if not least <= found <= most:
            raise UsageError("out of bounds")
        return found

    return read


def real(least: float, most: float) -> Callable[[object], float]:
    """A reader of numbers within bounds."""

    def read(value: object) -> float:
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not least <= value <= most:  # type: ignore[operator]
            raise UsageError("no number, or out of bounds")
        return value  # type: ignore[return-value]

    return read


def duration(least: Ms, most: Ms) -> Callable[[object], Ms]:
    """A reader of times within bounds."""

    def read(value: object) -> Ms:
        found = parse_duration(value)
        if not least <= found <= most:
            raise UsageError("out of bounds")
        return found

    return read


def choice(*words: str) -> Callable[[object], str]:
    """A reader of one of these words."""

    def read(value: object) -> str:
        found = value.strip().lower() if isinstance(value, str) else ""
        if found not in words:
            raise UsageError("not one of these words")
        return found

    return read


def spelled(pattern: str, most: int) -> Callable[[object], str]:
    """A reader of printable text that a regular expression describes as a whole."""

    def read(value: object) -> str:
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise UsageError("not such a text")
        if not re.fullmatch(pattern, value):
            raise UsageError("not of this form")
        return value

    return read


def pattern(value: object) -> str:
    """A regular expression that a user wrote."""
    if not isinstance(value, str) or not 0 < len(value) <= 1_000:
        raise UsageError("not a pattern")
    try:
        user_pattern(value)
    except UsageError as error:
        raise FieldRefused(str(error)) from None
    return value


def listed(words: tuple[str, ...]) -> str:
    """The words to choose from, for a message."""
    *most, last = (f'"{word}"' for word in words)
    return f"{', '.join(most)} or {last}" if most else last
