"""Keeps a client from giving up while its request waits: headers early, then a word now and then.

Headers go out only after a delay. Until then an error can still be an ordinary status.
"""

import time
from collections.abc import Mapping

from headgate.core.wire.keepalive import Keepalive
from headgate.proxy import Client
from headgate.wire.late_calls import LateCalls


class KeepWaiting:
    """Keeps one client waiting, from `begin` to `end`; as often as it has to wait."""

    __slots__ = ("_calls", "_client", "_keeps", "_since")

    def __init__(
        self, client: Client, keeps: Keepalive | None, since: float, calls: LateCalls
    ) -> None:
        """`keeps` is None for a client that is held without a word; `since` is monotonic."""
        self._client = client
        self._keeps = keeps
        self._since = since
        self._calls = calls

    def begin(self) -> None:
        """The client waits from now on."""
        keeps = self._keeps
        if keeps is None:
            return
        wait = 0.0
        if not self._client.started:
            wait = self._since + keeps.begin_within - time.monotonic()
        self._calls.add(self, max(wait, 0.0), self._say)

    def end(self) -> None:
        """The wait is over."""
        self._calls.discard(self)

    def _say(self) -> None:
        keeps = self._keeps
        if keeps is None:
            return
        if not self._client.started:
            self._client.start(200, encoded(keeps.headers))
        self._client.keep_alive(keeps.content)
        self._calls.add(self, keeps.every, self._say)


def encoded(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    """Headers as the engine takes them."""
    return tuple((name.encode("ascii"), value.encode("ascii")) for name, value in headers.items())
