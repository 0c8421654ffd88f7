"""Deadlocks: leases that wait for work which cannot start before one of these leases ends.

A lease waits if its program waits for a job (`ledger/jobs/waits.py`), or if a `run` inside it
stands in line. All that wait are suspects. One is cleared if all that it waits for could end when
every lease ends that is no suspect. Those left when nobody can be cleared any more are stuck: time
does not help them, only a person does. What waits for a person, a pause or a worker is not stuck.
"""

from headgate.core.display.deadlock import Deadlock, Step
from headgate.core.jobs.states import State
from headgate.core.key_patterns import matches
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import MOST
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import DEADLOCKS, ToldDeadlock
from headgate.ledger.jobs import waits
from headgate.ledger.transaction.families import chain_seats, has_lent
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import Lane, LeaseRow

_NOTE = "deadlocks"


def find(ledger: Ledger) -> tuple[Deadlock, ...]:
    """All circles there are."""
    search = _Search(ledger)
    found = {one.name: one for lease in sorted(search.stuck) if (one := search.circle(lease))}
    return tuple(found.values())


def of(ledger: Ledger, id: int) -> Deadlock | None:
    """The circle that holds up a lease or what waits; None if there is none."""
    search = _Search(ledger)
    block = search.held_up(id)
    return None if block is None else search.circle(min(block.holders))


def untold(ledger: Ledger, lease: int) -> bool:
    """Whether a lease is held up by a circle that was not told so far."""
    found = of(ledger, lease)
    return found is not None and found.name not in _told(ledger)


def tell(ledger: Ledger) -> None:
    """Keep an event for each circle, once."""
    found = {one.name: one for one in find(ledger)}
    told = _told(ledger)
    for name in found.keys() - told:
        first, circle = found[name].steps[0], found[name]
        row = ledger.tx.lease(first.lease)
        if row is not None:
            text = f"{circle.words}; to end it: {circle.advice}"
            ledger.tell("deadlock", text, work=row.id, key=row.key, task=row.task, pool=first.pool)
    if found.keys() != told:
        ledger.tx.set_note(_NOTE, DEADLOCKS.write(tuple(map(ToldDeadlock, sorted(found)))))


def forget_resolved(ledger: Ledger) -> None:
    """Forget the circles that are no more, so that they are told if they come again."""
    if _told(ledger):
        tell(ledger)


def _told(ledger: Ledger) -> set[str]:
    found = DEADLOCKS.read(ledger.tx.note(_NOTE))
    return set() if isinstance(found, Unreadable) else {one.leases for one in found or ()}


class _Block(NamedTuple):
    """What keeps work from ending."""

    holders: tuple[int, ...]
    pool: str = ""
    after: tuple[int, ...] = ()


class _Search:
    """Which leases are stuck, and what each of them waits for."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waits: dict[int, list[int]] = {}
        for wait in waits.current(ledger):
            self._waits.setdefault(wait.lease, []).append(wait.job)
        for lane in ledger.lanes():
            if lane.lender > 0 and not lane.jobs:
                first = ledger.tx.page(lane.id, None, 1)
                self._waits.setdefault(lane.lender, []).extend(ticket.id for ticket in first)
        rows = {id: ledger.tx.lease(id) for id in self._waits}
        self.stuck = {id: row for id, row in rows.items() if row is not None}
        while free := [id for id in self.stuck if self._first_block(id) is None]:
            for id in free:
                del self.stuck[id]

    def circle(self, lease: int) -> Deadlock | None:
        """The circle that a stuck lease is part of, or waits for."""
        steps: dict[int, Step] = {}
        while lease not in steps:
            found = self._first_block(lease)
            if found is None:
                return None
            work, block = found
            is_job = self._ledger.tx.job(work) is not None
            steps[lease] = Step(
                lease=lease,
                work=work,
                after=block.after,
                pool=block.pool,
                holders=block.holders,
                is_job=is_job,
            )
            lease = min(set(block.holders) - {lease}, default=lease)
        order = list(steps)
        order = order[order.index(lease) :]
        first = order.index(min(order))
        return Deadlock(tuple(steps[id] for id in order[first:] + order[:first]))

    def held_up(self, work: int) -> _Block | None:
        """What keeps work from ending as long as none of the stuck does; None if nothing does."""
        if self._ledger.tx.lease(work) is not None:
            return _Block((work,)) if work in self.stuck else None
        job = self._ledger.tx.job(work)
        if job is not None and job.state is State.AFTER:
            for needed in self._ledger.tx.needs_of(work):
                block = self.held_up(needed)
                if block is not None:
                    return block._replace(after=(needed, *block.after))
        ticket = self._ledger.tx.ticket(work)
        if ticket is None:
            return None
        lanes = [one for one in self._ledger.active_lanes() if one.id == ticket.lane]
        return self._full(lanes[0], work, ticket.weight) if lanes else None

    def _first_block(self, lease: int) -> tuple[int, _Block] | None:
        for work in self._waits.get(lease, ()):
            block = self.held_up(work)
            if block is not None:
                return work, block
        return None

    def _full(self, lane: Lane, work: int, weight: int) -> _Block | None:
        """The pool that has no room for work even if all leases end that are not stuck."""
        lent = self._lent_to(lane, work)
        for pool in self._ledger.under(lane.view).of(lane.uses):
            where = place(pool.name, lane.host)
            holders = self._holders(pool.name, where)
            covered = max((row.weight for row in lent if row in holders), default=0)
            most = pool.limit if pool.learned is None else pool.most or MOST
            need = max(0, weight - covered)
            if need and most is not None and need <= most < _seats(holders, pool.name) + need:
                return _Block(tuple(row.id for row in holders), pool.name)
        return None

    def _holders(self, pool: str, where: str) -> list[LeaseRow]:
        return [
            row
            for _, row in sorted(self.stuck.items())
            if matches(pool, row.uses) and place(pool, row.machine) == where
        ]

    def _lent_to(self, lane: Lane, work: int) -> list[LeaseRow]:
        """Those of the stuck whose seats the work could borrow."""
        lender = self.stuck.get(lane.lender)
        if lender is None or (lane.jobs and not waits.lends(self._ledger, lender.id, work)):
            return []
        family = [
            row
            for row in self.stuck.values()
            if row.id == lender.id or (row.chain and row.chain == lender.chain)
        ]
        return [] if has_lent(lender, family) else family


def _seats(leases: list[LeaseRow], pool: str) -> int:
    """How many seats some leases hold in a pool: of a family, the heaviest."""
    families: dict[int, list[LeaseRow]] = {}
    for row in leases:
        families.setdefault(row.chain or -row.id, []).append(row)
    found = [chain_seats(rows, lambda _: [pool]) for rows in families.values()]
    return sum(max(row.weight for row in places.values()) for places in found)
