"""Durations, priorities, limits and weights, as people write them."""

import math
import re

from headgate.core.times import Ms, Seconds
from headgate.errors import UsageError

FOREVER = Ms(2**62)
"""A time that never comes, in milliseconds: until somebody resumes."""

CLASSES = ("interactive", "normal", "background")
_NUMBER = {"interactive": 10, "normal": 0, "background": -10}
MOST = 1_000_000
"""The largest limit, weight or priority."""
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
LONGEST_MS = Ms(366 * _UNITS["d"])
LONGEST = "366d"
"""The longest duration."""
_SIZE = r"([0-9]{1,15}(?:\.[0-9]{1,6})?)(?:b|([kmgt])(i?)b?)?"
_LARGEST_SIZE = 2**54


def parse_duration(value: object, what: str = "duration", *, bounded: bool = True) -> Ms:
    """Milliseconds from `2s`, `1m30s`, `500ms`, `1h`, or a plain number of seconds.

    One that is too long is an error, unless the caller makes it shorter (`bounded`).
    """
    total: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        total = min(value, LONGEST_MS) * 1_000
    elif isinstance(value, str) and value.isascii():
        text = value.strip().lower().replace(" ", "")
        try:
            total = float(text) * 1_000
        except ValueError:
            if text and re.sub(_PART, "", text) == "":
                total = sum(float(n) * _UNITS[u] for n, u in re.findall(_PART, text))
    if total is None or math.isnan(total) or total < 0:
        raise UsageError(
            f"bad {what} {shown(value)}: "
            "expected a time such as 2s, 500ms, 1m30s, 1h or 30 (seconds)"
        )
    if total > LONGEST_MS and (bounded or math.isinf(total)):
        raise UsageError(f"bad {what} {shown(value)}: at most {LONGEST} is allowed")
    return Ms(round(total))


def shown(value: object) -> str:
    """A value as it was given, for a message: never longer than a line, whatever it is."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return "a number of more than 18 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def show_duration(ms: Ms) -> str:
    """A duration in at most two units: `850ms`, `4.2s`, `1m30s`, `2h05m`, `3d4h`."""
    return _show(ms)


def show_seconds(seconds: Seconds) -> str:
    """A duration as `show_duration` shows it; not made whole before, so that it is rounded once."""
    return _show(seconds * 1_000)


def _show(ms: float) -> str:
    if ms < 0:
        return "0s"
    if ms < 1_000:
        return f"{round(ms)}ms"
    seconds = ms / 1_000
    if seconds < 10 and round(seconds, 1) % 1:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"


def show_size(size: float) -> str:
    """A number of bytes in three digits at most: `700 MiB`, `1.5 GiB`, `24 GiB`."""
    amount, unit = max(0.0, float(size)), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if round(amount) < 1_000:
            break
        amount, unit = amount / 1_024, larger
    digits = f"{amount:.1f}" if amount < 10 and round(amount, 1) % 1 else f"{amount:.0f}"
    return f"{digits} {unit}"


def parse_priority(value: object) -> int:
    """A priority's number; higher goes first. Names stand for 10, 0 and -10."""
    if value is None:
        return 0
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _NUMBER:
            return _NUMBER[text]
        if re.fullmatch(r"[+-]?[0-9]{1,9}", text):
            value = int(text)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST:
        return value
    raise UsageError(
        f"bad priority {shown(value)}: expected interactive, normal, background, "
        f"or a whole number from -{MOST} to {MOST} (higher goes first)"
    )


CLASSES = ("interactive", "normal", "background")


def priority_class(number: int) -> str:
    """The class a priority belongs to: 10 and above interactive, -10 and below background."""
    if number >= _NUMBER["interactive"]:
        return "interactive"
    return "background" if number <= _NUMBER["background"] else "normal"


def parse_limit(value: object, what: str = "limit") -> int:
    """A pool's limit: a whole number of seats, at least one."""
    number = _whole(value)
    if number is None or not 1 <= number <= MOST:
        hint = " (to let nothing in, use: headgate pause POOL)" if number == 0 else ""
        raise UsageError(
            f"bad {what} {shown(value)}: expected a whole number from 1 to {MOST}{hint}"
        )
    return number


def parse_weight(value: object) -> int:
    """How many seats a piece of work takes in each of its pools."""
    number = _whole(value)
    if number is None or not 1 <= number <= MOST:
        raise UsageError(f"bad weight {shown(value)}: expected a whole number from 1 to {MOST}")
    return number


def parse_tokens(value: object) -> int:
    """A number of tokens."""
    number = _whole(value)
    if number is None or not 0 <= number <= 10**9:
        raise UsageError(f"bad tokens {shown(value)}: expected a whole number from 0 to {10**9}")
    return number


def parse_size(value: object, what: str = "size") -> int:
    """Bytes from `64MiB`, `1GiB`, `500kB`, `64M` (as in MiB), or a plain number."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    found = None
    if isinstance(text, str) and len(text) <= 60:
        found = re.fullmatch(_SIZE, text.strip().lower().replace(" ", ""))
    if not found:
        raise UsageError(
            f"bad {what} {shown(value)}: expected a size such as 64MiB, 1GiB or 65536 (bytes)"
        )
    number, unit, binary = found.groups()
    thousand = 1_000 if unit and not binary and found[0].endswith("b") else 1_024
    size = float(number) * float(thousand) ** (" kmgt".index(unit) if unit else 0)
    if size > _LARGEST_SIZE:
        raise UsageError(f"bad {what} {shown(value)}: at most 16384TiB is allowed")
    return round(size)


def parse_task(value: object, what: str = "task") -> str:
    """A task's name or a note, one printable line; empty for none."""
    if value is None:
        return ""
    text = value.strip() if isinstance(value, str) else None
    if text is None or len(text) > 200 or not text.isprintable():
        raise UsageError(
            f"bad {what} {shown(value)}: expected one printable line of at most 200 characters"
        )
    return text


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*\+?[0-9]{1,12}\s*", value):
        return int(value)
    return None
