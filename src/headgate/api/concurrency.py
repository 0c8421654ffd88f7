"""The contract under /concurrency, for front ends that were written for it. See docs/api.md.

A provider is a pool with a plain name: not `host`, no pattern, no model. Errors are `{"error": …}`,
and what there is not is left out, never null.
"""

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any

from fastapi import Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from headgate.api.routing import Gated, answer, needs, new_router
from headgate.api.service import Service
from headgate.core.display.json_shapes import Json
from headgate.core.display.snapshots import PoolStatus
from headgate.core.key_patterns import HOST, is_wild, parse_pattern
from headgate.core.quantities import LONGEST_MS, MOST
from headgate.core.server_settings import Scope
from headgate.core.times import Ms, seconds
from headgate.errors import StoreError, UsageError
from headgate.gate import Gate

UNKNOWN = "No concurrency configuration for this provider"
INVALID = "Invalid JSON body"
BAD_LIMIT = "Body must be { limit: <positive integer> }"
BAD_COOLDOWN = "Body must be { cooldownMs: <non-negative integer> }"
UNAVAILABLE = "Concurrency service not available"
BAD_NAME = "providerId must be the plain name of a provider"
LATE = "It counts, but could not be kept yet: the store cannot be written"


class ErrorText(BaseModel):
    """What went wrong."""

    error: str


class ProviderLimit(BaseModel):
    """A limit. `warning` is there if it could not be kept."""

    providerId: str  # noqa: N815 - the contract's own names
    limit: int


class ProviderLimits(BaseModel):
    """All limits."""

    limits: list[ProviderLimit]


class ProviderCooldown(BaseModel):
    """A cooldown."""

    providerId: str  # noqa: N815
    cooldownMs: int  # noqa: N815


class ProviderStatus(BaseModel):
    """A provider that has a limit. What does not apply is left out."""

    providerId: str  # noqa: N815
    limit: int
    inFlight: int  # noqa: N815
    queued: int
    paused: bool
    pausedUntil: int = 0  # noqa: N815
    cooldownMs: int  # noqa: N815
    autoReduced: bool  # noqa: N815
    autoReducedFrom: int = 0  # noqa: N815
    notice: str = ""


class ProvidersStatus(BaseModel):
    """All providers with a limit."""

    providers: list[ProviderStatus]


class Removed(BaseModel):
    """A limit is gone."""

    ok: bool
    providerId: str  # noqa: N815


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorText, "description": text}
    for status, text in ((400, "The body or the name is wrong"), (503, UNAVAILABLE))
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": ErrorText, "description": UNKNOWN}}
router = new_router("concurrency")
_ADMIN = needs(Scope.ADMIN)
_PLAIN = r"^(?![Hh][Oo][Ss][Tt]$)[A-Za-z0-9][A-Za-z0-9._@+-]{0,60}$"
ProviderId = Annotated[
    str, Path(alias="providerId", examples=["umans"], json_schema_extra={"pattern": _PLAIN})
]
_Handler = Callable[..., Awaitable[Response]]


def _asks(name: str, least: int, most: int) -> dict[str, Any]:
    """What the OpenAPI says of a body that is read by hand."""
    number = {"type": "integer", "minimum": least, "maximum": most}
    shape = {"type": "object", "properties": {name: number}, "required": [name]}
    content = {"application/json": {"schema": shape, "example": {name: max(least, 4)}}}
    return {**_ADMIN, "requestBody": {"required": True, "content": content}}


def _contract(handler: _Handler) -> _Handler:
    """Tell what the store does in the words of the contract."""

    @wraps(handler)
    async def told(*args: Any, **named: Any) -> Response:  # noqa: ANN401 - the handler's own
        try:
            return await handler(*args, **named)
        except StoreError:
            return _error(503, UNAVAILABLE)

    return told


@router.get("/concurrency/limits", response_model=ProviderLimits, responses=_ERRORS)
@_contract
async def provider_limits(service: Gated) -> Response:
    """The limits of all providers that have one."""
    found = [{"providerId": pool.pool, "limit": pool.limit} for pool in await _providers(service)]
    return answer({"limits": found})


@router.get(
    "/concurrency/limits/{providerId}",
    response_model=ProviderLimit,
    responses={**_ERRORS, **_UNKNOWN},
)
@_contract
async def provider_limit(provider: ProviderId, service: Gated) -> Response:
    """The limit of one provider."""
    found = await _provider(service, provider)
    if found is None:
        return _error(404, UNKNOWN)
    return answer({"providerId": provider, "limit": found.limit})


@router.put(
    "/concurrency/limits/{providerId}",
    response_model=ProviderLimit,
    responses=_ERRORS,
    openapi_extra=_asks("limit", 1, MOST),
)
@_contract
async def set_provider_limit(provider: ProviderId, request: Request, service: Gated) -> Response:
    """Set a limit. It clears a reduction and its notice, and lets in who has room now."""
    if not is_provider(provider):
        return _error(400, BAD_NAME)
    try:
        limit = _number(await request.body(), "limit", 1)
    except ValueError:
        return _error(400, INVALID)
    if limit is None or limit > MOST:
        return _error(400, BAD_LIMIT)
    said: Json = {"providerId": provider, "limit": limit}
    try:
        await service.ask(lambda gate: gate.set_limit(provider, limit))
    except StoreError:
        await service.ask(lambda gate: gate.set_limit_late(provider, limit))
        service.unkept[parse_pattern(provider)] = limit
        return answer({**said, "persisted": False, "warning": LATE})
    service.unkept.pop(parse_pattern(provider), None)
    return answer(said)


@router.delete(
    "/concurrency/limits/{providerId}",
    response_model=Removed,
    responses=_ERRORS,
    openapi_extra=_ADMIN,
)
@_contract
async def remove_provider_limit(provider: ProviderId, service: Gated) -> Response:
    """Lift a limit. Everyone who waits for it is let in; a pause and a notice are gone."""
    if not is_provider(provider):
        return _error(400, BAD_NAME)
    await service.ask(lambda gate: gate.free_pool(provider))
    return answer({"ok": True, "providerId": provider})


@router.get(
    "/concurrency/cooldown/{providerId}",
    response_model=ProviderCooldown,
    responses={**_ERRORS, **_UNKNOWN},
)
@_contract
async def provider_cooldown(provider: ProviderId, service: Gated) -> Response:
    """How long a freed seat rests; of a provider with a limit always the one that counts."""
    if not is_provider(provider):
        return _error(404, UNKNOWN)
    found = await _provider(service, provider)
    rest = found.cooldown_ms if found else await service.ask(lambda it: it.said_cooldown(provider))
    if rest is None:
        return _error(404, UNKNOWN)
    return answer({"providerId": provider, "cooldownMs": rest})


@router.put(
    "/concurrency/cooldown/{providerId}",
    response_model=ProviderCooldown,
    responses=_ERRORS,
    openapi_extra=_asks("cooldownMs", 0, LONGEST_MS),
)
@_contract
async def set_provider_cooldown(provider: ProviderId, request: Request, service: Gated) -> Response:
    """Set how long seats rest that are freed from now on. It makes no limit."""
    if not is_provider(provider):
        return _error(400, BAD_NAME)
    try:
        rest = _number(await request.body(), "cooldownMs", 0)
    except ValueError:
        return _error(400, INVALID)
    if rest is None or rest > LONGEST_MS:
        return _error(400, BAD_COOLDOWN)
    said: Json = {"providerId": provider, "cooldownMs": rest}
    try:
        await service.ask(lambda gate: gate.set_cooldown(provider, seconds(Ms(rest))))
    except StoreError:
        await service.ask(lambda gate: gate.set_cooldown_late(provider, Ms(rest)))
        return answer({**said, "persisted": False, "warning": LATE})
    return answer(said)


@router.get("/concurrency/status", response_model=ProvidersStatus)
async def providers_status(service: Gated) -> Response:
    """All providers with a limit; none if the store does not answer."""
    try:
        found = await _providers(service)
    except StoreError:
        found = []
    return answer({"providers": [shown(pool) for pool in found]})


def is_provider(name: str) -> bool:
    """Whether a name is a provider's: plain, and not the machine's."""
    try:
        pool = parse_pattern(name)
    except UsageError:
        return False
    return pool != HOST and "/" not in pool and not is_wild(pool) and name == name.strip()


def shown(pool: PoolStatus) -> Json:
    """A provider as the contract shows it."""
    found: Json = {
        "providerId": pool.pool,
        "limit": pool.limit,
        "inFlight": pool.in_use + pool.cooling,
        "queued": pool.queued,
        "paused": pool.paused,
        "cooldownMs": pool.cooldown_ms,
        "autoReduced": pool.auto_reduced,
    }
    if pool.paused and pool.paused_until is not None:
        found["pausedUntil"] = round(pool.paused_until * 1_000)
    if pool.auto_reduced:
        if pool.auto_reduced_from is not None:
            found["autoReducedFrom"] = pool.auto_reduced_from
        found["notice"] = f"Concurrency limit auto-reduced to {pool.limit} after a 429"
    return found


async def _providers(service: Service) -> list[PoolStatus]:
    """The providers with a limit. One that could not be kept yet counts here all the same."""
    status = await service.shared("providers", Gate.status)
    for name, limit in list(service.unkept.items()):
        kept = next((one for one in status.pools if one.pool == name), None)
        if kept is not None and kept.limit == limit:
            del service.unkept[name]
        elif kept is not None:
            pools = tuple(one._replace(limit=limit) if one is kept else one for one in status.pools)
            status = status._replace(pools=pools)
    return [pool for pool in status.pools if pool.limit is not None and is_provider(pool.pool)]


async def _provider(service: Service, name: str) -> PoolStatus | None:
    if not is_provider(name):
        return None
    pool = parse_pattern(name)
    return next((one for one in await _providers(service) if one.pool == pool), None)


def _number(body: bytes, name: str, least: int) -> int | None:
    """A whole number, as JavaScript sees one; None if the body has none. Raises for no JSON."""

    def refuse(_: str) -> None:  # NaN and Infinity, which Python reads and JSON does not have
        raise ValueError

    text = body.decode("utf-8-sig", "replace")
    try:
        said = json.loads(text, parse_constant=refuse, parse_int=_whole)
    except RecursionError:
        raise ValueError from None
    found = said.get(name) if isinstance(said, dict) else None
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    if found != found // 1 or found < least or found == float("inf"):
        return None
    return int(found)


def _whole(digits: str) -> float | int:
    """A number of any length, which Python would refuse to read."""
    return int(digits) if len(digits) < 100 else float("inf")


def _error(status: int, text: str) -> Response:
    return answer({"error": text}, status)
