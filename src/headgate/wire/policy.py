"""Who may ask here, and where each request goes: what the engine asks of one agent's wire."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from headgate.core.agents.meters import Meter
from headgate.core.answers.signals import ACCEPTED, Signal
from headgate.core.key_patterns import NO_KEY
from headgate.core.times import Seconds
from headgate.core.urls import Url, split_url
from headgate.core.wire.apis import provider_of
from headgate.core.wire.told_limits import NO_LIMITS, told_limits
from headgate.gate import Gate
from headgate.proxy import (
    Client,
    Decision,
    Exchange,
    Origin,
    OutboundProxy,
    PassingExchange,
    Peer,
    Reply,
    RequestHead,
    Route,
)
from headgate.wire.admission import Admission
from headgate.wire.admitted_exchange import AdmittedExchange
from headgate.wire.connection_owner import ConnectionOwner
from headgate.wire.exchange import WireExchange
from headgate.wire.exchange_owner import Destination, ExchangeRecord, RunningExchange
from headgate.wire.order import WireOrder
from headgate.wire.pools import PoolNews
from headgate.wire.records import RequestRecords
from headgate.wire.tap import Tap, outbound_proxy

_PLAIN = ((b"content-type", b"text/plain; charset=utf-8"),)
_ACCEPTED = Signal(ACCEPTED)
_HEARD_EVERY = 1.0
_LIMITS_EVERY = 0.25
Tell = Callable[[Mapping[str, Any]], None]


class WirePolicy:
    """The policy of one agent's wire."""

    def __init__(self, order: WireOrder, gate: Gate, tell: Tell, tap: Tap | None = None) -> None:
        self.patience = Seconds(order.patience)
        self.rules = gate.rules()
        self._order = order
        self._tell = tell
        self._pools = PoolNews(gate, order.lease, order.key)
        self.records = RequestRecords(gate, order.lease)
        self._upstreams = {
            name: url for name, text in order.upstreams.items() if (url := split_url(text))
        }
        self._connection_owner = ConnectionOwner(order.mark)
        self._tap = tap
        by_request = order.meter == Meter.REQUESTS
        self._admission = Admission(order, gate, self.heard) if by_request else None
        self._running: set[RunningExchange] = set()
        self._next_heard = self._next_accepted = 0.0
        self._read_again: dict[str, float] = {}

    def exchange(self, head: RequestHead, peer: Peer, client: Client) -> Exchange:
        """Look at a request's head: whose it is, and for whom."""
        if head.method == b"CONNECT" and self._tap is not None and peer.opened is None:
            return self._tap.connect(head, peer, self._connection_owner)
        if not self._is_ours(peer):
            return _Refused(403, b"this port serves one agent of headgate's, and nobody else\n")
        if peer.opened is not None and self._tap is not None:
            to = self._tap.destination(head, peer)
        else:
            to = self._destination(head)
        if to is None:
            known = ", ".join(f"/{name}" for name in self._upstreams) or "nothing"
            return _Refused(404, f"headgate forwards {known} here, and nothing else\n".encode())
        if self._admission is not None:
            return AdmittedExchange(self, head, client, to, admission=self._admission)
        return WireExchange(self, head, client, to)

    def error(self, error: BaseException) -> None:
        """A mistake of ours, for whoever looks into its folder: where, and not about what."""
        where = "".join(traceback.format_tb(error.__traceback__))
        sys.stderr.write(f"{where}{type(error).__name__}\n")

    def _is_ours(self, peer: Peer) -> bool:
        known = peer.remembered.get("ours")
        if known is None:
            known = self._connection_owner.owns(peer.address, peer.local)
            peer.remembered["ours"] = known
        return known

    def _destination(self, head: RequestHead) -> Destination | None:
        """Where a request goes: the first part of its path names the upstream."""
        name, slash, rest = head.target.removeprefix(b"/").partition(b"/")
        name, question, query = name.partition(b"?")
        url = self._upstreams.get(name.decode("latin-1"))
        if url is None or not head.target.startswith(b"/"):
            return None
        path = (
            f"{slash.decode()}{rest.decode('latin-1')}{question.decode()}{query.decode('latin-1')}"
        )
        target = url.target.rstrip("/") + path or "/"
        provider = provider_of(url.host) or self._order.key.partition("/")[0]
        route = Route(
            Origin(url.scheme, url.host, url.port),
            target=target.encode("latin-1"),
            proxy=_proxy(url),
        )
        return Destination(route, provider or name.decode("latin-1"), path or "/")

    # What exchanges tell.

    def begun(self, exchange: RunningExchange) -> None:
        """A request has come."""
        self._running.add(exchange)
        self.records.begun(exchange)
        self.heard()

    def heard(self) -> None:
        """Something passes: the agent, or upstream, is at work."""
        now = time.monotonic()
        if now >= self._next_heard:
            self._next_heard = now + _HEARD_EVERY
            self._tell({"heard": len(self._running)})

    def tell_again(self) -> None:
        """Tell a runner that has just come that there were requests, if there were."""
        if self._next_heard:
            self._tell({"heard": len(self._running)})

    def told(self, key: str, headers: Mapping[str, str]) -> None:
        """The headers of an answer may say what is left of rates and quotas."""
        now = time.monotonic()
        if now < self._read_again.get(key, 0.0):  # every answer says it
            return
        limits = told_limits(headers, Seconds(time.time()))
        if limits != NO_LIMITS:
            self._read_again[key] = now + _LIMITS_EVERY
            self._pools.limits(key, limits)

    def accepted(self, key: str) -> None:
        """Upstream has accepted a request."""
        now = time.monotonic()
        if now >= self._next_accepted:
            self._next_accepted = now + _HEARD_EVERY
            self._tell({"accepted": key})
        if key != NO_KEY and self._admission is None:
            self._pools.signal(key, _ACCEPTED)

    def refused(self, key: str, signal: Signal) -> None:
        """Upstream has refused a request."""
        if key != NO_KEY:
            self._pools.signal(key, signal)

    def passed_on(self, key: str, signal: Signal) -> None:
        """The agent is told of a refusal: whoever looks after it has to know."""
        self._next_accepted = 0.0
        self._tell({"refused": signal.kind, "retry_after": signal.retry_after, "key": key})

    def ended(self, exchange: RunningExchange, record: ExchangeRecord) -> None:
        """A request is over."""
        self._running.discard(exchange)
        self.records.ended(exchange, record)
        self.heard()
        if record.key != NO_KEY:
            self._tell({"ended": record._asdict() | {"usage": list(record.usage)}})
        if record.calls_tool:  # the next request shows that the tool is done: it is told at once
            self._next_heard = time.monotonic()


class _Refused(PassingExchange):
    """A request that goes nowhere."""

    def __init__(self, status: int, words: bytes) -> None:
        self._reply = Reply(status, _PLAIN, words)

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        return self._reply


def _proxy(url: Url) -> OutboundProxy | None:
    """The user's own proxy on the way to an upstream."""
    names = ("http_proxy", "HTTP_PROXY") if url.scheme == "http" else ("https_proxy", "HTTPS_PROXY")
    return outbound_proxy(os.environ, url.host, (*names, "all_proxy", "ALL_PROXY"))
