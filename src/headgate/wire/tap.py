"""A tap: CONNECT to one of the provider's hosts is opened, and every other is passed on closed.

The agent reaches it as its proxy. Only connections of the agent itself are opened, to the exact
hosts of its profile, at port 443. Whatever else it and its tools connect to passes as it is: the
bytes are not looked at, and who they connect to shows its own certificate.
"""

import asyncio
from collections.abc import Mapping, Sequence

from headgate.core.proxy_settings import PROXY, proxy_for
from headgate.core.wire.apis import provider_of
from headgate.gate import Gate
from headgate.http_client.client import basic
from headgate.proxy import (
    Decision,
    Open,
    OutboundProxy,
    PassingExchange,
    Peer,
    Reply,
    RequestHead,
    Route,
    Tunnel,
)
from headgate.proxy.request_checks import authority
from headgate.wire.connection_owner import ConnectionOwner
from headgate.wire.exchange_owner import Destination
from headgate.wire.order import WireOrder
from headgate.wire.own_program import OwnProgram
from headgate.wire.tap_secret import TapSecret, server_context

_PLAIN = ((b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"))
_PORT = 443


class Tap:
    """Decides what is opened, for one agent."""

    def __init__(self, order: WireOrder, gate: Gate, secret: TapSecret | None) -> None:
        self._order = order
        self._hosts = frozenset(order.hosts)
        self._proxies: Mapping[str, str] = order.proxies if secret is None else secret.proxies
        self._context = None if secret is None else server_context(secret)
        self._own = OwnProgram(order.mark, lambda argv: gate.profile_of(argv).name == order.program)

    def connect(self, head: RequestHead, peer: Peer, owner: ConnectionOwner) -> "Connecting":
        """Look at a CONNECT request."""
        return Connecting(self, authority(head.target), peer, owner)

    def decide(self, host: str, port: int, pid: int | None) -> Decision:
        """Whether a connection of one of the lease's processes is opened. None is a relative."""
        if port == _PORT and host in self._hosts and pid is not None and self._own.runs_in(pid):
            if self._context is not None:
                return Open(self._context)
            if self._order.meter == "requests":  # each of them needs a seat, and none can be seen
                return Reply(502, _PLAIN, b"the key of this tap was lost with its processes\n")
        return Tunnel(host, port, self._proxy(host))

    def destination(self, head: RequestHead, peer: Peer) -> Destination | None:
        """Where a request goes that came in an opened connection: to its host, and nowhere else."""
        origin = peer.opened
        if origin is None or not head.target.startswith(b"/"):
            return None
        provider = provider_of(origin.host) or self._order.key.partition("/")[0]
        route = Route(origin, proxy=self._proxy(origin.host))
        return Destination(route, provider, head.target.decode("latin-1"))

    def _proxy(self, host: str) -> OutboundProxy | None:
        return outbound_proxy(self._proxies, host)


class Connecting(PassingExchange):
    """One CONNECT request."""

    def __init__(self, tap: Tap, to: tuple[str, int], peer: Peer, owner: ConnectionOwner) -> None:
        self._tap = tap
        self._to = to
        self._peer = peer
        self._owner = owner

    async def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        """Ask the kernel whose it is. That may take a while, so others are served meanwhile."""
        return await asyncio.to_thread(self._decide)

    def _decide(self) -> Decision:
        pid = self._owner.owner(self._peer.address, self._peer.local)
        if pid is None and not self._owner.is_relative(self._peer.address, self._peer.local):
            words = b"this port serves one agent of headgate's, and nobody else\n"
            return Reply(403, _PLAIN, words)
        return self._tap.decide(*self._to, pid)


def outbound_proxy(
    proxies: Mapping[str, str], host: str, names: Sequence[str] = PROXY
) -> OutboundProxy | None:
    """The user's own proxy on the way to a host."""
    found = proxy_for(proxies, host, names)
    if found is None:
        return None
    user = basic(found.user).encode("latin-1") if found.user else b""
    return OutboundProxy(found.host, found.port, user)
