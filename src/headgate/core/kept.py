"""Every text that is kept, its shape, and what counts in place of one that cannot be read.

What is learned for long (a limit, what refusals cost) stays as it is while it cannot be read, and a
careful value counts until a person sets the limit or restores it. What is of the moment (charges,
readings, counts, strain) is replaced by a careful value that wears off by itself.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from headgate.core.amounts import FOREVER, MOST
from headgate.core.law import Bar, Learned, Pace, Sent
from headgate.core.rates import Meter, Slot
from headgate.core.readings import LAGS, SETTLES, Sight
from headgate.core.strain import Host
from headgate.core.texts import Shape, seal, unseal
from headgate.core.times import Ms

_SENT = re.compile(r"([^,=]+)=(-?\d{1,18})/(\d{1,18})/([0-7])")
_STREAK = 6
_CAREFUL = 3
_SAMPLES = 20
_TOKENS = 10**15
"""More than any limit of tokens a minute."""
UNKNOWN = "unreadable"
"""Who is taken to have written what stands in for a text that cannot be read."""


class Sighting(NamedTuple):
    """Programs that never asked for a seat, as seen within one set of processes."""

    machine: str
    space: str
    programs: int
    at: int


class Strained(NamedTuple):
    """How strained it was within one set of processes."""

    space: str
    host: Host
    at: int


class Overtaken(NamedTuple):
    """Where a ticket was overtaken, and when it last was."""

    place: str
    at: int


class Reset(NamedTuple):
    """When somebody last set a limit, and the last lease that had been granted by then."""

    at: int
    last: int


def _learned(it: Learned) -> bool:
    bounded = 1 <= it.limit <= MOST and 0 <= it.base <= MOST and 0 <= it.probe <= FOREVER
    return bounded and (not it.base or it.limit <= it.base) and 0 <= it.streak <= _STREAK


def _pace(it: Pace) -> bool:
    return min(it.clean, it.after) >= 0 and min(it.clean_spread, it.after_spread) >= 0


def _meter(it: Meter) -> bool:
    charged = all(slot.requests >= 0 and slot.tokens >= 0 for slot in it.slots)
    return charged and min(it.rpm, it.tpm) >= 0


def _sight(it: Sight) -> bool:
    for guess, values in ((it.lags, LAGS), (it.settles, SETTLES)):
        lengths = {len(guess.others), len(guess.jumps)}
        if lengths != {len(values)} and (lengths != {0} or it.samples >= _SAMPLES):
            return False
    return 0 <= it.careful <= _CAREFUL


LEARNED = Shape[Learned](Learned, _learned)
PACE = Shape[Pace](Pace, _pace)
METER = Shape[Meter](Meter, _meter)
SIGHT = Shape[Sight](Sight, _sight)
SIGHTINGS = Shape[tuple[Sighting, ...]](tuple[Sighting, ...])
STRAINED = Shape[tuple[Strained, ...]](tuple[Strained, ...])
OVERTAKEN = Shape[tuple[Overtaken, ...]](tuple[Overtaken, ...], size=1024)
RESET = Shape[Reset](Reset)
NAMES = Shape[tuple[str, ...]](tuple[str, ...])

DEAR_PACE = Pace(served=MOST, clean=8, after=8, after_mean=1.0)
"""Refusals are taken to be punished, and no request that was served buys a try."""


def fixed(limit: int) -> Learned:
    """A limit that stays: it is entered one at a time, and nobody may try the level above it."""
    bar = Bar(limit + 1, 1.0, 0, FOREVER)
    return Learned(limit, limit, sure=0, bars=(bar,), heard=True, answered=True)


def full_meter(now: Ms) -> Meter:
    """This minute is used up."""
    return Meter(now, (Slot(now // 1_000, MOST, _TOKENS),))


def careful_sight(now: int, until: int) -> Sight:
    """No reading, and little to be built on the next ones; others are taken to use it too.

    Up to `until` a reading is taken to be under way, so that nobody starts without one.
    """
    polling = UNKNOWN if until > now else ""
    return Sight(doubted=now, careful=_CAREFUL, company=now, polling=polling, polling_until=until)


def everywhere(now: int) -> tuple[Sighting, ...]:
    """Programs that never asked have all seats."""
    return (Sighting(UNKNOWN, UNKNOWN, MOST, now),)


def worst(now: int) -> tuple[Strained, ...]:
    """Nothing is free, and the load is beyond any ceiling."""
    return (Strained(UNKNOWN, Host(0, 0, 1.0, float(MOST)), now),)


def write_sent(marks: list[tuple[str, Sent]]) -> str:
    """What a lease remembers for each pool that learns; of the hot path, so not as JSON."""
    return seal(",".join(f"{name}={_write_mark(mark)}" for name, mark in marks)) if marks else ""


def _write_mark(mark: Sent) -> str:
    return f"{mark.epoch}/{mark.level}/{mark.probe + 2 * mark.cooling + 4 * mark.after}"


@lru_cache(maxsize=1024)
def read_sent(text: str) -> tuple[tuple[str, Sent], ...] | None:
    """What a lease remembers; None if it cannot be read."""
    found = []
    for part in unseal(text).split(",") if text else ():
        match = _SENT.fullmatch(part)
        if match is None:
            return None
        name, epoch, level, flags = match[1], int(match[2]), int(match[3]), int(match[4])
        mark = Sent(epoch, level, bool(flags & 1), bool(flags & 2), bool(flags & 4))
        found.append((name, mark))
    return tuple(found)
