"""Pools: their limits, cooldowns and pauses, and what upstream said to them."""

from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response

from headgate.api.problems import Problem
from headgate.api.routes.parameters import Duration, Line, PoolName
from headgate.api.routing import CONFLICT, NOT_FOUND, Gated, answer, needs, new_router
from headgate.api.schemas import (
    Asked,
    LimitsDocument,
    PoolDocument,
    SettingsDocument,
    StatusDocument,
)
from headgate.core.answers.signals import KINDS, LONGEST_PAUSE
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import PoolStatus
from headgate.core.key_patterns import parse_pattern
from headgate.core.quantities import LONGEST_MS, MOST
from headgate.core.server_settings import Scope
from headgate.core.times import Ms, seconds
from headgate.gate import Gate

router = new_router("pools")
_ADMIN = needs(Scope.ADMIN)
SignalName = Literal[
    "accepted", "concurrency-limited", "rate-limited", "quota-gone", "overloaded", "usage"
]
assert set(SignalName.__args__) == set(KINDS)  # type: ignore[attr-defined]  # noqa: S101 - a slip


class Limit(Asked):
    """How many at once, or `learn`: find it out."""

    limit: Annotated[int, Field(ge=1, le=MOST, examples=[4])] | Literal["learn"]


class Cooldown(Asked):
    """How long freed seats rest."""

    cooldown_ms: Annotated[int, Field(ge=0, le=LONGEST_MS, examples=[350])]


class Pause(Asked):
    """For how long, and why; for ever if it is not said for how long."""

    seconds: Annotated[float, Field(ge=0.001, le=LONGEST_MS / 1_000, examples=[600])] | None = None
    note: Line = ""


class SignalSaid(Asked):
    """What upstream said."""

    signal: Annotated[SignalName, Field(examples=["concurrency-limited"])]
    retry_after: Duration | None = None
    in_use: Annotated[float, Field(ge=0, le=MOST)] | None = None
    limit: Annotated[int, Field(ge=1, le=MOST)] | None = None
    note: Line = ""


@router.get("/v1/pools", response_model=StatusDocument)
async def pools(service: Gated) -> Response:
    """All pools at this moment."""
    return answer(json_shapes.document(json_shapes.status(await service.ask(Gate.status))))


@router.get("/v1/pools/{pool:path}", response_model=PoolDocument, responses=NOT_FOUND)
async def pool(pool: PoolName, service: Gated) -> Response:
    """One pool at this moment."""
    return _shown(_known(await service.ask(lambda gate: _find(gate, pool)), pool))


@router.get("/v1/limits", response_model=LimitsDocument)
async def limits(service: Gated) -> Response:
    """What is set and learned of all pools."""
    status = await service.ask(Gate.status)
    settings = [json_shapes.settings(pool) for pool in status.pools]
    return answer(json_shapes.document({"pools": settings}))


@router.get("/v1/limits/{pool:path}", response_model=SettingsDocument, responses=NOT_FOUND)
async def limit(pool: PoolName, service: Gated) -> Response:
    """What is set and learned of one pool."""
    found = _known(await service.ask(lambda gate: _find(gate, pool)), pool)
    return answer(json_shapes.document(json_shapes.settings(found)))


@router.put(
    "/v1/limits/{pool:path}",
    response_model=PoolDocument,
    responses=CONFLICT,
    openapi_extra=_ADMIN,
)
async def set_limit(pool: PoolName, body: Limit, service: Gated) -> Response:
    """Set a limit: kept, and live at once everywhere. A learned reduction is forgotten."""
    if body.limit == "learn" and parse_pattern(pool) == "host":
        raise Problem("refused", "the limit of host is not learned", exit_code=2)

    def do(gate: Gate) -> PoolStatus | None:
        gate.set_limit(pool, body.limit)
        return _find(gate, pool)

    return _shown(_known(await service.ask(do), pool))


@router.delete("/v1/limits/{pool:path}", status_code=204, openapi_extra=_ADMIN)
async def unset_limit(pool: PoolName, service: Gated) -> Response:
    """Lift a limit; everyone who waits for it is let in."""
    await service.ask(lambda gate: gate.unset_limit(pool))
    return Response(status_code=204)


@router.post("/v1/restores/{pool:path}", status_code=204, openapi_extra=_ADMIN)
async def restore(pool: PoolName, service: Gated) -> Response:
    """Forget what was set by hand and learned: the configuration counts again."""
    await service.ask(lambda gate: gate.restore(pool))
    return Response(status_code=204)


@router.put("/v1/cooldowns/{pool:path}", response_model=PoolDocument, openapi_extra=_ADMIN)
async def set_cooldown(pool: PoolName, body: Cooldown, service: Gated) -> Response:
    """Set how long seats rest that are freed from now on."""

    def do(gate: Gate) -> PoolStatus | None:
        gate.set_cooldown(pool, seconds(Ms(body.cooldown_ms)))
        return _find(gate, pool)

    return _shown(_known(await service.ask(do), pool))


@router.get("/v1/pauses", response_model=LimitsDocument)
async def pauses(service: Gated) -> Response:
    """The pools in which nothing starts."""
    status = await service.ask(Gate.status)
    settings = [json_shapes.settings(pool) for pool in status.pools if pool.paused]
    return answer(json_shapes.document({"pools": settings}))


@router.put("/v1/pauses/{pool:path}", response_model=PoolDocument, openapi_extra=_ADMIN)
async def pause(pool: PoolName, body: Pause, service: Gated) -> Response:
    """Let nothing start in a pool, for a while or until it is resumed. What runs goes on."""

    def do(gate: Gate) -> PoolStatus | None:
        gate.pause(pool, body.seconds, note=body.note)
        return _find(gate, pool)

    return _shown(_known(await service.ask(do), pool))


@router.delete("/v1/pauses/{pool:path}", status_code=204, openapi_extra=_ADMIN, responses=NOT_FOUND)
async def resume(pool: PoolName, service: Gated) -> Response:
    """End a pause."""
    if not await service.ask(lambda gate: gate.resume(pool)):
        raise Problem("not_found", f"{pool} is not paused", exit_code=2)
    return Response(status_code=204)


@router.post(
    "/v1/signals/{pool:path}",
    response_model=PoolDocument,
    openapi_extra=needs(Scope.SUBMIT, any_command=True),
    responses={**NOT_FOUND, **CONFLICT},
)
async def signal(pool: PoolName, body: SignalSaid, service: Gated) -> Response:
    """Tell a pool what upstream said: a refusal pauses it, one for concurrency lowers its limit.

    `usage` needs `in_use`. A pause is a day at most.
    """
    if body.signal == "usage" and body.in_use is None:
        raise Problem("refused", "usage needs in_use: how much upstream counts", exit_code=2)
    wait = None if body.retry_after is None else min(body.retry_after, LONGEST_PAUSE / 1_000)

    def do(gate: Gate) -> PoolStatus | None:
        gate.report(
            pool,
            body.signal,
            retry_after=wait,
            in_use=body.in_use,
            limit=body.limit,
            note=body.note,
        )
        return _find(gate, pool)

    return _shown(_known(await service.ask(do), pool))


def _find(gate: Gate, pool: str) -> PoolStatus | None:
    name = parse_pattern(pool)
    return next((found for found in gate.status().pools if found.pool == name), None)


def _known(found: PoolStatus | None, pool: str) -> PoolStatus:
    if found is None:
        raise Problem("not_found", f"there is no pool {pool}; /v1/limits lists them", exit_code=2)
    return found


def _shown(found: PoolStatus) -> Response:
    return answer(json_shapes.document(json_shapes.pool(found)))
