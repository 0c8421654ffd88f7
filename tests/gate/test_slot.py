"""Asking for seats, from both faces and over both stores."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from headgate import CancelledWorkError, Gate, NoRoomError, UsageError, Waiting, WaitTimeoutError
from tests.support import LONG, Box, pool_of, until, until_async

pytestmark = pytest.mark.usefixtures("steady")
Opener = Callable[..., Gate]
KEY = "anthropic/claude-opus-4-6"


def assert_nothing_left(gate: Gate) -> None:
    queue = gate.queue()
    assert (queue.running, queue.waiting, queue.total_waiting) == ((), (), 0)
    assert all(pool.in_use == pool.queued == 0 for pool in gate.status().pools)


def test_two_lines_of_python_do_it(box: Box) -> None:
    """Opening a gate and entering a slot is all a program has to write."""
    gate = Gate.open()
    with gate.slot(KEY, task="oracle-2"):
        assert [row[2] for row in box.rows("lease")] == [KEY]
    gate.close()
    assert box.left_over() == {}


def test_two_lines_of_async_python_do_it(box: Box) -> None:
    """The same with `async with`, and the gate itself closes with its block."""

    async def program() -> None:
        async with Gate.open() as gate, gate.slot(KEY, task="oracle-2"):
            assert [row[2] for row in box.rows("lease")] == [KEY]

    asyncio.run(program())
    assert box.left_over() == {}


def test_a_lease_says_what_it_is(open_gate: Opener) -> None:
    """A lease names its key (tidied), task, weight and wait, and what a child should find."""
    gate = open_gate()
    with gate.slot(" Anthropic/claude-opus-4-6 ", task="oracle-2", weight=2) as lease:
        assert (lease.key, lease.task, lease.weight) == (KEY, "oracle-2", 2)
        assert lease.waited == 0
        assert lease.id > 0
        assert not lease.released
        assert lease.environment["HEADGATE_TASK"] == "oracle-2"
        assert lease.environment["HEADGATE_LEASE"].endswith(f".{lease.id}")
        assert pool_of(gate, "*/claude-opus-*").in_use == 2
    assert lease.released
    assert_nothing_left(gate)


def test_ids_are_never_given_twice(open_gate: Opener) -> None:
    """Each piece of work has a number of its own, whether it ran, waited or was turned away."""
    gate = open_gate(limits={"host": 1})
    seen = []
    for _ in range(5):
        with gate.slot() as lease:
            seen.append(lease.id)
            with pytest.raises(NoRoomError):
                gate.slot(timeout=0).acquire()
    assert len(set(seen)) == 5
    assert seen == sorted(seen)


def test_a_release_counts_once_from_many_threads(open_gate: Opener) -> None:
    """However many threads release a lease, one of them did it, and one seat came free."""
    gate = open_gate(limits={"a/b": 2})
    for _ in range(5):
        kept = gate.slot("a/b").acquire()
        lease = gate.slot("a/b").acquire()
        barrier = threading.Barrier(8)
        first: list[bool] = []

        def release(lease=lease, barrier=barrier, first=first) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
            barrier.wait()
            first.append(lease.release())

        threads = [threading.Thread(target=release) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert sorted(first) == [False] * 7 + [True]
        assert pool_of(gate, "a/b").in_use == 1
        assert not lease.release()
        kept.release()
    assert_nothing_left(gate)


def test_an_error_in_the_body_gives_the_seat_back(open_gate: Opener) -> None:
    """Leaving a block by an exception frees its seats, and the exception goes on."""
    gate = open_gate()
    with pytest.raises(ZeroDivisionError), gate.slot("a/b"):
        raise ZeroDivisionError
    assert_nothing_left(gate)


def test_waiting_too_long_withdraws_the_ticket(open_gate: Opener) -> None:
    """After its timeout a request raises WaitTimeoutError and is not in line any more."""
    gate = open_gate(limits={"a/b": 1})
    with gate.slot("a/b"):
        with pytest.raises(WaitTimeoutError, match=r"0\.05"), gate.slot("a/b", timeout=0.05):
            pytest.fail("it was let in")
        assert gate.queue().total_waiting == 0

        async def program() -> None:
            with pytest.raises(WaitTimeoutError):
                async with gate.slot("a/b", timeout="50ms"):
                    pytest.fail("it was let in")

        asyncio.run(program())
        assert gate.queue().total_waiting == 0
    assert_nothing_left(gate)


def test_not_waiting_leaves_nothing_behind(open_gate: Opener) -> None:
    """With timeout=0 a full pool is NoRoomError at once, which names the pool and its figures."""
    gate = open_gate(limits={"a/b": 1})
    with gate.slot("a/b"):
        with pytest.raises(NoRoomError, match=r"a/b .*1/1"):
            gate.slot("a/b", timeout=0).acquire()

        async def program() -> None:
            with pytest.raises(NoRoomError, match=r"a/b .*1/1"):
                await gate.slot("a/b", timeout=0).acquire_async()

        asyncio.run(program())
        assert gate.queue().total_waiting == 0
        assert pool_of(gate, "a/b").in_use == 1
    assert_nothing_left(gate)


def test_on_wait_is_silent_when_let_in_at_once(open_gate: Opener) -> None:
    """Whoever does not have to queue hears nothing, on either face."""
    gate = open_gate(limits={"a/b": 1})
    heard: list[Waiting] = []
    with gate.slot("a/b", on_wait=heard.append):
        pass

    async def program() -> None:
        async with gate.slot("a/b", on_wait=heard.append):
            await asyncio.sleep(0)

    asyncio.run(program())
    assert heard == []


def test_on_wait_is_silent_when_turned_away(open_gate: Opener) -> None:
    """A request that does not wait hears nothing either."""
    gate = open_gate(limits={"a/b": 1})
    heard: list[Waiting] = []
    with gate.slot("a/b"), pytest.raises(NoRoomError):
        gate.slot("a/b", timeout=0, on_wait=heard.append).acquire()
    assert heard == []


def test_on_wait_tells_position_and_reason(open_gate: Opener) -> None:
    """Whoever queues hears where and why, and hears again when it moves up."""
    gate, others = open_gate(limits={"a/b": 1}), open_gate(limits={"a/b": 1})

    async def program() -> None:
        holder = await others.slot("a/b").acquire_async()
        queued, moved = asyncio.Event(), asyncio.Event()
        heard: list[Waiting] = []

        def hear(spot: Waiting) -> None:
            heard.append(spot)
            if spot.position == 1:
                moved.set()

        first = asyncio.create_task(
            others.slot("a/b", on_wait=lambda _: queued.set()).acquire_async()
        )
        await asyncio.wait_for(queued.wait(), LONG)
        second = asyncio.create_task(gate.slot("a/b", task="t", on_wait=hear).acquire_async())
        await asyncio.wait_for(until_async(lambda: heard), LONG)
        assert (heard[0].position, heard[0].code, heard[0].pool) == (2, "pool_full", "a/b")
        assert heard[0].task == "t"
        assert "1/1" in heard[0].reason
        holder.release()
        one = await asyncio.wait_for(first, LONG)
        await asyncio.wait_for(moved.wait(), LONG)
        assert heard[-1].position == 1
        one.release()
        two = await asyncio.wait_for(second, LONG)
        assert two.waited > 0
        two.release()

    asyncio.run(program())
    until(lambda: gate.queue().total_waiting == 0)
    assert_nothing_left(gate)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_on_wait_that_raises_harms_nobody_else(open_gate: Opener) -> None:
    """A callback with a bug ends at most its own request: others wait on and are served."""
    gate, others = open_gate(limits={"a/b": 1}), open_gate(limits={"a/b": 1})
    holder = others.slot("a/b").acquire()
    raised = threading.Event()
    served: list[bool] = []

    def fail(spot: Waiting) -> None:
        if spot.position == 1:  # later, when it moves up, told by whichever thread sees it
            raised.set()
            raise ZeroDivisionError

    def bad() -> None:
        with suppress(ZeroDivisionError):
            gate.slot("a/b", on_wait=fail, timeout=LONG).acquire().release()

    def good() -> None:
        served.append(gate.slot("a/b", timeout=LONG).acquire().release())

    def withdrawn() -> None:
        with pytest.raises(CancelledWorkError):
            others.slot("a/b", timeout=LONG).acquire()

    first = threading.Thread(target=withdrawn)
    first.start()
    until(lambda: gate.queue().total_waiting == 1)
    threads = [threading.Thread(target=bad), threading.Thread(target=good)]
    for number, thread in enumerate(threads, 2):
        thread.start()
        until(lambda number=number: gate.queue().total_waiting == number)  # type: ignore[misc]
    gate.cancel(gate.queue().waiting[0].id)
    assert raised.wait(LONG)
    holder.release()
    for thread in (first, *threads):
        thread.join(LONG)
    assert served == [True]
    until(lambda: not others.queue().running)
    assert_nothing_left(gate)


def test_a_plain_with_inside_an_event_loop_is_refused(open_gate: Opener) -> None:
    """Waiting in the event loop's own thread would stop everything: it is an error that says so."""
    gate = open_gate()

    async def program() -> None:
        with pytest.raises(UsageError, match="async with"), gate.slot("a/b"):
            pass

    asyncio.run(program())
    assert_nothing_left(gate)


def test_bad_words_are_refused_before_anything_happens(open_gate: Opener) -> None:
    """A bad key, weight, priority, since or timeout is a UsageError, and no row is written."""
    gate = open_gate()
    for options in (
        {"key": "opus"},
        {"weight": 0},
        {"priority": "urgent"},
        {"since": float("nan")},
        {"timeout": -1},
        {"task": "two\nlines"},
    ):
        with pytest.raises(UsageError):
            gate.slot(**options)
    assert_nothing_left(gate)


def test_status_and_capacity_are_frozen(open_gate: Opener) -> None:
    """What a gate tells about one moment cannot be changed afterwards."""
    gate = open_gate(limits={"a/b": 2})
    with gate.slot("a/b"):
        status, pool, capacity = gate.status(), pool_of(gate, "a/b"), gate.capacity("a/b")
    assert (pool.in_use, pool.free, capacity.free) == (1, 1, 1)
    for value, field in ((status, "pools"), (pool, "in_use"), (capacity, "free")):
        with pytest.raises(AttributeError):
            setattr(value, field, 0)


def test_weight_takes_all_its_seats_or_none(open_gate: Opener) -> None:
    """Heavy work waits until all of its seats are free at once."""
    gate = open_gate(limits={"a/b": 3})
    one, two = gate.slot("a/b").acquire(), gate.slot("a/b").acquire()
    with pytest.raises(NoRoomError):
        gate.slot("a/b", weight=2, timeout=0).acquire()
    one.release()
    with gate.slot("a/b", weight=2, timeout=0):
        assert pool_of(gate, "a/b").in_use == 3
    two.release()


def test_one_gate_wakes_another(open_gate: Opener) -> None:
    """A release through one gate lets in whoever waits at another one of the same store."""
    here, there = open_gate(limits={"a/b": 1}), open_gate(limits={"a/b": 1})
    lease = here.slot("a/b").acquire()
    waits = threading.Event()
    got: list[float] = []

    def wait() -> None:
        with there.slot("a/b", on_wait=lambda _: waits.set(), timeout=LONG) as later:
            got.append(later.waited)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(LONG)
    lease.release()
    thread.join(LONG)
    assert len(got) == 1
    until(lambda: not here.queue().running)
    assert_nothing_left(here)
