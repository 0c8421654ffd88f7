"""One row type per table, and what an open transaction must be able to do with them.

Times are whole milliseconds on the store's own clock, which never jumps.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from headgate.core.admission.lease_events import PENDING, Answer, AnswerKind, EndRequest
from headgate.core.admission.next_in_line import Order
from headgate.core.admission.pools import PoolRow
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction.job_rows import JobTx
from headgate.ledger.transaction.pool_table import PoolTable
from headgate.ledger.transaction.remote_rows import RemoteTx
from headgate.ledger.transaction.request_rows import RequestTx
from headgate.ledger.transaction.token_rows import TokenTx

FEW_LANES = 64
"""So many lanes are looked at one by one; of more, only those that something has changed for."""


class Member(NamedTuple):
    """A living process that holds or waits, and the machine it is on; `works` if it starts jobs.

    `started` is when the process was, as the kernel tells it. `version` is headgate's there, and
    `schema` the newest that it knows. All three are empty for processes of schema 3.
    """

    id: str
    machine: str
    pid: int
    pid_space: str
    joined: Ms
    works: int = 0
    started: int = 0
    version: str = ""
    schema: int = 0


def oldest_first(members: Iterable[Member]) -> list[Member]:
    """Members in the order in which they came."""
    return sorted(members, key=lambda row: (row.joined, row.id))


WITHOUT_HOST = -1
"""Stands for the lender of a request whose agent sits in the pool `host` for it.

It is no lease's id: version 0.1.0 finds none, and lends nothing. The row of such a lease has no
machine, so that nobody counts it into the pool `host` of any.
"""


class Lane(NamedTuple):
    """Tickets that need the same seats under the same rules.

    `roles` are those that its work carries. Where it matters whom work is for, each task has a lane
    of its own, and `share` stands for the task. A lane of jobs has no machine of its own: they run
    wherever a worker takes them. `lender` is the lease whose program made them, 0 for none, or
    WITHOUT_HOST.
    """

    id: int
    machine: str
    key: str
    cls: str
    lender: int
    view: str
    waiting: int
    jobs: bool = False
    roles: str = ""
    share: str = ""

    @property
    def uses(self) -> str:
        """What its work uses: its key, and its roles."""
        return f"{self.key} {self.roles}" if self.roles else self.key

    @property
    def host(self) -> str:
        """The machine whose pool `host` its tickets need a seat in; empty if they need none."""
        return "" if self.lender == WITHOUT_HOST else self.machine


class Ticket(NamedTuple):
    """A request that waits for its seats. A job's belongs to no member: it waits by itself."""

    id: int
    lane: int
    urgency: int
    since: Ms
    arrived: Ms
    weight: int
    task: str
    member: str
    label: str
    marked: int
    overtaken: str
    tokens: int = 0

    @property
    def order(self) -> Order:
        """Where it stands in the line."""
        return (self.urgency, self.since, self.id)


class LeaseRow(NamedTuple):
    """The seats one admitted piece of work holds.

    `chain` is the id of the oldest lease of a family whose members lend each other their seats (0
    for a lease that neither lends nor borrows), `lender` the lease it borrows from (0 for none,
    WITHOUT_HOST for a request, whose `machine` is empty).
    `marked` leases belong to programs that carry the lease's mark in their environment. `sent` is
    what pools that learn have to know of the moment it was granted, `answer` what upstream said,
    `cancel` who asked for its end. `life` is the member whose pipe its programs have inherited, if
    that is not `member` any more.
    """

    id: int
    machine: str
    key: str
    cls: str
    urgency: int
    weight: int
    task: str
    member: str
    label: str
    marked: int
    granted: Ms
    chain: int = 0
    lender: int = 0
    pid: int = 0
    cancel: EndRequest | None = None
    sent: str = ""
    answer: Answer = PENDING
    tokens: int = 0
    job: int = 0
    life: str = ""
    roles: str = ""

    @property
    def uses(self) -> str:
        """What its work uses: its key, and its roles."""
        return f"{self.key} {self.roles}" if self.roles else self.key

    @property
    def is_request(self) -> bool:
        """Whether it is one request of an agent, which has a lease of its own."""
        return self.lender == WITHOUT_HOST

    @property
    def refused(self) -> bool:
        """Whether upstream said no, and nothing since."""
        return self.answer.kind is AnswerKind.REFUSED


class Held(NamedTuple):
    """Seats held by all unrelated leases of one machine, key, class, and roles."""

    machine: str
    key: str
    cls: str
    seats: int
    leases: int
    roles: str = ""

    @property
    def uses(self) -> str:
        """What the work uses: its key, and its roles."""
        return f"{self.key} {self.roles}" if self.roles else self.key


class TaskHeld(NamedTuple):
    """Seats held by all unrelated leases of one machine and task that use the same."""

    machine: str
    key: str
    roles: str
    task: str
    seats: int

    @property
    def uses(self) -> str:
        """What the work uses: its key, and its roles."""
        return f"{self.key} {self.roles}" if self.roles else self.key


class Rest(NamedTuple):
    """Seats that rest after a release, in one place, until a time.

    The row is kept for longer where upstream's own count has to be compared with ours.
    """

    place: str
    seats: int
    until: Ms
    keep: Ms
    granted: Ms
    released: Ms
    completed: int


class HoldHistory(NamedTuple):
    """How long work of one key held its seats: a mean that forgets."""

    holds: int = 0
    mean: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether it can be one; a mean beyond all bounds would break whoever reckons with it."""
        return self.holds >= 0 and 0 <= self.mean < _LONGEST_HOLD

    def learn(self, held: Ms) -> "HoldHistory":
        """The same with one more; a history that cannot be one begins anew."""
        holds, mean = self if self.sound else HoldHistory()
        return HoldHistory(holds=holds + 1, mean=mean + (held - mean) / min(holds + 1, 16))


_LONGEST_HOLD = 2**53


class EventRow(NamedTuple):
    """An event, as kept."""

    id: int
    at: Ms
    kind: str
    work: int
    key: str
    task: str
    pool: str
    text: str


class Expected(NamedTuple):
    """What a transaction is likely to ask for, beside the line and the seats in use."""

    leases: frozenset[int] = frozenset()
    jobs: frozenset[int] = frozenset()
    """Those whose attempts, and who comes after them, are asked for, too."""
    notes: frozenset[str] = frozenset()
    since: Ms = NO_TIME
    """From when on leases count as granted lately."""


class Tx(JobTx, RequestTx, TokenTx, RemoteTx, Protocol):
    """An open transaction. Reads see its own writes; writes need a writing transaction.

    No write has an answer, so that a store may put writes off until the commit.
    """

    def expect(self, expected: Expected) -> None:
        """Hear what is likely to be asked for. A store that is far away asks for it together."""

    def uid(self) -> str:
        """The name this store got when it was made."""

    def next_id(self) -> int:
        """A number never given before."""

    def note(self, name: str) -> str:
        """A small remembered text; empty if there is none."""

    def set_note(self, name: str, text: str) -> None:
        """Remember a small text."""

    def pool_table(self) -> PoolTable:
        """What was set by hand or learned, for every pool touched."""

    def set_pool_row(self, row: PoolRow) -> None:
        """Keep what was set by hand for a pool; a row that says nothing is forgotten."""

    def lanes(self) -> list[Lane]:
        """The lanes in which someone waits."""

    def few_lanes(self) -> list[Lane] | None:
        """The lanes in which someone waits, if there are no more than `FEW_LANES` of them."""

    def lanes_in_order(
        self, after: Order | None, globs: tuple[str, ...], most: int, *, jobs: bool
    ) -> list[tuple[Order, Lane]]:
        """Lanes in the order of their first tickets, each with a place at or before that ticket.

        Only those whose key matches any of so many patterns, if there are any (at most four), and
        those of jobs only if they are wanted. A long lane may come up again.
        """

    def lanes_apart(self) -> list[Lane]:
        """The lanes with a lender or a view, and those with a ticket that was overtaken."""

    def heaviest(self) -> int:
        """The greatest weight of all tickets, at least 1."""

    def machines(self) -> list[str]:
        """The machines on which someone waits; empty for jobs."""

    def lane(self, like: Lane) -> int:
        """The id of the lane for tickets like this, made if it is new."""

    def lane_by_id(self, lane: int) -> Lane | None:
        """A lane; None if nobody waits in it any more."""

    def add_ticket(self, row: Ticket) -> None:
        """Put a ticket into its lane."""

    def drop_ticket(self, id: int) -> Ticket | None:
        """Take a ticket out of the line; None if it is not there."""

    def ticket(self, id: int) -> Ticket | None:
        """A ticket."""

    def page(self, lane: int, after: Order | None, most: int) -> list[Ticket]:
        """Tickets of a lane in order, after a place in the line."""

    def rank(self, lane: int, order: Order) -> int:
        """How many tickets of a lane stand before a place in the line."""

    def marks(self, lane: int) -> list[Order]:
        """Places in a lane's line that at most about a thousand tickets lie between."""

    def set_overtaken(self, id: int, overtaken: str) -> None:
        """Remember where and when a ticket was overtaken."""

    def waiting_members(self, machine: str, besides: str, most: int) -> list[str]:
        """Some other members of this machine with tickets: the last of each line first."""

    def tickets_of(self, member: str) -> list[Ticket]:
        """A member's tickets."""

    def count_tickets_of(self, member: str) -> int:
        """How many tickets a member has."""

    def add_lease(self, row: LeaseRow) -> None:
        """Keep a lease."""

    def drop_lease(self, id: int) -> LeaseRow | None:
        """Remove a lease; None if it is not there."""

    def lease(self, id: int) -> LeaseRow | None:
        """A lease."""

    def leases(self, after: int, most: int) -> list[LeaseRow]:
        """Leases by id."""

    def leases_of(self, member: str) -> list[LeaseRow]:
        """A member's leases."""

    def family(self, chain: int) -> list[LeaseRow]:
        """The leases of one chain."""

    def families(self) -> list[LeaseRow]:
        """The leases of every chain."""

    def recent(self, since: Ms) -> list[LeaseRow]:
        """Leases granted after a time, whether they belong to a chain or not."""

    def held(self) -> list[Held]:
        """Seats held by leases that belong to no chain, counted."""

    def held_by_task(self) -> list[TaskHeld]:
        """The same by task, as far as it is asked for."""

    def roles(self, work: int) -> str:
        """The roles that a piece of work carries."""

    def set_roles(self, work: int, roles: str) -> None:
        """Remember the roles that a piece of work carries."""

    def turn(self, place: str, task: str) -> Ms:
        """When a task had its last turn in a place where tasks take turns; 0 for never."""

    def latest_turn(self, place: str) -> Ms:
        """When any task had its last turn there."""

    def set_turn(self, place: str, task: str, at: Ms) -> None:
        """Remember that a task had its turn."""

    def set_due(self, lane: int, urgency: int, due: Ms) -> None:
        """Have a task's lane come up later than its first ticket stands: its turn was lately."""

    def change_lease(self, row: LeaseRow) -> None:
        """Keep a lease's member, life, chain, lender, pid, cancel, answer and tokens anew."""

    def rests(self) -> list[Rest]:
        """All resting seats."""

    def add_rest(self, row: Rest) -> None:
        """Let seats rest."""

    def drop_rests(self, until: Ms) -> None:
        """Forget seats whose rest is over and was kept long enough."""

    def learn_hold(self, key: str, held: Ms) -> None:
        """Take a finished hold into the history of its key."""

    def usual_hold(self, keys: Iterable[str]) -> float | None:
        """How long work with these keys held its seats lately; None without history."""

    def known_keys(self) -> list[str]:
        """The keys whose work has held seats, in order."""

    def add_member(self, row: Member) -> None:
        """Keep a member."""

    def drop_member(self, id: str) -> None:
        """Forget a member."""

    def count_members(self) -> int:
        """How many members there are."""

    def members(self, among: Collection[str] | None = None) -> list[Member]:
        """All members, or those of some ids: oldest first."""

    def working_members(self) -> list[Member]:
        """The members that start jobs: few, however many there are; oldest first."""

    def member(self, id: str) -> Member | None:
        """A member."""

    def add_event(self, row: EventRow) -> None:
        """Keep an event (its id is given here), and forget the oldest beyond the bound."""

    def events(self, after: int, most: int, work: int) -> list[EventRow]:
        """Events after an id (the newest ones if it is negative), of one piece of work if not 0."""

    def job_leases(self) -> list[LeaseRow]:
        """The leases of jobs."""


FindMember = Callable[[str], Member | None]
"""The row of a member, by its id; None if there is none."""


class Liveness(Protocol):
    """Who is alive. Asked inside a transaction, so it must be quick.

    A member's row is needed only where its pipe says nothing: then its process is asked after. Who
    may be alive is alive: only certainty frees a seat.
    """

    def dead(self, members: Iterable[tuple[Member, Callable[[], list[str]]]]) -> list[str]:
        """The ids of those that have ended; each comes with a way to get its leases' marks."""

    def listening(self, member: str, find: FindMember, /) -> bool:
        """Whether a member's own process is there to be woken."""

    def alive(self, member: str, find: FindMember, /) -> bool:
        """Whether anything that inherited a member's life still runs."""

    def stopped(self, member: str, find: FindMember, /) -> bool | None:
        """Whether a member's process is stopped, as by Ctrl-Z; None if it cannot be seen."""

    def has_begun(self, member: str, lease: int, /) -> bool:
        """Whether a member may have begun to use a lease; False only if it certainly has not."""
