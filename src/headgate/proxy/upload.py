"""A request's body on its way: gathered for the policy, sent on, kept while it may be sent again.

It is held once. What the policy wants to see is gathered in one buffer, and sent from that same
buffer in small pieces as fast as upstream takes them. What comes later passes straight through.
"""

from headgate.proxy.heads import Framing, Headers, write_trailers
from headgate.proxy.sockets import READ_SIZE
from headgate.proxy.upstream import UpstreamConnection

REPLAY = 65_536
"""So much of a body that streams is kept, in case a pooled connection turns out to be closed."""


class Upload:
    """The body of one request."""

    __slots__ = (
        "_end_sent",
        "_held",
        "_sent",
        "complete",
        "connection",
        "framing",
        "keep",
        "resendable",
        "trailers",
    )

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        self.complete = framing.empty
        self.trailers: Headers = ()
        self.connection: UpstreamConnection | None = None
        self.keep = REPLAY
        self.resendable = True
        self._held: bytes | bytearray = b""
        self._sent = 0
        self._end_sent = False

    @property
    def held(self) -> bytes | bytearray:
        """What has come and is kept."""
        return self._held

    @property
    def unsent(self) -> int:
        """How many bytes wait for upstream."""
        return len(self._held) - self._sent

    @property
    def all_sent(self) -> bool:
        """Whether upstream has the whole request."""
        return self._end_sent

    def add(self, data: bytes) -> None:
        """Take a part from the client, and pass it on if upstream takes it now."""
        connection = self.connection
        if connection is None or not connection.writable or self.unsent:
            self._append(data)
            return
        connection.write(self._framed(data))
        if self.resendable and len(self._held) + len(data) <= self.keep:
            self._append(data)
            self._sent = len(self._held)
        else:
            self.forget()

    def finish(self, trailers: Headers) -> None:
        """Take the end from the client."""
        self.complete = True
        self.trailers = trailers
        self.pump()

    def begin(self, head: bytes) -> bytes:
        """Begin to send. Returns the head, and with it as much as can go in one piece."""
        self._sent, self._end_sent = 0, False
        if len(self._held) > READ_SIZE:
            return head
        self._sent = len(self._held)
        parts = (head, self._framed(bytes(self._held)), self._end() if self.complete else b"")
        return b"".join(parts)

    def attach(self, connection: UpstreamConnection) -> None:
        """Send the rest over this connection."""
        self.connection = connection
        self.pump()

    def pump(self) -> None:
        """Send what upstream takes."""
        connection = self.connection
        if connection is None:
            return
        while self.unsent and connection.writable:
            with memoryview(self._held) as view:
                piece = bytes(view[self._sent : self._sent + READ_SIZE])
            self._sent += len(piece)
            connection.write(self._framed(piece))
        if not self.unsent:
            if len(self._held) > self.keep or not self.resendable:
                self.forget()
            if self.complete and not self._end_sent:
                end = self._end()
                if end:
                    connection.write(end)

    def forget(self) -> None:
        """Drop what was sent: it will not be sent again."""
        self.resendable = False
        self._held = self._held[self._sent :] if self.unsent else b""
        self._sent = 0

    def _append(self, data: bytes) -> None:
        if not self._held:
            self._held = data
        else:
            if not isinstance(self._held, bytearray):
                self._held = bytearray(self._held)
            self._held += data

    def _framed(self, data: bytes) -> bytes:
        if self.framing.chunked:
            return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        return data

    def _end(self) -> bytes:
        self._end_sent = True
        return write_trailers(self.trailers) if self.framing.chunked else b""
