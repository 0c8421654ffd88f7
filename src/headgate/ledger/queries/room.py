"""How many more pieces of work would be let in now, by the rule that admits them."""

from collections.abc import Mapping

from headgate.core.admission import seats
from headgate.core.admission.pool_set import PoolSet
from headgate.core.admission.seats import Need, Use
from headgate.core.key_patterns import ROLE
from headgate.core.named_tuple import NamedTuple
from headgate.core.pattern_overlap import covers
from headgate.core.times import Ms
from headgate.ledger.transaction.outside_use import place

NORMAL = "normal"


class Room(NamedTuple):
    """How many more of a pool's work would be let in; None for no limit."""

    free: int | None
    bounded_by: str = ""
    """The pool that leaves fewer than this one itself."""


def of_needs(needs: tuple[Need, ...], cls: str, use: Use, now: Ms) -> int | None:
    """How many more pieces of weight one fit into some pools; None if none of them has a limit."""
    bounds = [seats.bound(need.pool, need.place, use) for need in needs]
    most = [
        _room(need, cls, use, now, most=bound)
        for need, bound in zip(needs, bounds, strict=True)
        if bound is not None
    ]
    return min(most) if most else None


def of_pools(pool_set: PoolSet, machine: str, use: Use, now: Ms) -> Mapping[str, Room]:
    """What one more piece of each pool's work would find, by name.

    All that sits in a pool also sits in the pools that cover it, so the least of them counts.
    """
    own = {
        pool.name: _own(Need(pool, place(pool.name, machine), 1), use, now)
        for pool in pool_set.pools.values()
    }
    return {name: _least(name, own, _covering(pool_set, name)) for name in own}


def _own(need: Need, use: Use, now: Ms) -> int | None:
    """What a pool itself would let in."""
    if seats.blocked_by(need, NORMAL, use, now) is not None:
        return 0
    bound = seats.bound(need.pool, need.place, use)
    return None if bound is None else _room(need, NORMAL, use, now, most=bound)


def _covering(pool_set: PoolSet, name: str) -> list[str]:
    """The other pools in which all work of a pool sits, too."""
    used = f" {name}" if name.startswith(ROLE) else name if "/" in name else f"{name}/*"
    return [other for other in pool_set.names_of(used) if other != name and covers(other, name)]


def _least(name: str, own: Mapping[str, int | None], others: list[str]) -> Room:
    least = Room(own[name])
    for other in others:
        free = own[other]
        if free is not None and (least.free is None or free < least.free):
            least = Room(free, other)
    return least


def _room(need: Need, cls: str, use: Use, now: Ms, *, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = seats.blocked_by(need._replace(seats=middle), cls, use, now) is None
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
