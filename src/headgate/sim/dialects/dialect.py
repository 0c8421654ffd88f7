"""How each API puts the same things on the wire: an answer, a stream, a refusal, what is left.

`Reply` and `Refusal` say what happened; a `Dialect` spells it. Everything here is pure.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import ceil
from typing import Any, Protocol

from headgate.core.named_tuple import NamedTuple

Json = dict[str, Any]


class Reply(NamedTuple):
    """An answer. Its tokens are the numbers from 0 on: what is lost or doubled shows."""

    number: int
    model: str
    asked: int
    """Tokens of the request."""
    tokens: int
    full: bool = False
    """Whether it ends because no more tokens were allowed."""
    wall: int = 0
    """Seconds since 1970."""
    tally: bool = False
    """Whether the stream ends with the usage, where that is up to the client."""

    def text(self, first: int = 0, end: int | None = None) -> str:
        """The tokens from one up to another."""
        end = self.tokens if end is None else end
        return "".join(f" {n}" if n else "0" for n in range(first, end))


class Refusal(NamedTuple):
    """Why a request was not let in."""

    kind: str
    """concurrency, rate, tokens, quota, overloaded, error; or a mistake: bad, key, path, ..."""
    message: str = ""
    retry_after: int | None = None
    status: int | None = None
    """Instead of the usual one."""


class Rate(NamedTuple):
    """What is left of a limit per minute."""

    limit: int
    left: int
    reset: int
    """Milliseconds until all of it is there again."""


class Limits(NamedTuple):
    """What the headers tell; None where there is no such limit."""

    requests: Rate | None = None
    tokens: Rate | None = None
    quota: str = ""
    """allowed, allowed_warning or rejected, where there is a quota."""
    quota_reset: int = 0
    """Milliseconds until the quota is there again."""


class Dialect(Protocol):
    """One API's way of putting it."""

    name: str
    ping: bytes
    """What is sent while there is nothing to say; empty if nothing is."""

    def flaw(self, body: Json) -> str:
        """What is wrong with a request; empty if nothing is."""

    def most(self, body: Json) -> int | None:
        """How many tokens a request allows."""

    def whole(self, reply: Reply) -> Json:
        """An answer in one piece."""

    def opening(self, reply: Reply) -> bytes:
        """How a stream begins."""

    def delta(self, reply: Reply, number: int, text: str) -> bytes:
        """One chunk of a stream."""

    def closing(self, reply: Reply, chunks: int) -> bytes:
        """How a stream ends."""

    def broken(self, reply: Reply, chunks: int) -> bytes:
        """An error in the middle of a stream."""

    def status(self, kind: str) -> int:
        """The status of a refusal."""

    def error(self, refusal: Refusal, number: int) -> Json:
        """The body of a refusal."""

    def headers(self, number: int, limits: Limits, wall: float) -> dict[str, str]:
        """What every answer carries."""

    def wait(self, kind: str, ms: int) -> dict[str, str]:
        """How a refusal says in its headers when to come back."""

    def models(self, names: list[str]) -> Json:
        """The list of models."""


STATUS: Mapping[str, int] = {
    "concurrency": 429,
    "rate": 429,
    "tokens": 429,
    "quota": 429,
    "overloaded": 503,
    "error": 500,
    "bad": 400,
    "key": 401,
    "forbidden": 403,
    "path": 404,
    "method": 405,
    "large": 413,
    "upgrade": 426,
}
"""The usual status of each kind of refusal."""
MESSAGE: Mapping[str, str] = {
    "concurrency": "Number of concurrent connections has exceeded your rate limit. "
    "Please try again later.",
    "rate": "Number of requests has exceeded your per-minute rate limit.",
    "tokens": "Number of request tokens has exceeded your per-minute rate limit.",
    "quota": "You exceeded your current quota, please check your plan and billing details.",
    "overloaded": "The server is currently overloaded with other requests.",
    "error": "Internal server error",
    "bad": "Invalid request",
    "key": "invalid x-api-key",
    "forbidden": "Not allowed",
    "path": "Not found",
    "method": "Method not allowed",
    "large": "Request exceeds the maximum size",
    "upgrade": "WebSockets are not supported here",
}
"""What it says unless something better is known."""


def kind_of(status: int) -> str:
    """The kind of refusal a status stands for."""
    if status == 529:
        return "overloaded"
    return next((kind for kind, usual in STATUS.items() if usual == status), "bad")


def event(data: Json, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def seconds(ms: int) -> str:
    """Whole seconds, rounded up, as Retry-After wants them."""
    return str(ceil(ms / 1_000))


def moment(wall: float) -> str:
    """A time as RFC 3339 has it."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def most(body: Json, *names: str) -> int | None:
    """The first of some numbers of tokens that a request gives."""
    for name in names:
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(0, value)
    return None
