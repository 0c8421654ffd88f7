"""Give seats back, leave the line, bury the dead."""

from headgate.ledger.ledger import Ledger, chain_seats, place
from headgate.ledger.rows import Lease, Rest


def release(ledger: Ledger, id: int, kind: str = "released", text: str = "") -> bool:
    """Give a lease's seats back; whoever asks a second time changes nothing."""
    lease = ledger.tx.drop_lease(id)
    if lease is None:
        return False
    freed = _freed(ledger, lease)
    for pool in ledger.book.of(lease.key):
        where = place(pool.name, lease.machine)
        seats = freed.get(where, 0)
        ledger.use.take(where, lease.cls, -seats)
        if pool.cooldown > 0 and seats > 0:
            ledger.tx.add_rest(Rest(where, seats, ledger.now + pool.cooldown))
            ledger.use.rest(where, seats)
    held = max(0, ledger.now - lease.granted)
    if kind == "released":
        ledger.tx.learn_hold(lease.key, held)
    ledger.tell(
        kind, text or f"held {held / 1000:.1f}s", work=id, key=lease.key, task=lease.task
    )
    ledger.unsettled = True
    return True


def _freed(ledger: Ledger, lease: Lease) -> dict[str, int]:
    """The seats that nobody of the lease's family goes on using."""
    names = [pool.name for pool in ledger.book.of(lease.key)]
    if not lease.chain:
        return {place(name, lease.machine): lease.weight for name in names}
    rest = ledger.tx.family(lease.chain)
    before, after = chain_seats([lease, *rest], names), chain_seats(rest, names)
    return {where: seats - after.get(where, 0) for where, seats in before.items()}


def withdraw(ledger: Ledger, id: int, kind: str = "withdrawn", text: str = "") -> bool:
    """Leave the line; or, if the seats were just granted, give them back unused."""
    ticket = ledger.tx.ticket(id)
    if ticket is None:
        ledger.granted.pop(id, None)
        return release(ledger, id, kind, text)
    lane = ledger.tx.lane_by_id(ticket.lane)
    ledger.tx.drop_ticket(id)
    ledger.tell(kind, text, work=id, key=lane.key, task=ticket.task)
    ledger.unsettled = True
    return True


def bury(ledger: Ledger, member: str) -> None:
    """Take everything from a member that has ended."""
    for ticket in ledger.tx.tickets_of(member):
        withdraw(ledger, ticket.id, "lost", "its process ended while it waited")
    for lease in ledger.tx.leases_of(member):
        if lease.cancel:
            release(ledger, lease.id, "cancelled", lease.cancel)
        else:
            release(ledger, lease.id, "lost", "its last process ended without a release")
    ledger.tx.drop_member(member)
    ledger.buried.append(member)


def sweep(ledger: Ledger) -> int:
    """Bury all members that have ended, once per transaction; returns how many."""
    if ledger.swept:
        return 0
    ledger.swept = True
    dead = find_dead(ledger)
    for member in dead:
        bury(ledger, member)
    return len(dead)


def find_dead(ledger: Ledger) -> list[str]:
    """The members that have ended and are still on the books."""
    uid = ledger.tx.uid()

    def marks(member: str) -> list[str]:
        return [mark(uid, lease.id) for lease in ledger.tx.leases_of(member) if lease.marked]

    return ledger.census.dead(
        (row, lambda id=row.id: marks(id))  # type: ignore[misc]
        for row in ledger.tx.members()
    )


def mark(uid: str, id: int) -> str:
    """What a lease's programs carry as HEADGATE_LEASE: unique across stores."""
    return f"{uid}.{id}"
