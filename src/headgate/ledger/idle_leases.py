"""Leases whose processes were stopped before they began: they idle seats that others wait for.

Who is stopped when its turn comes is passed over (`admit.absent`). Who is stopped a moment later
has its lease, and starts nothing. What it got is taken back while others wait. It notices that
before it starts anything: whoever begins late asks the store first (`gate/acquisition.py`).
"""

from headgate.core.jobs.states import State
from headgate.core.times import Ms
from headgate.ledger.release import release
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import is_remote
from headgate.ledger.transaction.rows import LeaseRow

RETURNED = "returned"
LATE = Ms(1_000)
"""After so many milliseconds nobody begins with a lease without asking the store."""
_IDLE = Ms(5_000)
"""After so many, a lease that was not begun is taken from a process that is stopped."""


def unbegun(ledger: Ledger, since: Ms) -> list[LeaseRow]:
    """Leases granted after a time that were not begun, or are too young to tell."""
    return [
        lease
        for lease in ledger.tx.recent(since)
        if ledger.now - lease.granted < _IDLE or not _has_begun(ledger, lease)
    ]


def idle(ledger: Ledger, lease: LeaseRow) -> bool:
    """Whether a lease is to be taken back: others could use it, and its process cannot begin.

    A process that cannot be seen is taken to be stopped if it has not begun by now; it does no
    harm if it is only slow. Whose end somebody has asked for is left to that.
    """
    others = ledger.lanes() or (lease.job and ledger.workers())
    if ledger.now - lease.granted < _IDLE or lease.cancel or not others:
        return False
    stopped = ledger.stopped(lease.member)
    return bool(stopped if lease.job else stopped is not False) and not _has_begun(ledger, lease)


def take_back(ledger: Ledger, ids: list[int]) -> None:
    """Give on the seats of idle leases."""
    for id in ids:
        lease = ledger.tx.lease(id)
        if lease is None or not idle(ledger, lease):
            continue
        if lease.job:
            release(ledger, id, "lost", "its worker was stopped before it started it")
        else:
            release(ledger, id, RETURNED, "its process was stopped before it began")
            ledger.woken.add(lease.member)


def _has_begun(ledger: Ledger, lease: LeaseRow) -> bool:
    if lease.job:
        job = ledger.tx.job(lease.id)
        return job is None or job.state is not State.STARTING
    if is_remote(lease.member):  # nobody here can tell
        return True
    return bool(lease.pid) or ledger.liveness.has_begun(lease.member, lease.id)
