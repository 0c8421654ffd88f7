"""Which leases wait for which jobs: a lease lends its seats to the jobs that its program waits for.

A program that waits for a job does nothing else, so its seats are free for that job; without them
the two could wait for each other. A wait is kept in the note `waits`, with the process that waits:
it counts while that process is there. The ticket of a job that is waited for stands in a lane with
the lease as its lender, as the ticket of a `run` inside a `run` does. Jobs that have to be done
before it are waited for as well.
"""

from collections.abc import Callable, Iterable

from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import WAITS, StoredWait
from headgate.ledger.transaction import unreadable
from headgate.ledger.transaction.ledger import Ledger

NOTE = "waits"
_KNOWS_GRANT_ORDER = 5
"""From this schema on, processes know by the times of grants to whom a lease has lent."""


def current(ledger: Ledger) -> list[StoredWait]:
    """The waits of living processes under leases that are there, oldest first."""
    found = WAITS.read(ledger.tx.note(NOTE))
    if isinstance(found, Unreadable):
        said = ("", "which leases wait for jobs", "none lends its seats")
        found = unreadable.found(ledger, NOTE, WAITS, said, ())
    return [
        wait
        for wait in found or ()
        if ledger.listening(wait.member) and ledger.tx.lease(wait.lease) is not None
    ]


def begin(ledger: Ledger, member: str, number: int, lease: int, jobs: Iterable[int]) -> bool:
    """Have a lease lend its seats to jobs that its program waits for; False if it is not there."""
    if ledger.tx.lease(lease) is None:
        return False
    new = [StoredWait(lease, job, number, member) for job in jobs]
    _keep(ledger, [*current(ledger), *new])
    for wait in new:
        put_into_lanes(ledger, wait.job)
    return True


def end(ledger: Ledger, member: str, number: int) -> None:
    """Have a lease lend no more: a program does not wait any longer."""
    before = current(ledger)
    over = [wait for wait in before if (wait.member, wait.number) == (member, number)]
    _keep(ledger, [wait for wait in before if wait not in over])
    for wait in over:
        put_into_lanes(ledger, wait.job)
    ledger.reconsider()


def _keep(ledger: Ledger, waits: list[StoredWait]) -> None:
    unreadable.keep(ledger, NOTE, WAITS.write(tuple(waits)))


def lender_of(ledger: Ledger, job: int) -> int:
    """The lease that lends its seats to a job, of several one that has not lent them; 0 if none."""
    leases = _lenders_of(ledger, job)
    return next((lease for lease in leases if ledger.lenders(lease)), next(iter(leases), 0))


def lends(ledger: Ledger, lease: int, job: int) -> bool:
    """Whether a lease waits for a job, and lends it its seats."""
    return lease in _lenders_of(ledger, job)


def _lenders_of(ledger: Ledger, job: int) -> list[int]:
    waits = current(ledger)
    if not waits:
        return []
    wanted = _closure(job, ledger.tx.needed_by)
    leases = dict.fromkeys(wait.lease for wait in waits if wait.job in wanted)
    return [lease for lease in leases if lease != job and _may_lend(ledger, lease, job)]


def _may_lend(ledger: Ledger, lease: int, job: int) -> bool:
    """Whether every process will see that the lease has lent.

    Older versions take a child to have a larger id than its lender, and would lend once more.
    """
    return job > lease or all(row.schema >= _KNOWS_GRANT_ORDER for row in ledger.tx.members())


def misplaced(ledger: Ledger, job: int) -> bool:
    """Whether a job, or one before it, stands in a lane with another lender than it could have."""
    return any(_misplaced(ledger, id) is not None for id in _closure(job, ledger.tx.needs_of))


def put_into_lanes(ledger: Ledger, job: int) -> None:
    """Put a job that stands in line, and those that have to be done before it, where they borrow.

    The place in the line stays as it is.
    """
    for id in sorted(_closure(job, ledger.tx.needs_of)):
        lender = _misplaced(ledger, id)
        ticket = ledger.tx.ticket(id) if lender is not None else None
        lane = ledger.tx.lane_by_id(ticket.lane) if ticket is not None else None
        if ticket is None or lane is None or lender is None:
            continue
        like = lane._replace(lender=lender, waiting=0)
        ledger.drop_ticket(id)
        ledger.add_ticket(ticket._replace(lane=ledger.tx.lane(like)))


def _misplaced(ledger: Ledger, job: int) -> int | None:
    """The lender that the lane of a job's ticket should have; None if all is as it should be."""
    ticket = ledger.tx.ticket(job)
    if ticket is None or ticket.member:
        return None
    lender = lender_of(ledger, job)
    lane = ledger.tx.lane_by_id(ticket.lane)
    return None if lane is None or lender == lane.lender else lender


def _closure(job: int, follow: Callable[[int], list[int]]) -> set[int]:
    """A job, and all that is reached from it."""
    found, ahead = {job}, [job]
    while ahead:
        new = set(follow(ahead.pop())) - found
        found |= new
        ahead += new
    return found
