"""A plain model of the line: lists, sorted and summed anew for every question.

It knows nothing of lanes, heads or running counts. Which pools a key sits in is a table, what
is used is a sum over all leases, and who is next is found by going through all tickets in
order. It is slow, and short enough to be checked by reading.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.core.times import Ms
from headgate.ledger.transaction.rows import LeaseRow

FOREVER = 2**62
REQUEST = -1
"""The lender of a request."""

LIMITS: dict[str, int | None] = {
    "host": 3,
    "a": 4,
    "a/x*": 2,
    "a/x1": 1,
    "a/y": 3,
    "b": 3,
    "b/z": None,
    "c": None,
    "role:*": 4,
    "role:lead": 2,
}
PER_TASK = {"a/y": 2, "c": 1, "role:*": 2}
FAIR = {"a/y", "b", "role:lead"}
ROLES = {"": [], "role:dev": ["role:*"], "role:lead": ["role:*", "role:lead"]}
COOLDOWNS = {"a/x*": Ms(500)}
RESERVE = {"b": {"interactive": 1}}
KEYS: dict[str, list[str]] = {
    "": ["host"],
    "a/x1": ["a", "a/x*", "a/x1", "host"],
    "a/x2": ["a", "a/x*", "host"],
    "a/y": ["a", "a/y", "host"],
    "b/z": ["b", "b/z", "host"],
    "c/free": ["c", "host"],
}
VIEWS: dict[str, dict[str, int]] = {
    "": {},
    "host=5": {"host": 5},
    "a=2,a/x1=2": {"a": 2, "a/x1": 2},
    "b/z=1": {"b/z": 1},
}

Lane = tuple[str, str, str, int, str, str, str]
Why = tuple[str, str]
"""A reason: its code and its pool."""


@dataclass
class Ticket:
    """Someone who waits."""

    id: int
    urgency: int
    since: int
    member: str
    machine: str
    key: str
    cls: str
    weight: int
    lender: int
    view: str
    tokens: int
    task: str = ""
    roles: str = ""
    overtaken: dict[str, int] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int, int]:
        """Priority, then since when, then arrival."""
        return (self.urgency, self.since, self.id)

    @property
    def lane(self) -> Lane:
        """Those who need the same seats under the same rules."""
        apart = any(pool in PER_TASK or pool in FAIR for pool in pools_of(self, 0))
        task = f"task {self.task}" if apart else ""
        return (self.machine, self.key, self.cls, self.lender, self.view, self.roles, task)


@dataclass
class Lease:
    """Someone who was let in."""

    id: int
    member: str
    machine: str
    key: str
    cls: str
    weight: int
    lender: int
    chain: int
    granted: int
    tokens: int
    task: str = ""
    roles: str = ""


class Rest(NamedTuple):
    """Seats that rest, why and until when; nothing here has a reason to keep them for longer."""

    where: str
    seats: int
    until: int
    keep: int
    granted: int
    released: int
    completed: int


@dataclass
class Need:
    """Seats that a ticket must get in one pool."""

    pool: str
    where: str
    seats: int
    limit: int | None


@dataclass
class Model:
    """Everything there is, and the rules said plainly."""

    now: int
    ids: int = 0
    limits: dict[str, int | str | None] = field(default_factory=dict)
    cooldowns: dict[str, int | None] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)
    tickets: list[Ticket] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    members: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    granted: list[Ticket] = field(default_factory=list)
    blocked: dict[Lane, list[Why]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    turns: dict[tuple[str, str], int] = field(default_factory=dict)
    unsettled: bool = False
    dead_removed: bool = False

    def limit(self, pool: str, view: str = "") -> int | None:
        """HEADGATE_LIMITS beats what was set by hand, and that beats the file."""
        if pool in VIEWS[view]:
            return VIEWS[view][pool]
        by_hand = self.limits.get(pool)
        if by_hand is not None:
            return by_hand if isinstance(by_hand, int) else None
        return LIMITS[pool]

    def cooldown(self, pool: str) -> int:
        """How long a seat freed now rests."""
        by_hand = self.cooldowns.get(pool)
        return COOLDOWNS.get(pool, 0) if by_hand is None else by_hand

    def paused(self, pool: str) -> bool:
        """Whether nothing may start in a pool."""
        return self.pauses.get(pool, 0) > self.now

    def held(self, where: str, cls: str | None = None) -> int:
        """Seats held in a place; of a family only the heaviest counts, the elder of equals."""
        families: dict[int, list[Lease]] = {}
        for lease in self.leases:
            families.setdefault(lease.chain or -lease.id, []).append(lease)
        total = 0
        for family in families.values():
            here = [lease for lease in family if where in places(lease)]
            if here:
                heaviest = max(here, key=lambda one: (one.weight, -one.id))
                total += heaviest.weight if cls in (None, heaviest.cls) else 0
        return total

    def held_for(self, where: str, task: str) -> int:
        """Seats that a task holds in a place: those of a family belong to its heaviest."""
        families: dict[int, list[Lease]] = {}
        for lease in self.leases:
            if where in places(lease):
                families.setdefault(lease.chain or -lease.id, []).append(lease)
        heaviest = [max(here, key=lambda one: (one.weight, -one.id)) for here in families.values()]
        return sum(one.weight for one in heaviest if one.task == task)

    def turn(self, ticket: Ticket) -> tuple[int, int, int, int]:
        """When a ticket comes up: as it stands, but after the last turn of its task."""
        fair = [place(pool, ticket.machine) for pool in pools_of(ticket) if pool in FAIR]
        return self._turn_among(ticket, fair)

    def _turn_among(self, ticket: Ticket, fair: list[str]) -> tuple[int, int, int, int]:
        served = max((self.turns.get((where, ticket.task), 0) for where in fair), default=0)
        return (ticket.urgency, max(ticket.since, served), ticket.since, ticket.id)

    def resting(self, where: str) -> int:
        """Seats that rest in a place."""
        here = [rest for rest in self.rests if rest.where == where]
        return sum(rest.seats for rest in here if rest.until > self.now)

    def needs(self, ticket: Ticket) -> tuple[list[Need], int]:
        """What a ticket must get beyond what its lender's family has, and that family."""
        family = self._family(ticket.lender)
        found = []
        for pool in pools_of(ticket):
            where = place(pool, ticket.machine)
            lent = max((one.weight for one in family if where in places(one)), default=0)
            seats = max(0, ticket.weight - lent)
            found.append(Need(pool, where, seats, self.limit(pool, ticket.view)))
        if not family:
            return found, 0
        lender = next(one for one in family if one.id == ticket.lender)
        return found, lender.chain or lender.id

    def _family(self, lender: int) -> list[Lease]:
        """Those whose seats can be borrowed: the lender's family, if the lender is its youngest."""
        lease = next((one for one in self.leases if one.id == lender), None)
        if lease is None:
            return []
        family = [
            one for one in self.leases if one is lease or (lease.chain and one.chain == lease.chain)
        ]
        return family if max(one.id for one in family) == lender else []

    def why_not(self, ticket: Ticket, kept: dict[str, int], needs: list[Need]) -> list[Why]:
        """All that keeps a ticket from its seats."""
        found = []
        for need in needs:
            code = self._why_not(need, ticket, kept.get(need.where, 0))
            if code:
                found.append((code, need.pool))
        return found

    def _why_not(self, need: Need, ticket: Ticket, kept: int) -> str:
        cls = ticket.cls
        if self.paused(need.pool):
            return "pool_paused"
        if self._task_is_full(need, ticket.task):
            return "too_heavy" if need.seats > PER_TASK[need.pool] else "task_full"
        if need.limit is None or need.seats == 0:
            return ""
        unheld = need.limit - self.held(need.where)
        free = unheld - self.resting(need.where)
        reserved = self._reserved(need, cls)
        if need.seats <= free - reserved - kept:
            return ""
        if need.seats > ceiling(need, cls):
            return "too_heavy"
        if need.seats > unheld:
            return "pool_full"
        if need.seats > free:
            return "cooling"
        return "reserved" if need.seats > free - reserved else "kept"

    def _task_is_full(self, need: Need, task: str) -> bool:
        if need.pool not in PER_TASK or need.seats == 0:
            return False
        return self.held_for(need.where, task) + need.seats > PER_TASK[need.pool]

    def _reserved(self, need: Need, cls: str) -> int:
        unused = 0
        for other, seats in RESERVE.get(need.pool, {}).items():
            if other != cls:
                unused += max(0, seats - self.held(need.where, other))
        return min(unused, max(0, (need.limit or 0) - 1))

    def keep(self, ticket: Ticket, kept: dict[str, int], needs: list[Need]) -> None:
        """Keep free seats for a ticket that was overtaken wherever it is short, slowest first."""
        wanted = [need for need in needs if need.seats and need.limit is not None]
        if any(self._task_is_full(need, ticket.task) for need in needs):
            return
        free = {}
        for need in wanted:
            if self.paused(need.pool) or need.seats > ceiling(need, ticket.cls):
                return
            used = self.held(need.where) + self.resting(need.where) + kept.get(need.where, 0)
            room = (need.limit or 0) - used - self._reserved(need, ticket.cls)
            free[need.where] = max(0, room)
            if free[need.where] < need.seats and need.where not in ticket.overtaken:
                return
        lost = [need for need in wanted if need.where in ticket.overtaken]
        for need in sorted(lost, key=lambda need: (ticket.overtaken[need.where], need.where)):
            kept[need.where] = kept.get(need.where, 0) + min(free[need.where], need.seats)
            if free[need.where] < need.seats:
                return

    def overtake(self, waiting: Ticket, wanted: list[Need], winner: list[Need]) -> None:
        """Remember where, and when, a later ticket left an earlier one short of seats."""
        taken = {need.where for need in winner if need.seats}
        for need in wanted:
            if need.seats and need.limit is not None and need.where in taken:
                used = self.held(need.where) + self.resting(need.where)
                if need.limit - used < need.seats:
                    latest = max(waiting.overtaken.values(), default=0)
                    waiting.overtaken[need.where] = max(self.now, latest + 1)

    def too_heavy(self, ticket: Ticket) -> bool:
        """Whether a ticket could never be let in."""
        return any(
            (need.limit is not None and need.seats > ceiling(need, ticket.cls))
            or need.seats > PER_TASK.get(need.pool, FOREVER)
            for need in self.needs(ticket)[0]
        )

    def ask(self, ticket: Ticket) -> None:
        """Let in at once if nobody waits for the same pools or lender, and there is room."""
        passes = not self._somebody_waits(ticket)
        if passes and not self.why_not(ticket, {}, self.needs(ticket)[0]):
            self.grant(ticket)
            return
        self.tickets.append(ticket)
        self.unsettled = True

    def _somebody_waits(self, ticket: Ticket) -> bool:
        borrows = self.needs(ticket)[1]
        return any(
            set(places(ticket)) & set(places(other)) or (borrows and other.lender == ticket.lender)
            for other in self.tickets
        )

    def grant(self, ticket: Ticket) -> None:
        """Make a lease of a ticket."""
        needs, chain = self.needs(ticket)
        for need in needs:
            if need.pool in FAIR and need.seats:
                latest = max(
                    (at for (here, _), at in self.turns.items() if here == need.where), default=0
                )
                self.turns[need.where, ticket.task] = max(self.now, latest + 1)
        lender = ticket.lender if chain or ticket.lender == REQUEST else 0
        for lease in self.leases:
            if lease.id == lender:
                lease.chain = chain
        self.leases.append(
            Lease(
                ticket.id,
                ticket.member,
                "" if lender == REQUEST else ticket.machine,
                ticket.key,
                ticket.cls,
                ticket.weight,
                lender,
                chain,
                self.now,
                ticket.tokens,
                ticket.task,
                ticket.roles,
            )
        )
        self.granted.append(ticket)

    def release(self, id: int, *, completed: bool = True) -> bool:
        """Give seats back; they rest where there is a cooldown and a limit."""
        lease = next((one for one in self.leases if one.id == id), None)
        if lease is None:
            return False
        before = {where: self.held(where) for where in places(lease)}
        self.leases.remove(lease)
        for pool in pools_of(lease):
            where = place(pool, lease.machine)
            freed = before[where] - self.held(where)
            if freed and self.cooldown(pool) and self.limit(pool) is not None:
                until = self.now + self.cooldown(pool)
                times = (until, until, lease.granted, self.now)
                self.rests.append(Rest(where, freed, *times, int(completed)))
        self.unsettled = True
        return True

    def withdraw(self, id: int) -> bool:
        """Leave the line, or give back what was granted."""
        ticket = next((one for one in self.tickets if one.id == id), None)
        if ticket is None:
            return self.release(id, completed=False)
        self.tickets.remove(ticket)
        self.unsettled = True
        return True

    def sweep(self) -> None:
        """Take everything from the dead, once per transaction."""
        if self.dead_removed:
            return
        self.dead_removed = True
        for member in sorted(self.dead & self.members):
            self._leave_line(member)
            held = [one.id for one in self.leases if one.member == member]
            for id in sorted(held):  # of a family, who goes first decides how its seats rest
                self.release(id, completed=False)
            self.members.discard(member)

    def _leave_line(self, member: str) -> None:
        for ticket in [one for one in self.tickets if one.member == member]:
            self.withdraw(ticket.id)

    def settle(self) -> None:
        """Go through the line in order; whoever is blocked closes its lane.

        Whoever can never fit stands aside. If somebody was let in, what was kept for others may
        not be theirs any more (a wider view), so those it was kept from get another chance.
        """
        before = len(self.tickets)
        self._pass()
        let_in = len(self.tickets) < before and any(
            code == "kept" for reasons in self.blocked.values() for code, _ in reasons
        )
        self.unsettled = self.unsettled or let_in

    def _pass(self) -> None:
        self.unsettled = False
        self.blocked = {}
        kept = self.kept = {}
        waiting: list[tuple[Ticket, list[Need]]] = []
        aside: list[Ticket] = []
        for lane in {ticket.lane for ticket in self.tickets}:
            self._living_head(lane, aside)
        while True:
            closed = {ticket.lane for ticket, _ in waiting}
            open_ones = [one for one in self.tickets if one.lane not in closed and one not in aside]
            if not open_ones:
                return
            ticket = min(open_ones, key=self.turn)
            needs, _ = self.needs(ticket)
            reasons = self.why_not(ticket, kept, needs)
            if reasons:
                self.blocked[ticket.lane] = reasons
            if any(code == "too_heavy" for code, _ in reasons):
                aside.append(ticket)
                self._living_head(ticket.lane, aside)
                continue
            if reasons:
                waiting.append((ticket, needs))
                self.keep(ticket, kept, needs)
                continue
            self.tickets.remove(ticket)
            self.grant(ticket)
            for other, wanted in waiting:
                self.overtake(other, wanted, needs)
            self._living_head(ticket.lane, aside)

    def _living_head(self, lane: Lane, aside: list[Ticket]) -> None:
        """Send those home who come to the head of a lane and are not there to hear of it."""
        while mine := [one for one in self.tickets if one.lane == lane and one not in aside]:
            head = min(mine, key=lambda one: one.order)
            if head.member not in self.dead | self.deaf:
                return
            self._leave_line(head.member)

    def close(self) -> None:
        """What ends every transaction."""
        while self.unsettled:
            self.settle()
            if self.blocked:
                self.sweep()
        self.dead_removed = False

    def spots(self) -> dict[int, tuple[int, list[Why]]]:
        """Everyone's position and reasons, in order; none if it would be let in now."""
        then = deepcopy(self)
        then.granted, then.unsettled = [], True
        while then.unsettled:
            then.settle()
        let_in = {ticket.id for ticket in then.granted}
        then._pass()  # what holds those up who are left
        line = sorted(self.tickets, key=lambda one: one.order)
        found = {}
        for index, ticket in enumerate(line):
            own = [
                ("too_heavy", need.pool)
                for need in self.needs(ticket)[0]
                if (need.limit is not None and need.seats > ceiling(need, ticket.cls))
                or need.seats > PER_TASK.get(need.pool, FOREVER)
            ]
            why = own[:1]
            if not why and ticket.id not in let_in:
                alone = then.why_not(ticket, then.kept, self.needs(ticket)[0])
                why = then.blocked.get(ticket.lane, alone)
            ahead = [self._ahead(ticket, code, pool, line, index) for code, pool in why]
            found[ticket.id] = (1 + max(ahead, default=0), why)
        return found

    def _ahead(self, ticket: Ticket, code: str, pool: str, line: list[Ticket], index: int) -> int:
        """How many come before a ticket in the line for a pool."""
        where = place(pool, ticket.machine)
        here = [other for other in line if where in places(other) or other.lane == ticket.lane]
        if code == "task_full":
            mine = [other for other in here if other.task == ticket.task]
            return sum(other.order < ticket.order for other in mine)
        if pool not in FAIR:
            return sum(other in here for other in line[:index])
        urgent = sum(other.urgency < ticket.urgency for other in here)
        here = [other for other in here if other.urgency == ticket.urgency]
        served: dict[str, int] = {}

        def turn(one: Ticket) -> tuple[int, ...]:
            urgency, due, since, id = self._turn_among(one, [where])
            return (urgency, max(due, served.get(one.task, 0)), since, id)

        while (following := min(here, key=turn)) is not ticket:
            here.remove(following)
            urgent += 1
            served[following.task] = FOREVER + urgent
        return urgent


def place(pool: str, machine: str) -> str:
    """The pool `host` exists once per machine."""
    return f"host@{machine}" if pool == "host" else pool


def places(one: Ticket | Lease) -> list[str]:
    """Where someone's seats are counted."""
    return [place(pool, one.machine) for pool in pools_of(one)]


def pools_of(one: Ticket | Lease | LeaseRow, lender: int | None = None) -> list[str]:
    """The pools that someone sits in: for a request, its agent sits in `host`."""
    sits = one.lender if lender is None else lender
    found = sorted(KEYS[one.key] + ROLES[one.roles])
    return [pool for pool in found if pool != "host" or sits != REQUEST]


def ceiling(need: Need, cls: str) -> int:
    """The most seats that a class can ever have in a pool with a limit."""
    others = (seats for other, seats in RESERVE.get(need.pool, {}).items() if other != cls)
    return max(1, (need.limit or 0) - sum(others))
