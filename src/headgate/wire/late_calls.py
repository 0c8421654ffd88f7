"""Calls that are made after a while unless they are taken back before, as nearly all of them are.

A timer for each would cost more than all else that is done about most requests. One timer for all
looks four times a second, and only while there is something to look for.
"""

import asyncio
import time
from collections.abc import Callable

_EVERY = 0.25
Call = Callable[[], None]


class LateCalls:
    """Calls that wait for their time, by whoever wants them; one each."""

    __slots__ = ("_calls", "_timer")

    def __init__(self) -> None:
        self._calls: dict[object, tuple[float, Call]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, who: object, after: float, call: Call) -> None:
        """Make a call so many seconds from now, or a quarter of a second later."""
        self._calls[who] = (time.monotonic() + after, call)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._look)

    def discard(self, who: object) -> bool:
        """Take a call back; False if there is none."""
        return self._calls.pop(who, None) is not None

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        due = [who for who, (at, _) in self._calls.items() if at <= now]
        calls = [self._calls.pop(who)[1] for who in due]
        if self._calls:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._look)
        for call in calls:
            call()
