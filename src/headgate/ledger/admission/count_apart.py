"""Jobs that go on with borrowed seats after their lender has stopped waiting for them.

A `wait` was broken off, and the program under its lease goes on beside the job. The two have one
set of seats until one of them ends, or until there is room for both: then each counts by itself.
That comes before anybody in the line, because what runs already cannot wait.
"""

from headgate.core.admission import seats
from headgate.ledger.jobs import waits
from headgate.ledger.transaction.ledger import Ledger, chain_seats
from headgate.ledger.transaction.rows import LeaseRow


def count_apart(ledger: Ledger) -> None:
    """Give seats of their own to jobs that nobody lends any, wherever there is room."""
    for lease in ledger.tx.families():
        if lease.job and lease.lender and not waits.lends(ledger, lease.lender, lease.id):
            _separate(ledger, lease)


def _separate(ledger: Ledger, lease: LeaseRow) -> None:
    """Take a job, and those that it has lent to, out of its family."""
    family = ledger.tx.family(lease.chain)
    since = (lease.granted, lease.id)
    own = [one for one in family if (one.granted, one.id) >= since]
    others = [one for one in family if (one.granted, one.id) < since]
    if not others or not _room(ledger, family, own, others):
        return
    chain = ledger.tx.next_id() if len(own) > 1 else 0
    for one in own:
        lender = 0 if one.id == lease.id else one.lender
        ledger.tx.change_lease(one._replace(chain=chain, lender=lender))
    ledger.recount()


def _room(
    ledger: Ledger, family: list[LeaseRow], own: list[LeaseRow], others: list[LeaseRow]
) -> bool:
    """Whether no pool gets too full if the two parts of a family count by themselves."""
    use = ledger.use
    for name, pool in ledger.pool_set.pools.items():
        together, apart, rest = (chain_seats(part, [name]) for part in (family, own, others))
        for where in apart.keys() & rest.keys():
            more = apart[where].weight + rest[where].weight - together[where].weight
            most = seats.bound(pool, where, use)
            if most is not None and use.taken(where) + more > most:
                return False
    return True
