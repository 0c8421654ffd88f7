"""What `with` and `async with` do with a lease, wherever its seats are."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headgate.errors import HeadgateError
from headgate.gate.lease import Lease, current_lease
from headgate.gate.transactions.deliver_outcomes import call_in

if TYPE_CHECKING:
    import asyncio


class SlotContext:
    """Seats that are asked for on entering, and given back on leaving."""

    def __init__(self, on_end: Callable[[HeadgateError], None] | None) -> None:
        self._on_end = on_end
        self._lease: Lease | None = None
        self._outer: Lease | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._interrupted = False

    def acquire(self) -> Lease:
        """Wait for the seats in this thread; the caller releases the lease."""
        raise NotImplementedError

    async def acquire_async(self) -> Lease:
        """Wait for the seats without blocking the event loop; the caller releases the lease."""
        raise NotImplementedError

    def __enter__(self) -> Lease:
        """Wait for the seats."""
        self._lease = self.acquire()
        self._enter(self._lease)
        return self._lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the seats back."""
        current_lease.set(self._outer)
        if self._lease is not None:
            self._lease.release()

    def _enter(self, lease: Lease) -> None:
        self._outer = current_lease.get()
        current_lease.set(lease)

    async def __aenter__(self) -> Lease:
        """Wait for the seats."""
        import asyncio

        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        interrupts = self._on_end is None
        if interrupts:
            loop = asyncio.get_running_loop()

            def on_end(_: HeadgateError) -> None:
                call_in(loop, self._interrupt)

            self._on_end = on_end
        self._lease = await self.acquire_async()
        self._enter(self._lease)
        if interrupts and self._lease.ended_by is not None:  # before there was any work to end
            self._interrupt()
        return self._lease

    def _interrupt(self) -> None:
        """Cancel the work, unless it has ended by now."""
        if self._interrupted or self._task is None or self._lease is None:
            return
        if not self._lease.released:
            self._interrupted = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the seats back; if the work was ended from outside, say by what."""
        import asyncio

        lease = self._lease
        current_lease.set(self._outer)
        if lease is None:
            return
        lease.release()
        if self._interrupted and self._task is not None:
            others = self._task.uncancel() > self._cancelling
            if isinstance(error, asyncio.CancelledError) and not others and lease.ended_by:
                raise lease.ended_by from None
