"""Clients on other machines: members, their tickets and their leases.

A client joins, and from then on says that it is there, by itself and for all that it has: what it
holds needs no renewals of its own. It asks under keys that it chooses, so that a request that got
no answer can be made again. What its silence means is in docs/remote.md.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable
from typing import Annotated, Any, TypeVar

from fastapi import Header, Path, Query, Request
from starlette.responses import Response

from headgate.api import remote_schemas as shapes
from headgate.api.once import IdempotencyKey
from headgate.api.problems import Problem
from headgate.api.remote_schemas import (
    LONGEST_WAIT,
    MemberDocument,
    MemberId,
    MemberWanted,
    ProgramWanted,
    RenewalWanted,
    SignalWanted,
    StandingDocument,
    TicketDocument,
    TicketWanted,
)
from headgate.api.routing import CONFLICT, NOT_FOUND, Gated, answer, needs, new_router
from headgate.api.schemas import MOST_ID
from headgate.api.service import Service
from headgate.api.streams import MEDIA_TYPE, Sent, stream, until
from headgate.core.admission.setting_precedence import parse_view
from headgate.core.answers.signals import USAGE, Signal, parse_signal, parse_wait
from headgate.core.key_patterns import NO_KEY, parse_key
from headgate.core.quantities import parse_priority, parse_task, parse_tokens, parse_weight
from headgate.core.roles import parse_roles
from headgate.core.server_settings import Scope
from headgate.core.times import NO_TIME, Seconds, ms
from headgate.errors import UsageError
from headgate.gate.remote_clients import Asked, RemoteClients, started
from headgate.ledger.admission.admit import Request as Wanted
from headgate.ledger.learning import apply_signals, rate_charges
from headgate.ledger.remote_members import Held
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import MACHINE, PREFIX, RemoteMember
from headgate.ledger.transaction.rows import WITHOUT_HOST

T = TypeVar("T")
router = new_router("remote")
SUBMIT = needs(Scope.SUBMIT)
GONE: dict[int | str, dict[str, Any]] = {
    410: {"description": "The client was silent for too long, or has left"}
}
_STREAM_STEP = Seconds(5)
_LOOKS = 20
"""How often in a second all streams together look where their tickets stand."""

WorkId = Annotated[int, Path(ge=1, le=MOST_ID, examples=[12])]
Member = Annotated[MemberId, Path(examples=["remote-0123456789abcdef01234567"])]
AskedBy = Annotated[MemberId, Query(examples=["remote-0123456789abcdef01234567"])]
WaitFor = Annotated[float, Query(ge=0, le=LONGEST_WAIT)]


def clients(service: Service) -> RemoteClients:
    """Those that this server serves."""
    return service.gate.remote_clients


@router.post("/v1/members", response_model=MemberDocument, status_code=201, openapi_extra=SUBMIT)
async def join(wanted: MemberWanted, service: Gated) -> Response:
    """Join as a client. From now on it renews itself, well before its fence."""
    row = RemoteMember(
        id=f"{PREFIX}{os.urandom(12).hex()}",
        name=parse_task(wanted.name, "name"),
        server="",
        boot="",
        heard=NO_TIME,
        fence=None if wanted.fence == "never" else ms(Seconds(wanted.fence)),
    )
    row, store = await clients(service).join(row)
    return answer(shapes.member_document(row, store), 201)


@router.post(
    "/v1/members/{member}/renewal",
    response_model=StandingDocument,
    responses={**NOT_FOUND, **GONE},
    openapi_extra=SUBMIT,
)
async def renew(member: Member, wanted: RenewalWanted, service: Gated) -> Response:
    """Say that a client is there. Told is all that it waits for and holds.

    With `wait` the answer comes as soon as that is not what was `seen`. The client counts its fence
    from when it has sent a renewal that was answered.
    """
    waits = clients(service).renew(member, wanted.seen, Seconds(wanted.wait), places=wanted.places)
    return answer(shapes.standing_document(await _until(service, waits)))


@router.delete("/v1/members/{member}", status_code=204, openapi_extra=SUBMIT)
async def leave(member: Member, service: Gated) -> Response:
    """Leave: all that the client waits for and holds is given back. It has ended its programs."""
    await clients(service).leave(member)
    return Response(status_code=204)


@router.post(
    "/v1/tickets",
    response_model=TicketDocument,
    status_code=201,
    responses={**CONFLICT, **GONE},
    openapi_extra=SUBMIT,
)
async def ask(
    wanted: TicketWanted, service: Gated, idempotency_key: IdempotencyKey = None
) -> Response:
    """Ask for seats; with `wait`, the answer comes as soon as they are granted.

    Asked again under the same `Idempotency-Key`, it is the same ticket, or the same lease.
    """
    key = idempotency_key or os.urandom(12).hex()
    request = _request(service, wanted)
    digest = hashlib.sha256(wanted.model_dump_json(exclude={"wait"}).encode()).hexdigest()
    waits = clients(service).ask(request, key, digest, Seconds(wanted.wait), patient=wanted.patient)
    return answer(shapes.ticket_document(await _until(service, waits), key), 201)


def _request(service: Service, wanted: TicketWanted) -> Wanted:
    return Wanted(
        key=parse_key(wanted.key) if wanted.key else NO_KEY,
        member=wanted.member,
        machine=wanted.machine or MACHINE,
        weight=parse_weight(wanted.weight),
        urgency=-parse_priority(wanted.priority),
        since=service.gate.moment(wanted.since),
        task=parse_task(wanted.task),
        label=parse_task(wanted.label),
        marked=wanted.marked,
        lender=WITHOUT_HOST if wanted.without_host else wanted.parent,
        view=parse_view(wanted.limits, "limits"),
        tokens=parse_tokens(wanted.tokens),
        roles=parse_roles(wanted.roles),
    )


@router.get(
    "/v1/tickets/{id}",
    response_model=TicketDocument,
    responses={
        **NOT_FOUND,
        200: {
            "description": "What has become of it; as events, each time that it changes",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
    },
    openapi_extra=SUBMIT,
)
async def look(
    id: WorkId,
    member: AskedBy,
    service: Gated,
    request: Request,
    *,
    wait: WaitFor = 0.0,
    accept: Annotated[str, Header()] = "",
) -> Response:
    """What has become of a ticket; with `wait`, as soon as it is granted.

    With `Accept: text/event-stream`, events: `waiting` with its place each time that changes,
    `granted` or `gone` last.
    """
    if MEDIA_TYPE in accept:
        return stream(request, _followed(clients(service), member, id))
    found = await _until(service, clients(service).wait(member, id, Seconds(wait)))
    if found is None:
        raise Problem("not_found", f"the client waits for nothing and holds nothing with id {id}")
    return answer(shapes.ticket_document(found, ""))


async def _followed(clients: RemoteClients, member: str, id: int) -> AsyncIterator[Sent]:
    """A ticket, each time that something about it has changed, until it is granted or gone."""
    told: object = None
    wait = Seconds(0)
    while True:
        found = await clients.wait(member, id, wait)
        wait = _STREAM_STEP + Seconds(clients.waiting / _LOOKS)
        if found is None:
            yield Sent("gone", {"id": id})
            return
        if found.held is not None:
            yield Sent("granted", shapes.ticket_document(found, ""))
            return
        if (place := _place(found)) != told:
            told = place
            yield Sent("waiting", shapes.ticket_document(found, ""))


def _place(found: Asked) -> object:
    return None if found.spot is None else (found.spot.position, found.spot.reason)


async def _until(service: Service, waits: Awaitable[T]) -> T:
    """What is awaited, unless the server is stopped before."""
    found: list[T] = []

    async def wait() -> bool:
        found.append(await waits)
        return True

    if not await until(service, wait(), None):
        again = {"Retry-After": "1", "Connection": "close"}
        raise Problem("draining", "ask again in a moment, under the same key", headers=again)
    return found[0]


@router.delete("/v1/tickets/{id}", status_code=204, responses=NOT_FOUND, openapi_extra=SUBMIT)
async def withdraw(id: WorkId, member: AskedBy, service: Gated) -> Response:
    """Leave the line; or give back what was granted meanwhile."""
    return await _end(service, member, id)


@router.delete("/v1/leases/{id}", status_code=204, responses=NOT_FOUND, openapi_extra=SUBMIT)
async def release(
    id: WorkId,
    member: AskedBy,
    service: Gated,
    *,
    completed: bool = True,
    accepted: bool = False,
) -> Response:
    """Give seats back. `completed=false`: upstream may go on with it for a while."""
    return await _end(service, member, id, completed=completed, accepted=accepted)


async def _end(
    service: Service, member: str, id: int, *, completed: bool = True, accepted: bool = False
) -> Response:
    if not await clients(service).end(member, id, completed=completed, accepted=accepted):
        raise Problem("not_found", f"the client waits for nothing and holds nothing with id {id}")
    return Response(status_code=204)


@router.post("/v1/leases/{id}/signals", status_code=204, responses=NOT_FOUND, openapi_extra=SUBMIT)
async def report(id: WorkId, wanted: SignalWanted, service: Gated) -> Response:
    """Tell what upstream said to the work of a lease."""
    kind = parse_signal(wanted.signal)
    if kind == USAGE:
        raise UsageError("bad signal 'usage': a lease has no usage; tell it of a pool")
    wait = parse_wait(wanted.retry_after)
    note = parse_task(wanted.note, "note")
    signal = Signal(kind, wait, account=wanted.account, note=note)
    used = None if wanted.tokens is None else parse_tokens(wanted.tokens)

    def do(ledger: Ledger, held: Held) -> bool:
        lease = ledger.tx.lease(held.id)
        key = lease.key if lease is not None else NO_KEY
        apply_signals.report(ledger, signal, lease=held.id, key=key)
        if used is not None:
            rate_charges.spend(ledger, held.id, used)
        return True

    if not await clients(service).of_lease(wanted.member, id, do):
        raise Problem("not_found", f"the client holds nothing with id {id}")
    return Response(status_code=204)


@router.put("/v1/leases/{id}/program", status_code=204, responses=NOT_FOUND, openapi_extra=SUBMIT)
async def program(id: WorkId, wanted: ProgramWanted, service: Gated) -> Response:
    """Let people know which process uses a lease, on its own machine."""

    def do(ledger: Ledger, held: Held) -> bool:
        started(ledger, held, wanted.pid)
        return True

    if not await clients(service).of_lease(wanted.member, id, do):
        raise Problem("not_found", f"the client holds nothing with id {id}")
    return Response(status_code=204)
