"""End a piece of work, whatever state it is in."""

import os
import select
import time
from functools import partial
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError, UsageError
from headgate.gate.strays import end, programs
from headgate.ledger import hands, leave
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Lease, Member
from headgate.store.machine import pid_space

if TYPE_CHECKING:
    from headgate.gate.clerk import Clerk

_BY_HAND = "cancelled by hand"
_SOON = 0.02


def cancel(clerk: "Clerk", id: int, grace: float) -> str:
    """Take a ticket out of the line, or end the program that holds a lease.

    A lease that its process minds is ended by that process. One that nobody minds any more is ended
    from here. Either way its seats are freed by the end of the program, never before.
    """
    before = clerk.read(lambda ledger: _holder(ledger, id))  # the dead are buried first
    orphaned = before is not None and not clerk.roll.listening(before.id)
    if before is not None and orphaned and before.pid_space != pid_space():
        raise HeadgateError(
            f"{id} runs in another container, out of reach from here; cancel it there"
        )
    lease = clerk.run(lambda ledger: _ask_to_end(ledger, id))
    if lease is None:
        return "withdrawn"
    if orphaned:
        mark = leave.mark(clerk.uid(), id)
        end(partial(programs, clerk.roll, lease.member, mark), grace)
    deadline = time.monotonic() + grace + 5
    while clerk.read(lambda ledger: ledger.tx.lease(id)) is not None:
        if time.monotonic() > deadline:
            raise HeadgateError(
                f"{id} was asked to end and still runs after {grace + 5:.0f}s; "
                "its seats stay taken until it ends"
            )
        _await_end(clerk, lease.member)
    return "ended"


def _await_end(clerk: "Clerk", member: str) -> None:
    """Sleep until a member has ended, a second at most: a member may outlive a lease."""
    pipe = clerk.roll.watch(member)
    if pipe is None:
        time.sleep(_SOON)
        return
    try:
        poll = select.poll()
        poll.register(pipe, 0)
        poll.poll(1000)
    finally:
        os.close(pipe)


def _ask_to_end(ledger: Ledger, id: int) -> Lease | None:
    if hands.cancel(ledger, id, _BY_HAND):
        return None
    ticket = ledger.tx.ticket(id)
    if ticket is not None:
        leave.withdraw(ledger, id, "cancelled", _BY_HAND)
        ledger.woken.add(ticket.member)
        return None
    lease = ledger.tx.lease(id)
    if lease is None:
        raise UsageError(f"nothing with the id {id} waits or runs; see headgate queue")
    if not lease.cancel:
        ledger.tx.change_lease(lease._replace(cancel=_BY_HAND))
        ledger.tell("cancelling", _BY_HAND, work=id, key=lease.key, task=lease.task)
    ledger.woken.add(lease.member)
    return lease


def _holder(ledger: Ledger, id: int) -> Member | None:
    lease = ledger.tx.lease(id)
    if lease is None:
        return None
    return next((row for row in ledger.tx.members() if row.id == lease.member), None)
