"""The policy of an agent's wire in this process, between a client and an upstream of the tests."""

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from headgate.core.times import Seconds
from headgate.proxy import Peer, ProxyServer
from headgate.wire.order import WireOrder
from headgate.wire.policy import WirePolicy
from tests.proxy.harness import HOST, Handler, Upstream
from tests.support import Box

KEY = "anthropic/claude-opus-4-6"


class Governed(WirePolicy):
    """Takes whoever asks for the agent: the kernel's word has tests of its own."""

    mistakes: list[BaseException]

    def _is_ours(self, peer: Peer) -> bool:
        return True

    def error(self, error: BaseException) -> None:
        self.mistakes.append(error)


@asynccontextmanager
async def governed(
    box: Box, handler: Handler, meter: str, *, priority: int = 0
) -> AsyncIterator[tuple[int, Upstream]]:
    """The port at which an agent would ask, and its upstream."""
    told: list[Mapping[str, Any]] = []
    async with Upstream(handler) as upstream:
        with box.gate() as gate:
            lease = await gate.slot(task="agent").acquire_async()
            order = WireOrder(
                store=gate.url,
                config="",
                view="",
                lease=lease.id,
                mark="",
                key=KEY,
                task="agent",
                meter=meter,
                port=0,
                priority=priority,
                upstreams={"up": f"http://{HOST}:{upstream.origin.port}"},
            )
            policy = Governed(order, gate, lambda news: told.append(json.loads(json.dumps(news))))
            policy.mistakes = []
            server = ProxyServer(policy)
            listening = socket.create_server((HOST, 0))
            port = listening.getsockname()[1]
            await server.start(listening)
            try:
                yield port, upstream
            finally:
                await server.drain(Seconds(0))
                policy.records.flush()
                lease.release()
            assert policy.mistakes == []
    assert upstream.bad == []
