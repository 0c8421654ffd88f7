"""CONNECT through an outbound proxy, and TLS inside of it."""

import asyncio
import re
import ssl

from headgate.proxy.connect_socket import connect_socket
from headgate.proxy.failures import UpstreamError
from headgate.proxy.policy import Origin, OutboundProxy
from headgate.proxy.tls_client import start_tls
from headgate.proxy.upstream import UpstreamConnection

_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_MAX_HEAD = 65_536


async def connect_through(
    connection: UpstreamConnection,
    origin: Origin,
    proxy: OutboundProxy,
    *,
    tls: ssl.SSLContext | None,
    proxy_tls: ssl.SSLContext | None,
) -> None:
    """Connect by way of a proxy, and hand the transport to `connection`."""
    loop = asyncio.get_running_loop()
    transport, asking = await loop.create_connection(
        lambda: _Asking(loop),
        sock=await connect_socket(proxy.host, proxy.port),
        ssl=proxy_tls,
        server_hostname=proxy.host if proxy_tls else None,
    )
    try:
        transport.write(_request(origin, proxy))
        rest = await asking.answer
        if tls is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
            connection.early = rest
            transport.resume_reading()
            return
        await start_tls(transport, connection, tls, origin.host)
    except BaseException:
        transport.abort()
        raise


def _request(origin: Origin, proxy: OutboundProxy) -> bytes:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    where = f"{host}:{origin.port}".encode("ascii")
    login = b""
    if proxy.authorization:
        login = b"Proxy-Authorization: %b\r\n" % proxy.authorization
    return b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (where, where, login)


class _Asking(asyncio.Protocol):
    """Waits for the proxy's answer; its result is what came after the head."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[bytes] = loop.create_future()
        self._got = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, rest = self._got.partition(b"\r\n\r\n")
        if self.answer.done() or (not end and len(head) < _MAX_HEAD):
            return
        if self._transport is not None:
            self._transport.pause_reading()  # what follows is for somebody else
        status = _STATUS.match(head + b"\r")
        if not end or status is None:
            self._fail("cannot be reached: its proxy does not speak HTTP")
        elif not status[1].startswith(b"2"):
            self._fail(f"cannot be reached: its proxy answered {status[1].decode('ascii')}")
        else:
            self.answer.set_result(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self._fail("cannot be reached: its proxy closed the connection")

    def _fail(self, said: str) -> None:
        self.answer.set_exception(UpstreamError(said))
