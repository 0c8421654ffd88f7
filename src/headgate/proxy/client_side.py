"""What a request needs of the connection that it came on."""

from collections.abc import Callable
from typing import Protocol

from headgate.proxy.policy import Open, Peer
from headgate.proxy.splice import RawClient, Splice


class ClientSide(RawClient, Protocol):
    """The connection that a request came on."""

    peer: Peer

    def response_done(self, *, keep: bool) -> None:
        """Go on with the next request, or close."""

    def splice_with(self, splice: Splice) -> None:
        """From now on everything is raw bytes."""

    def open_tls(self, decision: Open, done: Callable[[BaseException | None], None]) -> None:
        """Go on with requests inside TLS."""
