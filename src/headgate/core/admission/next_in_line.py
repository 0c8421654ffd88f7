"""Who is next, and why the others are not.

Tickets with the same pools, class and lender form a *lane*; only the heads of lanes compete, so a
decision costs the same with ten waiting or a million. One pass (`decisions`) looks at the heads in
the order of the line (priority, then since when, then arrival):

- A head for which every pool has room is granted, and the next of its lane takes its place.
- A head that is blocked closes its lane for this pass, and the pass goes on to the next lane: a
  full pool never delays work that does not need it.
- A head too heavy for what its pool has become stands aside until the limit is raised again.
- A head that could be let in and whose process is stopped stands aside, too: it keeps its place.
- A lane out of which nothing can start at all (of jobs, where nobody starts jobs) is closed, and
  none of its tickets is looked at.

That alone would starve whoever needs several seats at once, because single seats are snapped up one
by one by later tickets. So each blocked head remembers, per pool, when a later ticket last took
seats that it went short of (`overtaken`). If that has happened in *every* pool it is short of now,
none of them is simply full for everyone: it is being starved. Then free seats are *kept* for it,
beginning with the pool where it was overtaken longest ago (the slowest to turn over) and moving to
the next only when the first is complete. A seat is thus kept idle no longer than the faster pools
take to free theirs, and nothing is kept on behalf of a pool that nobody gets into.

It gets in: in the first of these pools nobody can overtake it any more, so free seats add up there
until they are enough, and then the same holds for the next.

In a pool whose order is fair, tasks take turns: a task that was let in stands, for its next, as if
it had come then (`Head.turn`). It moves no seat and changes no place in the line, only who of those
that wait comes up first.

Within a pass seats are only taken, never given back, so one pass is enough: whoever was blocked
early is still blocked at its end. There are two exceptions, for which `PassOutcome.again` asks for
another pass. Seats kept for a head under its limit may be taken under a wider view, and then
others need not be held up on its behalf. And a borrower that is heavier than its lender makes all
seats of its family count for its own class, which may be the one that some of them were reserved
for.

Whoever wants to know who is next asks this pass: the ledger, which turns grants into leases; a
look at the line, which says what holds each lane up; and the dry run, which puts those into the
line who might come. Work that comes when nobody waits for any of its pools needs no pass, because
nothing that one decides could concern it.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

from headgate.core.admission.pools import FAIR
from headgate.core.admission.seats import (
    Need,
    Reason,
    Use,
    blocked_by,
    ceiling,
    free,
    outgrown,
    pressure_reason,
    task_reason,
)
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms

Order = tuple[int, int, int]
"""Where a ticket stands: urgency (minus its priority), since when, arrival. Smaller is earlier."""
Turn = tuple[int, int, int, int]
"""When a ticket comes up: as it stands, but not before the last turn of its task."""


class Head(NamedTuple):
    """The first ticket of a lane."""

    order: Order
    lane: int
    cls: str
    needs: tuple[Need, ...]
    overtaken: dict[str, int]
    """Where later tickets took seats that this one went short of, and when they last did."""
    weight: int = 1
    lender: int = 0
    """The lease that it borrows seats from; 0 for none."""
    alone: tuple[Need, ...] = ()
    """What it needs instead once its lender has lent its seats to another."""
    member: str = ""
    """Whose it is; empty for a job's, and for who might come."""
    task: str | None = None
    """Whom it is for, where that matters."""
    served: Ms = NO_TIME
    """When its task had its last turn, where tasks take turns."""

    @property
    def turn(self) -> Turn:
        """When it comes up."""
        urgency, since, id = self.order
        served = self.served
        return urgency, max(served, since), since, id

    @property
    def id(self) -> int:
        """The ticket's id."""
        return self.order[2]

    def unaided(self) -> "Head":
        """The same head, its lender having lent to another."""
        return self._replace(needs=self.alone, lender=0, alone=())


class Granted(NamedTuple):
    """A head that gets its seats, and the earlier ones that it leaves short of some."""

    head: Head
    overtaken: tuple[Head, ...]


class Blocked(NamedTuple):
    """A head that has to wait, and its lane with it."""

    head: Head
    reasons: tuple[Reason, ...]


class Aside(NamedTuple):
    """A head that its lane goes on without: it needs a higher limit, or its process is stopped."""

    head: Head
    reasons: tuple[Reason, ...]


class Closed(NamedTuple):
    """A lane out of which nothing can start, whoever stands in it."""

    lane: int
    reason: Reason


Decision = Granted | Blocked | Aside | Closed
Follow = Callable[[int, Order | None], Head | Reason | None]
"""The next ticket of a lane, after a place in the line; or why nothing in the lane can start."""
Absent = Callable[[Head], Reason | None]
"""Why a head that has room cannot be let in all the same. Asked of no other."""


def _all_there(_: Head) -> None:
    """Nobody is stopped."""


def heads_of(lanes: Iterable[int], follow: Follow) -> Iterator[Head | Closed]:
    """The first ticket of each lane, in the order of the line."""
    heads: list[Head] = []
    for lane in lanes:
        first = follow(lane, None)
        if isinstance(first, Head):
            heads.append(first)
        elif first is not None:
            yield Closed(lane, first)
    heads.sort(key=_turn if any(head.served for head in heads) else None)
    yield from heads


def decisions(
    line: Iterable[Head | Closed],
    use: Use,
    now: Ms,
    follow: Follow,
    absent: Absent = _all_there,
) -> Iterator[Decision]:
    """Decide on everyone who is at the head of a lane, in the order of the line.

    `line` gives the first of each lane in order; `follow` those who come after them. Each is asked
    only when it is its turn to be looked at. Seats are taken off `use` for each grant, and the
    caller acts on a grant before it asks for the next decision.
    """
    use.kept.clear()
    firsts = iter(line)
    first = next(firsts, None)
    queue: list[tuple[Turn, Head]] = []
    waiting = _Waiting()
    lent: set[int] = set()
    while first is not None or queue:
        if isinstance(first, Closed):
            yield first
            first = next(firsts, None)
            continue
        if first is not None and (not queue or first.turn < queue[0][0]):
            head, first = first, None
        else:
            _, head = heappop(queue)
        if head.task is not None and (later := _in_turn(head, use)) is not head:
            heappush(queue, (later.turn, later))  # its task was let in meanwhile
        else:
            competes = head.unaided() if head.lender in lent else head
            decision = _decide(competes, use, now, waiting, absent)
            yield decision
            if isinstance(decision, Granted) and decision.head.lender:
                lent.add(decision.head.lender)
            if not isinstance(decision, Blocked):
                following = follow(head.lane, head.order)
                if isinstance(following, Head):
                    heappush(queue, (following.turn, following))
        if first is None:
            first = next(firsts, None)


def _turn(head: Head) -> Turn:
    return head.turn


def last_turn(needs: Iterable[Need], use: Use) -> Ms:
    """When the task of some work had its last turn in any pool where tasks take turns."""
    return max(
        (
            use.turns.get((need.place, need.task), NO_TIME)
            for need in needs
            if need.task is not None and need.pool.order == FAIR
        ),
        default=NO_TIME,
    )


def _in_turn(head: Head, use: Use) -> Head:
    """The same head, with the last turn of its task as it is now."""
    served = last_turn(head.needs, use)
    return head._replace(served=served) if served > head.served else head


def _decide(
    head: Head, use: Use, now: Ms, waiting: "_Waiting", absent: Absent
) -> Granted | Blocked | Aside:
    """Let a head in, have it wait, or have it stand aside."""
    reasons = obstacles(head, use, now)
    if not reasons:
        if why := absent(head):
            return Aside(head, (why,))
        for need in head.needs:
            use.let_in(need, head.cls, now)
        return Granted(head, waiting.overtaken_by(head, use, now))
    if too_heavy(reasons):
        return Aside(head, reasons)
    waiting.add(head)
    keep_seats(head, use, now)
    return Blocked(head, reasons)


class PassOutcome:
    """What a pass has decided so far."""

    def __init__(self) -> None:
        self.granted: list[Head] = []
        self.blocked: dict[int, tuple[Reason, ...]] = {}
        """What holds each lane up; where all stand aside, what the last of them needs."""
        self.aside: dict[int, tuple[Reason, ...]] = {}
        """What those need who stand aside."""
        self.closed: dict[int, Reason] = {}
        self.overtaken: dict[int, Head] = {}

    def add(self, decision: Decision) -> None:
        """Take in a decision."""
        match decision:
            case Granted(head, overtaken):
                self.granted.append(head)
                self.overtaken |= {other.id: other for other in overtaken}
            case Blocked(head, reasons):
                self.blocked[head.lane] = reasons
            case Aside(head, reasons):
                self.blocked[head.lane] = self.aside[head.id] = reasons
            case Closed(lane, reason):
                self.closed[lane] = reason

    @property
    def again(self) -> bool:
        """Whether another pass might let somebody in whom this one did not."""
        if not self.granted:
            return False
        freed = {"kept", "reserved"} if any(head.lender for head in self.granted) else {"kept"}
        return any(reason.code in freed for reasons in self.blocked.values() for reason in reasons)


def obstacles(head: Head, use: Use, now: Ms) -> tuple[Reason, ...]:
    """All that keeps this head from its seats; empty if it can have them."""
    found = [blocked_by(need, head.cls, use, now) for need in head.needs]
    return tuple([reason for reason in found if reason])


def too_heavy(reasons: tuple[Reason, ...]) -> bool:
    """Whether no waiting will help: only a higher limit can."""
    return any(reason.code in {"too_heavy", "outgrown"} for reason in reasons)


def keep_seats(head: Head, use: Use, now: Ms) -> None:
    """Keep free seats for a head that is being starved, slowest pool first."""
    if not head.overtaken:
        return
    wanted = [need for need in head.needs if need.seats > 0 and need.pool.limit is not None]
    hopeless = (
        n.pool.paused(now) or n.seats > ceiling(n.pool, head.cls) or outgrown(n, now)
        for n in wanted
    )
    if any(hopeless) or any(n.seats > 0 and _alone(n, use) for n in head.needs):
        return
    room = {need.place: max(0, free(need, head.cls, use)) for need in wanted}
    if any(room[n.place] < n.seats and n.place not in head.overtaken for n in wanted):
        return
    lost = [need for need in wanted if need.place in head.overtaken]
    for need in sorted(lost, key=lambda n: (head.overtaken[n.place], n.place)):
        kept = min(room[need.place], need.seats)
        use.kept[need.place] = use.kept.get(need.place, 0) + kept
        if kept < need.seats:
            return


def _alone(need: Need, use: Use) -> bool:
    """Whether something else than the seats of others keeps it out: its machine, or its task."""
    return pressure_reason(need, use) is not None or task_reason(need, use) is not None


def _limited(head: Head) -> Iterator[tuple[str, int, int]]:
    """Where a head needs how many seats under what limit."""
    for need in head.needs:
        if need.seats > 0 and need.pool.limit is not None:
            yield need.place, need.pool.limit, need.seats


class _Waiting:
    """The blocked heads of a pass, by how many seats each needs under which limit."""

    def __init__(self) -> None:
        self._new: list[Head] = []
        self._heads: dict[Order, Head] = {}
        self._wanted: dict[str, dict[int, list[tuple[int, Order]]]] = {}

    def add(self, head: Head) -> None:
        """One more that waits; nobody has to be found before the next grant."""
        self._new.append(head)

    def _sort_in(self, head: Head) -> None:
        self._heads[head.order] = head
        for place, limit, seats in _limited(head):
            insort(self._wanted.setdefault(place, {}).setdefault(limit, []), (seats, head.order))

    def overtaken_by(self, winner: Head, use: Use, now: Ms) -> tuple[Head, ...]:
        """Those whom a later ticket has just left short of seats; each of them notes where."""
        for head in self._new:
            self._sort_in(head)
        self._new.clear()
        found: dict[Order, Head] = {}
        for need in winner.needs:
            wanted = self._wanted.get(need.place, {}) if need.seats > 0 else {}
            for limit, rows in wanted.items():
                left = min(limit, use.caps.get(need.place, limit)) - use.taken(need.place)
                for _, order in rows[bisect_right(rows, left, key=_seats) :]:
                    head = found[order] = self._heads[order]
                    # Later than all before it, so that what is kept elsewhere goes on being kept.
                    latest = max(head.overtaken.values(), default=0)
                    head.overtaken[need.place] = max(now, latest + 1)
        return tuple(found.values())


def _seats(row: tuple[int, Order]) -> int:
    return row[0]
