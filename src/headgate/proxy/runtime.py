"""What all connections of one proxy share."""

import asyncio
import ssl

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.proxy.policy import Policy
from headgate.proxy.pool import Pool
from headgate.proxy.sockets import HangupWatch


class Timeouts(NamedTuple):
    """How long things may take, in seconds."""

    connect: Seconds = Seconds(15)
    """To reach upstream: the look-up of its name, an outbound proxy and TLS included."""
    answer: Seconds = Seconds(600)
    """Without a byte from upstream, before or within its answer."""
    pooled: Seconds = Seconds(30)
    """A connection to upstream is kept idle."""
    head: Seconds = Seconds(30)
    """A client takes for a request's head, or for TLS to begin."""
    idle: Seconds = Seconds(600)
    """A client's connection is kept without a request, or without a byte of its body."""
    linger: Seconds = Seconds(5)
    """A client that was answered early goes on sending before it is cut off."""


class Runtime:
    """The parts that a connection needs of its proxy."""

    def __init__(self, policy: Policy, tls: ssl.SSLContext | None, timeouts: Timeouts) -> None:
        self.loop = asyncio.get_running_loop()
        self.policy = policy
        self.timeouts = timeouts
        self.pool = Pool(tls, connect_timeout=timeouts.connect, idle_expiry=timeouts.pooled)
        self.hangups = HangupWatch(self.loop)
        self.draining = False
        self.tasks: set[asyncio.Task[None]] = set()
        """TLS handshakes with clients."""

    def report(self, error: BaseException) -> None:
        """Tell the policy of an exception of its own, come what may."""
        try:
            self.policy.error(error)
        except Exception as second:  # noqa: BLE001 - whatever it is, requests go on
            self.loop.call_exception_handler(
                {"message": "the proxy's error hook failed", "exception": second}
            )
