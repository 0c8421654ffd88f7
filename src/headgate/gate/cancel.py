"""End a piece of work, whatever state it is in."""

import os
import select
import time
from functools import partial

from headgate.core.admission.lease_events import EndCause, EndRequest, lease_mark
from headgate.core.jobs.job import load
from headgate.core.times import Seconds, ms_up, seconds
from headgate.errors import HeadgateError, UsageError
from headgate.gate.liveness.process_marks import carriers, end, programs
from headgate.gate.process_runtime import Runtime
from headgate.ledger import release
from headgate.ledger.jobs import by_hand
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow, Member
from headgate.store.machine_and_clock import pid_space

_BY_HAND = "cancelled by hand"
_SOON = Seconds(0.02)
_SECOND = Seconds(1)
_PATIENCE = Seconds(5)
"""For how long what was killed is waited for."""


def cancel(runtime: Runtime, id: int, grace: Seconds | None, usual: Seconds) -> str:
    """Take a ticket out of the line, or end the program that holds a lease.

    A lease that its process minds is ended by that process, and from here if that one is more
    patient than `grace`. One that nobody minds any more is ended from here. Either way its seats
    are freed by the end of the program, never before.
    """
    if grace is None:
        grace = runtime.transactor.read(lambda ledger: _own_grace(ledger, id)) or usual
    before = runtime.transactor.read(
        lambda ledger: _holder(ledger, id)
    )  # what dead members held is freed first
    orphaned = before is not None and not runtime.registry.listening(before.id, lambda _: before)
    if before is not None and orphaned and before.pid_space != pid_space():
        raise HeadgateError(
            f"{id} runs in another container, out of reach from here; cancel it there"
        )
    lease = runtime.transactor.run(lambda ledger: _ask_to_end(ledger, id))
    if lease is None:
        return "withdrawn"
    mark = lease_mark(runtime.uid(), id)
    if orphaned:
        end(partial(programs, runtime.registry, lease, mark), grace)
    deadline = Seconds(time.monotonic()) + grace
    while runtime.transactor.read(lambda ledger: ledger.tx.lease(id)) is not None:
        late = Seconds(time.monotonic()) - deadline
        if late > _PATIENCE:
            raise HeadgateError(
                f"{id} was asked to end and still runs after {grace + _PATIENCE:.0f}s; "
                "its seats stay taken until it ends"
            )
        if late >= 0 and before is not None and before.pid_space == pid_space():
            end(lambda: carriers([mark]).get(mark, ()), Seconds(0), patience=_SECOND)
        _await_end(runtime, lease.member, _SECOND if late >= 0 else min(_SECOND, -late))
    return "ended"


def _own_grace(ledger: Ledger, id: int) -> Seconds | None:
    """How many seconds a job was given to end, if it was."""
    job = ledger.tx.job(id)
    own = None if job is None else load(job.spec).grace
    return None if own is None else seconds(own)


def _await_end(runtime: Runtime, member: str, patience: Seconds) -> None:
    """Sleep until a member has ended, for a while at most: a member may outlive a lease."""
    pipe = runtime.registry.watch(member)
    if pipe is None:
        time.sleep(_SOON)
        return
    try:
        poll = select.poll()
        poll.register(pipe, 0)
        poll.poll(ms_up(patience))
    finally:
        os.close(pipe)


def _ask_to_end(ledger: Ledger, id: int) -> LeaseRow | None:
    if by_hand.cancel(ledger, id, _BY_HAND):
        return None
    ticket = ledger.tx.ticket(id)
    if ticket is not None:
        release.withdraw(ledger, id, "cancelled", _BY_HAND)
        ledger.woken.add(ticket.member)
        return None
    lease = ledger.tx.lease(id)
    if lease is None:
        raise UsageError(f"nothing with the id {id} waits or runs; see headgate queue")
    if lease.cancel is None:
        asked = EndRequest(EndCause.CANCEL, _BY_HAND)
        ledger.tx.change_lease(lease._replace(cancel=asked))
        ledger.tell("cancelling", _BY_HAND, work=id, key=lease.key, task=lease.task)
    ledger.woken.add(lease.member)
    return lease


def _holder(ledger: Ledger, id: int) -> Member | None:
    lease = ledger.tx.lease(id)
    if lease is None:
        return None
    return next((row for row in ledger.tx.members() if row.id == lease.member), None)
