"""The heads of requests and answers, and how they are written out again.

Names keep their case and headers their order. What belongs to one connection only (hop-by-hop) is
left out, and so is what a `Connection` header names. The framing of a body is decided by the
engine and never by what a header asks to have removed.
"""

from headgate.core.named_tuple import NamedTuple

Headers = tuple[tuple[bytes, bytes], ...]
"""Names as they were sent, with their values, in order."""
Changes = tuple[tuple[bytes, bytes | None], ...]
"""A name in lower case and its new value; None removes the header."""

_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding"),
        *(b"upgrade", b"proxy-authenticate", b"proxy-authorization"),
    )
)
_FRAMING = frozenset((b"host", b"content-length", b"transfer-encoding"))
"""A `Connection` header cannot have these removed: the peer would read another message."""
NOT_IN_TRAILERS = _HOP_BY_HOP | _FRAMING | {b"trailer", b"content-encoding", b"content-type"}
"""Fields that would change how a message is read if they came after it."""
_ANSWERED_HERE = frozenset((b"expect",))
CHUNKED = b"Transfer-Encoding: chunked\r\n"


class RequestHead(NamedTuple):
    """A request without its body, as the client sent it."""

    method: bytes
    target: bytes
    """A path with its query, a whole URL if the client takes us for its proxy, or `*`."""
    version: str
    """1.0 or 1.1."""
    headers: Headers

    def get(self, name: bytes) -> bytes | None:
        """The first header of a name, which is given in lower case."""
        return find(self.headers, name)


class ResponseHead(NamedTuple):
    """An answer without its body, as upstream sent it."""

    status: int
    reason: bytes
    headers: Headers

    def get(self, name: bytes) -> bytes | None:
        """The first header of a name, which is given in lower case."""
        return find(self.headers, name)


class Framing(NamedTuple):
    """How the end of a body is told."""

    length: int | None = None
    chunked: bool = False
    until_close: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is no body at all."""
        return not (self.length or self.chunked or self.until_close)


NO_BODY = Framing()
IN_CHUNKS = Framing(chunked=True)
UNTIL_CLOSE = Framing(until_close=True)


def find(headers: Headers, name: bytes) -> bytes | None:
    """The first value of a name that is given in lower case."""
    for known, value in headers:
        if known.lower() == name:
            return value
    return None


def tokens(value: bytes) -> list[bytes]:
    """The parts of a list such as `Connection: close, Upgrade`, in lower case."""
    return [part.strip() for part in value.lower().split(b",")]


def connection_tokens(headers: Headers) -> frozenset[bytes]:
    """All that the `Connection` headers of a message name."""
    return frozenset(
        token
        for name, value in headers
        if name.lower() == b"connection"
        for token in tokens(value)
        if token
    )


def write_request(
    head: RequestHead,
    *,
    target: bytes,
    host: bytes,
    framing: Framing,
    named: frozenset[bytes],
    changes: Changes,
    extra: bytes = b"",
) -> bytes:
    """A request's head for upstream. `named` is what the client's `Connection` header names."""
    changed = dict(changes)
    changed.setdefault(b"host", host)
    out = [b"%b %b HTTP/1.1\r\n" % (head.method, target)]
    drop = _dropped(named) | _ANSWERED_HERE
    for name, value in head.headers:
        low = name.lower()
        if low in changed:
            new = changed[low]
            if new is not None:
                out.append(b"%b: %b\r\n" % (name, new))
                changed[low] = None  # a second one of this name is left out
        elif low not in drop:
            out.append(b"%b: %b\r\n" % (name, value))
        elif low == b"transfer-encoding" and framing.chunked:
            out.append(CHUNKED)
    out += [b"%b: %b\r\n" % (name, new) for name, new in changed.items() if new is not None]
    out += (extra, b"\r\n")
    return b"".join(out)


def write_response(
    head: ResponseHead, *, framing: Framing, named: frozenset[bytes], extra: bytes = b""
) -> bytes:
    """An answer's head for the client. A `Content-Length` stays where and as it was."""
    out = [b"HTTP/1.1 %d %b\r\n" % (head.status, head.reason)]
    drop = _dropped(named)
    chunked = framing.chunked
    for name, value in head.headers:
        low = name.lower()
        if low not in drop:
            out.append(b"%b: %b\r\n" % (name, value))
        elif low == b"transfer-encoding" and chunked:
            out.append(CHUNKED)
            chunked = False
    if chunked:  # upstream ended its body by closing
        out.append(CHUNKED)
    out += (extra, b"\r\n")
    return b"".join(out)


def write_trailers(trailers: Headers) -> bytes:
    """The last chunk of a body and what comes after it."""
    if not trailers:
        return b"0\r\n\r\n"
    lines = [
        b"%b: %b\r\n" % (name, value)
        for name, value in trailers
        if name.lower() not in NOT_IN_TRAILERS
    ]
    return b"0\r\n%b\r\n" % b"".join(lines)


def _dropped(named: frozenset[bytes]) -> frozenset[bytes]:
    return _HOP_BY_HOP | (named - _FRAMING) if named else _HOP_BY_HOP
