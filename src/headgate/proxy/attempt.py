"""One try at upstream: gets a connection, sends the request over it, and hears the answer.

A pooled connection may have been closed by upstream just before it was used. If it is lost before a
byte of the answer, and the body can be sent again, it is tried once more on a new one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from headgate.proxy.failures import UpstreamError, failure_of
from headgate.proxy.heads import ResponseHead, write_request
from headgate.proxy.policy import Failure, Origin, Route, Tunnel
from headgate.proxy.pool import Way
from headgate.proxy.request_checks import CheckedRequest
from headgate.proxy.runtime import Runtime
from headgate.proxy.upload import Upload
from headgate.proxy.upstream import UpstreamConnection

_STALE_WITHIN = 5.0
"""Seconds. A pooled connection that is lost later than that had not been closed beforehand."""
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"


class Asker(Protocol):
    """Whose request it is."""

    def informed(self, head: ResponseHead, named: frozenset[bytes]) -> None:
        """Take an informational answer."""

    def answer_arrived(self, upstream: UpstreamConnection, data: bytes, *, ended: bool) -> None:
        """Take what one read brought of the answer."""

    def switched(self, upstream: UpstreamConnection) -> None:
        """Take a 101. What came after it is in the connection's `early`."""

    def tunnel_open(self, upstream: UpstreamConnection) -> None:
        """Take a connection for raw bytes."""

    def attempt_failed(self, failure: Failure) -> None:
        """Hear that there is no answer, or no more of it."""

    def upstream_writable(self, *, writable: bool) -> None:
        """Hear whether upstream takes more of the request."""


class Attempt:
    """A request on its way upstream, and its answer on its way back."""

    __slots__ = (
        *("_asker", "_fresh", "_request", "_route", "_runtime", "_sent_at", "_task", "_upload"),
        *("_who", "upstream"),
    )

    def __init__(
        self, runtime: Runtime, request: CheckedRequest, upload: Upload, asker: Asker
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._upload = upload
        self._asker = asker
        self._route: Route | None = None
        self._task: asyncio.Task[UpstreamConnection] | None = None
        self._fresh = False
        self._sent_at = 0.0
        self._who = ""
        self.upstream: UpstreamConnection | None = None

    def follow(self, route: Route) -> None:
        """Send the request where it is to go."""
        self._route = route
        self._who = route.origin.host
        way = Way(route.origin, route.proxy)
        pooled = None if self._fresh else self._runtime.pool.take(way)
        if pooled is None:
            self._fresh = True
            self._connect(self._runtime.pool.open(way), self._send)
        else:
            self._send(pooled)

    def tunnel(self, tunnel: Tunnel) -> None:
        """Connect, for raw bytes."""
        self._who = tunnel.host
        way = Way(Origin("tunnel", tunnel.host, tunnel.port), tunnel.proxy)
        self._connect(self._runtime.pool.open_raw(way), self._tunnel_open)

    def leave(self) -> None:
        """Give the connection back if both messages on it are over, or break it off."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        upstream, self.upstream = self.upstream, None
        self._upload.connection = None
        if upstream is not None:
            if self._upload.all_sent:
                self._runtime.pool.release(upstream)
            else:
                self._runtime.pool.drop(upstream)

    def _connect(
        self,
        opening: Coroutine[Any, Any, UpstreamConnection],
        then: Callable[[UpstreamConnection], None],
    ) -> None:
        self._task = self._runtime.loop.create_task(opening)
        self._task.add_done_callback(partial(self._connected, then))

    def _connected(
        self,
        then: Callable[[UpstreamConnection], None],
        task: asyncio.Task[UpstreamConnection],
    ) -> None:
        if task.cancelled():
            return
        given_up = self._task is None
        self._task = None
        error = task.exception()
        if error is not None:
            if not given_up:
                self._asker.attempt_failed(failure_of(self._who, error))
        elif given_up:
            self._runtime.pool.drop(task.result())
        else:
            then(task.result())

    def _tunnel_open(self, upstream: UpstreamConnection) -> None:
        upstream.pause()
        self._asker.tunnel_open(upstream)

    def _send(self, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        self._sent_at = self._runtime.loop.time()
        request = self._request
        first = self._upload.begin(self._head())
        for_head = request.head.method == b"HEAD"
        upstream.ask(self, first, for_head=for_head, may_switch=request.may_switch)
        self._upload.attach(upstream)
        if not self._upload.complete:
            self._asker.upstream_writable(writable=upstream.writable)

    def _head(self) -> bytes:
        route, request = self._route, self._request
        assert route is not None  # noqa: S101 - for the type checker
        target = request.head.target if route.target is None else route.target
        extra = UPGRADE if request.may_switch else b""
        if route.proxy is not None and route.origin.scheme == "http":
            target = b"http://%b%b" % (route.origin.authority, target)
            if route.proxy.authorization:
                extra += b"Proxy-Authorization: %b\r\n" % route.proxy.authorization
        return write_request(
            request.head,
            target=target,
            host=route.origin.authority,
            framing=request.framing,
            named=request.named,
            changes=route.changes,
            extra=extra,
        )

    # What the connection calls.

    def informed(self, head: ResponseHead, named: frozenset[bytes]) -> None:
        """Hand it on."""
        self._asker.informed(head, named)

    def answer_arrived(self, data: bytes, *, ended: bool) -> None:
        """Hand it on."""
        if self.upstream is not None:
            self._asker.answer_arrived(self.upstream, data, ended=ended)

    def switched(self, rest: bytes) -> None:
        """Keep what follows a 101 until it is decided who gets it."""
        if self.upstream is not None:
            self.upstream.early = rest
            self.upstream.pause()
            self._asker.switched(self.upstream)

    def raw_from_upstream(self, data: bytes) -> None:
        """Keep it as well."""
        if self.upstream is not None:
            self.upstream.early += data

    def upstream_eof(self) -> None:
        """Take the end of raw bytes that nobody has got yet for a loss."""
        self.upstream_lost(None)

    def upstream_writable(self, *, writable: bool) -> None:
        """Hand it on."""
        self._asker.upstream_writable(writable=writable)

    def upstream_lost(self, error: BaseException | None) -> None:
        """Try once more if the connection was stale."""
        upstream, self.upstream = self.upstream, None
        self._upload.connection = None
        if upstream is None:
            return
        if self._route is not None and self._is_stale(upstream, error):
            self._fresh = True
            self.follow(self._route)
        else:
            self._asker.attempt_failed(failure_of(self._who, error))

    def _is_stale(self, upstream: UpstreamConnection, error: BaseException | None) -> bool:
        """Whether a pooled connection had been closed before it got this request."""
        if self._fresh or upstream.any_byte or isinstance(error, UpstreamError):
            return False
        young = self._runtime.loop.time() - self._sent_at < _STALE_WITHIN
        return young and self._upload.resendable
