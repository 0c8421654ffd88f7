"""An answer on its way to the client: its head, the framing of its body, and its end.

The end is written apart from the rest, so that it can be held back until the policy has agreed that
the answer is whole.
"""

from headgate.proxy.heads import (
    IN_CHUNKS,
    NO_BODY,
    UNTIL_CLOSE,
    Framing,
    Headers,
    ResponseHead,
    write_response,
    write_trailers,
)
from headgate.proxy.policy import Reply

_CLOSE = b"Connection: close\r\n"
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    408: b"Request Timeout",
    417: b"Expectation Failed",
    426: b"Upgrade Required",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
    505: b"HTTP Version Not Supported",
    529: b"Overloaded",
}


class Download:
    """The response to one request."""

    __slots__ = ("_framing", "_http_1_0", "_without_body", "coding", "started")

    def __init__(self, *, version: str, method: bytes) -> None:
        self._http_1_0 = version == "1.0"
        self._without_body = method == b"HEAD"
        self._framing: Framing = NO_BODY
        self.started = False
        self.coding: bytes | None = None
        """The content encoding that early headers announced."""

    @property
    def until_close(self) -> bool:
        """Whether only the end of the connection ends the body."""
        return self._framing.until_close

    def head(
        self, head: ResponseHead, framing: Framing, named: frozenset[bytes], *, close: bool
    ) -> bytes:
        """The head for an answer of upstream's."""
        self.started = True
        if framing.chunked or framing.until_close:
            framing = UNTIL_CLOSE if self._http_1_0 else IN_CHUNKS
        self._framing = framing
        extra = _CLOSE if close or framing.until_close else b""
        return write_response(head, framing=framing, named=named, extra=extra)

    def early(self, status: int, headers: Headers, *, close: bool) -> bytes:
        """A head of our own for a body of which nothing is known yet."""
        head = ResponseHead(status, _REASONS.get(status, b""), headers)
        self.coding = head.get(b"content-encoding")
        framing = NO_BODY if self._without_body else IN_CHUNKS
        return self.head(head, framing, frozenset(), close=close)

    def whole(self, reply: Reply, *, close: bool) -> bytes:
        """A reply of our own, or after early headers the rest of the body with its end."""
        if self.started:
            return self.body(reply.body) + self.end(())
        own = tuple(item for item in reply.headers if item[0].lower() != b"content-length")
        head = ResponseHead(reply.status, _REASONS.get(reply.status, b""), own)
        length = b"Content-Length: %d\r\n" % len(reply.body)
        extra = length + _CLOSE if close else length
        self.started = True
        wire = write_response(head, framing=NO_BODY, named=frozenset(), extra=extra)
        return wire if self._without_body else wire + reply.body

    def body(self, data: bytes) -> bytes:
        """A part of the body."""
        if not data or self._without_body:
            return b""
        return b"%x\r\n%b\r\n" % (len(data), data) if self._framing.chunked else data

    def cut(self, head: bytes, data: bytes) -> bytes:
        """As much of a head and the last part of a body as does not look whole."""
        if self._framing.chunked or self._framing.until_close:
            return head + self.body(data)
        return head + data[:-1] if data else b""

    def end(self, trailers: Headers) -> bytes:
        """What ends the body."""
        return write_trailers(trailers) if self._framing.chunked else b""
