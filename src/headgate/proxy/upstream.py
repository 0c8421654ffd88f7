"""One connection to upstream: a request goes out, its answer comes in, and then the next.

What one read brings is parsed as a whole and handed on in one call: the head if it is there, the
body's bytes, and whether that was the end. So an answer that arrives in one piece leaves in one.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import httptools

from headgate.proxy.failures import UpstreamError
from headgate.proxy.heads import (
    IN_CHUNKS,
    NO_BODY,
    UNTIL_CLOSE,
    Framing,
    Headers,
    ResponseHead,
    connection_tokens,
    find,
)
from headgate.proxy.sockets import READ_BUFFER, WRITE_HIGH, prepare, reset

_MAX_HEAD = 262_144
_NO_HEAD = ResponseHead(0, b"", ())


class Receiver(Protocol):
    """Who made the request."""

    def informed(self, head: ResponseHead, named: frozenset[bytes]) -> None:
        """Take an informational answer (1xx); another answer follows."""

    def answer_arrived(self, data: bytes, *, ended: bool) -> None:
        """Take what one read brought. The connection knows the head."""

    def switched(self, rest: bytes) -> None:
        """Take a 101 and what came after it."""

    def raw_from_upstream(self, data: bytes) -> None:
        """Take bytes after a 101, or of a tunnel."""

    def upstream_eof(self) -> None:
        """Hear that upstream sends no more raw bytes."""

    def upstream_lost(self, error: BaseException | None) -> None:
        """Hear that the connection was lost before the answer's end."""

    def upstream_writable(self, *, writable: bool) -> None:
        """Hear whether upstream takes more now."""


class UpstreamConnection(asyncio.BufferedProtocol):
    """Reads answers with httptools, strictly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.transport: asyncio.Transport | None = None
        self.receiver: Receiver | None = None
        self.lost: Callable[[UpstreamConnection], None] | None = None
        """The pool hears of the end of a connection."""
        self.head = _NO_HEAD
        self.framing: Framing = NO_BODY
        self.named: frozenset[bytes] = frozenset()
        """What the answer's `Connection` header names."""
        self.trailers: Headers = ()
        self.last_byte = loop.time()
        """When something last passed, or reading went on."""
        self.uses = 0
        self.any_byte = False
        """Whether anything of the answer has come."""
        self.writable = True
        self.reading = True
        self.raw = False
        self.early = b""
        """What a tunnel's other end sent before anybody read."""
        self._parser: httptools.HttpResponseParser | None = None
        self._for_head = self._may_switch = False
        self._informational = self._ended = self._excess = False
        self._may_be_reused = True
        self._wrong = ""
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._pieces: list[bytes] = []

    def ask(self, receiver: Receiver, data: bytes, *, for_head: bool, may_switch: bool) -> None:
        """Send a request, or its beginning."""
        self.receiver = receiver
        self.head, self.trailers, self._head_size = _NO_HEAD, (), 0
        self.any_byte = self._ended = False
        self._for_head, self._may_switch = for_head, may_switch
        self.uses += 1
        self.write(data)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self.last_byte = self._loop.time()
        if self.transport is not None:
            self.transport.write(data)

    def pause(self) -> None:
        """Read no more for now."""
        if self.reading and self.transport is not None:
            self.reading = False
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if not self.reading and self.transport is not None:
            self.reading = True
            self.last_byte = self._loop.time()
            self.transport.resume_reading()

    @property
    def reusable(self) -> bool:
        """Whether another request may follow."""
        return self._ended and self._may_be_reused and not self.raw and self.transport is not None

    def let_go(self) -> None:
        """Break it off: nobody wants anything more from it."""
        self.receiver = None
        if self.transport is not None:
            self.transport.abort()

    def break_off(self, error: UpstreamError) -> None:
        """Give up on it, and tell whoever asked."""
        receiver, self.receiver = self.receiver, None
        if self.transport is not None:
            reset(self.transport)
        if receiver is not None:
            receiver.upstream_lost(error)

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; once more if TLS begins on it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        prepare(transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the buffer that all share."""
        return READ_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what came."""
        self.last_byte = self._loop.time()
        receiver = self.receiver
        if receiver is None and self.raw:  # a tunnel that nobody has got yet
            self.early += READ_BUFFER[:nbytes]
            self.pause()
        elif receiver is None:  # nobody asked, so it is no answer
            self._may_be_reused = False
            self.let_go()
        elif self.raw:
            receiver.raw_from_upstream(bytes(READ_BUFFER[:nbytes]))
        else:
            self.any_byte = True
            self._parse(receiver, nbytes)

    def eof_received(self) -> bool:
        """Pass the end of raw bytes on; otherwise the transport closes."""
        if self.raw and self.receiver is not None and self.transport is not None:
            self.receiver.upstream_eof()
            return self.transport.can_write_eof()  # False inside TLS, which knows no half-closing
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for an answer, unless this was its end."""
        if exc is not None and not self.raw:
            self._read_the_rest()
        self.transport = None
        self._parser = None
        if self.lost is not None:
            self.lost(self)
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        if exc is None and self.framing.until_close and self.head.status and not self._ended:
            self._ended = True
            receiver.answer_arrived(b"", ended=True)
        else:
            receiver.upstream_lost(exc)

    def _read_the_rest(self) -> None:
        """Read what upstream had sent before sending to it failed.

        An upload may be refused before it was read, as too large for example, and the transport
        gives up with the first byte that cannot be sent. The kernel still has the answer. Within
        TLS it was read before (`tls_client`).
        """
        transport = self.transport
        if transport is None or transport.get_extra_info("sslcontext") is not None:
            return
        fd = transport.get_extra_info("socket").fileno()
        with suppress(OSError):
            while self.receiver is not None and fd >= 0:
                count = os.readv(fd, [READ_BUFFER])
                if not count:
                    return
                self.buffer_updated(count)

    def pause_writing(self) -> None:
        """Upstream is slower than the client."""
        self.writable = False
        if self.receiver is not None:
            self.receiver.upstream_writable(writable=False)

    def resume_writing(self) -> None:
        """Upstream takes more."""
        self.writable = True
        self.last_byte = self._loop.time()
        if self.receiver is not None:
            self.receiver.upstream_writable(writable=True)

    def _parse(self, receiver: Receiver, nbytes: int) -> None:
        switched = self._feed(READ_BUFFER[:nbytes])
        if switched is not None:
            self._switched(receiver, switched)
            return
        if self._excess:
            self._may_be_reused = False
        if self._for_head and self._ended:
            self._parser = None  # it would wait for a body
        if self.head is _NO_HEAD:
            self._head_size += nbytes
            if self._head_size > _MAX_HEAD:
                self._wrong = "sent headers without end"
        elif self._pieces or not self._wrong:
            self._deliver(receiver)
        if self._wrong and self.receiver is receiver:
            self.break_off(UpstreamError(self._wrong))

    def _feed(self, data: memoryview) -> bytes | None:
        """Parse; returns what follows a 101."""
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return bytes(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if self._ended:
                self._excess = True
            else:
                self._wrong = self._wrong or "sent an answer that is no valid HTTP"
        return None

    def _deliver(self, receiver: Receiver) -> None:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self._ended:
            self.receiver = None
        receiver.answer_arrived(data, ended=self._ended)

    def _switched(self, receiver: Receiver, rest: bytes) -> None:
        if self._may_switch and self.head.status == 101:
            self.raw = True
            receiver.switched(rest)
        else:
            self.break_off(UpstreamError("switched protocols, which nobody had asked for"))

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin an answer, or one that nobody asked for."""
        self._excess = self._excess or self._ended
        self._reason = b""
        self._headers = []

    def on_status(self, reason: bytes) -> None:
        """Take the reason, or a part of it."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Find out what follows this head."""
        if self._excess or self._parser is None:
            return
        head = ResponseHead(self._parser.get_status_code(), self._reason, tuple(self._headers))
        self._headers = []
        named = connection_tokens(head.headers)
        self._informational = 100 <= head.status < 200 and head.status != 101
        if self._informational:
            if head.status != 100 and self.receiver is not None:
                self.receiver.informed(head, named)
            return
        self.framing = self._framing_of(head)
        if self._wrong:
            return
        self.head, self.named = head, named
        if self._parser.get_http_version() != "1.1" or b"close" in named:
            self._may_be_reused = False
        if self.framing.until_close:
            self._may_be_reused = False
        self._ended = self._for_head

    def _framing_of(self, head: ResponseHead) -> Framing:
        if self._for_head or head.status in {101, 204, 304}:
            return NO_BODY
        coding = find(head.headers, b"transfer-encoding")
        if coding is not None:
            if coding.lower() != b"chunked":
                self._wrong = "sent a transfer encoding that is not known"
            return IN_CHUNKS
        length = find(head.headers, b"content-length")
        return UNTIL_CLOSE if length is None else Framing(length=int(length))

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        if self._ended:
            self._excess = True
        else:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        """End the answer, unless it was an informational one."""
        if self._informational:
            self._informational = False
        elif not self._ended and self.head.status != 101:
            self._ended = True
            self.trailers = tuple(self._headers)
