"""Seats for one piece of work: `with gate.slot(…)`, `async with gate.slot(…)`."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.core.display.snapshots import Waiting
from headgate.core.times import Ms, Seconds
from headgate.errors import (
    GateClosedError,
    HeadgateError,
    StoreUnavailableError,
    UsageError,
    WaitTimeoutError,
)
from headgate.gate.acquisition import Acquisition
from headgate.gate.lease import Lease
from headgate.gate.process_runtime import Runtime
from headgate.gate.slot_context import SlotContext
from headgate.gate.transactions.deliver_outcomes import running_loop
from headgate.gate.transactions.done import Done
from headgate.ledger.admission.admit import Request

if TYPE_CHECKING:
    import asyncio


_PATIENCE = Seconds(3)


class Slot(SlotContext):
    """Seats that are asked for on entering, and given back on leaving."""

    def __init__(
        self,
        runtime: Runtime,
        request: Request,
        wait: Seconds | None,
        on_wait: Callable[[Waiting], None] | None,
        on_end: Callable[[HeadgateError], None] | None,
    ) -> None:
        super().__init__(on_end)
        self._runtime = runtime
        self._request = request
        self._wait = wait
        self._on_wait = on_wait

    def again(
        self, since: Ms, wait: Seconds | None, on_end: Callable[[HeadgateError], None] | None
    ) -> "Slot":
        """Another of the same kind, by when its prompt began."""
        request = self._request._replace(since=since)
        return Slot(self._runtime, request, wait=wait, on_wait=None, on_end=on_end)

    def acquire(self) -> Lease:
        """Wait for the seats in this thread; the caller releases the lease."""
        if running_loop() is not None:
            raise UsageError("this thread runs an event loop: use 'async with', not 'with'")
        if self._wait == 0:
            self._runtime.poller.refresh(self._request.key)
        done = Done()
        asked = self._acquisition(lambda _: done.set(), self._on_wait)
        deadline = self._deadline()
        while True:
            self._ask(asked, done, _left(deadline))
            lease = self._won(asked)
            if self._runtime.begins(asked):
                return lease
            deadline = _later(deadline)
            done.clear()

    def _ask(self, asked: Acquisition, done: Done, left: Seconds | None) -> None:
        """Submit a request, and wait for its outcome; leave nothing behind if that is too long."""
        in_time = False
        asked.given_up = "stopped while it waited"
        try:
            self._runtime.transactor.submit(asked)
            in_time = done.wait(left)
            asked.given_up = f"waited for {self._wait}s, its time was up"
        finally:
            if not in_time:
                gone = Done()
                self._runtime.transactor.submit(self._runtime.withdraw(asked, lambda _: gone.set()))
                gone.wait(_PATIENCE)  # if the store does not answer, it is done when it does
        if not in_time:
            raise self._too_late()

    async def acquire_async(self) -> Lease:
        """Wait for the seats without blocking the event loop; the caller releases the lease."""
        import asyncio

        if self._wait == 0 and self._runtime.has_usage_source():
            await asyncio.to_thread(self._runtime.poller.refresh, self._request.key)
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        asked = self._acquisition(lambda _: _resolve(done), self._on_wait)
        asked.loop = loop
        deadline = self._deadline()
        while True:
            await self._ask_async(asked, done, _left(deadline))
            lease = self._won(asked)
            if self._runtime.begins(asked):
                return lease
            deadline = _later(deadline)
            done = loop.create_future()

    async def _ask_async(
        self, asked: Acquisition, done: "asyncio.Future[None]", left: Seconds | None
    ) -> None:
        """The same, without blocking the event loop."""
        import asyncio

        self._runtime.transactor.submit(asked)
        try:
            if left is None:
                await done
            else:
                async with asyncio.timeout(left):
                    await done
        except TimeoutError:
            asked.given_up = f"waited for {self._wait}s, its time was up"
            await self._abandon(asked)
            raise self._too_late() from None
        except asyncio.CancelledError:
            await self._abandon(asked)
            raise

    def _acquisition(
        self, told: Callable[[Acquisition], None], on_wait: Callable[[Waiting], None] | None
    ) -> Acquisition:
        wait = self._wait is None or self._wait > 0
        return Acquisition(self._request, wait=wait, told=told, on_wait=on_wait)

    def _won(self, asked: Acquisition) -> Lease:
        if asked.error is not None:
            if asked.lease is not None:  # it was granted before, and may still be
                asked.lease.release()
            raise asked.error
        if asked.lease is None or self._runtime.transactor.closed:
            raise GateClosedError("this gate was closed while the request waited")
        lease = asked.lease
        lease.when_ended(self._on_end)
        return lease

    def _deadline(self) -> Seconds | None:
        """Until when to wait; who does not want to wait at all still gives the store a moment."""
        wait = _PATIENCE if self._wait == 0 else self._wait
        return None if wait is None else Seconds(time.monotonic()) + wait

    def _too_late(self) -> HeadgateError:
        if not self._wait:
            return StoreUnavailableError(
                f"the store {self._runtime.store.url} did not answer within {_PATIENCE:g}s"
            )
        return WaitTimeoutError(f"no seat became free within {self._wait:g}s")

    async def _abandon(self, asked: Acquisition) -> None:
        """Leave nothing behind, even if this task is cancelled once more meanwhile."""
        import asyncio

        loop = asyncio.get_running_loop()
        done = loop.create_future()
        operation = self._runtime.withdraw(asked, lambda _: _resolve(done))
        operation.loop = loop
        self._runtime.transactor.submit(operation)
        await asyncio.wait([done], timeout=_PATIENCE)


def _left(deadline: Seconds | None) -> Seconds | None:
    return None if deadline is None else max(deadline - Seconds(time.monotonic()), Seconds(0))


def _later(deadline: Seconds | None) -> Seconds | None:
    """The same deadline, with a moment left for the store: the time may be up since a stop."""
    return None if deadline is None else max(deadline, Seconds(time.monotonic()) + _PATIENCE)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
