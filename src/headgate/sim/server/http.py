"""The HTTP face: which path is which API, who asks, and what is wrong with what they ask.

A path is known by its end: whatever comes before `/v1/messages` names the task.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable
from headgate.errors import UsageError
from headgate.sim.dialects.anthropic import Anthropic
from headgate.sim.dialects.dialect import Dialect, Json, Limits, Refusal, Reply
from headgate.sim.dialects.gemini import Gemini
from headgate.sim.dialects.openai import Chat, Responses
from headgate.sim.server.behaviour import draw, parse_request_options
from headgate.sim.server.control import Control
from headgate.sim.server.play import Play, document, reset
from headgate.sim.server.provider import Provider, Who, account_of
from headgate.sim.server.usage import featherless, usage

LARGEST = 32 * 1024 * 1024
"""How many bytes a request may have."""
MOST_ACCOUNTS = 10_000
ANTHROPIC, CHAT, RESPONSES, GEMINI = Anthropic(), Chat(), Responses(), Gemini()
_SESSION_HEADERS = ("x-claude-code-session-id", "x-session-id", "session-id", "thread-id")
_USUAL_MODELS = ("claude-opus-4-6", "claude-sonnet-4-6", "gpt-5.2", "gemini-3-pro")


class RequestRefused(Exception):
    """A request that goes no further."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message)
        self.refusal = Refusal(kind, message)


class Call(NamedTuple):
    """One request on its way to its answer."""

    request: web.BaseRequest
    dialect: Dialect
    session: int
    methods: tuple[str, ...] = ()
    prefix: str = ""
    model: str = ""
    """The one that the path names, if it does."""
    verb: str = ""
    """What the path asks for after a colon, if it does."""


Handler = Callable[["RequestHandler", Call], Awaitable[web.StreamResponse]]


class Route(NamedTuple):
    """A kind of path."""

    path: re.Pattern[str]
    methods: tuple[str, ...]
    dialect: Dialect | None
    handler: Handler


class RequestHandler:
    """Answers every request there is."""

    def __init__(self, provider: Provider, *, anonymous: bool = False) -> None:
        self.provider = provider
        self.anonymous = anonymous
        self.control = Control(provider, self.break_off)
        self._live: dict[int, web.BaseRequest] = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, or say in its own API's words why not."""
        self._live[id(request)] = request
        try:
            if request.path.startswith("/sim/"):
                return await self._controlled(request)
            return await self._routed(request)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - no client may bring the server down
            self.provider.record("fault", note=type(error).__name__)
            refusal = Refusal("error", status=500)
            return document(guess(request).error(refusal, 0), 500)
        finally:
            self._live.pop(id(request), None)

    def break_off(self, note: str) -> None:
        """Break every request off, streams of counts included."""
        for visit in self.provider.visits():
            self.provider.end(visit, "cut", note)
        for request in self._live.values():
            if not request.path.startswith("/sim/"):
                reset(request.transport)

    async def _controlled(self, request: web.BaseRequest) -> web.StreamResponse:
        if not _local(request):
            return document({"error": "only from this machine"}, 403)
        try:
            return await self.control.answer(request.path, request.method, request)
        except UsageError as error:
            return document({"error": str(error)}, 400)

    async def _routed(self, request: web.BaseRequest) -> web.StreamResponse:
        route, call = find(request, self.provider.next_session())
        try:
            return await _called(route, request)(self, call)
        except RequestRefused as refused:
            key = key_of(request)
            who = Who(call.session, account_of(key) if key else "", task=task_of(call))
            refusal = self.provider.refused(who, refused.refusal, call.dialect)
            return self._refuse(call, refusal, Limits())

    def _refuse(self, call: Call, refusal: Refusal, limits: Limits) -> web.StreamResponse:
        headers = call.dialect.headers(call.session, limits, time.time())
        if refusal.retry_after is not None:
            headers |= call.dialect.wait(refusal.kind, refusal.retry_after)
        status = refusal.status or call.dialect.status(refusal.kind)
        if status == 405:
            headers["allow"] = ", ".join(call.methods)
        if status == 426:
            headers["upgrade"] = "HTTP/1.1"
        response = document(call.dialect.error(refusal, call.session), status, headers)
        if status in {413, 426}:
            response.force_close()
        return response

    def _who(self, call: Call, model: str = "") -> Who:
        key = key_of(call.request) or ("anonymous" if self.anonymous else "")
        if not key:
            raise RequestRefused("key", "No API key was given: x-api-key header is required")
        account = account_of(key)
        accounts = self.provider.accounts
        if account not in accounts and len(accounts) >= MOST_ACCOUNTS:
            raise RequestRefused("key", "Too many accounts")
        return Who(call.session, account, model, task_of(call))

    async def generate(self, call: Call) -> web.StreamResponse:
        """Let a request for tokens in, and answer it."""
        raw = await body_of(call.request)
        self._who(call)
        body, model = _parsed(raw, call)
        flaw = call.dialect.flaw(body)
        if flaw:
            raise RequestRefused("bad", flaw)
        stream = call.verb == "streamGenerateContent" or body.get("stream") is True
        provider, dialect = self.provider, call.dialect
        try:
            wanted_options = parse_request_options(raw)
        except UsageError as error:
            raise RequestRefused("bad", str(error)) from None
        script = draw(
            provider.behaviour, provider.chance, wanted_options, dialect.most(body), stream=stream
        )
        options = body.get("stream_options")
        count = isinstance(options, dict) and options.get("include_usage") is True
        asked, wall = tokens_of(raw), int(time.time())
        reply = Reply(
            number=call.session,
            model=model,
            asked=asked,
            tokens=script.tokens,
            full=script.full,
            wall=wall,
            tally=count,
        )
        who = self._who(call, model)
        answer = provider.ask(who, script, wanted_options, dialect, tokens=asked + script.tokens)
        if isinstance(answer, Refusal):
            limits = provider.account(who.account).limits(provider.now())
            if answer.kind == "quota" and limits.quota != "rejected":
                limits = limits._replace(quota="rejected", quota_reset=answer.retry_after or 0)
            await asyncio.sleep(provider.behaviour.refusal / 1_000)
            return self._refuse(call, answer, limits)
        return await Play(provider, answer, dialect, reply).perform(call.request, stream=stream)

    async def count(self, call: Call) -> web.StreamResponse:
        """Say how many tokens a request has; that costs nothing."""
        raw = await body_of(call.request)
        self._who(call)
        body, _ = _parsed(raw, call)
        if call.dialect is GEMINI:
            return document({"totalTokens": tokens_of(raw)})
        if not isinstance(body.get("messages"), list):
            raise RequestRefused("bad", "messages: Field required")
        return document({"input_tokens": tokens_of(raw)})

    async def models(self, call: Call) -> web.StreamResponse:
        """List the models, or show one."""
        self._who(call)
        plan = self.provider.plan
        known = {name for name, _ in (*plan.model_caps, *plan.weights)}
        names = sorted(known) or list(_USUAL_MODELS)
        listed = call.dialect.models([call.model] if call.model else names)
        if not call.model:
            return document(listed)
        return document((listed.get("data") or listed["models"])[0])

    async def usage(self, call: Call) -> web.StreamResponse:
        """Say how much is in use."""
        who = self._who(call)
        if call.request.path.endswith("stream"):
            return await featherless(self.provider, who, call.request)
        plain = call.request.path.endswith(".json")
        return usage(self.provider, who, "plain" if plain else "umans")

    async def hello(self, call: Call) -> web.StreamResponse:
        """Say that somebody is there."""
        return document({"message": "hello"})


def _route(
    path: str, methods: str, handler: Handler, dialect: Dialect | None = None, prefix: str = ".*?"
) -> Route:
    found = re.compile(f"(?P<prefix>(?:/{prefix})?){path}/?", re.DOTALL)
    return Route(found, tuple(methods.split()), dialect, handler)


ROUTES = (
    _route("/v1/messages", "POST", RequestHandler.generate, ANTHROPIC),
    _route("/v1/messages/count_tokens", "POST", RequestHandler.count, ANTHROPIC),
    _route("/v1/chat/completions", "POST", RequestHandler.generate, CHAT),
    _route("/v1/responses", "POST", RequestHandler.generate, RESPONSES),
    _route(
        "/v1(?:beta|alpha)?/models/(?P<model>[^/:]+):(?P<verb>(?:stream)?[gG]enerateContent)",
        "POST",
        RequestHandler.generate,
        GEMINI,
    ),
    _route(
        "/v1(?:beta|alpha)?/models/(?P<model>[^/:]+):countTokens",
        "POST",
        RequestHandler.count,
        GEMINI,
    ),
    _route("/v1/models(?:/(?P<model>[^/:]+))?", "GET HEAD", RequestHandler.models),
    _route(
        "/v1(?:beta|alpha)/models(?:/(?P<model>[^/:]+))?", "GET HEAD", RequestHandler.models, GEMINI
    ),
    _route("/v1/usage", "GET", RequestHandler.usage),
    _route("/usage.json", "GET", RequestHandler.usage),
    _route("/account/concurrency/stream", "GET", RequestHandler.usage),
    _route("/api/hello", "GET HEAD", RequestHandler.hello),
    _route("/?", "GET HEAD", RequestHandler.hello, prefix="t/[^/]+"),
)


def find(request: web.BaseRequest, session: int) -> tuple[Route | None, Call]:
    """The kind of path that a request goes to, and what the path says."""
    call = Call(request, guess(request), session)
    for route in ROUTES:
        match = route.path.fullmatch(request.path)
        if match:
            found: dict[str, Any] = match.groupdict("")
            dialect = route.dialect or call.dialect
            return route, call._replace(dialect=dialect, methods=route.methods, **found)
    return None, call


def _called(route: Route | None, request: web.BaseRequest) -> Handler:
    """Who answers on a path."""
    if route is None:
        raise RequestRefused("path", f"Invalid URL ({request.method} {request.path[:200]})")
    if request.method not in route.methods:
        if "websocket" in request.headers.get("upgrade", "").lower():
            raise RequestRefused("upgrade")
        raise RequestRefused("method", f"Not allowed to {request.method} on {request.path[:200]}")
    return route.handler


def guess(request: web.BaseRequest) -> Dialect:
    """The API that a request seems to mean, where its path does not say."""
    if "anthropic-version" in request.headers or "x-api-key" in request.headers:
        return ANTHROPIC
    if "x-goog-api-key" in request.headers or "/v1beta" in request.path:
        return GEMINI
    return ANTHROPIC if "/messages" in request.path else CHAT


def key_of(request: web.BaseRequest) -> str:
    """The API key that a request carries."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return (
        request.headers.get("x-api-key", "").strip()
        or (token.strip() if scheme.lower() == "bearer" else "")
        or request.headers.get("x-goog-api-key", "").strip()
        or request.query.get("key", "").strip()
    )


def task_of(call: Call) -> str:
    """Who a request is for: what its path begins with, else the session its headers name."""
    found = call.prefix.strip("/").removeprefix("t/")
    for name in _SESSION_HEADERS:
        found = found or call.request.headers.get(name, "")
    return printable(found[:200], "?")


def tokens_of(raw: bytes) -> int:
    """How many tokens a request has, roughly."""
    return len(raw) // 4 + 1


async def body_of(request: web.BaseRequest) -> bytes:
    """All that a client sends, if it is not too much."""
    if (request.content_length or 0) > LARGEST:
        raise RequestRefused("large")
    if request.headers.get("expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    found = bytearray()
    try:
        async for chunk in request.content.iter_any():
            found += chunk
            if len(found) > LARGEST:
                raise RequestRefused("large")
    except (web.RequestPayloadError, HttpProcessingError, ValueError):
        raise RequestRefused("bad", "The body cannot be read") from None
    return bytes(found)


def _parsed(raw: bytes, call: Call) -> tuple[Json, str]:
    """A body and the model that it names."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise RequestRefused("bad", "The request body is not valid JSON") from None
    if not isinstance(body, dict):
        raise RequestRefused("bad", "The request body is not a JSON object")
    model = call.model or body.get("model")
    if not isinstance(model, str) or not model.strip():
        missing = {"anthropic": "model: Field required"}.get(call.dialect.name)
        raise RequestRefused("bad", missing or "you must provide a model parameter")
    if len(model) > 200 or not model.isprintable():
        raise RequestRefused("path", "model: no such model")
    return body, model


def _local(request: web.BaseRequest) -> bool:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    try:
        address = ip_address(peer[0].partition("%")[0]) if peer else None
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address is not None and address.is_loopback
