"""Members whose processes have ended: who they are, and what is taken from them.

After a `kill -9` nobody gives the seats back. Whoever looks next, or keeps watch, finds that the
member has ended, as the kernel says, and frees what it held.
"""

from collections.abc import Collection, Iterable

from headgate.core.admission.lease_events import lease_mark
from headgate.core.quantities import show_duration
from headgate.errors import UsageError
from headgate.ledger.release import release, withdraw
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import Hearing, RemoteMember, is_remote


def drop_tickets(ledger: Ledger, member: str) -> None:
    """Take a member whose process has ended out of the line; what it holds is another matter."""
    for ticket in ledger.tx.tickets_of(member):
        ledger.tx.drop_remote_request(ticket.id)
        withdraw(ledger, ticket.id, "lost", "its process ended while it waited")


def remove_dead_member(ledger: Ledger, member: str) -> None:
    """Take everything from a member that has ended."""
    drop_tickets(ledger, member)
    how = "its last process ended without a release"
    if is_remote(member):
        how = "its client was not heard of for so long that it has ended it"
    for lease in ledger.tx.leases_of(member):
        if lease.cancel:
            release(ledger, lease.id, "cancelled", lease.cancel.text)
        else:
            release(ledger, lease.id, "lost", how)
    ledger.tx.drop_member(member)
    ledger.removed_members.append(member)


def remove_dead_members(ledger: Ledger, among: Collection[str] | None = None) -> int:
    """Take everything from members that have ended: from some, or from all of them.

    All of them are looked at once per transaction. Returns how many have ended.
    """
    if ledger.dead_removed:
        return 0
    ledger.dead_removed = among is None
    dead, clients = _look(ledger, among)
    _begin_anew(ledger, clients)
    for member in dead:
        remove_dead_member(ledger, member)
    return len(dead)


def find_dead(ledger: Ledger, among: Collection[str] | None = None) -> list[str]:
    """The members that have ended and still have rows: of some, or of all."""
    return _look(ledger, among)[0]


def _look(
    ledger: Ledger, among: Collection[str] | None
) -> tuple[list[str], Collection[RemoteMember]]:
    """Those, and the clients on other machines that are there, if any of them was looked at."""
    uid = ledger.tx.uid()
    if among is not None and not among:
        return [], ()

    def marks(member: str) -> list[str]:
        return [lease_mark(uid, lease.id) for lease in ledger.tx.leases_of(member) if lease.marked]

    rows = ledger.tx.members(among)
    dead = ledger.liveness.dead(
        (row, lambda id=row.id: marks(id))  # type: ignore[misc]
        for row in rows
        if not is_remote(row.id)
    )
    found = [id for id in dead if not _lives_on(ledger, id)]
    remote = {row.id for row in rows if is_remote(row.id)}
    if not remote:
        return found, ()
    clients = ledger.tx.remote_members()
    fenced = [
        row.id
        for row in clients
        if row.id in remote and row.hearing(ledger.now, ledger.machine) is Hearing.FENCED
    ]
    return found + fenced, clients


def _lives_on(ledger: Ledger, member: str) -> bool:
    """Whether a program still runs that inherited its pipe from a member that ended before."""
    return any(lease.life and ledger.alive(lease.life) for lease in ledger.tx.leases_of(member))


def _begin_anew(ledger: Ledger, clients: Iterable[RemoteMember]) -> None:
    """Let the silence of clients begin now if the machine was started again since.

    For how long it was off, nobody has seen, and they may have gone on by their own clocks.
    """
    for row in clients:
        if row.boot != ledger.machine:
            ledger.tx.keep_remote_member(row._replace(boot=ledger.machine, heard=ledger.now))


def free(ledger: Ledger, id: int) -> bool:
    """Give the seats of a silent client on, because a person says that it is gone.

    False if `id` is no lease of a client on another machine.
    """
    lease = ledger.tx.lease(id)
    if lease is None or not is_remote(lease.member):
        return False
    row = ledger.tx.remote_member(lease.member)
    if row is not None and row.hearing(ledger.now, ledger.machine) is Hearing.HEARD:
        silence = show_duration(row.silence(ledger.now, ledger.machine))
        raise UsageError(
            f"the client of {id} was heard of {silence} ago; end its work with headgate cancel {id}"
        )
    return release(ledger, id, "lost", "its client is gone, as somebody says")
