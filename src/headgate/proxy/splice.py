"""Raw bytes both ways: a tunnel, or a connection that has switched to WebSocket.

Each side is read as fast as the other takes it. The end of one direction is passed on as such
where that is possible (not inside TLS), and a reset as a reset.
"""

from collections.abc import Callable
from typing import Protocol

from headgate.proxy.heads import ResponseHead
from headgate.proxy.policy import End
from headgate.proxy.sockets import reset
from headgate.proxy.upstream import UpstreamConnection

Over = Callable[[End, str], None]


class RawClient(Protocol):
    """The client's connection."""

    writable: bool

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None:
        """Read on."""

    def half_close(self) -> None:
        """Send no more."""

    def close(self) -> None:
        """Close when all is sent."""

    def reset(self) -> None:
        """Close so that the client sees it is broken."""


class Splice:
    """Two connections that are one."""

    def __init__(
        self,
        client: RawClient,
        upstream: UpstreamConnection,
        *,
        sent: Callable[[bytes], None],
        received: Callable[[bytes], None],
        over: Over,
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._sent = sent
        self._received = received
        self._over = over
        self._client_ended = self._upstream_ended = False
        upstream.receiver = self

    def raw_from_client(self, data: bytes) -> None:
        """Pass bytes on to upstream."""
        self._sent(data)
        self._upstream.write(data)

    def raw_from_upstream(self, data: bytes) -> None:
        """Pass bytes on to the client."""
        self._received(data)
        self._client.write(data)

    def upstream_writable(self, *, writable: bool) -> None:
        """Read the client only as fast as upstream takes it."""
        if writable:
            self._client.resume()
        else:
            self._client.pause()

    def client_writable(self, *, writable: bool) -> None:
        """Read upstream only as fast as the client takes it."""
        if writable:
            self._upstream.resume()
        else:
            self._upstream.pause()

    def client_eof(self) -> bool:
        """Pass the client's end on. Returns whether its connection stays open."""
        self._client_ended = True
        transport = self._upstream.transport
        if transport is None or self._upstream_ended or not transport.can_write_eof():
            self._finish()
            return False
        transport.write_eof()
        return True

    def upstream_eof(self) -> None:
        """Pass upstream's end on."""
        self._upstream_ended = True
        if self._client_ended:
            self._finish()
        else:
            self._client.half_close()

    def client_gone(self, error: BaseException | None) -> None:
        """Close upstream as the client closed us."""
        self._upstream.receiver = None
        transport = self._upstream.transport
        if transport is not None:
            if error is None:
                transport.close()
            else:
                reset(transport)
        both = error is None and self._client_ended
        self._over(End.COMPLETE if both else End.CLIENT_GONE, "The client closed the connection.")

    def upstream_lost(self, error: BaseException | None) -> None:
        """Close the client as upstream closed us."""
        if error is None:
            self._client.close()
            self._over(End.COMPLETE, "Upstream closed the connection.")
        else:
            self._client.reset()
            self._over(End.TRUNCATED, "Upstream reset the connection.")

    def _finish(self) -> None:
        transport = self._upstream.transport
        self._upstream.receiver = None
        if transport is not None:
            transport.close()
        self._client.close()
        self._over(End.COMPLETE, "Both sides have ended.")

    def informed(self, head: ResponseHead, named: frozenset[bytes]) -> None:
        """Not in raw bytes."""

    def answer_arrived(self, data: bytes, *, ended: bool) -> None:
        """Not in raw bytes."""

    def switched(self, rest: bytes) -> None:
        """Not in raw bytes."""
