"""Looks at every request before anything of it is read: whom it is for, where from, by whom.

A browser on this machine runs as its user, so the kernel's word alone would let any page ask. Hence
Host has to be an address or a name of ours (a name of somebody else's may lead here), and Origin
has to be ours too. A request that was passed on by a proxy is not the owner's.
"""

import asyncio
import ipaddress
import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from headgate.api.peers import Peer, peer_of
from headgate.api.problems import Problem, problem_of
from headgate.api.routing import Caller
from headgate.api.service import Service
from headgate.core.server_settings import Scope, ServerSettings
from headgate.core.times import Seconds
from headgate.errors import HeadgateError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Quick = Callable[[Service], Awaitable[str]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

BODY = 2 * 1024 * 1024
LARGE_BODY = 64 * 1024 * 1024
"""How many bytes a body may have; a batch of jobs and a plan may be large."""
LARGE = frozenset({"/v1/batch", "/v1/plan"})
BODY_TIME = Seconds(30)
"""Within how many seconds a body has to be there; a large one in ten times that."""
FOR_ALL = frozenset({"/v1/health", "/v1/ready"})
"""What anybody may ask who can reach the server."""
_PAGE = ("/docs", "/v1/openapi.json")
_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"via", b"x-real-ip"})
_METHODS = "GET, POST, PUT, DELETE, PATCH"
_BEARER = re.compile(r"(?i)bearer +([A-Za-z0-9_.~+/=-]{1,200}) *\Z")
_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_NO_STORE = (b"cache-control", b"no-store")
_log = logging.getLogger("headgate.requests")


class Guard:
    """The app that stands before the app."""

    def __init__(self, app: App, service: Service, often: Mapping[str, Quick]) -> None:
        self._app = app
        self._often = often
        """What is asked so often that it does not go through the framework: it needs READ."""
        self._service = service

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, self._service)
        guarded = _Sender(send, request)
        try:
            try:
                await request.check()
                if request.is_preflight:
                    await _preflight(guarded)
                elif request.path in self._often and scope["method"] == "GET":
                    await _plain(guarded, await self._often[request.path](self._service))
                else:
                    await self._app(scope, _Body(receive, request).receive, guarded.send)
            except HeadgateError as error:  # of what the guard itself asks the store
                raise problem_of(error) from None
        except Problem as problem:
            if not guarded.started:
                await problem.response()(scope, receive, guarded.send)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            _log.exception("request %s failed", request.id)
            if guarded.started:
                raise
            text = f"see the server's log, request {request.id}"
            await Problem("internal", text).response()(scope, receive, guarded.send)
        finally:
            request.log(guarded.status)


class _Request:
    """What is known of one request before it is read."""

    def __init__(self, scope: MutableMapping[str, Any], service: Service) -> None:
        self.id = os.urandom(8).hex()
        self.scope = scope
        self.path: str = scope["path"]
        self.headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name, []).append(value)
        self.began = time.perf_counter()
        self.origin = ""
        """The foreign page that asks, if it may."""
        self._service = service
        self._caller = "-"
        told = b"transfer-encoding" in self.headers
        self.unread = told or self.headers.get(b"content-length", [b"0"]) != [b"0"]
        """Whether there is something of a body that nobody has read."""
        scope["state"]["request_id"] = self.id

    @property
    def is_preflight(self) -> bool:
        """Whether a browser asks whether it may ask."""
        return self.scope["method"] == "OPTIONS" and bool(self.origin)

    async def check(self) -> None:
        """Raise a Problem unless it may go on."""
        settings = self._service.settings
        self._check_host(settings)
        self._check_origin(settings)
        if self.is_preflight:
            return
        self.scope["state"]["caller"] = caller = await self._find_caller(settings)
        self._caller = caller.name
        if self._service.draining.is_set() and self.path not in FOR_ALL:
            again = {"Retry-After": "1", "Connection": "close"}
            raise Problem("draining", "ask again in a moment; nothing was done", headers=again)
        self._check_body()

    def one(self, name: bytes) -> str | None:
        """The one header of a name; None if it is not there."""
        found = self.headers.get(name, ())
        if len(found) > 1:
            raise Problem("bad_request", f"there is more than one header {name.decode()}")
        return found[0].decode("latin-1") if found else None

    def _check_host(self, settings: ServerSettings) -> None:
        host = self.one(b"host")
        if not host or not _is_ours(host, settings.hosts):
            raise Problem(
                "bad_host",
                "expected an address, localhost, or a name that [server] hosts lists",
                exit_code=125,
            )

    def _check_origin(self, settings: ServerSettings) -> None:
        origin, site = self.one(b"origin"), self.one(b"sec-fetch-site")
        if origin in settings.origins:
            self.origin = origin or ""
            return
        ours = f"{self.scope['scheme']}://{self.one(b'host')}"
        if origin is not None and origin != ours:
            raise Problem("foreign_origin", "to allow it, list it in [server] origins")
        if site not in {None, "same-origin", "none"}:
            raise Problem("foreign_origin", "to allow it, list its origin in [server] origins")

    async def _find_caller(self, settings: ServerSettings) -> Caller:
        shown = self.one(b"authorization")
        if shown is not None:
            match = _BEARER.match(shown)
            token = match[1] if match else ""
            found = await self._service.ask(lambda gate: gate.tokens.find(token))
            if found is None:
                raise _no_token("bad_token", "make another: headgate token create")
            return Caller(f"token:{found.name}", found.scope, found.templates, token)
        peer = self._peer()
        if peer is Peer.OWNER:
            return Caller("owner", Scope.ADMIN)
        if self.path in FOR_ALL or self.path.startswith(_PAGE):
            return Caller("anybody", Scope.READ)
        opened = any(self.path == one or self.path.startswith(f"{one}/") for one in settings.open)
        if opened and peer is Peer.LOCAL:
            return Caller("open", Scope.ADMIN)
        raise _no_token("no_token", "send Authorization: Bearer TOKEN (headgate token create)")

    def _peer(self) -> Peer:
        connection = self.scope["state"].get("connection")
        if connection is None:
            return Peer.REMOTE
        if connection.peer is None:
            connection.peer = peer_of(connection.transport)
        if connection.peer is Peer.OWNER and not _FORWARDED.isdisjoint(self.headers):
            return Peer.REMOTE
        found: Peer = connection.peer
        return found

    def _check_body(self) -> None:
        length = self.one(b"content-length")
        has_body = self.unread
        if length is not None and int(length) > self.most:
            raise self.too_large()
        if has_body and self.scope["method"] not in {"GET", "HEAD"}:
            said = (self.one(b"content-type") or "").partition(";")[0].strip().lower()
            lenient = self.path.startswith("/concurrency/")  # its contract looks at no type
            if said != "application/json" and not lenient:
                raise Problem("unsupported_media_type", "expected application/json")

    @property
    def most(self) -> int:
        """How many bytes its body may have."""
        return LARGE_BODY if self.path in LARGE else BODY

    def too_large(self) -> Problem:
        """What is said of a body that is too large."""
        text = f"expected at most {self.most // 1024} KiB"
        return Problem("too_large", text, headers={"Connection": "close"})

    def log(self, status: int) -> None:
        """One line for it; without its query, headers and body, where secrets may be."""
        if not _log.isEnabledFor(logging.INFO):
            return
        took = round((time.perf_counter() - self.began) * 1_000, 3)
        said = {
            "request": self.id,
            "method": self.scope["method"],
            "path": self.path[:500],
            "status": status,
            "ms": took,
            "caller": self._caller,
        }
        _log.info("%s", json.dumps(said), extra={"fields": said})


def _no_token(code: str, detail: str) -> Problem:
    return Problem(code, detail, exit_code=125, headers={"WWW-Authenticate": "Bearer"})


@lru_cache(maxsize=256)
def _is_ours(host: str, names: tuple[str, ...]) -> bool:
    """Whether a Host is an address, which nobody can have lead elsewhere, or a name of ours."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.path or parts.query or parts.fragment or "@" in host or not name:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _Body:
    """The body of a request as it comes: neither too much of it, nor too slowly."""

    def __init__(self, receive: Receive, request: _Request) -> None:
        self._receive = receive
        self._request = request
        self._got = 0
        self._whole = False
        times = 10 if request.path in LARGE else 1
        self._until = asyncio.get_running_loop().time() + BODY_TIME * times

    async def receive(self) -> Message:
        """The next part; once all of it is there, whatever comes."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Problem(
                "too_slow", "no whole body in time", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            self._request.unread = not self._whole
            if self._got > self._request.most:
                raise self._request.too_large()
        else:
            self._whole = True
        return message


class _Sender:
    """An answer on its way out, with the headers that all have."""

    def __init__(self, send: Send, request: _Request) -> None:
        self._send = send
        self._request = request
        self.started = False
        self.status = 0

    async def send(self, message: Message) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            said = message.get("headers", ())
            headers = [*said, *_ALWAYS, (b"x-request-id", self._request.id.encode())]
            if not any(name == b"cache-control" for name, _ in said):
                headers.append(_NO_STORE)
            if self._request.unread:  # nobody reads the rest, so it must not come
                headers.append((b"connection", b"close"))
            if self._request.origin:
                headers.append((b"access-control-allow-origin", self._request.origin.encode()))
                headers.append((b"access-control-expose-headers", b"x-request-id, location"))
                headers.append((b"vary", b"origin"))
            message = {**message, "headers": headers}
        await self._send(message)


async def _plain(sender: _Sender, body: str) -> None:
    """Answer JSON."""
    data = body.encode()
    headers = [
        (b"content-length", b"%d" % len(data)),
        (b"content-type", b"application/json"),
    ]
    await sender.send({"type": "http.response.start", "status": 200, "headers": headers})
    await sender.send({"type": "http.response.body", "body": data})


async def _preflight(sender: _Sender) -> None:
    headers = [
        (b"access-control-allow-methods", _METHODS.encode()),
        (
            b"access-control-allow-headers",
            b"authorization, content-type, idempotency-key, last-event-id",
        ),
        (b"access-control-max-age", b"600"),
    ]
    await sender.send({"type": "http.response.start", "status": 204, "headers": headers})
    await sender.send({"type": "http.response.body", "body": b""})
