"""Who is next, and why the others are not.

Tickets with the same pools, class and lender form a *lane*; only the heads of lanes compete, so a
decision costs the same with ten waiting or a million. One pass looks at the heads in the order of
the line (priority, then since when, then arrival):

- A head for which every pool has room is granted, and the next of its lane takes its place.
- A head that is blocked closes its lane for this pass, and the pass goes on to the next lane: a
  full pool never delays work that does not need it.
- A head too heavy for what its pool has become stands aside until the limit is raised again.

That alone would starve whoever needs several seats at once, because single seats are snapped up one
by one by later tickets. So each blocked head remembers, per pool, when a later ticket last took
seats that it went short of (`overtaken`). If that has happened in *every* pool it is short of now,
none of them is simply full for everyone: it is being starved. Then free seats are *kept* for it,
beginning with the pool where it was overtaken longest ago (the slowest to turn over) and moving to
the next only when the first is complete. A seat is thus kept idle no longer than the faster pools
take to free theirs, and nothing is kept on behalf of a pool that nobody gets into.

It gets in: in the first of these pools nobody can overtake it any more, so free seats add up there
until they are enough, and then the same holds for the next.

Within a pass seats are only taken, never given back, so one pass is enough: whoever was blocked
early is still blocked at its end.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headgate.core.pools import Pool

Order = tuple[int, int, int]
"""Where a ticket stands: urgency (minus its priority), since when, arrival. Smaller is earlier."""


class Reason(NamedTuple):
    """Why something waits: a stable code, the pool, and the figures behind it."""

    code: str
    pool: str
    used: int = 0
    limit: int | None = None
    until: int | None = None
    note: str = ""


class Need(NamedTuple):
    """Seats wanted in one pool. `place` is where they are counted: host pools count per machine."""

    pool: Pool
    place: str
    seats: int


class Head(NamedTuple):
    """The first ticket of a lane."""

    order: Order
    lane: int
    cls: str
    needs: tuple[Need, ...]
    overtaken: dict[str, int]
    """Where later tickets took seats that this one went short of, and when they last did."""

    @property
    def id(self) -> int:
        """The ticket's id."""
        return self.order[2]


class Use:
    """Seats in use, per place: held by leases, resting after a release, kept for a starved head."""

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.by_class: dict[tuple[str, str], int] = {}
        self.resting: dict[str, int] = {}
        self.kept: dict[str, int] = {}

    def clear(self) -> None:
        """Begin to count anew; what is kept is not counted but decided, and stays."""
        self.held.clear()
        self.by_class.clear()
        self.resting.clear()

    def take(self, place: str, cls: str, seats: int) -> None:
        """Count seats as held (or, with a negative number, as given back)."""
        self.held[place] = self.held.get(place, 0) + seats
        self.by_class[place, cls] = self.by_class.get((place, cls), 0) + seats

    def rest(self, place: str, seats: int) -> None:
        """Count seats as resting."""
        self.resting[place] = self.resting.get(place, 0) + seats


def blocked_by(need: Need, cls: str, use: Use, now: int) -> Reason | None:
    """Why this pool cannot give these seats to this class now, or None if it can."""
    pool, place, seats = need
    if pool.paused(now):
        return Reason("pool_paused", pool.name, until=pool.paused_until, note=pool.pause_note)
    limit = pool.limit
    if limit is None or seats <= 0:
        return None
    held = use.held.get(place, 0)
    resting = use.resting.get(place, 0)
    free = limit - held - resting
    reserved = _reserved(pool, place, cls, use) if pool.reserve else 0
    kept = use.kept.get(place, 0)
    if free - reserved - kept >= seats:
        return None
    used = held + resting
    if seats > ceiling(pool, cls):
        return Reason("too_heavy", pool.name, seats, ceiling(pool, cls))
    if limit - held < seats:
        return Reason("pool_full", pool.name, used, limit)
    if free < seats:
        return Reason("cooling", pool.name, used, limit)
    if free - reserved < seats:
        classes = ", ".join(name for name, _ in pool.reserve if name != cls)
        return Reason("reserved", pool.name, used, limit, note=classes)
    return Reason("kept", pool.name, used, limit)


def ceiling(pool: Pool, cls: str) -> int:
    """The most seats this class can ever hold in a pool that has a limit."""
    others = sum(seats for other, seats in pool.reserve if other != cls)
    return max(1, (pool.limit or 0) - others)


def _reserved(pool: Pool, place: str, cls: str, use: Use) -> int:
    """Seats this class must leave to others; at least one seat always stays open to everyone."""
    unused = sum(
        max(0, seats - use.by_class.get((place, other), 0))
        for other, seats in pool.reserve
        if other != cls
    )
    return min(unused, max(0, (pool.limit or 0) - 1))


def _free(need: Need, cls: str, use: Use) -> int:
    """Seats of a limited pool that this class could have now."""
    pool, place, _ = need
    taken = use.held.get(place, 0) + use.resting.get(place, 0) + use.kept.get(place, 0)
    reserved = _reserved(pool, place, cls, use) if pool.reserve else 0
    return (pool.limit or 0) - taken - reserved


def obstacles(head: Head, use: Use, now: int) -> tuple[Reason, ...]:
    """All that keeps this head from its seats; empty if it can have them."""
    found = (blocked_by(need, head.cls, use, now) for need in head.needs)
    return tuple(reason for reason in found if reason)


def too_heavy(reasons: tuple[Reason, ...]) -> bool:
    """Whether no waiting will help: only a higher limit can."""
    return any(reason.code == "too_heavy" for reason in reasons)


def keep_seats(head: Head, use: Use, now: int) -> None:
    """Keep free seats for a head that is being starved, slowest pool first."""
    if not head.overtaken:
        return
    wanted = _limited(head)
    hopeless = (n.pool.paused(now) or n.seats > ceiling(n.pool, head.cls) for n in wanted)
    if any(hopeless):
        return
    free = {need.place: max(0, _free(need, head.cls, use)) for need in wanted}
    if any(free[n.place] < n.seats and n.place not in head.overtaken for n in wanted):
        return
    lost = [need for need in wanted if need.place in head.overtaken]
    for need in sorted(lost, key=lambda n: (head.overtaken[n.place], n.place)):
        room = free[need.place]
        use.kept[need.place] = use.kept.get(need.place, 0) + min(room, need.seats)
        if room < need.seats:
            return


def _limited(head: Head) -> list[Need]:
    return [need for need in head.needs if need.seats > 0 and need.pool.limit is not None]


class Outcome(NamedTuple):
    """What a pass found: why each blocked lane is blocked, and which heads were overtaken."""

    blocked: dict[int, tuple[Reason, ...]]
    overtaken: list[Head]


def any_kept(outcome: Outcome) -> bool:
    """Whether someone was blocked by seats that were kept for another."""
    return any(reason.code == "kept" for reasons in outcome.blocked.values() for reason in reasons)


class Moves(NamedTuple):
    """What a pass asks of the rows."""

    grant: Callable[[Head], None]
    """Let a head in."""
    follow: Callable[[Head], Head | None]
    """The next of a head's lane, if any."""
    renew: Callable[[Head], Head]
    """A head with what it needs now, after the grants before it."""


def settle(
    heads: Iterable[Head],
    use: Use,
    now: int,
    moves: Moves,
) -> Outcome:
    """Grant all that can be granted, in the order of the line."""
    queue = list(heads)
    heapify(queue)
    waiting: list[Head] = []
    changed: dict[int, Head] = {}
    blocked: dict[int, tuple[Reason, ...]] = {}
    use.kept.clear()
    while queue:
        head = moves.renew(heappop(queue))
        reasons = obstacles(head, use, now)
        if reasons:
            blocked[head.lane] = reasons
            if not too_heavy(reasons):
                waiting.append(head)
                keep_seats(head, use, now)
                continue
        else:
            for need in head.needs:
                use.take(need.place, head.cls, need.seats)
            for other in waiting:
                if _overtake(other, head, use, now):
                    changed[other.id] = other
            moves.grant(head)
        following = moves.follow(head)
        if following is not None:
            heappush(queue, following)
    return Outcome(blocked, list(changed.values()))


def _overtake(waiting: Head, winner: Head, use: Use, now: int) -> bool:
    """Note in a waiting head each pool that a later ticket has just left it short of."""
    taken = {need.place for need in winner.needs if need.seats > 0}
    lost = False
    for need in _limited(waiting):
        if need.place in taken:
            used = use.held.get(need.place, 0) + use.resting.get(need.place, 0)
            if (need.pool.limit or 0) - used < need.seats:
                # Later than all before it, so that what is being kept elsewhere goes on being kept.
                latest = max(waiting.overtaken.values(), default=0)
                waiting.overtaken[need.place] = max(now, latest + 1)
                lost = True
    return lost
