"""Readers of single values: each takes what the file says and returns it checked, or refuses it."""

import re
from collections.abc import Callable

from headgate.core.quantities import parse_duration
from headgate.core.times import Ms
from headgate.errors import UsageError

TIME = 'a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'
"""What parse_duration takes, for a message."""


class Refused(UsageError):
    """Refused in words of its own: what was found needs an explanation, or is not to be told."""


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


def listed(words: tuple[str, ...]) -> str:
    """The words to choose from, for a message."""
    *most, last = (f'"{word}"' for word in words)
    return f"{', '.join(most)} or {last}" if most else last
