"""Where everyone in the line stands, why, and for how long: by a dry run. Nothing here writes."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from headgate.core.admission import next_in_line
from headgate.core.admission.next_in_line import Order
from headgate.core.admission.pools import FAIR
from headgate.core.admission.seats import Need, Reason
from headgate.core.host import pressure
from headgate.core.key_patterns import HOST, matches
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import FOREVER
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.admission.dry_run import DryRun, Newcomer, refusal
from headgate.ledger.queries.turns import Turns
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import Lane, Ticket

_PAGE = 100


class Spot(NamedTuple):
    """A ticket's place in the line."""

    position: int
    reasons: tuple[Reason, ...]
    eta: Ms | None


class Survey:
    """The line at one moment: who would be let in, what blocks the others, and for how long."""

    def __init__(self, ledger: Ledger, requests: Sequence[Request] = ()) -> None:
        self.ledger = ledger
        self.lanes = {lane.id: lane for lane in ledger.lanes()}
        self.dry = DryRun(ledger, requests)
        self.begun: dict[str, int] = {}
        """How much work that uses what would start now, though it has no lease."""
        for head in self.dry.granted.values():
            uses = self.dry.lanes[head.lane].uses
            self.begun[uses] = self.begun.get(uses, 0) + 1
        self._found_holds: dict[str, float | None] = {}
        self._found_ends: dict[tuple[str, str | None], list[float]] = {}
        self._turns = Turns(ledger)

    @property
    def stuck(self) -> bool:
        """Whether anyone waits who need not: the line is not settled."""
        return any(True for _ in self.dry.let_in())

    def blocked(self, lane: int) -> tuple[Reason, ...]:
        """What holds a lane up."""
        row, outcome = self.dry.lanes[lane], self.dry.outcome
        closed = admit.NO_WORKER if row.jobs and not self.ledger.workers() else None
        if closed is None:
            return outcome.blocked.get(lane, ())
        needs, _ = self.ledger.needs(row.uses, row.machine, 1, view=row.view)
        return (closed._replace(pool=tightest(needs) or HOST),)

    def fates(self) -> list[tuple[Reason, ...]]:
        """What would become of each newcomer: what would hold it up; nothing if it gets in."""
        return [self._fate(one) for one in self.dry.newcomers]

    def _fate(self, one: Newcomer) -> tuple[Reason, ...]:
        if one.refused is not None:
            return (one.refused,)
        if one.head.id in self.dry.granted:
            return ()
        aside = self.dry.outcome.aside.get(one.head.id)
        if not aside:
            return self.blocked(one.head.lane)
        heavy = tuple(reason for reason in aside if reason.code == "too_heavy")
        return heavy[:1] or aside

    def spot(self, ticket: Ticket) -> Spot:
        """Where a ticket stands: behind how many, in the longest of the lines that hold it up."""
        reasons = self.reasons(ticket)
        position = 1 + self._ahead(ticket, reasons)
        return Spot(position, reasons, self.eta(reasons[0], position, ticket.task))

    def reasons(self, ticket: Ticket) -> tuple[Reason, ...]:
        """What blocks a ticket: its own weight, or what blocks its lane; `next` if nothing does."""
        waits = ticket.id not in self.dry.granted
        blocked = waits and (self.dry.outcome.aside.get(ticket.id) or self.blocked(ticket.lane))
        if blocked and ticket.weight == 1:  # which is never too heavy
            return blocked
        head = admit.make_head(self.ledger, self.lanes[ticket.lane], ticket)
        if (refused := refusal(head)) is not None:
            return (refused,)
        # In a lane that was not looked at, or where nobody is left to be let in, each is judged
        # by itself.
        self.dry.take_over(head)
        found = blocked or (waits and next_in_line.obstacles(head, self.dry.use, self.ledger.now))
        return found or (Reason("next", tightest(head.needs)),)

    def shares(self, lane: Lane, pool: str, own: Lane) -> bool:
        """Whether work of one lane stands in the same line for a pool as work of another."""
        if lane.id == own.id:
            return True
        return matches(pool, lane.uses) and place(pool, lane.host) == place(pool, own.host)

    def _ahead(self, ticket: Ticket, reasons: tuple[Reason, ...]) -> int:
        """How many are before a ticket in the longest of the lines that reasons are about."""
        own = self.lanes[ticket.lane]
        most, ahead = 0, dict.fromkeys([reason.pool for reason in reasons], 0)
        for reason in reasons if own.share else ():
            found = self.ahead_in_turn(ticket, reason)
            if found is not None:
                most = max(most, found)
                ahead.pop(reason.pool, None)
        for lane in self.lanes.values() if ahead else ():
            shared = [pool for pool in ahead if self.shares(lane, pool, own)]
            rank = self.ledger.tx.rank(lane.id, ticket.order) if shared else 0
            for pool in shared:
                ahead[pool] += rank
        return max(most, *ahead.values(), 0)

    def ahead_in_turn(self, ticket: Ticket, reason: Reason) -> int | None:
        """The same where it matters whom work is for; None where it does not."""
        pool, own = self.ledger.pool_set.pools.get(reason.pool), self.lanes[ticket.lane]
        if pool is None or not own.share or not pool.tells_tasks_apart:
            return None
        if reason.code != "task_full" and pool.order != FAIR:
            return None
        lanes = [lane for lane in self.lanes.values() if self.shares(lane, reason.pool, own)]
        if reason.code == "task_full":
            mine = [lane for lane in lanes if lane.share == own.share]
            return sum(self.ledger.tx.rank(lane.id, ticket.order) for lane in mine)
        return self._turns.ahead(place(pool.name, own.host), lanes, own.share, ticket.order)

    def eta(self, reason: Reason, position: int, task: str | None = None) -> Ms | None:
        """In how many milliseconds a ticket at this position may expect its seat."""
        if reason.code in {"no_worker", "process_stopped", "client_silent"}:
            return None
        if reason.code in pressure.CODES:
            return None  # nobody knows when a machine recovers
        pause = NO_TIME
        if reason.until is not None:
            if reason.until >= FOREVER:
                return None
            pause = reason.until - self.ledger.now
        pool = self.ledger.pool_set.pools.get(reason.pool)
        limit = reason.limit or (pool.limit if pool else None)
        hold = self._usual_hold(reason.pool)
        if limit is None or hold is None:
            return pause or None
        ends = self._ends(reason.pool, hold, task if reason.code == "task_full" else None)
        if not ends:
            return pause + Ms(round(hold * position / limit))
        rounds, place_in_round = divmod(position - 1, len(ends))
        return pause + Ms(round(ends[place_in_round] + rounds * hold))

    def _ends(self, pool: str, hold: float, task: str | None) -> list[float]:
        """In how many milliseconds the seats in use may be free, soonest first; or a task's."""
        if (pool, task) not in self._found_ends:
            ages = (
                self.ledger.now - lease.granted
                for lease in self.ledger.tx.leases(0, 1_000)
                if matches(pool, lease.uses)
                and not (pool == HOST and lease.is_request)
                and task in {None, lease.task}
            )
            # What has outlasted the usual is likely to go on for a good while.
            ends = [hold - age if age < hold else age / 2 for age in ages]
            begun = sum(n for uses, n in self.begun.items() if matches(pool, uses))
            self._found_ends[pool, task] = sorted(ends + [hold] * (begun if task is None else 0))
        return self._found_ends[pool, task]

    def _usual_hold(self, pool: str) -> float | None:
        """How long seats of this pool were held lately."""
        if pool not in self._found_holds:
            self._found_holds[pool] = self._look_up_hold(pool)
        return self._found_holds[pool]

    def _look_up_hold(self, pool: str) -> float | None:
        held = [
            row.key
            for row in self.ledger.tx.held()
            if matches(pool, row.uses) and (pool != HOST or row.machine)
        ]
        waiting = [
            lane.key
            for lane in self.lanes.values()
            if matches(pool, lane.uses) and (pool != HOST or lane.host)
        ]
        tx = self.ledger.tx
        begun = [uses.partition(" ")[0] for uses in self.begun if matches(pool, uses)]
        return tx.usual_hold(held) or tx.usual_hold(waiting) or tx.usual_hold(begun)

    def near(self, skip: int) -> tuple[Order | None, dict[int, int]]:
        """A place in the line that at most so many are before, and how many of each lane are."""
        marks = sorted(mark for lane in self.lanes for mark in self.ledger.tx.marks(lane))
        low, high = 0, len(marks)
        while low < high:
            middle = (low + high) // 2
            if sum(self._before(marks[middle]).values()) <= skip:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None, dict.fromkeys(self.lanes, 0)
        return marks[low - 1], self._before(marks[low - 1])

    def _before(self, place: Order) -> dict[int, int]:
        return {lane: self.ledger.tx.rank(lane, place) for lane in self.lanes}

    def in_order(self, since: Order | None = None) -> Iterator[tuple[Lane, Ticket]]:
        """Everyone who waits, in the order of the line, from a place on."""
        after = None if since is None else (*since[:2], since[2] - 1)
        queue: list[tuple[Order, int, Iterator[Ticket]]] = []
        tickets: dict[int, Ticket] = {}
        for lane in self.lanes:
            rows = self._rows(lane, after)
            first = next(rows, None)
            if first is not None:
                tickets[lane] = first
                queue.append((first.order, lane, rows))
        heapify(queue)
        while queue:
            _, lane, rows = heappop(queue)
            yield self.lanes[lane], tickets[lane]
            following = next(rows, None)
            if following is not None:
                tickets[lane] = following
                heappush(queue, (following.order, lane, rows))

    def _rows(self, lane: int, after: Order | None) -> Iterator[Ticket]:
        while rows := self.ledger.tx.page(lane, after, _PAGE):
            yield from rows
            after = rows[-1].order


def tightest(needs: tuple[Need, ...]) -> str:
    """The smallest of some pools that have a limit; empty if none has."""
    limited = [need.pool for need in needs if need.pool.limit is not None]
    return min(limited, key=lambda p: (p.limit or 0, p.name)).name if limited else ""
