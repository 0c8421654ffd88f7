"""The wait for seats at a server: `with gate.slot(…)`, `async with gate.slot(…)`."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headgate.core.display.snapshots import Waiting
from headgate.core.times import Seconds
from headgate.errors import HeadgateError, UsageError, WaitTimeoutError
from headgate.gate.lease import Lease
from headgate.gate.slot_context import SlotContext
from headgate.gate.transactions.deliver_outcomes import call_in, running_loop
from headgate.remote.lease import RemoteLease
from headgate.remote.pending import Pending
from headgate.remote.renewals import Renewals
from headgate.remote.server import PATIENCE

_AGAIN = Seconds(0.2)
_STUBBORN = Seconds(30)
"""For how long a server is asked that cannot be reached."""
_STEP = Seconds(3_600)


class RemoteSlot(SlotContext):
    """Seats that are asked for at a server on entering, and given back on leaving."""

    def __init__(
        self,
        renewals: Renewals,
        request: Mapping[str, Any],
        wait: Seconds | None,
        on_wait: Callable[[Waiting], None] | None,
        on_end: Callable[[HeadgateError], None] | None,
    ) -> None:
        super().__init__(on_end)
        self._renewals = renewals
        self._request = {**request, "since": request["since"] or time.time()}
        self._wait = wait
        self._on_wait = on_wait

    def acquire(self) -> Lease:
        """Wait for the seats in this thread; the caller releases the lease."""
        if running_loop() is not None:
            raise UsageError("this thread runs an event loop: use 'async with', not 'with'")
        done = threading.Event()
        return self._acquire(done, self._on_wait)

    async def acquire_async(self) -> Lease:
        """Wait for the seats without blocking the event loop; the caller releases the lease."""
        import asyncio

        loop = asyncio.get_running_loop()
        done = threading.Event()
        on_wait = self._on_wait

        def tell(spot: Waiting) -> None:
            if on_wait is not None:
                call_in(loop, partial(on_wait, spot))

        heard = None if on_wait is None else tell
        asked, deadline = await self._ask_aside(done, heard, self._deadline())
        while True:
            try:
                lease = await self._await(asked, deadline, done)
                if lease is not None:
                    return lease
                await asyncio.sleep(_AGAIN)
            except BaseException:
                if asked.lease is None or asked.error is None:
                    await asyncio.shield(asyncio.to_thread(self._renewals.forget, asked))
                raise
            done.clear()
            asked, deadline = await self._ask_aside(done, heard, deadline)

    async def _ask_aside(
        self,
        done: threading.Event,
        on_wait: Callable[[Waiting], None] | None,
        deadline: float | None,
    ) -> tuple[Pending, float | None]:
        """Ask in another thread. What nobody wants any more when that is done, it gives back.

        The loop may be closed by then: `asyncio.run` cancels all tasks, and ends.
        """
        import asyncio

        lock, wanted, made = threading.Lock(), True, list[Pending]()

        def ask() -> tuple[Pending, float | None]:
            asked = self._ask(done, on_wait, deadline)
            with lock:
                made.append(asked[0])
                if wanted:
                    return asked
            self._renewals.forget(asked[0])
            return asked

        try:
            return await asyncio.to_thread(ask)
        except BaseException:
            with lock:
                wanted = False
            for one in made:
                threading.Thread(target=self._renewals.forget, args=(one,), daemon=True).start()
            raise

    async def _await(
        self, asked: Pending, deadline: float | None, done: threading.Event
    ) -> Lease | None:
        """Wait for the outcome, without blocking the loop; None if it must be asked for anew."""
        import asyncio

        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()

        def told(one: Pending) -> None:
            done.set()
            if not call_in(loop, partial(_resolve, outcome)):
                self._renewals.forget(one)

        asked.told = told
        if not done.is_set() and asked.lease is None and asked.error is None:
            try:
                async with asyncio.timeout(_left(deadline)):
                    await outcome
            except TimeoutError:
                raise self._too_late() from None
        return self._won(asked)

    def _acquire(
        self, done: threading.Event, on_wait: Callable[[Waiting], None] | None
    ) -> RemoteLease:
        asked, deadline = self._ask(done, on_wait, self._deadline())
        try:
            while True:
                self._sleep(asked, done, deadline)
                if lease := self._won(asked):
                    return lease
                time.sleep(_AGAIN)
                done.clear()
                asked, deadline = self._ask(done, on_wait, deadline)
        except BaseException:
            if asked.lease is None or asked.error is None:
                self._renewals.forget(asked)
            raise

    def _sleep(self, asked: Pending, done: threading.Event, deadline: float | None) -> None:
        while asked.lease is None and asked.error is None:
            left = _left(deadline)
            if done.wait(_STEP if left is None else left):
                return
            if left is not None:
                raise self._too_late()

    def _ask(
        self,
        done: threading.Event,
        on_wait: Callable[[Waiting], None] | None,
        deadline: float | None,
    ) -> tuple[Pending, float | None]:
        asked = Pending(self._request, os.urandom(12).hex(), lambda _: done.set(), on_wait)
        patient = self._wait is None or self._wait > 0
        limit = time.monotonic() + _STUBBORN
        try:
            self._renewals.ask(
                asked, patient=patient, deadline=limit if deadline is None else min(limit, deadline)
            )
        except BaseException:
            self._renewals.forget(asked)
            raise
        return asked, deadline

    def _won(self, asked: Pending) -> RemoteLease | None:
        """The lease; None if this client was silent for so long that it must ask anew."""
        if asked.error is not None:
            raise asked.error
        lease = asked.lease
        if lease is None:
            return None
        if not self._renewals.valid(lease):
            lease.release()
            return None
        lease.when_ended(self._on_end)
        return lease

    def _deadline(self) -> float | None:
        wait = PATIENCE if self._wait == 0 else self._wait
        return None if wait is None else time.monotonic() + wait

    def _too_late(self) -> HeadgateError:
        return WaitTimeoutError(f"no seat became free within {self._wait:g}s")


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _resolve(future: Any) -> None:  # noqa: ANN401 - an asyncio future
    if not future.done():
        future.set_result(None)
