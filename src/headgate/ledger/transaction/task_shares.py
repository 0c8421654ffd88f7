"""How tasks share a pool: how many seats each holds, and when each had its last turn."""

from functools import lru_cache

from headgate.core.admission.pools import FAIR, Pool
from headgate.core.admission.seats import Use
from headgate.core.key_patterns import HOST, matches
from headgate.ledger.transaction.families import chain_seats
from headgate.ledger.transaction.interface import TransactionContext
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import LeaseRow


@lru_cache(maxsize=4096)
def share_of(task: str) -> str:
    """What stands for a task among the lanes of others."""
    from hashlib import blake2b  # few need it

    return blake2b(task.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def fill(ledger: TransactionContext, use: Use, pool: Pool) -> None:
    """Bring into the count what there is to know of the tasks in a pool that tells them apart."""
    if pool.order == FAIR:
        for machine in {ledger.machine, *ledger.tx.machines()} - {""}:
            where = place(pool.name, machine)
            use.latest_turns[where] = ledger.tx.latest_turn(where)
    if pool.per_task is None:
        return
    for row in ledger.tx.held_by_task():
        if matches(pool.name, row.uses) and (pool.name != HOST or row.machine):
            use.take_for(place(pool.name, row.machine), row.task, row.seats)
    chains: dict[int, list[LeaseRow]] = {}
    for lease in ledger.tx.families():
        chains.setdefault(lease.chain, []).append(lease)
    for members in chains.values():
        heaviest = chain_seats(
            members, lambda uses: [pool.name] if matches(pool.name, uses) else []
        )
        for where, lease in heaviest.items():
            use.take_for(where, lease.task, lease.weight)
