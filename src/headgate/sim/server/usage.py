"""What the provider says about itself: its usage endpoints."""

import asyncio
import time
from math import ceil

from aiohttp import web

from headgate.sim.dialects.dialect import Json, event, moment
from headgate.sim.server.play import document
from headgate.sim.server.provider import Account, Provider, Who
from headgate.sim.upstream import Usage

LOOK = 0.1
"""Seconds between two looks of a stream at the count."""
BEAT = 5_000
"""Milliseconds after which a stream repeats what did not change."""


def usage(provider: Provider, who: Who, kind: str) -> web.StreamResponse:
    """Answer `/v1/usage` (umans) or `/usage.json` (plain)."""
    account, now = provider.account(who.account), provider.now()
    found = account.usage(now)
    if found is None:
        provider.record("usage", who, kind=kind, status=503)
        return document({"error": {"message": "usage is unavailable", "code": 503}}, 503)
    provider.record("usage", who, kind=kind, status=200, note=f"{found.in_use}/{found.limit}")
    if kind == "plain":
        return document({"in_flight": found.in_use, "limit": found.limit})
    return document(umans(account, found, now, time.time()))


def umans(account: Account, found: Usage, now: int, wall: float) -> Json:
    """A usage in Umans' shape."""
    reason, until = ("rate_limited", found.boxed_until) if found.boxed_until else (None, None)
    for start, end in account.plan.quota:
        if start <= now < end:
            reason, until = "quota_exceeded", end
    boxed = None if until is None else moment(ceil(wall + (until - now) / 1_000))
    return {
        "limits": {
            "concurrency": {
                "limit": found.limit,
                "hard_cap": found.hard_cap,
            },
            "requests": {
                "limit": account.plan.rpm or None,
                "hard_cap": account.plan.rpm or None,
                "window_seconds": 60,
            },
        },
        "usage": {
            "concurrent_sessions": account.sessions(now, found.in_use),
            "weighted_concurrent_sessions": found.in_use,
            "requests_in_window": found.requests,
            "priority": {"low": until is not None, "boxed_until": boxed, "reason": reason},
            "service_mode": {"current": "standard", "resets_at": None},
        },
    }


async def featherless(provider: Provider, who: Who, request: web.BaseRequest) -> web.StreamResponse:
    """Answer `/account/concurrency/stream`: an event whenever the count changes."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    told: Json = {}
    then = 0
    while True:
        account, now = provider.account(who.account), provider.now()
        found = account.usage(now)
        if found is None and not response.prepared:
            provider.record("usage", who, kind="featherless", status=503)
            return document({"error": {"message": "usage is unavailable", "code": 503}}, 503)
        if found is not None:
            state = _state(account, found)
            if state != told or not 0 <= now - then < BEAT:
                told, then = state, now
                note = f"{found.in_use}/{found.limit}"
                provider.record("usage", who, kind="featherless", status=200, note=note)
                if not response.prepared:
                    await response.prepare(request)
                await response.write(event(state))
        await asyncio.sleep(LOOK)


def _state(account: Account, found: Usage) -> Json:
    weights = dict(account.plan.weights)
    requests = [
        {
            "id": f"req_sim{visit.who.session:010d}",
            "model": visit.who.model,
            "cost": weights.get(visit.who.model, 1),
        }
        for visit in account.inside.values()
    ]
    return {"limit": found.limit, "used_cost": found.in_use, "requests": requests}
