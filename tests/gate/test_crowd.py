"""Many at once: the limit holds inside the bodies, everyone gets in, and in the right order."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from headgate import Gate, NoRoomError
from tests.support import LONG, Box, pool_of, until_async

pytestmark = pytest.mark.usefixtures("steady")
Opener = Callable[..., Gate]


def _waiting(gate: Gate, number: int) -> bool:
    return gate.queue(most=1).total_waiting >= number


class Inside:
    """Counts bodies that run at this moment."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def test_64_tasks_on_a_limit_of_4(open_gate: Opener) -> None:
    """Never more than four inside, often four, and all of them finish."""
    gate = open_gate(limits={"a/b": 4, "host": 100})
    inside = Inside()

    async def work() -> None:
        async with gate.slot("a/b"):
            with inside:
                await asyncio.sleep(0.002)

    async def program() -> None:
        await asyncio.wait_for(asyncio.gather(*(work() for _ in range(64))), LONG)

    asyncio.run(program())
    assert (inside.most, inside.all) == (4, 64)
    assert pool_of(gate, "a/b").in_use == 0


def test_two_event_loops_and_a_dozen_threads_share_one_gate(open_gate: Opener) -> None:
    """Both faces of one gate may be used at once, from any thread."""
    gate = open_gate(limits={"a/b": 3, "host": 100})
    inside = Inside()

    async def work() -> None:
        async with gate.slot("a/b", timeout=LONG):
            with inside:
                await asyncio.sleep(0.001)

    async def several() -> None:
        await asyncio.gather(*(work() for _ in range(10)))

    def plain() -> None:
        for _ in range(3):
            with gate.slot("a/b", timeout=LONG), inside:
                time.sleep(0.001)

    threads = [threading.Thread(target=plain) for _ in range(12)]
    threads += [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert (inside.most, inside.all) == (3, 56)
    assert gate.queue().running == ()


def test_16_threads_on_a_limit_of_2(open_gate: Opener) -> None:
    """The plain face works from any thread, and the limit holds between them."""
    gate = open_gate(limits={"a/b": 2, "host": 100})
    inside = Inside()

    def work() -> None:
        for _ in range(4):
            with gate.slot("a/b", timeout=LONG), inside:
                time.sleep(0.001)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert (inside.most, inside.all) == (2, 64)
    assert pool_of(gate, "a/b").in_use == 0


def test_order_is_priority_then_since_then_arrival(open_gate: Opener) -> None:
    """Whoever waits is let in by priority, then by when its prompt began, then by arrival."""
    gate = open_gate(limits={"a/b": 1})
    wanted = [
        (priority, since, arrival)
        for priority in ("interactive", 3, "normal", -1, "background")
        for since in (1_000.0, 2_000.0, None)
        for arrival in (0, 1)
    ]
    arrivals = sorted(wanted, key=lambda work: (work[2], random.Random(str(work)).random()))  # noqa: S311
    order: list[tuple[object, float | None, int]] = []

    async def work(priority: str | int, since: float | None, arrival: int) -> None:
        async with gate.slot("a/b", priority=priority, since=since):
            order.append((priority, since, arrival))

    async def program() -> None:
        holder = await gate.slot("a/b").acquire_async()
        tasks = []
        for number, (priority, since, arrival) in enumerate(arrivals, 1):
            tasks.append(asyncio.create_task(work(priority, since, arrival)))
            arrived = partial(_waiting, gate, number)  # one by one, so that arrival is known
            await until_async(arrived)
        assert [w.position for w in gate.queue().waiting] == list(range(1, len(wanted) + 1))
        holder.release()
        await asyncio.wait_for(asyncio.gather(*tasks), LONG)

    asyncio.run(program())
    assert order == wanted


def test_a_newcomer_never_passes_someone_who_waits(open_gate: Opener) -> None:
    """With timeout=0 nobody gets a seat for which another of the same rank already waits."""
    gate = open_gate(limits={"a/b": 2})

    async def program() -> None:
        one = await gate.slot("a/b").acquire_async()
        heavy = asyncio.create_task(gate.slot("a/b", weight=2).acquire_async())
        await until_async(partial(_waiting, gate, 1))
        with pytest.raises(NoRoomError):
            await gate.slot("a/b", timeout=0).acquire_async()
        one.release()
        (await asyncio.wait_for(heavy, LONG)).release()

    asyncio.run(program())


def test_a_full_pool_does_not_delay_others(open_gate: Opener) -> None:
    """A hundred waiting for one model make nobody wait for another."""
    gate = open_gate(limits={"a/b": 1, "host": 1000})

    async def program() -> None:
        holder = await gate.slot("a/b").acquire_async()
        tasks = [asyncio.create_task(gate.slot("a/b").acquire_async()) for _ in range(100)]
        await until_async(partial(_waiting, gate, 100))
        lease = await gate.slot("a/c", timeout=0).acquire_async()
        lease.release()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=LONG)
        holder.release()

    asyncio.run(program())


def test_work_for_several_pools_is_not_starved(open_gate: Opener) -> None:
    """Heavy work gets in under a steady stream of light work that would always fill the gaps."""
    gate = open_gate(limits={"a": 2, "host": 100})

    async def program() -> None:
        done = False

        async def light() -> None:
            while not done:
                async with gate.slot("a/b"):
                    await asyncio.sleep(0.002)

        stream = [asyncio.create_task(light()) for _ in range(6)]
        await asyncio.sleep(0.02)
        async with asyncio.timeout(LONG), gate.slot("a/b", weight=2):
            done = True
        await asyncio.gather(*stream)

    asyncio.run(program())


def test_eight_processes_on_a_limit_of_3(box: Box) -> None:
    """Independent processes with gates of their own: three of their bodies at once, all served."""
    log = box.folder / "log"
    script = """
inside = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(6):
    with gate.slot("a/b", timeout=40):
        os.write(inside, b"+")
        time.sleep(0.03)
        os.write(inside, b"-")
"""
    env = {"HEADGATE_LIMITS": "a/b=3,host=100"}
    programs = [box.python(script, str(log), env=env) for _ in range(8)]
    for program in programs:
        assert program.line() == "ready"
    for program in programs:
        program.go()
    assert [program.wait() for program in programs] == [0] * 8
    inside = most = 0
    for letter in log.read_text():
        inside += 1 if letter == "+" else -1
        most = max(most, inside)
    assert log.read_text().count("+") == 48
    assert 1 < most <= 3
    assert box.left_over() == {}
