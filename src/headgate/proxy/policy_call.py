"""A question to the policy, which may answer at once or take its time."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from headgate.proxy.runtime import Runtime


class PolicyCall:
    """The question that a request waits for; there is one at a time."""

    __slots__ = ("_broke", "_given_up", "_runtime", "_task")

    def __init__(self, runtime: Runtime, broke: Callable[[BaseException], None]) -> None:
        self._runtime = runtime
        self._broke = broke
        self._task: asyncio.Future[Any] | None = None
        self._given_up = False

    def ask(self, question: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Ask, and call `then` with the answer: at once if it is one, later if it is awaited."""
        try:
            said = question()
            if said is not None and not isinstance(said, tuple):
                self._task = asyncio.ensure_future(said)
                self._task.add_done_callback(partial(self._answered, then))
                return
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            self._broke(error)
            return
        then(said)

    def look(self, look: Callable[[bytes], None], data: bytes) -> None:
        """Show bytes to the policy."""
        try:
            look(data)
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            self._broke(error)

    def give_up(self) -> None:
        """Cancel the question, if there is one; its answer is not wanted any more."""
        self._given_up = True
        if self._task is not None:
            self._task.cancel()

    def _answered(self, then: Callable[[Any], None], task: asyncio.Future[Any]) -> None:
        self._task = None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._given_up:
            if error is not None and not isinstance(error, asyncio.CancelledError):
                self._runtime.report(error)
        elif error is None:
            then(task.result())
        else:
            self._broke(error)
