"""Ask for seats, settle the line, hand seats to the next."""

from collections.abc import Callable, Iterator
from functools import partial

from headgate.core.admission import next_in_line, seats
from headgate.core.admission.next_in_line import Granted, Head, Order, PassOutcome
from headgate.core.admission.pools import FAIR
from headgate.core.admission.seats import Need, Reason
from headgate.core.key_patterns import HOST
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import priority_class
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import OVERTAKEN, Overtaken
from headgate.core.times import NO_TIME, Ms, seconds
from headgate.errors import TooHeavyError
from headgate.ledger import dead_members
from headgate.ledger.admission import count_apart
from headgate.ledger.admission.line_walk import LineWalk
from headgate.ledger.jobs import confirm, lifecycle, waits
from headgate.ledger.learning import apply_signals
from headgate.ledger.transaction import unreadable
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.remote_rows import is_remote
from headgate.ledger.transaction.rows import WITHOUT_HOST, Lane, LeaseRow, Ticket

NO_WORKER = Reason("no_worker", "")
"""Why no job of a lane can start: of no pool, and so the same for all such lanes."""


class Request(NamedTuple):
    """What is asked for: how much, of what, for whom. A job asks for no member."""

    key: str
    member: str
    machine: str
    weight: int = 1
    urgency: int = 0
    since: Ms = NO_TIME
    task: str = ""
    label: str = ""
    marked: bool = False
    lender: int = 0
    view: str = ""
    tokens: int = 0
    roles: str = ""

    @property
    def uses(self) -> str:
        """What it uses: its key, and its roles."""
        return f"{self.key} {self.roles}" if self.roles else self.key

    @property
    def cls(self) -> str:
        """The priority class."""
        return priority_class(-self.urgency)


def ask(ledger: Ledger, request: Request, id: int = 0) -> int:
    """Grant the request at once, or put it into the line; returns its id either way.

    Who has lost its lease before it began asks with the same `id`, and so for its old place.
    Nobody is passed: if anyone waits for a pool that this request sits in, or to borrow from the
    same lease, it joins the line, and the line is settled at the end of the transaction. If nobody
    does, a pass would decide nothing that concerns it: it is let in without one if there is room.
    """
    apply_signals.tidy(ledger, request.uses)
    count_apart.count_apart(ledger)
    lane = lane_of(ledger, request)
    wanted = _wanted(ledger, lane, request.weight, request.tokens, request.task)
    refuse_too_heavy(wanted[0], lane.cls, request.weight)
    order = (request.urgency, request.since, id or ledger.tx.next_id())
    if request.label and not request.task:
        request = request._replace(task=f"{request.label}-{order[2]}")
        if lane.share:
            lane = lane_of(ledger, request)
            wanted = _wanted(ledger, lane, request.weight, request.tokens, request.task)
    head = _head(ledger, lane, request.weight, order, wanted)
    if request.roles:
        ledger.tx.set_roles(head.id, request.roles)
    use, now = ledger.use, ledger.now
    if not has_rivals(ledger, head, request.machine) and not next_in_line.obstacles(head, use, now):
        for need in head.needs:
            use.let_in(need, head.cls, now)
        _grant(ledger, head, lane, request, waited=NO_TIME)
        return head.id
    ticket = Ticket(
        id=head.id,
        lane=ledger.tx.lane(lane),
        urgency=request.urgency,
        since=request.since,
        arrived=ledger.now,
        weight=request.weight,
        task=request.task,
        member=request.member,
        label=request.label,
        marked=int(request.marked),
        overtaken="",
        tokens=request.tokens,
    )
    ledger.add_ticket(ticket)
    return head.id


def lane_of(ledger: Ledger, request: Request) -> Lane:
    """The lane that a request would join."""
    lane = Lane(
        id=0,
        machine=request.machine,
        key=request.key,
        cls=request.cls,
        lender=request.lender,
        view=request.view,
        waiting=0,
        jobs=not request.member,
        roles=request.roles,
    )
    return ledger.own_lane(lane, request.task)


def refuse_too_heavy(needs: tuple[Need, ...], cls: str, weight: int) -> None:
    """Turn away what no waiting will help."""
    for need in needs:
        most = seats.ceiling(need.pool, cls)
        if need.seats <= most:
            continue
        if need.pool.per_task == most:
            raise TooHeavyError(
                f"weight {weight} can never fit into pool {need.pool.name}, where one task can "
                f"have {most} seats at most: use a smaller weight, or let a task have more with "
                f"headgate limits per-task '{need.pool.name}' N"
            )
        raise TooHeavyError(
            f"weight {weight} can never fit into pool {need.pool.name}, where "
            f"{cls} work can have {most} seats at "
            "most: use a smaller weight, or raise the limit with "
            f"headgate limits set '{need.pool.name}' N"
        )


def has_rivals(ledger: Ledger, head: Head, machine: str) -> bool:
    """Whether somebody could be let in who wants a pool or the lender of this one.

    All work of a machine wants a seat in its pool `host`; so does a job, where somebody starts it.
    Not so a request: it asks who wants its model, unless that takes longer than a pass.
    """
    machines = ledger.tx.machines()
    if not machines:
        return False
    if not any(need.pool.name == HOST for need in head.needs):
        return ledger.tx.few_lanes() is None or any(True for _ in rivals_for(ledger, head))
    if machine in machines and _wants_host(ledger, machine):
        return True
    if "" in machines and machine == ledger.machine and ledger.workers():
        return True
    return any(True for _ in rivals_for(ledger, head))


def _wants_host(ledger: Ledger, machine: str) -> bool:
    """Whether anybody waits for a seat of a machine; requests do not, their agents have one."""
    lanes = ledger.tx.few_lanes()
    return lanes is None or any(
        lane.machine == machine and lane.lender != WITHOUT_HOST for lane in lanes
    )


def rivals_for(ledger: Ledger, head: Head) -> Iterator[Lane]:
    """The lanes that somebody could be let in from who wants a pool or the lender of this one."""
    lanes = ledger.active_lanes()
    if not lanes:
        return
    wanted = {need.place for need in head.needs}
    for lane in lanes:
        pools = ledger.under(lane.view).of(lane.uses)
        shares = any(place(pool.name, lane.host) in wanted for pool in pools)
        if shares or (head.lender and lane.lender == head.lender):
            yield lane


def settle(ledger: Ledger) -> None:
    """Hand free seats to those who wait, in order."""
    apply_signals.tidy(ledger)
    lifecycle.pick_up(ledger)
    changes = ledger.changes
    ledger.settled()
    ledger.blocked = False
    if not ledger.tx.machines():
        return
    count_apart.count_apart(ledger)

    gone: set[str] = set()

    def lose(member: str) -> None:
        gone.add(member)
        dead_members.drop_tickets(ledger, member)

    def follow(lane: int, after: Order | None) -> Head | Reason | None:
        row = walk.lanes[lane]
        if after is None:
            apply_signals.tidy(ledger, row.uses)
        found = next_head(ledger, row, after, lost=lose)
        if row.share and isinstance(found, Head):
            walk.note_turn(found)
        return found

    asked: list[int] = []
    walk = LineWalk(ledger, ledger.use, follow, changes)
    outcome = PassOutcome()
    for decision in next_in_line.decisions(
        walk.heads(), ledger.use, ledger.now, follow, partial(_kept_back, ledger, asked)
    ):
        outcome.add(decision)
        if isinstance(decision, Granted):
            _grant_ticket(ledger, decision.head, walk.lanes[decision.head.lane])
    ledger.blocked = bool(outcome.blocked) or ledger.tx.few_lanes() is None
    walk.keep_turns()
    ledger.settled()  # grants let nobody else in
    confirm.ask_all(ledger, asked)
    if outcome.again or gone or asked:  # seats may have been kept for those who are gone
        ledger.reconsider()
    for head in outcome.overtaken.values():
        ledger.tx.set_overtaken(head.id, _write_times(head.overtaken))


def next_head(
    ledger: Ledger,
    lane: Lane,
    after: Order | None,
    lost: Callable[[str], object],
) -> Head | Reason | None:
    """The first ticket of a lane, after a place in the line, whose process still lives.

    Or why nothing in the lane can start. The members of tickets passed over are told to `lost`.
    """
    if lane.jobs and not ledger.workers():
        return NO_WORKER
    while rows := ledger.tx.page(lane.id, after, 1):
        ticket = rows[0]
        if lane.jobs or ledger.listening(ticket.member):
            return make_head(ledger, lane, ticket)
        lost(ticket.member)
        after = ticket.order
    return None


def _kept_back(ledger: Ledger, asked: list[int], head: Head) -> Reason | None:
    """Why a head that has room is not let in; a job that asks first goes to `asked`."""
    if not head.member and confirm.wants_yes(ledger, head.id):
        asked.append(head.id)
        return Reason("confirm", "")
    return absent(ledger, head)


def absent(ledger: Ledger, head: Head) -> Reason | None:
    """Why a head that has room is not let in: its process is stopped, and would idle the seats."""
    if not head.member or not ledger.stopped(head.member):
        return None
    limited = next((need.pool.name for need in head.needs if need.pool.limit is not None), HOST)
    if is_remote(head.member):
        return Reason("client_silent", limited)
    ledger.woken.add(head.member)  # so that it looks as soon as it goes on
    return Reason("process_stopped", limited)


def make_head(ledger: Ledger, lane: Lane, ticket: Ticket) -> Head:
    """A ticket as the rules see it."""
    if lane.jobs and lane.lender and not waits.lends(ledger, lane.lender, ticket.id):
        lane = lane._replace(lender=0)
    head = head_of(ledger, lane, ticket.weight, ticket.tokens, order=ticket.order, task=ticket.task)
    if ticket.member:
        head = head._replace(member=ticket.member)
    if not ticket.overtaken:
        return head
    return head._replace(overtaken=_read_times(ledger, ticket.overtaken, head.needs))


def head_of(
    ledger: Ledger,
    lane: Lane,
    weight: int,
    tokens: int = 0,
    *,
    order: Order = (0, 0, 0),
    task: str | None = None,
) -> Head:
    """Whoever wants so many seats of a lane's pools, as the rules see it."""
    return _head(ledger, lane, weight, order, _wanted(ledger, lane, weight, tokens, task))


_Wanted = tuple[tuple[Need, ...], int, tuple[Need, ...]]
"""The seats that somebody needs, the chain it joins by borrowing, and what it needs otherwise."""


def _wanted(ledger: Ledger, lane: Lane, weight: int, tokens: int, task: str | None) -> _Wanted:
    needs, chain = ledger.needs(
        lane.uses,
        lane.machine,
        weight,
        lender=lane.lender,
        view=lane.view,
        tokens=tokens,
        task=task,
    )
    if not chain:
        return needs, 0, ()
    alone, _ = ledger.needs(
        lane.uses, lane.machine, weight, view=lane.view, tokens=tokens, task=task
    )
    return needs, chain, alone


def _head(ledger: Ledger, lane: Lane, weight: int, order: Order, wanted: _Wanted) -> Head:
    needs, chain, alone = wanted
    head = Head(
        order=order,
        lane=lane.id,
        cls=lane.cls,
        needs=needs,
        overtaken={},
        weight=weight,
        lender=lane.lender if chain else 0,
        alone=alone,
    )
    for need in needs if ledger.pool_set.pools.sharing else ():
        if need.task is not None:
            return head._replace(task=need.task, served=ledger.last_turn(needs))
    return head


def _write_times(times: dict[str, int]) -> str:
    return OVERTAKEN.write(tuple(Overtaken(where, at) for where, at in times.items()))


def _read_times(ledger: Ledger, text: str, needs: tuple[Need, ...]) -> dict[str, int]:
    """Where and when a ticket was overtaken; everywhere and long ago if that cannot be read."""
    found = OVERTAKEN.read(text)
    if isinstance(found, Unreadable):
        instead = "seats are kept for it wherever it waits"
        unreadable.remember(ledger, "overtaken", text, "where a ticket was overtaken", instead)
        return {need.place: 0 for need in needs}
    return {one.place: one.at for one in found or ()}


def _grant_ticket(ledger: Ledger, head: Head, lane: Lane) -> None:
    ticket = ledger.drop_ticket(head.id)
    if ticket is None:
        return
    request = Request(
        key=lane.key,
        member=ticket.member or _worker(ledger),
        machine=lane.machine,
        weight=ticket.weight,
        urgency=ticket.urgency,
        since=ticket.since,
        task=ticket.task,
        label=ticket.label,
        marked=bool(ticket.marked),
        lender=lane.lender,
        view=lane.view,
        tokens=ticket.tokens,
        roles=lane.roles,
    )
    _grant(ledger, head, lane, request, waited=ledger.now - ticket.arrived)
    if lane.jobs:
        lifecycle.granted(ledger, head.id)
    ledger.woken.add(request.member)


def _worker(ledger: Ledger) -> str:
    """Who starts a job: the runner that asks for one, or the worker that was given the fewest."""
    if ledger.next_runner:
        next_runner, ledger.next_runner = ledger.next_runner, ""
        return next_runner
    given = [lease.member for lease in ledger.granted.values() if lease.job]
    slow = lifecycle.slow_workers(ledger) if len(ledger.workers()) > 1 else set()
    return min(ledger.workers(), key=lambda worker: (worker in slow, given.count(worker)))


def _grant(ledger: Ledger, head: Head, lane: Lane, request: Request, *, waited: Ms) -> None:
    """Make a lease for a head that has got its seats."""
    ledger.count_grant(ledger.use, head, lane)
    family = ledger.lenders(head.lender) if head.lender else []
    lease = LeaseRow(
        id=head.id,
        machine="" if request.lender == WITHOUT_HOST else request.machine,
        key=request.key,
        cls=head.cls,
        urgency=request.urgency,
        weight=request.weight,
        task=request.task,
        member=request.member,
        label=request.label,
        marked=int(request.marked),
        granted=ledger.now,
        chain=(family[0].chain or _new_chain(ledger, head.lender)) if family else 0,
        lender=WITHOUT_HOST if request.lender == WITHOUT_HOST else head.lender,
        sent=apply_signals.start(ledger, head.id, request.key, head.needs),
        tokens=request.tokens,
        job=int(lane.jobs),
        roles=request.roles,
    )
    if head.task is not None:
        _remember_turns(ledger, head.needs)
    for lender in family:
        if not lender.chain:  # it has lent nothing before, so it is all of its family
            ledger.tx.change_lease(lender._replace(chain=lease.chain))
    ledger.tx.add_lease(lease)
    ledger.granted[lease.id] = lease
    if lease.job or lease.is_request:
        return
    text = f"after {seconds(waited):.1f}s in line" if waited else ""
    ledger.tell("granted", text, work=lease.id, key=lease.key, task=lease.task)


def _remember_turns(ledger: Ledger, needs: tuple[Need, ...]) -> None:
    for need in needs:
        if need.task is not None and need.pool.order == FAIR and need.seats > 0:
            ledger.tx.set_turn(need.place, need.task, ledger.use.turns[need.place, need.task])


def _new_chain(ledger: Ledger, lender: int) -> int:
    """The chain of a lease that lends for the first time.

    A job that was started again has the id of a lease whose children may still be there.
    """
    return ledger.tx.next_id() if ledger.tx.family(lender) else lender
