"""What upstream lets one know: the words for it, and the figures that come with them.

    accepted              a request was let in
    concurrency-limited   too many at once
    rate-limited          too many in a while: a pause until it is over
    quota-gone            nothing more until a time, or until somebody pays
    overloaded            upstream's own trouble, whoever asks
    usage                 upstream's own count of what is in use

Only `accepted` and `concurrency-limited` say anything about how many may run at once.
"""

import math

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_duration, shown
from headgate.core.times import NO_TIME, Ms
from headgate.errors import UsageError

ACCEPTED = "accepted"
CONCURRENCY = "concurrency-limited"
RATE = "rate-limited"
QUOTA = "quota-gone"
OVERLOADED = "overloaded"
USAGE = "usage"
KINDS = (ACCEPTED, CONCURRENCY, RATE, QUOTA, OVERLOADED, USAGE)
REFUSALS = (CONCURRENCY, RATE, QUOTA, OVERLOADED)

PAUSE = Ms(30_000)
"""How many milliseconds a pool rests after a refusal that does not say for how long."""
WHILE_IT_WAITS = Ms(3_000)
"""For how many it rests at a time while the one that was refused waits, and shows when it tries
again: long enough for the answer to that try to come in."""
LONGEST_PAUSE = Ms(86_400_000)
"""No refusal closes a pool for longer than this, whatever it says: a day."""
LONGEST_QUOTA = Ms(8 * 86_400_000)
"""Only a quota that is gone does: for a week, and a day because nobody knows how it is counted."""


class Reading(NamedTuple):
    """Upstream's own count at one moment; None where it does not say. Times are milliseconds."""

    in_use: float
    """Sessions or cost units that upstream counts as in flight, whoever's they are."""
    limit: int | None = None
    """How many may be in flight without being punished."""
    hard_cap: int | None = None
    """From how many on upstream refuses; between the two it may serve, at a price."""
    closed_for: int | None = None
    """Upstream serves nothing for so long (a box other than a low priority)."""
    low_priority: bool = False
    """Upstream serves slowly, as a punishment."""
    requests: int | None = None
    """Requests upstream has counted in its current window."""
    request_limit: int | None = None
    window: int | None = None
    """The length of that window."""
    note: str = ""
    """What people should know: the service mode, why it is boxed."""


class Signal(NamedTuple):
    """One thing that was learned from upstream."""

    kind: str
    retry_after: Ms | None = None
    """For how many milliseconds upstream asks to be left alone; None if it does not say."""
    reading: Reading | None = None
    account: bool = False
    """Whether it holds for the whole account rather than for one model."""
    note: str = ""
    """What made it so: a header, a code, or what was undecidable."""
    waits: bool = False
    """Whether who was refused waits as long as it was told to, and shows when it tries again."""


def parse_signal(value: object) -> str:
    """The kind of signal that this names."""
    text = value.strip().lower().replace("_", "-") if isinstance(value, str) else ""
    if text not in KINDS:
        raise UsageError(f"bad signal {shown(value)}: expected {', '.join(KINDS)}")
    return text


def parse_wait(value: object) -> Ms | None:
    """For how long upstream asks to be left alone; more than a day is a day."""
    if value is None:
        return None
    return min(parse_duration(value, "retry_after", bounded=False), LONGEST_PAUSE)


def pause_length(retry_after: Ms | None, kind: str = "", *, waits: bool = False) -> Ms:
    """For how long a refusal of a kind pauses its pool; `waits` as in Signal."""
    longest = LONGEST_QUOTA if kind == QUOTA else LONGEST_PAUSE
    if retry_after is None:
        return WHILE_IT_WAITS if waits else PAUSE
    return max(NO_TIME, min(retry_after, longest))


def parse_reading(in_use: object, limit: object = None) -> Reading | None:
    """A reading from two numbers of unknown origin; None if they cannot be one."""
    used = _count(in_use)
    if used is None:
        return None
    most = _count(limit)
    return Reading(used, None if most is None or most < 1 else int(most))


def _count(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number <= 1_000_000 else None
