"""The smallest request that an API takes, and what became of it.

Nothing is sent to any host but the one that was named, no redirect is followed, and of an answer
nothing is kept but what it says about capacity.
"""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlsplit

from headgate.core.answers.classify import Response, classify
from headgate.core.answers.signals import Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.usage.failed import explain
from headgate.usage.wire import BODY, Wire

_PORTS = {"http": 80, "https": 443}
_NO_URL = "bad --upstream: expected http://HOST or https://HOST, with a path if the API has one"


class Api(NamedTuple):
    """How an API is asked."""

    path: str
    header: str
    before: str
    """What comes before the key in that header."""
    key_env: str


APIS: Mapping[str, Api] = {
    "anthropic": Api("/v1/messages", "x-api-key", "", "ANTHROPIC_API_KEY"),
    "openai": Api("/v1/chat/completions", "Authorization", "Bearer ", "OPENAI_API_KEY"),
    "gemini": Api(
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        "x-goog-api-key",
        "",
        "GEMINI_API_KEY",
    ),
}


class ApiEndpoint:
    """Where to ask, what for, and as whom. Shows neither its path nor its key."""

    def __init__(
        self, url: str, key: str, environ: Mapping[str, str], *, api: str = "", key_env: str = ""
    ) -> None:
        provider, slash, model = key.strip().partition("/")
        if not slash or not model.strip() or not model.isprintable():
            raise UsageError(f"bad -m {key[:60]!r}: expected PROVIDER/MODEL, the model to ask for")
        self.provider = provider.strip().lower()
        self.api = api or _guess(self.provider)
        self.scheme, self.host, self.port, base = _split(url)
        self.model = model.strip()
        self.key_env = key_env or APIS[self.api].key_env
        self.environ = environ
        self._path = _path(base, APIS[self.api].path.format(model=quote(self.model, safe="")))
        self._key = environ.get(self.key_env, "")
        if not self._key:
            raise UsageError(
                f"{self.key_env} is not set; put the key there, or name another with --key-env"
            )
        if not all("!" <= letter <= "~" for letter in self._key):
            raise UsageError(f"{self.key_env} has characters that no key has")

    def __repr__(self) -> str:
        """Show the host only."""
        return f"<Target {self.host}>"

    def request(self, tokens: int) -> bytes:
        """A request for an answer of a few tokens, as a stream."""
        api = APIS[self.api]
        body = json.dumps(self._body(tokens)).encode()
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {place}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Accept-Encoding: identity",
            "User-Agent: headgate",
            "Connection: close",
            f"{api.header}: {api.before}{self._key}",
        ]
        if self.api == "anthropic":
            lines.append("anthropic-version: 2023-06-01")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body

    def _body(self, tokens: int) -> dict[str, Any]:
        if self.api == "gemini":
            asked = [{"role": "user", "parts": [{"text": "hi"}]}]
            return {"contents": asked, "generationConfig": {"maxOutputTokens": tokens}}
        # Only openai.com itself insists on the new name; many that speak its language lack it.
        most = "max_completion_tokens" if self.provider == "openai" else "max_tokens"
        messages = [{"role": "user", "content": "hi"}]
        return {"model": self.model, most: tokens, "stream": True, "messages": messages}


class ProbeAnswer(NamedTuple):
    """What became of one request. Times are those of time.monotonic()."""

    sent: float
    ended: float
    status: int = 0
    """0 if there was no answer."""
    signal: Signal | None = None
    trouble: str = ""


def ask_together(
    target: ApiEndpoint, count: int, tokens: int, timeout: Seconds
) -> list[ProbeAnswer]:
    """Send so many requests in one moment, over connections that are there already."""
    request = target.request(tokens)
    ready = threading.Barrier(count)
    wires = [Wire(timeout) for _ in range(count)]
    answers: list[ProbeAnswer | None] = [None] * count

    def ask(number: int) -> None:
        answers[number] = _ask(target, wires[number], request, ready)

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:  # after Ctrl-C none of them goes on
        for wire in wires:
            wire.sever()
    return [answer for answer in answers if answer is not None]


def _ask(target: ApiEndpoint, wire: Wire, request: bytes, ready: threading.Barrier) -> ProbeAnswer:
    from http.client import HTTPResponse

    sent = time.monotonic()
    try:
        try:
            wire.connect(target.scheme, target.host, target.port, target.environ)
        except BaseException:
            ready.abort()
            raise
        ready.wait(wire.allowed)
        sent = time.monotonic()
        wire.send(request)
        response = HTTPResponse(cast("Any", wire), method="POST")
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        body = response.read(BODY)
        ended = time.monotonic()
        found = classify(
            Response(response.status, headers, body, target.provider), Seconds(time.time())
        )
        return ProbeAnswer(sent, ended, response.status, found)
    except threading.BrokenBarrierError:
        return ProbeAnswer(sent, time.monotonic())
    except Exception as error:  # noqa: BLE001 - whatever upstream does, it is told as a sentence
        why = explain(target.host[:80], error, wire.allowed).reason
        return ProbeAnswer(sent, time.monotonic(), trouble=why)
    finally:
        wire.close()


def _guess(provider: str) -> str:
    """The API of a provider: its own, or what most others speak."""
    if provider in APIS:
        return provider
    return "gemini" if provider in {"google", "vertex"} else "openai"


def _split(url: str) -> tuple[str, str, int, str]:
    """A URL's scheme, host, port and path. It is never repeated: it may have a key in it."""
    text = url.strip()
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise UsageError(_NO_URL) from None
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"{_NO_URL}, without a user, a query or a fragment; keys go into --key-env"
        )
    if not host or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(_NO_URL)
    return parts.scheme, host, port, quote(parts.path, safe="/%:@!$&'()*+,;=~")


def _path(base: str, path: str) -> str:
    """The path of an API below a base, however much of it the base has already."""
    base = base.rstrip("/")
    endpoint = path.partition("?")[0]
    if base.endswith(endpoint):
        return base + path[len(endpoint) :]
    version = path.split("/")[1]
    return base + (path.removeprefix(f"/{version}") if base.endswith(f"/{version}") else path)
