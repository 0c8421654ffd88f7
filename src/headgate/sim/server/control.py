"""What tests may do to the provider while it runs: look, change its plan, begin anew."""

import json
from collections.abc import Callable

from aiohttp import web

from headgate.errors import UsageError
from headgate.sim.dialects.dialect import Json
from headgate.sim.server.changes import parse_changes
from headgate.sim.server.play import document
from headgate.sim.server.provider import Account, Provider

_LARGEST = 65_536
_MOST_LINES = 10_000
"""Lines of the log in one answer."""
PATHS = {"/sim/state": "GET", "/sim/log": "GET", "/sim/plan": "POST", "/sim/reset": "POST"}


class Control:
    """Answers `/sim/…`."""

    def __init__(self, provider: Provider, break_off: Callable[[str], None]) -> None:
        self.provider = provider
        self._break_off = break_off

    async def answer(self, path: str, method: str, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if path not in PATHS:
            return document({"error": f"not found: expected one of {', '.join(PATHS)}"}, 404)
        if method != PATHS[path]:
            allow = {"allow": PATHS[path]}
            return document({"error": f"expected {PATHS[path]}"}, 405, allow)
        if path == "/sim/log":
            return self._log(request.query.get("after", "0"))
        if path == "/sim/plan":
            self.change(await _json(request))
        elif path == "/sim/reset":
            self.reset()
        return document(self.state())

    def change(self, changes: object) -> None:
        """Behave otherwise from now on."""
        provider = self.provider
        how, behaviour = parse_changes(changes, provider.now(), provider.behaviour)
        provider.change(how, behaviour, json.dumps(changes)[:500])

    def reset(self) -> None:
        """Break everything off, and begin anew."""
        self._break_off("reset")
        self.provider.reset()

    def state(self) -> Json:
        """How things are at this moment."""
        provider = self.provider
        now = provider.now()
        return {
            "now": now,
            "in_flight": len(provider.visits()),
            "accounts": {name: _account(one, now) for name, one in provider.accounts.items()},
            "plan": provider.plan._asdict(),
            "manner": provider.behaviour._asdict(),
            "log": provider.journal.written,
        }

    def _log(self, after: str) -> web.StreamResponse:
        if not (after.isascii() and after.isdigit() and len(after) < 16):
            raise UsageError("bad after: expected a line's number")
        lines = self.provider.journal.lines(int(after))[:_MOST_LINES]
        last = lines[-1].n if lines else int(after)
        return document({"lines": [line._asdict() for line in lines], "next": last})


def _account(account: Account, now: int) -> Json:
    return {
        "in_flight": len(account.inside),
        "models": dict(account.models),
        "counted": account.counted(now),
        "cap": account.cap(now),
        "room": account.room(now),
        "punished_for": max(0, account.punished_until - now),
        "answers": dict(account.answers),
        "sessions": [
            {**visit.who._asdict(), "since": visit.begun, "until": visit.end}
            for visit in account.inside.values()
        ],
    }


async def _json(request: web.BaseRequest) -> object:
    raw = await request.content.read(_LARGEST + 1)
    while len(raw) <= _LARGEST and (more := await request.content.read(_LARGEST)):
        raw += more
    if len(raw) > _LARGEST:
        raise UsageError("too long")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise UsageError("expected a JSON object of names and numbers") from None
