"""Jobs that go on with borrowed seats after their lender has stopped waiting for them.

A `wait` was broken off, and the program under its lease goes on beside the job. The two have one
set of seats until one of them ends, or until there is room for both: then each counts by itself.
That comes before anybody in the line, because what runs already cannot wait.
"""

from collections.abc import Iterator

from headgate.core.admission import seats
from headgate.ledger.jobs import waits
from headgate.ledger.transaction.families import chain_seats
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import pool_at
from headgate.ledger.transaction.rows import LeaseRow


def count_apart(ledger: Ledger) -> None:
    """Give seats of their own to jobs that nobody lends any, wherever there is room."""
    _ = ledger.use  # a near store knows all families when they were counted
    if not ledger.tx.families():
        return
    for own in _separable(ledger):
        chain = ledger.tx.next_id() if len(own) > 1 else 0
        for one in own:
            lender = 0 if one is own[0] else one.lender
            ledger.tx.change_lease(one._replace(chain=chain, lender=lender))
        ledger.recount()


def due(ledger: Ledger) -> bool:
    """Whether there is such a job, and room for it."""
    return any(True for _ in _separable(ledger))


def _separable(ledger: Ledger) -> Iterator[list[LeaseRow]]:
    """Jobs, each with those that it has lent to, that could count by themselves."""
    for id in [one.id for one in ledger.tx.families() if one.job and one.lender]:
        lease = ledger.tx.lease(id)
        if lease is None or not lease.lender or waits.lends(ledger, lease.lender, id):
            continue
        family = ledger.tx.family(lease.chain)
        since = (lease.granted, id)
        own = [lease, *(one for one in family if (one.granted, one.id) > since)]
        others = [one for one in family if one not in own]
        if others and _room(ledger, family, own, others):
            yield own


def _room(
    ledger: Ledger, family: list[LeaseRow], own: list[LeaseRow], others: list[LeaseRow]
) -> bool:
    """Whether no pool gets too full if the two parts of a family count by themselves."""
    use, names_of = ledger.use, ledger.pool_set.names_of
    together, apart, rest = (chain_seats(part, names_of) for part in (family, own, others))
    for where in apart.keys() & rest.keys():
        more = apart[where].weight + rest[where].weight - together[where].weight
        pool = ledger.pool_set.pools[pool_at(where)]
        ledger.look_up([pool])
        most = seats.bound(pool, where, use)
        if most is not None and use.taken(where) + more > most:
            return False
    return True
