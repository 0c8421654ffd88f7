"""What a transaction will most likely ask the store for, told from what it is about.

Only a store that is far away wants to know (see `Store.far`). What is left out here costs it
another round trip, and nothing else.
"""

from collections.abc import Iterable, Sequence

from headgate.core.admission.pools import NO_RATES
from headgate.core.admission.setting_precedence import PoolSet
from headgate.core.times import Ms
from headgate.gate.transactions.operation import Operation
from headgate.ledger.transaction.outside_use import SILENCE, place
from headgate.ledger.transaction.rows import Expected

_OF_A_KEY = ("pace", "reset")


def expected(
    operations: Sequence[Operation], pool_set: PoolSet | None, machine: str, now: Ms
) -> Expected:
    """What these operations, and the line that is settled after them, will need."""
    about = [one.about() for one in operations]
    keys = {one.key for one in about}
    return Expected(
        leases=frozenset(one.lease for one in about) - {0},
        jobs=frozenset(one.job for one in about) - {0},
        notes=frozenset(_notes(keys, pool_set, machine)),
        since=now - SILENCE,
    )


def _notes(keys: Iterable[str], pool_set: PoolSet | None, machine: str) -> Iterable[str]:
    yield from ("gated", f"watchman:{machine}", f"strain:{machine}")
    if pool_set is None:
        return
    for pool in pool_set.pools.values():  # what else counts beside our own seats, in any pool
        if pool.rates != NO_RATES:
            yield f"meter:{place(pool.name, machine)}"
        if pool.usage is not None:
            yield f"usage:{pool.name}"
        if pool.observe:
            yield f"foreign:{pool.name}"
        if pool.learned is not None and pool.learned.bars:
            yield f"pace:{pool.name}"
    for key in keys:
        for pool in pool_set.of(key):
            yield from (f"{what}:{pool.name}" for what in _OF_A_KEY)
