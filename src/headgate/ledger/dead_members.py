"""Members whose processes have ended: who they are, and what is taken from them.

After a `kill -9` nobody gives the seats back. Whoever looks next, or keeps watch, finds that the
member has ended, as the kernel says, and frees what it held.
"""

from collections.abc import Collection

from headgate.core.admission.lease_events import lease_mark
from headgate.ledger.release import release, withdraw
from headgate.ledger.transaction.ledger import Ledger


def drop_tickets(ledger: Ledger, member: str) -> None:
    """Take a member whose process has ended out of the line; what it holds is another matter."""
    for ticket in ledger.tx.tickets_of(member):
        withdraw(ledger, ticket.id, "lost", "its process ended while it waited")


def remove_dead_member(ledger: Ledger, member: str) -> None:
    """Take everything from a member that has ended."""
    drop_tickets(ledger, member)
    for lease in ledger.tx.leases_of(member):
        if lease.cancel:
            release(ledger, lease.id, "cancelled", lease.cancel.text)
        else:
            release(ledger, lease.id, "lost", "its last process ended without a release")
    ledger.tx.drop_member(member)
    ledger.removed_members.append(member)


def remove_dead_members(ledger: Ledger, among: Collection[str] | None = None) -> int:
    """Take everything from members that have ended: from some, or from all of them.

    All of them are looked at once per transaction. Returns how many have ended.
    """
    if ledger.dead_removed:
        return 0
    ledger.dead_removed = among is None
    dead = find_dead(ledger, among)
    for member in dead:
        remove_dead_member(ledger, member)
    return len(dead)


def find_dead(ledger: Ledger, among: Collection[str] | None = None) -> list[str]:
    """The members that have ended and still have rows: of some, or of all."""
    uid = ledger.tx.uid()
    if among is not None and not among:
        return []

    def marks(member: str) -> list[str]:
        return [lease_mark(uid, lease.id) for lease in ledger.tx.leases_of(member) if lease.marked]

    dead = ledger.liveness.dead(
        (row, lambda id=row.id: marks(id))  # type: ignore[misc]
        for row in ledger.tx.members(among)
    )
    return [id for id in dead if not _lives_on(ledger, id)]


def _lives_on(ledger: Ledger, member: str) -> bool:
    """Whether a program still runs that inherited its pipe from a member that ended before."""
    return any(lease.life and ledger.alive(lease.life) for lease in ledger.tx.leases_of(member))
