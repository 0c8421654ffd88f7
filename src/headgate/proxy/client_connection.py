"""One connection of a client: reads its requests, and serves them one after the other.

Requests that come before the last one is answered (pipelining) wait here, and the connection is not
read on meanwhile. What is no valid HTTP is answered after those before it, and nothing after it is
read.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntFlag

import httptools

from headgate.proxy.download import Download
from headgate.proxy.failures import plain_reply
from headgate.proxy.forwarding import Forwarding
from headgate.proxy.open_tls import open_tls
from headgate.proxy.policy import Open, Origin, Peer, Reply
from headgate.proxy.request_checks import BadRequest, authority, check
from headgate.proxy.runtime import Runtime
from headgate.proxy.sockets import READ_BUFFER, WRITE_HIGH, prepare, reset
from headgate.proxy.splice import Splice

_MAX_HEAD = 65_536


class _Pause(IntFlag):
    """Why the client is not read."""

    UPSTREAM = 1
    """Upstream, or the policy, has not taken what came."""
    PIPELINE = 2
    """Requests wait behind the current one."""


class ClientConnection(asyncio.BufferedProtocol):
    """Reads requests with httptools, strictly."""

    def __init__(
        self,
        runtime: Runtime,
        connections: "set[ClientConnection]",
        opened: Origin | None = None,
    ) -> None:
        self._runtime = runtime
        self._connections = connections
        self._opened = opened
        self.transport: asyncio.Transport | None = None
        self.peer = Peer(("", 0), ("", 0), opened)
        self.writable = True
        self.last_byte = runtime.loop.time()
        self._fd = -1
        self._pauses = _Pause(0)
        self._current: Forwarding | None = None
        self._waiting: deque[Forwarding] = deque()
        self._incoming: Forwarding | None = None
        """The request that is being read; the current one, or one that waits."""
        self._splice: Splice | None = None
        self._parser: httptools.HttpRequestParser | None = None
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False
        self._head_size = 0
        self._head_since = 0.0
        self._bad: Reply | None = None
        self._after: bytearray | None = None
        """What came after a request that asks to change the protocol, until that is decided."""
        self._switching: Forwarding | None = None
        """That request; it may still wait for those before it."""
        self._early = bytearray()
        self._deaf = False
        """What comes is thrown away: the connection closes."""
        self._advancing = False

    @property
    def busy(self) -> bool:
        """Whether a request is being served or read."""
        return self._current is not None or self._in_head or bool(self._waiting)

    def check_time(self, now: float) -> None:
        """Close a connection that has been quiet for too long."""
        times, silent = self._runtime.timeouts, now - self.last_byte
        if self._splice is not None or self._pauses:
            return
        if self._in_head and now - self._head_since > times.head:
            self._refuse(plain_reply(408, "The request's head did not come in time."))
        elif self._current is None and silent > times.idle:
            self.close()
        elif silent > times.idle and not (self._incoming is None or self._incoming.body_complete):
            self.reset()

    # What a forwarding calls.

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self.transport is not None:
            self.transport.write(data)

    def pause(self) -> None:
        """Read no more for now."""
        self._pause(_Pause.UPSTREAM)

    def resume(self) -> None:
        """Read on."""
        self._resume(_Pause.UPSTREAM)

    def half_close(self) -> None:
        """Send no more; where that cannot be said alone, close."""
        if self.transport is not None:
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.transport.close()

    def close(self) -> None:
        """Close when all is sent."""
        self._deaf = True
        if self.transport is not None:
            self.transport.close()

    def reset(self) -> None:
        """Close so that the client sees it is broken."""
        self._deaf = True
        if self.transport is not None:
            reset(self.transport)

    def splice_with(self, splice: Splice) -> None:
        """Pass raw bytes from now on."""
        self._splice = splice
        after, self._after = self._after, None
        if after:
            splice.raw_from_client(bytes(after))
        self.resume()

    def open_tls(self, decision: Open, done: Callable[[BaseException | None], None]) -> None:
        """Go on with requests inside TLS, as another connection on the same transport."""
        transport, after = self.transport, bytes(self._after or b"")
        if transport is None or self._current is None:
            return
        host, port = authority(self._target)
        inner = ClientConnection(self._runtime, self._connections, Origin("https", host, port))
        self.resume()
        self._connections.discard(self)
        opening = open_tls(
            transport, inner, decision.context, after, timeout=self._runtime.timeouts.head
        )
        task = self._runtime.loop.create_task(opening)
        self._runtime.tasks.add(task)
        task.add_done_callback(lambda task: self._tls_opened(task, done))

    def _tls_opened(
        self, task: asyncio.Task[None], done: Callable[[BaseException | None], None]
    ) -> None:
        self._runtime.tasks.discard(task)
        done(asyncio.CancelledError() if task.cancelled() else task.exception())

    def response_done(self, *, keep: bool) -> None:
        """Go on with the next request, or close."""
        current, self._current = self._current, None
        if self.transport is None or self._deaf:
            return
        self._resume(_Pause.UPSTREAM)
        if not keep or (current is not None and not current.body_complete):
            self._hang_up(heard_all=current is None or current.body_complete)
            return
        if current is self._switching:  # the protocol has not changed after all
            after, self._after, self._switching = self._after, None, None
            if after:
                self._parse(memoryview(after))
        self._advance()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. What came before, with the end of a TLS handshake, is read now."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        prepare(transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH)
        self.transport = transport
        self._fd = transport.get_extra_info("socket").fileno()
        there = transport.get_extra_info("peername") or ("", 0)
        here = transport.get_extra_info("sockname") or ("", 0)
        self.peer = Peer(there[:2], here[:2], self._opened, {})
        self.last_byte = self._runtime.loop.time()
        self._connections.add(self)
        if self._early:
            early, self._early = self._early, bytearray()
            self._parse(memoryview(early))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the buffer that all share."""
        return READ_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what came, or pass it on."""
        self.last_byte = self._runtime.loop.time()
        if self._splice is not None:
            self._splice.raw_from_client(bytes(READ_BUFFER[:nbytes]))
        elif self._deaf or self._bad is not None:
            pass
        elif self.transport is None:
            self._early += READ_BUFFER[:nbytes]
        elif self._after is not None:
            self._after += READ_BUFFER[:nbytes]
            self.pause()
        else:
            self._parse(READ_BUFFER[:nbytes])

    def eof_received(self) -> bool:
        """Take the end of what the client sends for its end, unless raw bytes pass."""
        if self._splice is not None and self.transport is not None:
            return self._splice.client_eof() and self.transport.can_write_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever works for this client."""
        self.transport = None
        self._parser = None
        self._connections.discard(self)
        self._runtime.hangups.forget(self._fd, self._hung_up)
        splice, self._splice = self._splice, None
        current, self._current = self._current, None
        self._waiting.clear()
        if splice is not None:
            splice.client_gone(exc)
        elif current is not None:
            current.client_gone()

    def pause_writing(self) -> None:
        """The client is slower than upstream."""
        self._can_write(writable=False)

    def resume_writing(self) -> None:
        """The client takes more."""
        self._can_write(writable=True)

    def _can_write(self, *, writable: bool) -> None:
        self.writable = writable
        if self._splice is not None:
            self._splice.client_writable(writable=writable)
        elif self._current is not None:
            self._current.client_writable(writable=writable)

    # Reading.

    def _parse(self, data: memoryview) -> None:
        try:
            self._feed(data)
        except BadRequest as bad:
            self._bad = plain_reply(bad.status, bad.words)
        except httptools.HttpParserError as error:
            bad_request = error.__context__
            if isinstance(bad_request, BadRequest):
                self._bad = plain_reply(bad_request.status, bad_request.words)
            else:
                self._bad = plain_reply(400, "The request is no valid HTTP.")
        if self._in_head and self._bad is None:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._bad = plain_reply(431, "The request's head is too long.")
        incoming = self._incoming
        if self._bad is not None and incoming is not None and not incoming.body_complete:
            self._break_body(incoming)
        self._advance()
        if self._current is not None:
            self._current.step()

    def _feed(self, data: memoryview) -> None:
        while True:
            if self._parser is None:
                self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            self._parser = None
            if self._after is not None:
                self._after += data
                return

    def _break_body(self, incoming: Forwarding) -> None:
        """A body that turns out to be no HTTP: its request is broken off."""
        bad, self._bad = self._bad, None
        if incoming is self._current and bad is not None and not incoming.started:
            incoming.client_broke(bad)
        elif incoming is self._current:
            self.reset()
        else:
            self._waiting.remove(incoming)
            self._bad = bad

    def _advance(self) -> None:
        """Serve what waits, in order. Not by recursion: a read may bring thousands."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._current is None and self._waiting and self.transport is not None:
                self._current = self._waiting.popleft()
                self._current.take_turn()
        finally:
            self._advancing = False
        if self._current is None and self._bad is not None:
            self._refuse(self._bad)
        elif self._waiting:
            self._pause(_Pause.PIPELINE)
        else:
            self._resume(_Pause.PIPELINE)
            if self._current is None and self._runtime.draining:
                self.close()

    def _refuse(self, reply: Reply) -> None:
        self._bad = None
        self.write(Download(version="1.1", method=b"").whole(reply, close=True))
        self._hang_up(heard_all=False)

    def _hang_up(self, *, heard_all: bool) -> None:
        """Close. A client that may still be sending is heard for a while.

        Closing with bytes unread would reset the connection, and the answer could be lost.
        """
        self._deaf = True
        self._waiting.clear()
        if self.transport is None:
            return
        if heard_all:
            self.transport.close()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._pauses = _Pause(0)
        self.transport.resume_reading()
        self._runtime.loop.call_later(self._runtime.timeouts.linger, self._cut_off)

    def _cut_off(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _pause(self, why: _Pause) -> None:
        if not self._pauses and self.transport is not None:
            self.transport.pause_reading()
            self._runtime.hangups.watch(self._fd, self._hung_up)
        self._pauses |= why

    def _resume(self, why: _Pause) -> None:
        if why in self._pauses:
            self._pauses &= ~why
            if not self._pauses and self.transport is not None:
                self._runtime.hangups.forget(self._fd, self._hung_up)
                self.last_byte = self._runtime.loop.time()
                self.transport.resume_reading()

    def _hung_up(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._target = b""
        self._headers = []
        self._in_head, self._head_size = True, 0
        self._head_since = self.last_byte

    def on_url(self, target: bytes) -> None:
        """Take the target, or a part of it."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Look at the head; raises `BadRequest`."""
        assert self._parser is not None  # noqa: S101 - for the type checker
        request = check(
            self._parser.get_method(),
            self._target,
            self._parser.get_http_version(),
            tuple(self._headers),
        )
        self._headers = []
        self._in_head = False
        self._incoming = Forwarding(self._runtime, self, request)
        if request.may_switch or request.head.method == b"CONNECT":
            self._after, self._switching = bytearray(), self._incoming
        self._waiting.append(self._incoming)

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        if self._incoming is not None:
            self._incoming.body_arrived(data)

    def on_message_complete(self) -> None:
        """End the request."""
        if self._incoming is not None:
            self._incoming.body_done(tuple(self._headers))
