"""What upstream says to an agent's requests, told to the pools. One word of each kind is enough.

An agent makes hundreds of requests. That they are accepted is told once, and again after a refusal;
what is left of a rate, not more often than once a second; that a quota is nearly gone, once, and
again every five minutes.
"""

import time

from headgate.core.answers.signals import ACCEPTED, QUOTA, REFUSALS, Signal
from headgate.core.key_patterns import NO_KEY
from headgate.core.quantities import show_duration
from headgate.core.times import Seconds
from headgate.core.wire.told_limits import Quota, ToldLimits
from headgate.gate import Gate

_RATES_EVERY = Seconds(1.0)
_WARNED_EVERY = Seconds(300)


class PoolNews:
    """Tells the pools what upstream says to the requests of one lease."""

    def __init__(self, gate: Gate, lease: int, key: str) -> None:
        self._gate = gate
        self._lease = lease
        self._key = key
        self._accepted: set[str] = set()
        self._enough: set[str] = set()
        self._warned: dict[str, float] = {}
        """When to warn again, by key: what is told without an end wears off."""
        self._next_rates = 0.0

    def signal(self, key: str, signal: Signal) -> None:
        """Upstream has accepted or refused a request with this key."""
        if signal.kind in REFUSALS:
            self._accepted.discard(key)
        elif signal.kind != ACCEPTED or key in self._accepted:
            return
        else:
            self._accepted.add(key)
        self._gate.tell(signal, lease=self._lease if key == self._key else 0, key=key)

    def limits(self, key: str, told: ToldLimits) -> None:
        """An answer's headers say what is left."""
        if told.rates is not None and key == self._key and time.monotonic() >= self._next_rates:
            self._next_rates = time.monotonic() + _RATES_EVERY
            self._gate.correct_rates(self._lease, told.rates)
        if key == NO_KEY:
            return
        if told.quota is Quota.ENOUGH:
            if told.windows and key not in self._enough:  # another agent may have been warned
                self._enough.add(key)
                self._warned.pop(key, 0.0)
                self._gate.end_quota_warning(key)
            return
        self._enough.discard(key)
        if told.quota is Quota.GONE:
            note = f"the quota of {told.window or 'this account'} is gone"
            self.signal(key, Signal(QUOTA, told.resets_in, account=told.account, note=note))
        elif time.monotonic() >= self._warned.get(key, 0.0):
            self._warned[key] = time.monotonic() + _WARNED_EVERY
            self._gate.warn_of_quota(
                key, _warning(told), resets_in=told.resets_in, account=told.account
            )


def _warning(told: ToldLimits) -> str:
    back = f"; it is back in {show_duration(told.resets_in)}" if told.resets_in else ""
    used = next((one.used for one in told.windows if one.name == told.window), None)
    share = "" if used is None else f" ({used:.0%} used)"
    return f"the quota of {told.window or 'this account'} is nearly gone{share}{back}"
