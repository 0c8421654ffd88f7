"""Connections to upstream: opened, kept while idle, used again.

An origin may be reached directly, or through an outbound proxy: by CONNECT for https and tunnels,
by asking with the whole URL for http. TLS is verified by the context that the caller gives, which
should offer HTTP/1.1 only (ALPN).
"""

import asyncio
import ssl
from collections.abc import Collection, Coroutine
from typing import Any

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.proxy.connect_socket import connect_socket
from headgate.proxy.failures import UpstreamError, UpstreamTimeoutError
from headgate.proxy.policy import Origin, OutboundProxy
from headgate.proxy.through_proxy import connect_through
from headgate.proxy.tls_client import start_tls
from headgate.proxy.upstream import UpstreamConnection

_MOST_IDLE = 256
"""More connections are not kept; each costs a descriptor here and one upstream."""


class Way(NamedTuple):
    """Whom to connect to, and by which proxy. Connections of one way are alike."""

    origin: Origin
    proxy: OutboundProxy | None


class Pool:
    """All connections to upstream."""

    def __init__(
        self, tls: ssl.SSLContext | None, *, connect_timeout: Seconds, idle_expiry: Seconds
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._idle_expiry = idle_expiry
        self._idle: dict[Way, dict[UpstreamConnection, float]] = {}
        self._ways: dict[UpstreamConnection, Way] = {}
        self._count = 0
        self.busy: set[UpstreamConnection] = set()

    def take(self, way: Way) -> UpstreamConnection | None:
        """The idle connection that was used last; None if there is none."""
        idle = self._idle.get(way)
        if not idle:
            return None
        connection, _ = idle.popitem()
        self._count -= 1
        self.busy.add(connection)
        return connection

    async def open(self, way: Way) -> UpstreamConnection:
        """Open a new connection."""
        tls = self._tls if way.origin.scheme == "https" else None
        if tls is None and way.origin.scheme == "https":
            raise UpstreamError("needs TLS, for which nothing is set up")
        plain = way.origin.scheme == "http"
        return await self._bounded(way, self._connect(way, tls, ask_proxy=not plain))

    async def open_raw(self, way: Way) -> UpstreamConnection:
        """Open a connection for a tunnel, with no TLS of ours inside."""
        return await self._bounded(way, self._connect(way, None, ask_proxy=True, raw=True))

    def release(self, connection: UpstreamConnection) -> None:
        """Keep a connection for later if it can be used again, or close it."""
        self.busy.discard(connection)
        way = self._ways.get(connection)
        if way is None or not connection.reusable or self._count >= _MOST_IDLE:
            connection.let_go()
            return
        connection.resume()
        self._idle.setdefault(way, {})[connection] = self._loop.time()
        self._count += 1

    def drop(self, connection: UpstreamConnection) -> None:
        """Break a connection off."""
        self.busy.discard(connection)
        connection.let_go()

    def sweep(self, now: float, answer_timeout: Seconds) -> None:
        """Close what has been idle for too long, and give up on answers that do not come."""
        for idle in list(self._idle.values()):
            for connection in [c for c, at in idle.items() if now - at > self._idle_expiry]:
                connection.let_go()
        for connection in list(self.busy):
            silent = now - connection.last_byte > answer_timeout
            if silent and connection.reading and not connection.raw:
                said = f"sent nothing for {answer_timeout:g} s"
                connection.break_off(UpstreamTimeoutError(said))

    @property
    def connections(self) -> Collection[UpstreamConnection]:
        """All that are open."""
        return self._ways

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._ways):
            connection.let_go()

    async def _bounded(
        self, way: Way, connecting: Coroutine[Any, Any, UpstreamConnection]
    ) -> UpstreamConnection:
        try:
            async with asyncio.timeout(self._connect_timeout):
                connection = await connecting
        except TimeoutError:
            said = f"could not be reached within {self._connect_timeout:g} s"
            raise UpstreamTimeoutError(said) from None
        if connection.transport is None:
            raise UpstreamError("closed the connection at once")
        connection.lost = self._lost
        self._ways[connection] = way
        self.busy.add(connection)
        return connection

    async def _connect(
        self, way: Way, tls: ssl.SSLContext | None, *, ask_proxy: bool, raw: bool = False
    ) -> UpstreamConnection:
        origin, proxy = way.origin, way.proxy
        connection = UpstreamConnection(self._loop)
        connection.raw = raw
        if proxy is not None and ask_proxy:
            outer = self._tls if proxy.tls else None
            await connect_through(connection, origin, proxy, tls=tls, proxy_tls=outer)
            return connection
        host, port = (origin.host, origin.port) if proxy is None else (proxy.host, proxy.port)
        if proxy is not None:
            tls = self._tls if proxy.tls else None
        sock = await connect_socket(host, port)
        if tls is None:
            await self._loop.create_connection(lambda: connection, sock=sock)
            return connection
        transport, _ = await self._loop.create_connection(asyncio.Protocol, sock=sock)
        try:
            await start_tls(transport, connection, tls, host)
        except BaseException:
            transport.abort()
            raise
        return connection

    def _lost(self, connection: UpstreamConnection) -> None:
        way = self._ways.pop(connection, None)
        self.busy.discard(connection)
        if way is not None:
            idle = self._idle.get(way)
            if idle is not None and idle.pop(connection, None) is not None:
                self._count -= 1
            if not idle:
                self._idle.pop(way, None)
