"""Which refusals of a job are worth telling: agents tell of every retry."""

from collections.abc import Sequence

from headgate.core.answers.signals import QUOTA, Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms

_ECHO = Ms(10_000)
"""Milliseconds for which an agent that only repeats itself is not reported again."""


class _Told(NamedTuple):
    """When a kind of refusal was told last, and until when it holds."""

    at: Ms
    until: Ms


class RefusalNews:
    """What a runner has told of the refusals of its jobs."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, str], _Told] = {}

    def of(self, job: int, found: Sequence[Signal], now: Ms) -> list[Signal]:
        """Those of some signals, read at one look, that say more than what was told before.

        If one of them says for how long, those that do not were about the same refusal, and would
        only close the pool for longer than upstream asks for. A quota that is gone is another one.
        """
        known = any(signal.retry_after is not None for signal in found)
        return [
            signal
            for signal in found
            if not (known and signal.retry_after is None and signal.kind != QUOTA)
            and self._is_news(job, signal, now)
        ]

    def _is_news(self, job: int, signal: Signal, now: Ms) -> bool:
        until = now + (signal.retry_after or NO_TIME)
        last = self._told.get((job, signal.kind), _Told(now - _ECHO, NO_TIME))
        if now - last.at < _ECHO and until <= last.until + _ECHO:
            return False
        self._told[job, signal.kind] = _Told(now, until)
        return True
