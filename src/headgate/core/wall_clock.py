"""Whether the wall clock is to be believed when the machine was off, and what if it was not right.

While the machine runs, its uptime tells how much time has passed. For how long it was off, only the
wall clock says, and that may be wrong: a battery is empty, a virtual machine was restored. So time
that nobody has seen pass is *doubted* if it is more than `TRUSTED`: until the kernel says that the
clock is synchronised, or the clock has run for `SEEN` without having been set. The store's clock
goes on with what the wall clock says, and never back; but what would end by the doubted time waits.

If the clock is put back later, the time that did not pass is *taken back*: what was written before
the machine was off becomes younger by it. The store's clock is ahead of the wall clock then, and
stays so: its `lead` is added when the machine is started the next time.
"""

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_duration
from headgate.core.stored_text.formats import JsonList, StoredText, Unreadable
from headgate.core.times import NO_TIME, Ms

TRUSTED = Ms(10 * 60_000)
"""So long may a machine have been off without anybody doubting it."""
SEEN = Ms(60 * 60_000)
"""After which a clock is believed that nobody has set meanwhile."""
STEP = Ms(60_000)
"""A clock that is off by more has been set; less is how clocks are slowed down and sped up."""
NOTE = "wall_clock"
"""The note in which it is kept."""
HELD_PAUSES = "held_pauses"
"""The note of pauses that hold on while it is doubted."""
TAKEN_BACK = "taken_back"
"""The note of a correction whose expired jobs have not been put back yet: its `start`."""


class Reading(NamedTuple):
    """What the clocks of a machine say at one moment."""

    boot: str
    uptime: Ms
    wall: Ms
    synchronised: bool
    """Whether the kernel says that the wall clock is right."""


class HeldPause(NamedTuple):
    """A pause that the doubted time would have ended, and that holds on meanwhile."""

    pool: str
    until: Ms
    held: Ms
    """Until when it holds meanwhile."""


class HeldPauses(NamedTuple):
    """All of these."""

    pauses: tuple[HeldPause, ...]


PAUSES = StoredText(JsonList(HeldPauses))


class WallClock(NamedTuple):
    """What is known of the wall clock. Moments are on the store's clock, where not said otherwise.

    boot      the boot in which it was looked at last
    opened    when the store was opened first in that boot
    wall      what it showed then, less the uptime
    since     the uptime since which it has not been set
    lead      by how much the store's clock was ahead of it when it was known to be right
    last      until when time was seen to pass, before the machine was off
    start     when the machine was on again, as the wall clock said
    claim     by how much the store's clock was ahead of the wall clock then
    taken     how much of the time in between was taken back
    doubted   whether that time is doubted
    settled   whether the clock is believed, as it was at the last look
    """

    boot: str
    opened: Ms
    wall: Ms
    since: Ms
    lead: Ms
    last: Ms
    start: Ms
    claim: Ms
    taken: Ms
    doubted: int
    settled: int

    @property
    def unseen(self) -> Ms:
        """How much of the time that has passed is doubted."""
        return self.start - self.last if self.doubted else NO_TIME


class _Numbers:
    """The boot and the numbers, with blanks between: read by every command, so without JSON."""

    exact = True

    def write(self, value: WallClock) -> str:
        """A value as text."""
        return " ".join(map(str, value))

    def parse(self, text: str) -> WallClock:
        """The value of a text."""
        boot, *numbers = text.split(" ")
        if len(numbers) != len(WallClock._fields) - 1:
            raise ValueError("other fields")
        value = WallClock._make([boot, *map(int, numbers)])
        if self.write(value) != text:
            raise ValueError("written otherwise")
        return value


TEXT = StoredText(_Numbers(), lambda it: it.last <= it.start)


def read(text: str) -> WallClock | None:
    """What is known; None if nothing is, or it cannot be read."""
    found = TEXT.read(text)
    return None if isinstance(found, Unreadable) else found


def unseen(text: str, moment: Ms, now: Ms) -> Ms:
    """How much of the time since a moment is doubted: all of it, if the text cannot be read."""
    found = TEXT.read(text)
    if isinstance(found, Unreadable):
        return now
    return found.unseen if found is not None and moment < found.start else NO_TIME


def doubt(unseen: Ms) -> str:
    """What is doubted, in words."""
    return (
        f"by the clock {show_duration(unseen)} have passed that nobody has seen: until it is "
        f"synchronised or has run for {show_duration(SEEN)}, no job expires, none is forgotten, "
        "and pauses hold"
    )


def begin(before: WallClock | None, at: Reading, last: Ms) -> WallClock:
    """Start the store's clock in a new boot, never behind `last`, the latest that was written."""
    lead = NO_TIME
    if before is not None and last:
        lead, last = before.lead, max(last, before.opened)
    start = max(at.wall + lead, last)
    off = start - last if last else NO_TIME
    begun = WallClock(
        boot=at.boot,
        opened=start,
        wall=at.wall - at.uptime,
        since=at.uptime,
        lead=lead,
        last=start - off,
        start=start,
        claim=start - at.wall,
        taken=NO_TIME,
        doubted=int(off > TRUSTED),
        settled=int(off <= TRUSTED and at.wall + lead > last - STEP),
    )
    if before is not None and before.last < before.start:
        return _since_it_was_right(before, begun)
    return begun


def _since_it_was_right(before: WallClock, begun: WallClock) -> WallClock:
    """The machine was off again, and the clock has never been known to be right in between."""
    begun = begun._replace(last=before.last)
    if begun.doubted:
        return begun
    return begun._replace(
        start=before.start,
        claim=before.claim,
        taken=before.taken,
        doubted=before.doubted,
        settled=min(before.settled, begun.settled),
    )


def join(before: WallClock | None, at: Reading, now: Ms, *, lost: bool) -> WallClock:
    """Go on with a clock that a process of an older version has set, or whose text is `lost`."""
    return WallClock(
        boot=at.boot,
        opened=now,
        wall=at.wall - at.uptime,
        since=at.uptime,
        lead=before.lead if before is not None else NO_TIME,
        last=NO_TIME if lost else now,
        start=now,
        claim=now - at.wall,
        taken=NO_TIME,
        doubted=int(lost),
        settled=int(not lost),
    )


def has_news(known: WallClock, uptime: Ms, wall: Ms) -> bool:
    """Whether to look: the clock was set, or it is not settled yet whether to believe it."""
    return not known.settled or abs(wall - uptime - known.wall) > STEP


def look(known: WallClock, at: Reading, offset: Ms) -> WallClock:
    """Look at the clock; `offset` is how far the store's clock is ahead of the uptime."""
    wall = at.wall - at.uptime
    if abs(wall - known.wall) > STEP:
        known = known._replace(wall=wall, since=at.uptime, settled=0)
    if known.settled and not at.synchronised:
        return known
    if not at.synchronised and at.uptime - known.since < SEEN:
        return known
    back = min(offset - wall - known.claim, known.start - known.last)
    if back - known.taken > STEP:
        known = known._replace(taken=back)
    known = known._replace(doubted=0, settled=1)
    if at.synchronised:  # whatever is found out later, the clock was right now
        known = known._replace(lead=max(NO_TIME, offset - wall), last=known.start)
    return known
