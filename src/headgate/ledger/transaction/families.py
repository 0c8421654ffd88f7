"""Families of leases: their members lend each other their seats, so only the heaviest counts."""

from collections.abc import Callable, Iterable

from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import LeaseRow


def has_lent(lease: LeaseRow, family: list[LeaseRow]) -> bool:
    """Whether a lease has lent its seats: to a child, or to its child. These were let in later.

    A job that a lease waits for may be older than the lease, so ids do not tell.
    """
    return any(
        other.lender == lease.id or (other.granted, other.id) > (lease.granted, lease.id)
        for other in family
    )


def chain_seats(
    members: list[LeaseRow], names_of: Callable[[str], Iterable[str]]
) -> dict[str, LeaseRow]:
    """Whose seats count for a family in each place: its members lend, so only the heaviest's."""
    heaviest: dict[str, LeaseRow] = {}
    for lease in members:
        for name in names_of(lease.uses):
            where = place(name, lease.machine)
            if where not in heaviest or lease.weight > heaviest[where].weight:
                heaviest[where] = lease
    return heaviest
