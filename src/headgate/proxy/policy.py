"""What the engine asks of those who decide: where a request goes, and what becomes of its answer.

For each request the policy makes an `Exchange`. The engine calls it in this order:

    begin       where does this go? May wait as long as it likes
    sent        bytes of the request's body that pass
    answered    upstream's head is here: pass it on, try again, or answer otherwise
    failed      or upstream could not be asked
    received    bytes of the answer's body that pass
    finished    the framing has ended cleanly: was it really the end?
    ended       once, always, last

`begin`, `answered` and `failed` may be plain or `async` functions. One that can decide at once is
plain: that saves a task. An exception in any of them ends this request only (502, or a reset).
"""

import ssl
from collections.abc import Awaitable
from enum import Enum
from typing import Protocol

from headgate.core.named_tuple import NamedTuple
from headgate.proxy.heads import Changes, Headers, RequestHead, ResponseHead


class Origin(NamedTuple):
    """Whom a request is for."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> bytes:
        """The host as a `Host` header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.scheme == "https" else 80)
        return (host if usual else f"{host}:{self.port}").encode("ascii")


class OutboundProxy(NamedTuple):
    """The proxy that leads to an origin. Whether there is one (NO_PROXY) the caller says."""

    host: str
    port: int
    authorization: bytes = b""
    """The value of `Proxy-Authorization`; empty if it asks for none."""
    tls: bool = False

    def __repr__(self) -> str:
        return f"<OutboundProxy {self.host}:{self.port}>"


class Route(NamedTuple):
    """Forward the request."""

    origin: Origin
    target: bytes | None = None
    """The path and query to ask for; None leaves what the client asked for."""
    changes: Changes = ()
    proxy: OutboundProxy | None = None


class Reply(NamedTuple):
    """Answer the client without upstream. After early headers only the body is sent."""

    status: int
    headers: Headers = ()
    body: bytes = b""


class Tunnel(NamedTuple):
    """CONNECT: pass raw bytes both ways."""

    host: str
    port: int
    proxy: OutboundProxy | None = None


class Open(NamedTuple):
    """CONNECT: speak TLS with the client, and serve the requests inside."""

    context: ssl.SSLContext


class PassOn(NamedTuple):
    """The client gets the answer. After early headers it gets the body only."""


class TryAgain(NamedTuple):
    """Drop the answer and call `begin` once more. Only before anything of it was passed on."""


PASS_ON = PassOn()
TRY_AGAIN = TryAgain()
Decision = Route | Reply | Tunnel | Open
Verdict = PassOn | TryAgain | Reply
Remedy = TryAgain | Reply | None


class End(Enum):
    """How an exchange ended."""

    COMPLETE = "complete"
    """Upstream's whole answer was passed on."""
    TRUNCATED = "truncated"
    """Upstream's answer stopped before its end; the client's connection was reset."""
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_TIMED_OUT = "upstream_timed_out"
    CLIENT_GONE = "client_gone"
    REFUSED = "refused"
    """The policy answered instead of upstream, or reset the client."""
    BROKEN = "broken"
    """The policy raised an exception, or the client's body was no HTTP."""


class Failure(NamedTuple):
    """Why upstream could not be asked, or did not answer."""

    end: End
    """UPSTREAM_FAILED or UPSTREAM_TIMED_OUT."""
    words: str
    """A whole sentence."""


class Peer(NamedTuple):
    """The connection that a request came on."""

    address: tuple[str, int]
    local: tuple[str, int]
    opened: Origin | None = None
    """What the client asked to CONNECT to, if its requests are read inside that tunnel."""
    remembered: dict[str, bool] = {}  # noqa: RUF012 - each connection has one of its own
    """What the policy wants to know again when the next request comes on this connection."""


class Client(Protocol):
    """The client's side of an exchange, while the policy waits."""

    @property
    def started(self) -> bool:
        """Whether the client has been sent response headers."""

    def start(self, status: int, headers: Headers) -> None:
        """Send response headers early. The body that follows has no length beforehand."""

    def keep_alive(self, data: bytes) -> None:
        """Write bytes into the body of a response that was started early."""

    def reset(self, why: str) -> None:
        """End the exchange at once, so that the client sees a broken connection."""


class Exchange(Protocol):
    """One request, as the policy sees it."""

    body_wanted: int
    """So many bytes of the request's body are gathered before `begin`, or all if it is shorter."""

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision | Awaitable[Decision]:
        """Decide where the request goes. Do not keep or change `body`.

        A client that goes away cancels this.
        """

    def answer_wanted(self, head: ResponseHead) -> int:
        """How many bytes of the answer's body `answered` has to see; 0 for none."""

    def answered(
        self, head: ResponseHead, body: bytes, *, complete: bool
    ) -> Verdict | Awaitable[Verdict]:
        """Decide what becomes of an answer."""

    def failed(self, failure: Failure) -> Remedy | Awaitable[Remedy]:
        """Decide what to do without an answer. None is a plain 502 or 504, or a reset."""

    def sent(self, data: bytes) -> None:
        """Look at a part of the request's body, or at raw bytes from the client."""

    def received(self, data: bytes) -> None:
        """Look at a part of the answer's body, or at raw bytes from upstream."""

    def finished(self) -> bool:
        """Whether the answer is whole. If not, the client's connection is reset."""

    def ended(self, how: End, words: str) -> None:
        """Hear how it ended."""


class Policy(Protocol):
    """Makes an exchange for each request."""

    def exchange(self, head: RequestHead, peer: Peer, client: Client) -> Exchange:
        """Look at a request's head. CONNECT comes here, too."""

    def error(self, error: BaseException) -> None:
        """Hear of an exception in a policy. It may quote what was sent."""


class PassingExchange:
    """What an exchange does that has no wishes: everything but `begin`."""

    body_wanted = 0

    def answer_wanted(self, head: ResponseHead) -> int:
        """None of it."""
        return 0

    def answered(
        self, head: ResponseHead, body: bytes, *, complete: bool
    ) -> Verdict | Awaitable[Verdict]:
        """Pass every answer on."""
        return PASS_ON

    def failed(self, failure: Failure) -> Remedy | Awaitable[Remedy]:
        """Leave it to the engine."""
        return None

    def sent(self, data: bytes) -> None:
        """Let it pass."""

    def received(self, data: bytes) -> None:
        """Let it pass."""

    def finished(self) -> bool:
        """Believe the framing."""
        return True

    def ended(self, how: End, words: str) -> None:
        """Let it be."""
