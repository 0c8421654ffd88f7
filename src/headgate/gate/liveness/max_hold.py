"""End programs that nobody minds any more and that hold their seats for too long."""

import threading
from functools import partial

from headgate.core.admission.lease_events import EndCause, EndRequest, lease_mark
from headgate.core.times import Seconds
from headgate.gate.liveness.member_pipes import MemberRegistry
from headgate.gate.liveness.process_marks import end, programs
from headgate.gate.transactions.group_commit import Transactor
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow

_GRACE = Seconds(10)


def end_orphans(transactor: Transactor, registry: MemberRegistry) -> None:
    """End what holds seats beyond `max_hold` without a process of ours to end it.

    The seats are freed by the end of the programs, and by nothing else.
    """
    for mark, lease in transactor.look(_overdue):
        text = "held longer than its pool's max_hold, with no process of headgate left to end it"
        transactor.run(partial(record_end, id=lease.id, text=text))
        find = partial(programs, registry, lease, mark)
        threading.Thread(target=end, args=(find, _GRACE), daemon=True).start()


def _overdue(ledger: Ledger) -> list[tuple[str, LeaseRow]]:
    if not any(pool.max_hold for pool in ledger.pool_set.notable()):
        return []
    found = []
    for lease in ledger.tx.leases(0, 10_000):
        allowed = ledger.pool_set.max_hold(lease.uses)
        if (
            allowed is not None
            and lease.marked
            and lease.cancel is None
            and ledger.now - lease.granted > allowed
            and not ledger.listening(lease.member)
        ):
            found.append((lease_mark(ledger.tx.uid(), lease.id), lease))
    return found


def record_end(ledger: Ledger, id: int, text: str) -> None:
    """Remember why a lease is being ended; whoever asked for that before is not forgotten."""
    lease = ledger.tx.lease(id)
    if lease is not None:
        asked = lease.cancel or EndRequest(EndCause.MAX_HOLD, text)
        ledger.tx.change_lease(lease._replace(cancel=asked))
        ledger.tell("overdue", text, work=id, key=lease.key, task=lease.task)
