"""The smallest request that an API takes, and what became of it.

Nothing is sent to any host but the one that was named, no redirect is followed, and of an answer
nothing is kept but what it says about capacity.
"""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headgate.core.answers import classify
from headgate.core.answers.signals import Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.core.urls import Url, split_url
from headgate.errors import UsageError
from headgate.http_client import Connection, Response, connect, explain, send

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
        base = _split(url)
        self.model = model.strip()
        self.key_env = key_env or APIS[self.api].key_env
        self.environ = environ
        path, _, query = APIS[self.api].path.format(model=quote(self.model, safe="")).partition("?")
        self.url = base._replace(path=_path(base.path, path), query=query)
        self.host = base.host
        self._key = environ.get(self.key_env, "")
        if not self._key:
            raise UsageError(
                f"{self.key_env} is not set; put the key there, or name another with --key-env"
            )
        if not all("!" <= letter <= "~" for letter in self._key):
            raise UsageError(f"{self.key_env} has characters that no key has")

    def __repr__(self) -> str:
        """Show the host only."""
        return f"<ApiEndpoint {self.host}>"

    def send(self, connection: Connection, tokens: int) -> Response:
        """Ask for an answer of a few tokens, as a stream."""
        api = APIS[self.api]
        headers = {"Content-Type": "application/json", api.header: f"{api.before}{self._key}"}
        if self.api == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        body = json.dumps(self._body(tokens)).encode()
        return send(connection, "POST", self.url, headers, body=body)

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
    ready = threading.Barrier(count)
    connections = [Connection(timeout) for _ in range(count)]
    answers: list[ProbeAnswer | None] = [None] * count

    def ask(number: int) -> None:
        answers[number] = _ask(target, connections[number], tokens, ready)

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:  # after Ctrl-C none of them goes on
        for connection in connections:
            connection.break_off()
    return [answer for answer in answers if answer is not None]


def _ask(
    target: ApiEndpoint, connection: Connection, tokens: int, ready: threading.Barrier
) -> ProbeAnswer:
    sent = time.monotonic()
    try:
        try:
            connect(connection, target.url, target.environ)
        except BaseException:
            ready.abort()
            raise
        ready.wait(connection.allowed)
        sent = time.monotonic()
        response = target.send(connection, tokens)
        body = response.read(whole=False)
        ended = time.monotonic()
        said = classify.Response(response.status, response.headers, body, target.provider)
        found = classify.classify(said, Seconds(time.time()))
        return ProbeAnswer(sent, ended, response.status, found)
    except threading.BrokenBarrierError:
        return ProbeAnswer(sent, time.monotonic())
    except Exception as error:  # noqa: BLE001 - whatever upstream does, it is told as a sentence
        why = explain(target.host[:80], error, connection.allowed)
        return ProbeAnswer(sent, time.monotonic(), trouble=why)
    finally:
        connection.close()


def _guess(provider: str) -> str:
    """The API of a provider: its own, or what most others speak."""
    if provider in APIS:
        return provider
    return "gemini" if provider in {"google", "vertex"} else "openai"


def _split(text: str) -> Url:
    """The parts of a URL. It is never repeated: it may have a key in it."""
    url = split_url(text.strip())
    if url is None:
        raise UsageError(_NO_URL)
    if url.user or url.query or "#" in text:
        raise UsageError(
            f"{_NO_URL}, without a user, a query or a fragment; keys go into --key-env"
        )
    return url


def _path(base: str, path: str) -> str:
    """The path of an API below a base, however much of it the base has already."""
    base = base.rstrip("/")
    if base.endswith(path):
        return base
    version = path.split("/")[1]
    return base + (path.removeprefix(f"/{version}") if base.endswith(f"/{version}") else path)
