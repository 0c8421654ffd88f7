"""Who may ask here, and where each request goes: what the engine asks of one agent's wire."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.core.agents.meters import Meter
from headgate.core.answers.signals import ACCEPTED, Signal
from headgate.core.key_patterns import NO_KEY
from headgate.core.named_tuple import NamedTuple
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
_MAKERS = {"anthropic", "openai", "google"}
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
            f"/{name}".encode("latin-1"): url
            for name, text in order.upstreams.items()
            if (url := split_url(text))
        }
        self._known: dict[bytes, _Upstream] = {}
        self._connection_owner = ConnectionOwner(order.mark)
        self._tap = tap
        by_request = order.meter == Meter.REQUESTS
        self._admission = Admission(order, gate, self.heard) if by_request else None
        self._running: set[RunningExchange] = set()
        self._in_tools: set[str] = set()
        """The conversations whose last answer has the agent call a tool."""
        self._next_heard = self._next_accepted = self._next_ended = 0.0
        self._all_well: tuple[str, bool] | None = None
        """What was told last of an answer's end, if it went well and called no tool."""
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
            known = ", ".join(name.decode("latin-1") for name in self._upstreams) or "nothing"
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
        where, question, query = head.target.partition(b"?")
        slash = where.find(b"/", 1)
        name, path = (where, b"") if slash < 0 else (where[:slash], where[slash:])
        if name not in self._upstreams:
            return None
        found = self._known.get(name) or self._look_up(name)
        path += question + query
        origin, _, _, proxy = found.route
        route = Route(origin, found.prefix + path or b"/", (), proxy)
        return Destination(route, found.provider, path.decode("latin-1") or "/")

    def _look_up(self, name: bytes) -> "_Upstream":
        """An upstream, and which proxy is asked on the way there; UnusableProxyError if none is."""
        known = _upstream(name.decode("latin-1"), self._upstreams[name], self._order.key)
        self._known[name] = known
        return known

    # What exchanges tell.

    def begun(self, exchange: RunningExchange) -> None:
        """A request has come."""
        self._running.add(exchange)
        self.records.begun(exchange)
        if exchange.conversation in self._in_tools:  # the tool is done: that is told at once
            self._in_tools.discard(exchange.conversation)
            self._next_heard = 0.0
        self.heard()

    def heard(self) -> None:
        """Something passes: the agent, or upstream, is at work."""
        now = time.monotonic()
        if now >= self._next_heard:
            self._next_heard = now + _HEARD_EVERY
            self._tell(self._life())

    def _life(self) -> dict[str, Any]:
        return {"heard": len(self._running), "in_tool": bool(self._in_tools)}

    def tell_again(self) -> None:
        """Tell a runner that has just come that there were requests, if there were."""
        if self._next_heard:
            self._tell(self._life())

    def told(self, key: str, headers: Mapping[str, str]) -> None:
        """The headers of an answer may say what is left of rates and quotas."""
        now = time.monotonic()
        if now < self._read_again.get(key, 0.0):  # every answer says it
            return
        self._read_again[key] = now + _LIMITS_EVERY
        limits = told_limits(headers, Seconds(time.time()))
        if limits != NO_LIMITS:
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
        if record.tools:
            self._in_tools.add(record.conversation)
        self.heard()
        if record.key != NO_KEY:
            self.answered(record.key, record.status, tools=record.tools, served=record.served)

    def answered(self, key: str, status: int, *, tools: Sequence[str], served: bool) -> None:
        """An answer is over: whoever looks after the agent has to know what came of it."""
        in_tool, now = bool(self._in_tools), time.monotonic()
        again = served and not tools and (key, in_tool) == self._all_well
        if again and now < self._next_ended:  # one more that went well tells nothing new
            return
        self._all_well = (key, in_tool) if served and not tools else None
        self._next_ended = now + _HEARD_EVERY
        said = {"key": key, "status": status, "served": served, "tools": list(tools)}
        self._tell({"ended": said, "in_tool": in_tool})


class _Refused(PassingExchange):
    """A request that goes nowhere."""

    def __init__(self, status: int, words: bytes) -> None:
        self._reply = Reply(status, _PLAIN, words)

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        return self._reply


class _Upstream(NamedTuple):
    """Where requests go whose path begins with a name."""

    route: Route
    prefix: bytes
    """What its own path begins with."""
    provider: str


def _upstream(name: str, url: Url, key: str) -> _Upstream:
    names = ("http_proxy", "HTTP_PROXY") if url.scheme == "http" else ("https_proxy", "HTTPS_PROXY")
    proxy = outbound_proxy(os.environ, url.host, (*names, "all_proxy", "ALL_PROXY"))
    own, name = key.partition("/")[0], name.removeprefix("/")
    if name in _MAKERS and own in _MAKERS:  # a gateway for another API than the agent's own
        own = name
    provider = provider_of(url.host) or own or name
    route = Route(Origin(url.scheme, url.host, url.port), proxy=proxy)
    return _Upstream(route, url.target.rstrip("/").encode("latin-1"), provider)
