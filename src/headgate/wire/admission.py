"""Seats for the requests of one agent: what each asks for, and what is said if it gets none."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping

from headgate.core.key_patterns import NO_KEY
from headgate.core.quantities import show_duration
from headgate.core.times import Seconds, ms
from headgate.core.wire.refusals import OwnRefusal, wait_for
from headgate.core.wire.told_limits import NO_LIMITS, told_limits
from headgate.errors import HeadgateError
from headgate.gate import Gate, Lease
from headgate.gate.slot import Slot
from headgate.wire.late_calls import LateCalls
from headgate.wire.order import WireOrder
from headgate.wire.pools import PoolNews
from headgate.wire.turns import Turns

_READ_EVERY = 0.25
"""Seconds."""
_MOST_SLOTS = 256
_HEARD_EVERY = 1.0
_TOO_MANY, _UNAVAILABLE = 429, 503
_SOON = Seconds(5)


class Admission:
    """Asks for the seats of one agent's requests."""

    def __init__(self, order: WireOrder, gate: Gate, heard: Callable[[], None]) -> None:
        """`heard` tells the runner that the agent is at work."""
        self.turns = Turns()
        self.late_calls = LateCalls()
        self._order = order
        self._gate = gate
        self._heard = heard
        self._waiting = 0
        self._pools = PoolNews(gate, order.lease, NO_KEY)
        self._slots: dict[tuple[str, str], Slot] = {}
        """One of each kind, from which others are made: what they ask for is checked once."""
        self._read_again: dict[str, float] = {}
        self._timeouts: dict[str, Seconds | None] = {}
        self._timeouts_until = 0.0

    def wait_begins(self) -> None:
        """A request stands in the line: as long as it does, its agent is not taken for dead."""
        self._waiting += 1
        if self._waiting == 1:
            self.late_calls.add(self, _HEARD_EVERY, self._still_waits)

    def wait_ends(self) -> None:
        """It has its seat, or has left."""
        self._waiting -= 1

    def _still_waits(self) -> None:
        if self._waiting:
            self._heard()
            self.late_calls.add(self, _HEARD_EVERY, self._still_waits)

    def queue_timeout(self, key: str) -> Seconds | None:
        """For how long a request may stand in the line; None for as long as it takes."""
        said = self._order.queue_timeout
        if said is not None:
            return Seconds(said)
        now = time.monotonic()
        if now >= self._timeouts_until or key not in self._timeouts:
            self._timeouts = {key: self._gate.queue_timeout_of(key)}
            self._timeouts_until = now + _READ_EVERY
        return self._timeouts[key]

    def task(self, conversation: str) -> str:
        """Whom a request is for: the run's task if one was given, else what the client tells."""
        order = self._order
        return order.task if order.task_given else conversation or order.task

    def slot(
        self,
        key: str,
        *,
        task: str,
        since: Seconds,
        timeout: Seconds | None,
        on_end: Callable[[HeadgateError], None],
    ) -> Slot:
        """The seats of one request."""
        like = self._slots.get((key, task))
        if like is None:
            like = self._gate.slot(key, task=task, priority=self._order.priority, without_host=True)
            if len(self._slots) >= _MOST_SLOTS:
                self._slots.clear()
            self._slots[key, task] = like
        return like.again(self._gate.moment(since), timeout, on_end)

    def told(self, lease: Lease, headers: Mapping[str, str]) -> None:
        """The headers of an answer may say what is left of rates and quotas.

        They say it in every answer. That of one model is read so often that nobody is late.
        """
        now = time.monotonic()
        if now < self._read_again.get(lease.key, 0.0):
            return
        self._read_again[lease.key] = now + _READ_EVERY
        limits = told_limits(headers, Seconds(time.time()))
        if limits == NO_LIMITS:
            return
        if limits.rates is not None:
            self._gate.correct_rates(lease.id, limits.rates)
        self._pools.limits(lease.key, limits)

    async def no_seat(self, key: str, waited: Seconds) -> OwnRefusal:
        """What to say to a client whose request has waited for long enough."""
        found = await asyncio.to_thread(
            self._gate.capacity, key, priority=self._order.priority, without_host=True
        )
        why = found.reason or "others were first"
        eta = found.eta if found.eta is not None else found.retry_after
        said = f"headgate: no seat for {key} within {show_duration(ms(waited))}: {why}."
        status = _UNAVAILABLE if found.state == "paused" else _TOO_MANY
        return OwnRefusal(status, found.code or "queue_timeout", said, _again(eta))

    def no_store(self, error: HeadgateError) -> OwnRefusal:
        """What to say to a client if the store gives no seats."""
        return OwnRefusal(_UNAVAILABLE, "no_seat", f"headgate: {error}.", _again(_SOON))


def _again(eta: Seconds | None) -> Seconds:
    return wait_for(eta, random.random())  # noqa: S311 - so that they do not come back together
