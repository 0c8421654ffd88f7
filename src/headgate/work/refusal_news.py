"""Which refusals of a job are worth telling: agents tell of every retry."""

from collections.abc import Sequence

from headgate.core.agents.agent_watch import AgentWatch
from headgate.core.answers.signals import PAUSE, QUOTA, WHILE_IT_WAITS, Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms

_ECHO = Ms(10_000)
"""Milliseconds for which an agent that only repeats itself is not reported again."""
_EVERY = Ms(1_000)
"""How often it is told that an agent still waits: in time, also if the machine is busy."""


class _Told(NamedTuple):
    """When a kind of refusal was told last, until when it holds, and whether that was a guess."""

    at: Ms
    until: Ms
    waits: bool = False


class RefusalNews:
    """What a runner has told of the refusals of its jobs."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, str], _Told] = {}
        self._prolonged = NO_TIME

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

    def prolong(self, watch: AgentWatch, now: Ms, *, ends: bool = False) -> Ms | None:
        """For how long its pool must stay closed while an agent waits; None if that was told.

        When the agent `ends`, nobody will see when it would have tried again. Then its refusal is
        one like any other that does not say for how long.
        """
        if watch.waiting is None or watch.refused_at is None:
            return None
        if ends:
            left = PAUSE - (now - watch.refused_at)
            return left if left > 0 else None
        if now - self._prolonged < _EVERY:
            return None
        self._prolonged = now
        return WHILE_IT_WAITS

    def _is_news(self, job: int, signal: Signal, now: Ms) -> bool:
        until = now + (signal.retry_after or NO_TIME)
        last = self._told.get((job, signal.kind), _Told(now - _ECHO, NO_TIME))
        says_more = last.waits and not signal.waits
        if now - last.at < _ECHO and until <= last.until + _ECHO and not says_more:
            return False
        self._told[job, signal.kind] = _Told(now, until, signal.waits)
        return True
