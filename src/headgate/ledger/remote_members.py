"""Clients on other machines: they join, are heard of, ask, and are gone.

What their silence means is in `transaction/remote_rows.py`. A client asks under a key of its own,
and again under the same key if it got no answer: then it finds what it has got, or its place.
"""

from collections.abc import Collection, Mapping

from headgate.core.admission.lease_events import lease_mark
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms
from headgate.errors import FencedError, UsageError
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.dead_members import remove_dead_member
from headgate.ledger.release import release, withdraw
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import (
    MACHINE,
    Hearing,
    RemoteMember,
    RemoteRequest,
)
from headgate.ledger.transaction.rows import LeaseRow, Member

GONE = (
    "the server does not know this client any more: it was not heard of for longer than its fence, "
    "or has left; its seats were given on"
)


def join(ledger: Ledger, row: RemoteMember, version: str, schema: int) -> RemoteMember:
    """Count a client among the members from now on."""
    row = row._replace(boot=ledger.machine, heard=ledger.now)
    ledger.tx.add_member(
        Member(
            id=row.id,
            machine=MACHINE,
            pid=0,
            pid_space="",
            joined=ledger.now,
            version=version,
            schema=schema,
        )
    )
    ledger.tx.keep_remote_member(row)
    return row


def hear(ledger: Ledger, id: str, server: str) -> RemoteMember:
    """Note that a client was heard of. One whose fence is over comes too late, and is no more."""
    row = ledger.tx.remote_member(id)
    if row is None:
        raise FencedError(GONE)
    if row.hearing(ledger.now, ledger.machine) is Hearing.FENCED:
        remove_dead_member(ledger, id)
        ledger.reconsider()
        raise FencedError(GONE)
    was = row.hearing(ledger.now, ledger.machine)
    row = row._replace(server=server, boot=ledger.machine, heard=ledger.now)
    ledger.tx.keep_remote_member(row)
    if was is Hearing.SUSPECT and ledger.tx.count_tickets_of(id):
        ledger.reconsider()  # it may be its turn
    return row


def check(ledger: Ledger, id: str) -> RemoteMember:
    """A client that is still counted among the members."""
    row = ledger.tx.remote_member(id)
    if row is None or row.hearing(ledger.now, ledger.machine) is Hearing.FENCED:
        raise FencedError(GONE)
    return row


def leave(ledger: Ledger, id: str) -> None:
    """A client has ended all it had, and goes."""
    if ledger.tx.remote_member(id) is None:
        return
    for ticket in ledger.tx.tickets_of(id):
        withdraw(ledger, ticket.id, text="its client was closed")
    for lease in ledger.tx.leases_of(id):
        release(ledger, lease.id)
    ledger.tx.drop_member(id)
    ledger.removed_members.append(id)


def ask(ledger: Ledger, request: Request, key: str, digest: str) -> int:
    """Ask for seats, or ask again: the id of the ticket, or of the lease that it has become."""
    known = ledger.tx.remote_request(request.member, key)
    if known is not None and known.digest != digest:
        raise UsageError(f"the key {key} was used for another request; use a new one for each")
    id = known.id if known is not None else 0
    if id and (_of(ledger, request.member, id) or ledger.tx.ticket(id) is not None):
        return id
    if not request.since:
        request = request._replace(since=ledger.now)
    id = admit.ask(ledger, request, id)
    ledger.tx.keep_remote_request(RemoteRequest(request.member, key, id, digest))
    return id


def withdraw_or_release(ledger: Ledger, member: str, id: int, *, completed: bool) -> bool:
    """End what a client has asked for, whether it waits or holds; False if there is no such."""
    ticket = ledger.tx.ticket(id)
    if ticket is not None and ticket.member == member:
        ledger.tx.drop_remote_request(id)
        return withdraw(ledger, id, text="no longer wanted")
    lease = _of(ledger, member, id)
    return lease is not None and release(ledger, id, completed=completed)


class Held(NamedTuple):
    """A lease, as its client needs to know it."""

    id: int
    key: str
    """Under which it was asked for."""
    task: str
    mark: str
    max_hold: Ms | None
    ending: str
    """Why it is to end; empty if it is not."""


class Standing(NamedTuple):
    """What a client waits for and holds."""

    waits: Mapping[int, str]
    """Its tickets, and under which key each was asked for."""
    holds: Mapping[int, Held]


def standing(ledger: Ledger, member: str, among: Collection[int] | None = None) -> Standing:
    """What a client waits for and holds: all of it, or what has these ids."""
    asked = {row.id: row.key for row in ledger.tx.remote_requests(member)}
    ids = None if among is None else set(among)
    return Standing(
        waits={
            row.id: asked.get(row.id, "")
            for row in ledger.tx.tickets_of(member)
            if ids is None or row.id in ids
        },
        holds={
            row.id: _held(ledger, row, asked.get(row.id, ""))
            for row in ledger.tx.leases_of(member)
            if ids is None or row.id in ids
        },
    )


def held(ledger: Ledger, member: str, id: int) -> Held | None:
    """One lease of a client; None if there is no such."""
    row = _of(ledger, member, id)
    return None if row is None else _held(ledger, row, "")


def _held(ledger: Ledger, row: LeaseRow, key: str) -> Held:
    return Held(
        id=row.id,
        key=key,
        task=row.task,
        mark=lease_mark(ledger.tx.uid(), row.id),
        max_hold=ledger.pool_set.max_hold(row.key),
        ending=row.cancel.text if row.cancel else "",
    )


def _of(ledger: Ledger, member: str, id: int) -> LeaseRow | None:
    lease = ledger.tx.lease(id)
    return lease if lease is not None and lease.member == member else None


def next_fence(ledger: Ledger) -> Ms | None:
    """In how long the next client is fenced if it is not heard of; None if none will be."""
    left = [
        row.fence + row.margin - row.silence(ledger.now, ledger.machine)
        for row in ledger.tx.remote_members()
        if row.fence is not None
    ]
    return max(NO_TIME, min(left)) if left else None
