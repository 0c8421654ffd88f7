"""TLS as a client, on a connection that is there; what upstream said last is read even so.

An upload may be refused before it was read, as too large for example. Upstream answers and closes,
and the transport gives up with the first byte that cannot be sent. The kernel still has the answer.
But then asyncio ends TLS before anybody could read it. So a protocol stands below TLS that
first hands on what is left.
"""

import asyncio
import os
import ssl
from contextlib import suppress

from headgate.proxy.sockets import READ_SIZE
from headgate.proxy.upstream import UpstreamConnection

_PIECE = READ_SIZE // 2
"""What is in there fits into one read of the connection's: TLS would do the second one later."""


async def start_tls(
    transport: asyncio.Transport, connection: UpstreamConnection, context: ssl.SSLContext, host: str
) -> None:
    """Shake hands, and give `connection` the transport inside TLS."""
    loop = asyncio.get_running_loop()
    inside = await loop.start_tls(transport, connection, context, server_hostname=host)
    if inside is None:
        return
    tls = transport.get_protocol()
    if isinstance(tls, asyncio.BufferedProtocol):  # TLS within TLS has nothing of its own to read
        transport.set_protocol(_BelowTls(transport, tls, connection))
    connection.connection_made(inside)


class _BelowTls(asyncio.BufferedProtocol):
    """Passes everything to TLS, and reads the rest when sending has failed."""

    def __init__(
        self,
        transport: asyncio.Transport,
        tls: asyncio.BufferedProtocol,
        connection: UpstreamConnection,
    ) -> None:
        self._transport = transport
        self._tls = tls
        self._connection = connection

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend TLS's own buffer."""
        return memoryview(self._tls.get_buffer(sizehint))

    def buffer_updated(self, nbytes: int) -> None:
        """Tell TLS what came."""
        self._tls.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        """Tell TLS that no more comes."""
        return self._tls.eof_received()

    def pause_writing(self) -> None:
        """Tell TLS that the socket takes no more."""
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        """Tell TLS that it takes more."""
        self._tls.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand on what the kernel still has, and then the end."""
        if exc is not None and not self._connection.raw:
            self._connection.resume()
            self._read_the_rest()
        self._tls.connection_lost(exc)

    def _read_the_rest(self) -> None:
        socket = self._transport.get_extra_info("socket")
        fd = -1 if socket is None else socket.fileno()
        self._tls.buffer_updated(0)  # what it has, and had not handed on while it was paused
        with suppress(OSError):
            while self._connection.receiver is not None and fd >= 0:
                room = memoryview(self._tls.get_buffer(_PIECE))[:_PIECE]
                count = os.readv(fd, [room])
                if not count:
                    return
                self._tls.buffer_updated(count)
