"""Ask for seats, settle the line, hand seats to the next."""

from typing import NamedTuple

from headgate.core import line
from headgate.core.amounts import priority_class
from headgate.core.kept import OVERTAKEN, Overtaken
from headgate.core.line import Head, Moves, Need, Order
from headgate.core.texts import Unreadable
from headgate.errors import TooHeavyError
from headgate.ledger import jobs, learn, leave, unreadable
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Lane, Lease, Ticket


class Request(NamedTuple):
    """What is asked for: how much, of what, for whom."""

    key: str
    member: str
    machine: str
    weight: int = 1
    urgency: int = 0
    since: int = 0
    task: str = ""
    label: str = ""
    marked: bool = False
    lender: int = 0
    view: str = ""
    tokens: int = 0

    @property
    def cls(self) -> str:
        """The priority class."""
        return priority_class(-self.urgency)


def ask(ledger: Ledger, request: Request) -> int:
    """Grant the request at once, or put it into the line; returns its id either way.

    Nobody is passed: if anyone waits for a seat this request would take too, it joins
    the line, and the line is settled at the end of the transaction.
    """
    learn.tidy(ledger)
    needs, chain = _needs(ledger, request)
    refuse_too_heavy(needs, request.cls, request.weight)
    id = ledger.tx.next_id()
    if request.label and not request.task:
        request = request._replace(task=f"{request.label}-{id}")
    order = (request.urgency, request.since, id)
    newcomer = Head(order, 0, request.cls, needs, {})
    waits = _somebody_waits_for(ledger, needs) or line.obstacles(newcomer, ledger.use, ledger.now)
    if not waits:
        for need in needs:
            ledger.use.let_in(need, newcomer.cls, ledger.now)
        _grant(ledger, _lease(ledger, id, request, chain), needs, waited=0)
        return id
    lane = ledger.tx.lane(
        Lane(0, request.machine, request.key, request.cls, request.lender, request.view, 0)
    )
    ticket = Ticket(
        id,
        lane,
        request.urgency,
        request.since,
        ledger.now,
        request.weight,
        request.task,
        request.member,
        request.label,
        int(request.marked),
        "",
        request.tokens,
    )
    ledger.add_ticket(ticket)
    ledger.unsettled = True
    return id


def refuse_too_heavy(needs: tuple[Need, ...], cls: str, weight: int) -> None:
    """Turn away what no waiting will help."""
    for need in needs:
        if need.pool.limit is not None and need.seats > line.ceiling(need.pool, cls):
            raise TooHeavyError(
                f"weight {weight} can never fit into pool {need.pool.name}, where "
                f"{cls} work can have {line.ceiling(need.pool, cls)} seats at "
                "most: use a smaller weight, or raise the limit with "
                f"headgate limits set '{need.pool.name}' N"
            )


def _needs(ledger: Ledger, request: Request) -> tuple[tuple[Need, ...], int]:
    return ledger.needs(
        request.key,
        request.machine,
        request.weight,
        lender=request.lender,
        view=request.view,
        tokens=request.tokens,
    )


def _somebody_waits_for(ledger: Ledger, needs: tuple[Need, ...]) -> bool:
    wanted = {need.place for need in needs if need.seats > 0}
    if not wanted:
        return False
    for lane in ledger.active_lanes():
        theirs, _ = ledger.needs(lane.key, lane.machine, 1, view=lane.view)
        if any(need.place in wanted for need in theirs):
            return True
    return False


def settle(ledger: Ledger) -> None:
    """Hand free seats to those who wait, in order."""
    learn.tidy(ledger)
    jobs.pick_up(ledger)
    ledger.unsettled = False
    lanes = {lane.id: lane for lane in ledger.active_lanes()}
    if not lanes:
        return
    heads = [head for lane in lanes.values() if (head := next_head(ledger, lane))]

    def grant(head: Head) -> None:
        ticket = ledger.drop_ticket(head.id)
        if ticket is not None:
            _grant_ticket(ledger, lanes[head.lane], ticket)

    def follow(head: Head) -> Head | None:
        return next_head(ledger, lanes[head.lane], head.order)

    def renew(head: Head) -> Head:
        lane = lanes[head.lane]
        if not lane.lender:
            return head
        ticket = ledger.tx.ticket(head.id)
        return head if ticket is None else make_head(ledger, lane, ticket)

    before = len(ledger.granted)
    outcome = line.settle(heads, ledger.use, ledger.now, Moves(grant, follow, renew))
    ledger.blocked = outcome.blocked
    if len(ledger.granted) > before and line.any_kept(outcome):
        ledger.unsettled = True  # seats kept under one limit may have gone under a wider view
    for head in outcome.overtaken:
        ledger.tx.set_overtaken(head.id, _write_times(head.overtaken))


def next_head(ledger: Ledger, lane: Lane, after: Order | None = None) -> Head | None:
    """The first ticket of a lane, after a place in the line, whose process still lives."""
    while rows := ledger.tx.page(lane.id, after, 1):
        if lane.jobs or ledger.census.listening(rows[0].member):
            return make_head(ledger, lane, rows[0])
        leave.drop_tickets(ledger, rows[0].member)
    return None


def make_head(ledger: Ledger, lane: Lane, ticket: Ticket) -> Head:
    """A ticket as the rules see it."""
    needs, _ = ledger.needs(
        lane.key,
        lane.machine,
        ticket.weight,
        lender=lane.lender,
        view=lane.view,
        tokens=ticket.tokens,
    )
    overtaken = _read_times(ledger, ticket.overtaken, needs)
    return Head(ticket.order, lane.id, lane.cls, needs, overtaken)


def _write_times(times: dict[str, int]) -> str:
    return OVERTAKEN.write(tuple(Overtaken(where, at) for where, at in times.items()))


def _read_times(ledger: Ledger, text: str, needs: tuple[Need, ...]) -> dict[str, int]:
    """Where and when a ticket was overtaken; everywhere and long ago if that cannot be read."""
    if not text:
        return {}
    found = OVERTAKEN.read(text)
    if isinstance(found, Unreadable):
        instead = "seats are kept for it wherever it waits"
        unreadable.remember(ledger, "overtaken", text, "where a ticket was overtaken", instead)
        return {need.place: 0 for need in needs}
    return {one.place: one.at for one in found or ()}


def _grant_ticket(ledger: Ledger, lane: Lane, ticket: Ticket) -> None:
    member = ticket.member or _worker(ledger)
    request = Request(
        lane.key,
        member,
        lane.machine,
        ticket.weight,
        ticket.urgency,
        ticket.since,
        ticket.task,
        ticket.label,
        bool(ticket.marked),
        lane.lender,
        lane.view,
        ticket.tokens,
    )
    needs, chain = _needs(ledger, request)
    lease = _lease(ledger, ticket.id, request, chain)._replace(job=int(lane.jobs))
    _grant(ledger, lease, needs, waited=ledger.now - ticket.arrived)
    if lease.job:
        jobs.granted(ledger, lease.id)
    ledger.woken.add(member)


def _worker(ledger: Ledger) -> str:
    """Who starts a job: the runner that asks for one, or the worker that was given the fewest."""
    if ledger.heir:
        heir, ledger.heir = ledger.heir, ""
        return heir
    given = [lease.member for lease in ledger.granted.values() if lease.job]
    slow = jobs.slow_workers(ledger) if len(ledger.workers()) > 1 else set()
    return min(ledger.workers(), key=lambda worker: (worker in slow, given.count(worker)))


def _lease(ledger: Ledger, id: int, request: Request, chain: int) -> Lease:
    return Lease(
        id,
        request.machine,
        request.key,
        request.cls,
        request.urgency,
        request.weight,
        request.task,
        request.member,
        request.label,
        int(request.marked),
        ledger.now,
        chain,
        request.lender if chain else 0,
        0,
        "",
        tokens=request.tokens,
    )


def _grant(ledger: Ledger, lease: Lease, needs: tuple[Need, ...], waited: int) -> None:
    if lease.lender:
        lender = ledger.tx.lease(lease.lender)
        if lender is not None and not lender.chain:
            ledger.tx.change_lease(lender._replace(chain=lease.chain))
    lease = lease._replace(sent=learn.start(ledger, lease, needs))
    ledger.tx.add_lease(lease)
    ledger.granted[lease.id] = lease
    if lease.chain:
        ledger.recount()
    else:
        ledger.count_elsewhere(lease, needs)
    if lease.job:
        return
    text = f"after {waited / 1000:.1f}s in line" if waited else ""
    ledger.tell("granted", text, work=lease.id, key=lease.key, task=lease.task)
