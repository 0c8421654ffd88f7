"""Every text that is kept, its shape, and what counts in place of one that cannot be read.

What is learned for long (a limit, what refusals cost) stays as it is while it cannot be read, and a
careful value counts until a person sets the limit or restores it. What is of the moment (charges,
readings, counts, strain) is replaced by a careful value that wears off by itself.
"""

from functools import lru_cache

from headgate.core.host.pressure import Host
from headgate.core.key_patterns import is_pattern
from headgate.core.learning.control_law import Bar, Learned, Pace, Sent
from headgate.core.learning.usage_readings import LAGS, SETTLES, Sight
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import FOREVER, MOST
from headgate.core.rate_limits import RateMeter, RateSlot
from headgate.core.stored_text.formats import (
    FieldLine,
    FieldLines,
    JsonList,
    StoredText,
    Unreadable,
)
from headgate.core.times import Ms

_STREAK = 6
_CAREFUL = 3
_FLAGS = 7
_SAMPLES = 20
_TOKENS = 10**15
"""More than any limit of tokens a minute."""
UNKNOWN = "unreadable"
"""Who is taken to have written what stands in for a text that cannot be read."""


class ForeignCount(NamedTuple):
    """Programs that never asked for a seat, as seen within one set of processes."""

    machine: str
    space: str
    programs: int
    at: int


class StoredPressure(NamedTuple):
    """How strained it was within one set of processes: what a `Host` says, and when."""

    space: str
    memory: int
    free: int
    cores: float
    load: float | None
    at: int

    @property
    def host(self) -> Host:
        """How it was."""
        return Host(self.memory, self.free, self.cores, self.load)


class Overtaken(NamedTuple):
    """Where a ticket was overtaken, and when it last was."""

    place: str
    at: int


class Gated(NamedTuple):
    """A pool of which some program has read the usage."""

    pool: str


class StoredSent(NamedTuple):
    """What a lease remembers for one pool: `Sent`, with its flags in one number."""

    pool: str
    epoch: int
    level: int
    flags: int

    @property
    def sent(self) -> Sent:
        """As a `control_law.Sent`."""
        flags = self.flags
        return Sent(
            self.epoch,
            self.level,
            probe=bool(flags & 1),
            cooling=bool(flags & 2),
            after=bool(flags & 4),
        )


class Reset(NamedTuple):
    """When somebody last set a limit, and the last lease that had been granted by then."""

    at: int
    last: int


class Warned(NamedTuple):
    """Until when a quota counts as nearly gone."""

    until: int


class StoredWait(NamedTuple):
    """A program under a lease that waits for a job; the member is the process that does."""

    lease: int
    job: int
    number: int
    """Tells apart what one process waits for at the same time."""
    member: str


class ToldDeadlock(NamedTuple):
    """A deadlock that was told: the ids of its leases, with blanks between."""

    leases: str


def _learned(it: Learned) -> bool:
    bounded = 1 <= it.limit <= MOST and 0 <= it.base <= MOST and 0 <= it.probe <= FOREVER
    return bounded and (not it.base or it.limit <= it.base) and 0 <= it.streak <= _STREAK


def _pace(it: Pace) -> bool:
    return min(it.clean, it.after) >= 0 and min(it.clean_spread, it.after_spread) >= 0


def _meter(it: RateMeter) -> bool:
    charged = all(slot.requests >= 0 and slot.tokens >= 0 for slot in it.slots)
    return charged and min(it.rpm, it.tpm) >= 0


def _sight(it: Sight) -> bool:
    for guess, values in ((it.lags, LAGS), (it.settles, SETTLES)):
        lengths = {len(guess.others), len(guess.jumps)}
        if lengths != {len(values)} and (lengths != {0} or it.samples >= _SAMPLES):
            return False
    return 0 <= it.careful <= _CAREFUL


def _sightings(them: tuple[ForeignCount, ...]) -> bool:
    return all(it.programs >= 0 for it in them)


def _marks(them: tuple[StoredSent, ...]) -> bool:
    return all(it.pool and it.level >= 0 and 0 <= it.flags <= _FLAGS for it in them)


LEARNED = StoredText(JsonList(Learned), _learned)
PACE = StoredText(FieldLine(Pace, " ".join(["{:.9g}"] * len(Pace._fields))), _pace)
METER = StoredText(JsonList(RateMeter), _meter)
SIGHT = StoredText(JsonList(Sight), _sight)
SIGHTINGS = StoredText(FieldLines(ForeignCount, "{}|{}={}@{}", ","), _sightings)
STRAINED = StoredText(FieldLines(StoredPressure, "{}={},{},{:g},{:.3f}@{}", ";"))
OVERTAKEN = StoredText(
    FieldLines(Overtaken, "{}={}", ","), lambda them: all(it.place for it in them), size=1024
)
RESET = StoredText(FieldLine(Reset, "{} {}"))
WARNED = StoredText(FieldLine(Warned, "{}"))
GATED = StoredText(
    FieldLines(Gated, "{}", ","), lambda them: all(is_pattern(it.pool) for it in them)
)
WAITS = StoredText(FieldLines(StoredWait, "{} {} {} {}", ","))
DEADLOCKS = StoredText(FieldLines(ToldDeadlock, "{}", ","))
_MARK_LINES = FieldLines(StoredSent, "{}={}/{}/{}", ",")
_MARKS = StoredText(_MARK_LINES, _marks, size=1024)

DEAR_PACE = Pace(served=MOST, clean=8, after=8, after_mean=1.0)
"""Refusals are taken to be punished, and no request that was served buys a try."""


def fixed(limit: int) -> Learned:
    """A limit that stays: it is entered one at a time, and nobody may try the level above it."""
    bar = Bar(limit + 1, 1.0, 0, FOREVER)
    return Learned(limit, limit, sure=0, bars=(bar,), heard=True, answered=True)


def full_meter(now: Ms) -> RateMeter:
    """This minute is used up."""
    return RateMeter(now, (RateSlot(now // 1_000, MOST, _TOKENS),))


def careful_sight(now: int, until: int) -> Sight:
    """No reading, and little to be built on the next ones; others are taken to use it too.

    Up to `until` a reading is taken to be under way, so that nobody starts without one.
    """
    polling = UNKNOWN if until > now else ""
    return Sight(doubted=now, careful=_CAREFUL, company=now, polling=polling, polling_until=until)


def everywhere(now: int) -> tuple[ForeignCount, ...]:
    """Programs that never asked have all seats."""
    return (ForeignCount(UNKNOWN, UNKNOWN, MOST, now),)


def worst(now: int) -> tuple[StoredPressure, ...]:
    """Nothing is free, and the load is beyond any ceiling."""
    return (StoredPressure(UNKNOWN, memory=0, free=0, cores=1.0, load=float(MOST), at=now),)


def cut_off(at: int, now: int) -> bool:
    """Whether a time at the end of a text has lost digits.

    Stores begin to count at the wall clock's time, so no time of theirs has fewer digits than now.
    """
    return at * 10 <= now


def write_sent(marks: list[tuple[str, Sent]]) -> str:
    """What a lease remembers for each pool that learns."""
    return _MARK_LINES.write(
        [StoredSent(name, it.epoch, it.level, _flags(it)) for name, it in marks]
    )


def _flags(sent: Sent) -> int:
    return sent.probe + 2 * sent.cooling + 4 * sent.after


@lru_cache(maxsize=1024)
def read_sent(text: str) -> tuple[tuple[str, Sent], ...] | None:
    """What a lease remembers; None if it cannot be read."""
    marks = _MARKS.read(text)
    if isinstance(marks, Unreadable):
        return None
    return tuple((mark.pool, mark.sent) for mark in marks or ())
