"""A task may be cancelled at any await, once or again and again, and leaves nothing behind."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from headgate import Gate, HoldExpiredError, Lease, NoRoomError, StoreFullError
from headgate.gate.transactions.operation import Operation
from tests.support import LONG, Box, until, until_async

pytestmark = pytest.mark.usefixtures("steady")
Opener = Callable[..., Gate]
STEPS = 24


async def steps(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def settled(gate: Gate) -> None:
    """Nothing held, nothing waiting, and the seat can be had at once."""
    deadline = time.monotonic() + LONG
    while True:
        try:
            lease = await gate.slot("a/b", timeout=0).acquire_async()
            break
        except NoRoomError:
            assert time.monotonic() < deadline, gate.queue()
            await asyncio.sleep(0.005)
    lease.release()
    while (queue := gate.queue()).running or queue.total_waiting:
        assert time.monotonic() < deadline, queue
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_cancelled_anywhere_on_the_way_in_and_out(open_gate: Opener, times: int) -> None:
    """Cancelled after k steps of the event loop, for every k from before the first to the last."""
    gate = open_gate(limits={"a/b": 1})

    async def work() -> None:
        async with gate.slot("a/b"):
            await steps(3)

    async def program() -> None:
        for k in range(STEPS):
            task = asyncio.create_task(work())
            await steps(k)
            for _ in range(times):
                task.cancel()
                await steps(1)
            await asyncio.wait([task], timeout=LONG)
            assert task.done()
            await settled(gate)

    asyncio.run(program())


@pytest.mark.parametrize("times", [1, 2])
def test_cancelled_anywhere_in_the_line(open_gate: Opener, times: int) -> None:
    """The same while a full pool makes the task wait, and the seat comes free meanwhile."""
    gate = open_gate(limits={"a/b": 1})

    async def work() -> None:
        async with gate.slot("a/b", timeout=LONG):
            await steps(3)

    async def program() -> None:
        for k in range(STEPS):
            holder = await gate.slot("a/b").acquire_async()
            task = asyncio.create_task(work())
            await steps(k // 2)
            holder.release()
            await steps(k - k // 2)
            for _ in range(times):
                task.cancel()
                await steps(1)
            await asyncio.wait([task], timeout=LONG)
            assert task.done()
            await settled(gate)

    asyncio.run(program())


def test_cancelled_at_odd_moments_of_the_disk(box: Box) -> None:
    """With a disk in between the steps depend on time: cancelled after tenths of a millisecond."""
    gate = box.gate(limits={"a/b": 1})

    async def work() -> None:
        async with gate.slot("a/b", timeout=LONG):
            await asyncio.sleep(0)

    async def program() -> None:
        for tenths in range(100):
            first, second = asyncio.create_task(work()), asyncio.create_task(work())
            await asyncio.sleep(tenths / 10_000)
            second.cancel()
            first.cancel()
            await asyncio.wait([first, second], timeout=LONG)
            assert first.done()
            assert second.done()
        await settled(gate)

    asyncio.run(program())
    gate.close()
    assert box.left_over() == {}


def test_a_loop_that_ends_at_once_leaves_nothing(box: Box) -> None:
    """asyncio.run cancels what still waits and closes the loop; no ticket survives that."""
    gate = box.gate(limits={"a/b": 1})

    async def program() -> None:
        holder = await gate.slot("a/b").acquire_async()
        waiting = asyncio.Event()
        task = asyncio.create_task(
            gate.slot("a/b", on_wait=lambda _: waiting.set()).acquire_async()
        )
        await asyncio.wait_for(waiting.wait(), LONG)
        holder.release()
        assert not task.done()

    asyncio.run(program())
    until(lambda: not gate.queue().running and not gate.queue().total_waiting)


def test_a_timeout_of_the_callers_own_works_too(open_gate: Opener) -> None:
    """asyncio.timeout around a slot that waits ends the wait, and nothing of it stays."""
    gate = open_gate(limits={"a/b": 1})

    async def program() -> None:
        holder = await gate.slot("a/b").acquire_async()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), gate.slot("a/b"):
                pytest.fail("it was let in")
        holder.release()
        await settled(gate)

    asyncio.run(program())


def test_a_task_group_that_fails_takes_its_waiters_along(open_gate: Opener) -> None:
    """One task fails, its siblings in line are cancelled, and the line is empty."""
    gate = open_gate(limits={"a/b": 1})

    async def fail() -> None:
        async with gate.slot("a/b"):
            await until_async(lambda: gate.queue().total_waiting == 5)
            raise ZeroDivisionError

    async def wait() -> None:
        async with gate.slot("a/b"):
            await asyncio.sleep(LONG)

    async def program() -> None:
        with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the group is the point
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await steps(2)
                for _ in range(5):
                    group.create_task(wait())
        assert caught.group_contains(ZeroDivisionError)
        await settled(gate)

    asyncio.run(program())


def test_work_that_ends_by_itself_is_not_cancelled_later(open_gate: Opener, box: Box) -> None:
    """A body that outlives max_hold without an await may end with HoldExpiredError, never worse.

    The cancellation must not hit whatever the task does after its block.
    """
    box.config('[pools."a/b"]\nlimit = 1\nmax_hold = "50ms"\n')
    gate = open_gate()

    async def program() -> str:
        try:
            async with gate.slot("a/b"):
                time.sleep(0.3)  # noqa: ASYNC251 - a body that does not let go of the loop
        except HoldExpiredError:
            pass
        for _ in range(20):
            await asyncio.sleep(0.005)
        task = asyncio.current_task()
        assert task is not None
        return f"cancelling {task.cancelling()}"

    assert asyncio.run(program()) == "cancelling 0"
    until(lambda: not gate.queue().running)


def test_a_failed_request_is_not_taken_for_the_next_one(box: Box) -> None:
    """Cancelled while the disk is full: what is taken back is that request, and nobody else's work.

    Its id was rolled back, and is given to the next who asks, perhaps before it cleans up.
    """
    mine, other = box.gate(), box.gate()
    runtime = mine._runtime
    settle, withdraw = runtime.transactor._settle, runtime.withdraw
    failed = threading.Event()
    leases: list[Lease] = []

    def settle_late(*args: Any) -> None:  # noqa: ANN401 - whatever it takes
        if failed.is_set():
            settle(*args)
            return
        failed.set()
        raise StoreFullError("no space left, just this once")

    def withdraw_late(*args: Any) -> Operation:  # noqa: ANN401 - whatever it takes
        assert failed.wait(LONG)
        asker = threading.Thread(target=lambda: leases.append(other.slot("a/b").acquire()))
        asker.start()
        asker.join(LONG)
        return withdraw(*args)

    async def program() -> None:
        task = asyncio.create_task(mine.slot("a/b").acquire_async())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime.transactor, "_settle", settle_late)
        patch.setattr(runtime, "withdraw", withdraw_late)
        asyncio.run(program())
    assert [row[0] for row in box.rows("lease")] == [lease.id for lease in leases]
    assert leases
    leases[0].release()
