"""The rule of one pool: which of its seats are taken, and why it cannot give some of them now."""

from headgate.core import rate_limits
from headgate.core.admission.pools import FAIR, LEARN, NO_RATES, Pool
from headgate.core.host import pressure
from headgate.core.host.pressure import Host
from headgate.core.learning import control_law
from headgate.core.learning.control_law import Pace, Step
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import MOST
from headgate.core.rate_limits import RateMeter
from headgate.core.times import Ms

_NO_PACE = Pace()


class Reason(NamedTuple):
    """Why something waits: a stable code, the pool, and the figures behind it."""

    code: str
    pool: str
    used: int = 0
    limit: int | None = None
    until: Ms | None = None
    note: str = ""


class Need(NamedTuple):
    """Seats wanted in one pool. `place` is where they are counted: host pools count per machine."""

    pool: Pool
    place: str
    seats: int
    tokens: int = 0
    task: str | None = None
    """Whom they are for, where that matters."""


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
        self.meters: dict[str, RateMeter] = {}
        self.hosts: dict[str, Host] = {}
        self.starting: dict[str, int] = {}
        self.by_task: dict[tuple[str, str], int] = {}
        """Seats that each task holds, where there is a most for that."""
        self.turns: dict[tuple[str, str], Ms] = {}
        """When tasks that take turns had their last."""
        self.latest_turns: dict[str, Ms] = {}
        self._known: set[str] = set()

    def copy(self) -> "Use":
        """The same count, to go on with by itself."""
        twin = Use.__new__(Use)
        twin.__dict__ = {name: counted.copy() for name, counted in vars(self).items()}
        return twin

    def take_over(self, other: "Use", place: str) -> None:
        """Take over what another count has looked up of a place, the first time it is asked for."""
        if place in self._known:
            return
        self._known.add(place)
        for mine, theirs in (
            (self.foreign, other.foreign),
            (self.upstream, other.upstream),
            (self.caps, other.caps),
            (self.pending, other.pending),
        ):
            if place in theirs:
                mine[place] = theirs[place]
        if place in other.latest_turns:
            self.latest_turns[place] = other.latest_turns[place]
        for about, seats in other.by_task.items():
            if about[0] == place:
                self.by_task[about] = seats
        if place in other.paces:
            self.paces[place] = other.paces[place]
        if place in other.meters:
            self.meters[place] = other.meters[place]
        self.unread |= {place} & other.unread
        self.probing |= {place} & other.probing

    def clear(self) -> None:
        """Reset the counts; seats kept for starved heads stay."""
        kept = self.kept
        self.__init__()  # type: ignore[misc]
        self.kept = kept

    def take(self, place: str, cls: str, seats: int) -> None:
        """Count seats as held (or, with a negative number, as given back)."""
        self.held[place] = self.held.get(place, 0) + seats
        self.by_class[place, cls] = self.by_class.get((place, cls), 0) + seats

    def hand_over(self, place: str, cls: str, to: str, seats: int) -> None:
        """Move held seats to another class: in a family only the heaviest member counts."""
        self.by_class[place, cls] = self.by_class.get((place, cls), 0) - seats
        self.by_class[place, to] = self.by_class.get((place, to), 0) + seats

    def take_for(self, place: str, task: str, seats: int) -> None:
        """Count seats as held by a task."""
        self.by_task[place, task] = self.by_task.get((place, task), 0) + seats

    def take_turn(self, place: str, task: str, now: Ms) -> None:
        """Let a task have its turn: each has a moment of its own, so that they have an order."""
        at = max(now, Ms(self.latest_turns.get(place, 0) + 1))
        self.turns[place, task] = self.latest_turns[place] = at

    def rest(self, place: str, seats: int) -> None:
        """Count seats as resting."""
        self.resting[place] = self.resting.get(place, 0) + seats

    def taken(self, place: str) -> int:
        """All seats that are not to be had: by upstream's own count where there is one."""
        counted = self.upstream.get(place)
        held = self.held.get(place, 0) + self.foreign.get(place, 0)
        return held + self.resting.get(place, 0) if counted is None else max(counted, held)

    def let_in(self, need: Need, cls: str, now: Ms) -> None:
        """Count what a piece of work takes that starts now."""
        pool, place, seats, tokens, task = need
        self.take(place, cls, seats)
        if pool.rates != NO_RATES:
            self.meters[place] = rate_limits.charge(
                self.meters.get(place, RateMeter()), tokens, now
            )
        if pool.learned is not None:
            self.pending[place] = self.pending.get(place, 0) + 1
        if seats <= 0:
            return
        if task is not None:
            if pool.per_task is not None:
                self.take_for(place, task, seats)
            if pool.order == FAIR:
                self.take_turn(place, task, now)
        if pool.pressure_limits is not None:
            self.starting[place] = self.starting.get(place, 0) + seats
        if place in self.upstream:
            self.upstream[place] += seats
        if pool.learned is not None and self.taken(place) > pool.learned.limit:
            self.probing.add(place)


def blocked_by(need: Need, cls: str, use: Use, now: Ms) -> Reason | None:
    """Why this pool cannot give these seats to this class now, or None if it can."""
    pool, place, seats, tokens, task = need
    if pool.paused(now):
        return Reason("pool_paused", pool.name, until=pool.paused_until, note=pool.pause_note)
    if not pool.bounded:
        return None
    if pool.rates != NO_RATES:
        at, what = rate_limits.opens(use.meters.get(place, RateMeter()), pool.rates, tokens, now)
        if at > now:
            return Reason(
                code="spacing" if what == "spacing" else "rate",
                pool=pool.name,
                used=0,
                limit=None,
                until=at,
                note=what,
            )
    if seats <= 0:
        return None
    if task is not None and (reason := task_reason(need, use)):
        return reason
    if place in use.unread:
        return Reason("no_reading", pool.name)
    if place in use.hosts and (reason := pressure_reason(need, use)):
        return reason
    most = bound(pool, place, use)
    return None if most is None else _no_seat(need, cls, use, most, now)


def task_reason(need: Need, use: Use) -> Reason | None:
    """Why a task cannot hold as many seats, or None if it can."""
    pool, place, seats, _, task = need
    if pool.per_task is None or task is None:
        return None
    if seats > pool.per_task:
        return Reason("too_heavy", pool.name, seats, pool.per_task)
    held = use.by_task.get((place, task), 0)
    if held + seats > pool.per_task:
        return Reason("task_full", pool.name, held, pool.per_task)
    return None


def _no_seat(need: Need, cls: str, use: Use, most: int, now: Ms) -> Reason | None:
    """Why these seats are not free under this limit, or None if they are."""
    pool, place, seats, _, _ = need
    level = use.taken(place) + seats
    others = use.kept.get(place, 0) + (_reserved(pool, place, cls, use) if pool.reserve else 0)
    if level + others <= most:
        return _unconfirmed(need, level, use)
    if most == pool.limit and _may_probe(need, level, others, use, now):
        return None
    return _why(need, cls, use, most, now)


def pressure_reason(need: Need, use: Use) -> Reason | None:
    """Why a machine is too strained for more of anything."""
    pressure_limits, host = need.pool.pressure_limits, use.hosts.get(need.place)
    if pressure_limits is None or host is None:
        return None
    found = pressure.judge(pressure_limits, host, use.starting.get(need.place, 0))
    return Reason(found.code, need.pool.name, note=found.note) if found else None


def bound(pool: Pool, place: str, use: Use) -> int | None:
    """The lower of the pool's limit and what upstream allows."""
    cap = use.caps.get(place)
    return pool.limit if cap is None or (pool.limit is not None and pool.limit <= cap) else cap


def _unconfirmed(need: Need, level: int, use: Use) -> Reason | None:
    """After a cut the levels below the new limit are entered one by one."""
    learned = need.pool.learned
    if learned is None:
        return None
    step = Step(level, need.seats, use.pending.get(need.place, 0))
    if control_law.unconfirmed(learned, step):
        return Reason("confirming", need.pool.name, level - need.seats, need.pool.limit)
    return None


def _may_probe(need: Need, level: int, others: int, use: Use, now: Ms) -> bool:
    """Whether this may be the one that tries what lies above a learned limit."""
    pool, place, seats, _, _ = need
    it = pool.learned
    if it is None or pool.adapt != LEARN or place in use.probing:
        return False
    if others and level + others > it.limit + 1:
        return False
    cap = use.caps.get(place)
    if cap is not None and level > cap:
        return False
    step = Step(level, seats, use.pending.get(place, 0))
    return control_law.opening(it, step, use.paces.get(place, _NO_PACE), now) == control_law.PROBE


def had_room(pool: Pool, place: str, seats: int, use: Use) -> bool:
    """Whether so many seats are free for everybody, so that nobody waited for fewer of them."""
    most = bound(pool, place, use)
    if most is None:
        return True
    if pool.learned is not None and pool.learned.sure <= most:  # they are entered one by one
        return False
    reserved = sum(kept for _, kept in pool.reserve)
    return use.taken(place) + seats + reserved <= most


def _why(need: Need, cls: str, use: Use, most: int, now: Ms) -> Reason:
    pool, place, seats, _, _ = need
    held = use.held.get(place, 0) + use.foreign.get(place, 0)
    taken = use.taken(place)
    if seats > ceiling(pool, cls):
        return Reason("too_heavy", pool.name, seats, ceiling(pool, cls))
    if outgrown(need, now):
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


def outgrown(need: Need, now: Ms) -> bool:
    """Whether the limit was cut to below what this needs, and more may not be tried yet."""
    it = need.pool.learned
    if it is None or need.seats <= it.limit:
        return False
    return need.pool.adapt != LEARN or control_law.barred(it, need.seats, now)


def ceiling(pool: Pool, cls: str) -> int:
    """The most seats that one piece of work of this class can ever have in a pool."""
    most = pool.limit if pool.learned is None else pool.most
    if most is None:
        most = MOST
    if pool.reserve:
        most -= sum([seats for other, seats in pool.reserve if other != cls])
    if pool.per_task is not None:
        most = min(most, pool.per_task)
    return max(1, most)


def _reserved(pool: Pool, place: str, cls: str, use: Use) -> int:
    """Seats this class must leave to others; at least one seat always stays open to everyone."""
    unused = sum(
        max(0, seats - use.by_class.get((place, other), 0))
        for other, seats in pool.reserve
        if other != cls
    )
    return min(unused, max(0, (pool.limit or 0) - 1))


def free(need: Need, cls: str, use: Use) -> int:
    """Seats of a limited pool that this class could have now."""
    pool, place, _, _, _ = need
    reserved = _reserved(pool, place, cls, use) if pool.reserve else 0
    most = bound(pool, place, use) or 0
    return most - use.taken(place) - use.kept.get(place, 0) - reserved
