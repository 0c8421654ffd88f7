"""The proxy: accepts clients on a socket that is open already, until it is drained."""

import asyncio
import socket
import ssl
from collections.abc import Sized
from contextlib import suppress

from headgate.core.times import Seconds
from headgate.proxy.client_connection import ClientConnection
from headgate.proxy.policy import Policy
from headgate.proxy.runtime import Runtime, Timeouts

_LOOK = 0.01
"""Seconds between two looks whether all is closed."""
_SWEEP = 1.0
"""Seconds between two looks for what takes too long."""


class ProxyServer:
    """Serves requests by a policy."""

    def __init__(
        self,
        policy: Policy,
        *,
        tls: ssl.SSLContext | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
    ) -> None:
        self._runtime = Runtime(policy, tls, timeouts)
        self._connections: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, listening: socket.socket) -> None:
        """Accept clients on a listening socket."""
        loop = self._runtime.loop
        self._server = await loop.create_server(
            lambda: ClientConnection(self._runtime, self._connections),
            sock=listening,
            backlog=1024,
        )
        self._sweeper = loop.call_later(_SWEEP, self._sweep)

    async def drain(self, within: Seconds) -> None:
        """Accept nobody new, let what runs finish, and after a while break the rest off."""
        runtime = self._runtime
        runtime.draining = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            if not connection.busy:
                connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await _empty(self._connections)
        await self._close()

    async def _close(self) -> None:
        runtime = self._runtime
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(runtime.tasks):
            task.cancel()
        for connection in list(self._connections):
            connection.reset()
        runtime.pool.close()
        for some in (self._connections, runtime.tasks, runtime.pool.connections):
            await _empty(some)
        runtime.hangups.close()

    def _sweep(self) -> None:
        runtime = self._runtime
        now = runtime.loop.time()
        runtime.pool.sweep(now, runtime.timeouts.answer)
        for connection in list(self._connections):
            connection.check_time(now)
        self._sweeper = runtime.loop.call_later(_SWEEP, self._sweep)


async def _empty(some: Sized) -> None:
    while some:  # noqa: ASYNC110 - this is the end, and nobody should pay for an event before
        await asyncio.sleep(_LOOK)
