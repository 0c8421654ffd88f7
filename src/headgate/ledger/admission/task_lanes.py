"""Lanes of single tasks, where it matters whom work is for.

A pool may bound what one task holds (`per_task`), or have tasks take turns (`order`). Then the
first ticket of one task must not hold up another's, so each task has a lane of its own. Whoever
waited before a pool was told so stands in a lane with others: `sort_out` moves some at a time.
Who tells a pool so by hand does it at once; for what the configuration says, and for what is left,
the member on watch does it, once a second.
"""

from collections.abc import Iterator

from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Lane, Ticket

_AT_ONCE = 500
"""How many tickets one transaction moves to the lanes of their tasks."""


def sort_out(ledger: Ledger, most: int = _AT_ONCE) -> bool:
    """Move tickets that were there before tasks were told apart to the lanes of their tasks.

    Whether some are left: the first of each lane come first.
    """
    left = most
    for lane in _mixed(ledger):
        found = ledger.tx.page(lane.id, None, left + 1)
        for ticket in found[:left]:
            _move(ledger, lane, ticket)
        left -= len(found)
        if left < 0:
            return True
    return False


def unsorted(ledger: Ledger) -> bool:
    """Whether anybody stands in a lane with others who should have one of its own task.

    With many lanes that is looked up once for each change of the pools.
    """
    pools = ledger.pool_set
    if pools.sorted_out and ledger.tx.few_lanes() is None:
        return False
    found = any(True for _ in _mixed(ledger))
    pools.sorted_out = not found
    return found


def _mixed(ledger: Ledger) -> Iterator[Lane]:
    for lane in ledger.tx.lanes():
        if not lane.share and ledger.under(lane.view).tells_tasks_apart(lane.uses):
            yield lane


def _move(ledger: Ledger, lane: Lane, ticket: Ticket) -> None:
    like = ledger.own_lane(lane, ticket.task)._replace(waiting=0)
    ledger.drop_ticket(ticket.id)
    ledger.add_ticket(ticket._replace(lane=ledger.tx.lane(like)))
