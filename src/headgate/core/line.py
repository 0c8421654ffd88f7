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

from headgate.core import law, rates, strain
from headgate.core.amounts import MOST
from headgate.core.law import Pace, Step
from headgate.core.pools import LEARN, NO_RATES, Pool
from headgate.core.rates import Meter
from headgate.core.strain import Host

_NO_PACE = Pace()
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
    tokens: int = 0


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
    """Seats in use, per place: held by leases, resting after a release, kept for a starved head.

    And what else is known there: seats taken by others, what upstream itself counts and allows, who
    still waits for an answer, whether a probe is out, what the rates were charged, how strained a
    machine is and how many are just starting there.
    """

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.by_class: dict[tuple[str, str], int] = {}
        self.resting: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self.foreign: dict[str, int] = {}
        self.upstream: dict[str, int] = {}
        self.caps: dict[str, int] = {}
        self.unread: set[str] = set()
        self.pending: dict[str, int] = {}
        self.probing: set[str] = set()
        self.paces: dict[str, Pace] = {}
        self.meters: dict[str, Meter] = {}
        self.hosts: dict[str, Host] = {}
        self.starting: dict[str, int] = {}

    def clear(self) -> None:
        """Begin to count anew; what is kept is not counted but decided, and stays."""
        kept = self.kept
        self.__init__()  # type: ignore[misc]
        self.kept = kept

    def take(self, place: str, cls: str, seats: int) -> None:
        """Count seats as held (or, with a negative number, as given back)."""
        self.held[place] = self.held.get(place, 0) + seats
        self.by_class[place, cls] = self.by_class.get((place, cls), 0) + seats

    def rest(self, place: str, seats: int) -> None:
        """Count seats as resting."""
        self.resting[place] = self.resting.get(place, 0) + seats

    def taken(self, place: str) -> int:
        """All seats that are not to be had: by upstream's own count where there is one."""
        counted = self.upstream.get(place)
        held = self.held.get(place, 0) + self.foreign.get(place, 0)
        return held + self.resting.get(place, 0) if counted is None else max(counted, held)

    def let_in(self, need: Need, cls: str, now: int) -> None:
        """Count what a piece of work takes that starts now."""
        pool, place, seats, tokens = need
        self.take(place, cls, seats)
        if pool.rates != NO_RATES:
            self.meters[place] = rates.charge(self.meters.get(place, Meter()), tokens, now)
        if seats <= 0:
            return
        if pool.care is not None:
            self.starting[place] = self.starting.get(place, 0) + seats
        if place in self.upstream:
            self.upstream[place] += seats
        if pool.learned is not None:
            self.pending[place] = self.pending.get(place, 0) + 1
            if self.taken(place) > pool.learned.limit:
                self.probing.add(place)


def blocked_by(need: Need, cls: str, use: Use, now: int) -> Reason | None:
    """Why this pool cannot give these seats to this class now, or None if it can."""
    pool, place, seats, tokens = need
    if pool.paused(now):
        return Reason("pool_paused", pool.name, until=pool.paused_until, note=pool.pause_note)
    if not pool.bounded:
        return None
    if pool.rates != NO_RATES:
        at, what = rates.opens(use.meters.get(place, Meter()), pool.rates, tokens, now)
        if at > now:
            return Reason("spacing" if what == "spacing" else "rate", pool.name, 0, None, at, what)
    if seats <= 0:
        return None
    if place in use.unread:
        return Reason("no_reading", pool.name)
    if place in use.hosts and (reason := strained(need, use)):
        return reason
    most = bound(pool, place, use)
    return None if most is None else _no_seat(need, cls, use, most, now)


def _no_seat(need: Need, cls: str, use: Use, most: int, now: int) -> Reason | None:
    """Why these seats are not free under this limit, or None if they are."""
    pool, place, seats, _ = need
    level = use.taken(place) + seats
    others = use.kept.get(place, 0) + (_reserved(pool, place, cls, use) if pool.reserve else 0)
    if level + others <= most:
        return _unconfirmed(need, level, use)
    if most == pool.limit and _may_probe(need, level, others, use, now):
        return None
    return _why(need, cls, use, most, now)


def strained(need: Need, use: Use) -> Reason | None:
    """Why a machine is too strained for more of anything."""
    care, host = need.pool.care, use.hosts.get(need.place)
    if care is None or host is None:
        return None
    found = strain.judge(care, host, use.starting.get(need.place, 0))
    return Reason(found.code, need.pool.name, note=found.note) if found else None


def bound(pool: Pool, place: str, use: Use) -> int | None:
    """The lower of the pool's limit and what upstream allows."""
    cap = use.caps.get(place)
    return pool.limit if cap is None or (pool.limit is not None and pool.limit <= cap) else cap


def _unconfirmed(need: Need, level: int, use: Use) -> Reason | None:
    """After a cut the levels below the new limit are entered one by one."""
    learned = need.pool.learned
    step = Step(level, need.seats, use.pending.get(need.place, 0))
    if learned is not None and law.unconfirmed(learned, step):
        return Reason("confirming", need.pool.name, level - need.seats, need.pool.limit)
    return None


def _may_probe(need: Need, level: int, others: int, use: Use, now: int) -> bool:
    """Whether this may be the one that tries what lies above a learned limit."""
    pool, place, seats, _ = need
    it = pool.learned
    if it is None or pool.adapt != LEARN or place in use.probing:
        return False
    if others and level + others > it.limit + 1:
        return False
    cap = use.caps.get(place)
    if cap is not None and level > cap:
        return False
    step = Step(level, seats, use.pending.get(place, 0))
    return law.opening(it, step, use.paces.get(place, _NO_PACE), now) == law.PROBE


def _why(need: Need, cls: str, use: Use, most: int, now: int) -> Reason:
    pool, place, seats, _ = need
    held = use.held.get(place, 0) + use.foreign.get(place, 0)
    taken = use.taken(place)
    if seats > ceiling(pool, cls):
        return Reason("too_heavy", pool.name, seats, ceiling(pool, cls))
    if _outgrown(need, now):
        return Reason("outgrown", pool.name, seats, pool.limit)
    if most - held < seats:
        return Reason("pool_full", pool.name, taken, most)
    if most - taken < seats:
        code = "upstream_full" if place in use.upstream else "cooling"
        return Reason(code, pool.name, taken, most)
    reserved = _reserved(pool, place, cls, use) if pool.reserve else 0
    if most - taken - reserved < seats:
        classes = ", ".join(name for name, _ in pool.reserve if name != cls)
        return Reason("reserved", pool.name, taken, most, note=classes)
    return Reason("kept", pool.name, taken, most)


def _outgrown(need: Need, now: int) -> bool:
    """Whether the limit was cut to below what this needs, and more may not be tried yet."""
    it = need.pool.learned
    if it is None or need.seats <= it.limit:
        return False
    return need.pool.adapt != LEARN or law.barred(it, need.seats, now)


def ceiling(pool: Pool, cls: str) -> int:
    """The most seats this class can ever hold in a pool that has a limit."""
    most = pool.limit if pool.learned is None else pool.most or MOST
    others = sum(seats for other, seats in pool.reserve if other != cls)
    return max(1, (most or 0) - others)


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
    pool, place, _, _ = need
    reserved = _reserved(pool, place, cls, use) if pool.reserve else 0
    most = bound(pool, place, use) or 0
    return most - use.taken(place) - use.kept.get(place, 0) - reserved


def obstacles(head: Head, use: Use, now: int) -> tuple[Reason, ...]:
    """All that keeps this head from its seats; empty if it can have them."""
    found = (blocked_by(need, head.cls, use, now) for need in head.needs)
    return tuple(reason for reason in found if reason)


def too_heavy(reasons: tuple[Reason, ...]) -> bool:
    """Whether no waiting will help: only a higher limit can."""
    return any(reason.code in {"too_heavy", "outgrown"} for reason in reasons)


def keep_seats(head: Head, use: Use, now: int) -> None:
    """Keep free seats for a head that is being starved, slowest pool first."""
    if not head.overtaken:
        return
    wanted = _limited(head)
    hopeless = (
        n.pool.paused(now) or n.seats > ceiling(n.pool, head.cls) or _outgrown(n, now)
        for n in wanted
    )
    if any(hopeless) or any(n.seats > 0 and strained(n, use) for n in head.needs):
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
                use.let_in(need, head.cls, now)
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
            most = bound(need.pool, need.place, use) or 0
            if most - use.taken(need.place) < need.seats:
                # Later than all before it, so that what is being kept elsewhere goes on being kept.
                latest = max(waiting.overtaken.values(), default=0)
                waiting.overtaken[need.place] = max(now, latest + 1)
                lost = True
    return lost
