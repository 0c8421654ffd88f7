"""Take work out of the line, or ask what runs to end."""

from collections.abc import Iterable

from headgate.core.admission.lease_events import EndCause, EndRequest
from headgate.errors import UsageError
from headgate.ledger import release
from headgate.ledger.jobs import by_hand
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow

BY_HAND = "cancelled by hand"


def in_order(ids: Iterable[int]) -> list[int]:
    """The order in which to cancel: who comes after another has a higher id, and goes first.

    Else it would have failed, because of the other, before it could be cancelled.
    """
    return sorted(set(ids), reverse=True)


def ask_to_end(ledger: Ledger, id: int) -> LeaseRow | None:
    """Take work out of the line; or, if it runs, ask it to end: then its lease."""
    if by_hand.cancel(ledger, id, BY_HAND):
        return None
    ticket = ledger.tx.ticket(id)
    if ticket is not None:
        release.withdraw(ledger, id, "cancelled", BY_HAND)
        ledger.woken.add(ticket.member)
        return None
    lease = ledger.tx.lease(id)
    if lease is None:
        raise UsageError(f"nothing with the id {id} waits or runs; see headgate queue")
    if lease.cancel is None or lease.cancel.cause is not EndCause.CANCEL:
        # One that was to make room, or held its seats too long, must not be tried again now.
        lease = lease._replace(cancel=EndRequest(EndCause.CANCEL, BY_HAND))
        ledger.tx.change_lease(lease)
        ledger.tell("cancelling", BY_HAND, work=id, key=lease.key, task=lease.task)
    ledger.woken.add(lease.member)
    return lease


def comes_back(ledger: Ledger, id: int) -> bool:
    """Whether a job whose attempt has ended would be tried again."""
    job = ledger.tx.job(id)
    return job is not None and not job.state.ended
