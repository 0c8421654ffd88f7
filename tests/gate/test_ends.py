"""How a gate ends: closed, forgotten, forked, killed."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from headgate import Gate, GateClosedError, HeadgateError, HoldExpiredError, Lease
from headgate.core.times import Seconds
from tests.support import LONG, Box, until

pytestmark = pytest.mark.usefixtures("steady")
Opener = Callable[..., Gate]


def test_a_closed_gate_refuses(open_gate: Opener) -> None:
    """Every use of a closed gate is a GateClosedError; closing again is nothing."""
    gate = open_gate()
    gate.close()
    gate.close()
    for use in (gate.status, gate.queue, lambda: gate.slot("a/b").acquire()):
        with pytest.raises(GateClosedError):
            use()

    async def program() -> None:
        with pytest.raises(GateClosedError):
            async with asyncio.timeout(5), gate.slot("a/b"):
                pass

    asyncio.run(program())


def test_closing_gives_everything_back(open_gate: Opener) -> None:
    """A gate that closes takes its leases and tickets along; releasing afterwards is harmless."""
    gate, other = open_gate(limits={"a/b": 1}), open_gate()
    lease = gate.slot("a/b").acquire()
    gate.close()
    assert other.queue().running == ()
    lease.release()


def test_waiters_hear_that_their_gate_closed(open_gate: Opener) -> None:
    """Threads and tasks that wait get GateClosedError, at once."""
    gate, other = open_gate(limits={"a/b": 1}), open_gate()
    other.set_limit("a/b", 1)
    holder = other.slot("a/b").acquire()
    ends: list[type[BaseException]] = []

    def plain() -> None:
        try:
            gate.slot("a/b").acquire()
        except HeadgateError as error:
            ends.append(type(error))

    async def in_loop() -> None:
        try:
            async with asyncio.timeout(LONG):
                await gate.slot("a/b").acquire_async()
        except (HeadgateError, TimeoutError) as error:
            ends.append(type(error))

    threads = [threading.Thread(target=plain), threading.Thread(target=plain)]
    threads.append(threading.Thread(target=lambda: asyncio.run(in_loop())))
    for thread in threads:
        thread.start()
    until(lambda: other.queue().total_waiting == 3)
    gate.close()
    for thread in threads:
        thread.join(LONG)
    assert ends == [GateClosedError] * 3
    assert other.queue().total_waiting == 0
    assert len(other.queue().running) == 1
    holder.release()


def test_closing_beside_a_request_on_its_way(open_gate: Opener) -> None:
    """A request that meets the closing gets its error: it does not hang, and has no seats."""

    async def program(full: bool) -> None:  # noqa: FBT001
        gate = open_gate(limits={"a/b": 1})
        if full:
            await gate.slot("a/b").acquire_async()
        task = asyncio.create_task(gate.slot("a/b").acquire_async())
        await asyncio.sleep(0)
        gate.close()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, "it hangs"
        if task.exception() is None:  # it was quicker: then closing has given it back
            assert not full
        else:
            assert isinstance(task.exception(), GateClosedError)

    asyncio.run(program(full=True))
    asyncio.run(program(full=False))
    assert open_gate().queue().running == ()


def test_closing_while_threads_come_and_go(open_gate: Opener) -> None:
    """Whatever threads do while the gate closes, nobody hangs and no row outlives it."""
    other = open_gate()
    for round_ in range(10):
        gate = open_gate(limits={"a/b": 2})
        begun = threading.Barrier(7)

        def work(gate: Gate = gate, begun: threading.Barrier = begun) -> None:
            begun.wait()
            try:
                while True:
                    gate.slot("a/b", timeout=LONG).acquire().release()
            except GateClosedError:
                pass

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        begun.wait()
        time.sleep(0.002 * round_)
        gate.close()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()
        queue = other.queue()
        assert (queue.running, queue.total_waiting) == ((), 0)


def test_a_forked_child_cannot_use_its_parents_gate(box: Box) -> None:
    """In the child every use is GateClosedError, on both faces; the parent goes on undisturbed."""
    script = """
import asyncio
lease = gate.slot("a/b").acquire()
pid = os.fork()
if pid == 0:
    seen = []
    def use(do):
        try:
            do()
            seen.append("worked")
        except GateClosedError:
            seen.append("refused")
        except BaseException as error:
            seen.append(repr(error))
    async def slot():
        async with asyncio.timeout(5), gate.slot("a/b"):
            pass
    use(lambda: gate.slot("a/b").acquire())
    use(gate.status)
    use(lambda: asyncio.run(slot()))
    mine = Gate.open()
    use(lambda: mine.slot("a/c").acquire())
    mine.close()
    print(" ".join(seen), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(len(gate.queue().running), lease.release(), len(gate.queue().running), flush=True)
"""
    program = box.python(script)
    assert program.line() == "refused refused refused worked"
    assert program.line() == "1 True 0"
    assert program.wait() == 0
    assert box.left_over() == {}


def test_a_fork_beside_a_busy_gate_does_not_hang(box: Box) -> None:
    """A fork may come while another thread is in a transaction; the child still gets its error."""
    script = """
import signal

from headgate.core.times import Seconds
stop = False
def busy():
    while not stop:
        gate.slot("a/b").acquire().release()
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
codes = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        try:
            gate.slot("a/b").acquire()
        except GateClosedError:
            os._exit(0)
        os._exit(1)
    codes.append(os.waitpid(pid, 0)[1])
stop = True
for thread in threads:
    thread.join()
print(sum(1 for code in codes if code), "of 20 hung or failed", flush=True)
"""
    program = box.python(script)
    assert program.line(within=40) == "0 of 20 hung or failed"
    assert program.wait() == 0


def test_a_forked_child_does_not_keep_its_parents_seat(box: Box) -> None:
    """The parent is killed, its forked child lives on: the seat is free at once."""
    script = """
lease = gate.slot("a/b").acquire()
pid = os.fork()
if pid == 0:
    os.write(1, f"child {os.getpid()}\\n".encode())
    time.sleep(1000)
os.write(1, b"parent\\n")
time.sleep(1000)
"""
    box.env["HEADGATE_LIMITS"] = "a/b=1"
    program = box.python(script)
    lines = sorted([program.line(), program.line()])
    box.pids.append(int(lines[0].split()[1]))
    waiter = box.waiter()
    begun = time.monotonic()
    program.kill()
    assert waiter.line() == "up"
    assert time.monotonic() - begun < 5
    assert waiter.end() == 0


@pytest.mark.parametrize("how", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_an_end_without_closing_frees_at_once(box: Box, how: str) -> None:
    """A program that ends with leases and tickets of its own frees them for another process."""
    box.env["HEADGATE_LIMITS"] = "a/b=1"
    script = f"""
lease = gate.slot("a/b").acquire()
threading.Thread(target=lambda: gate.slot("a/b").acquire(), daemon=True).start()
while not gate.queue().total_waiting:
    time.sleep(0.01)
print("up", flush=True)
sys.stdin.read()
{how}
"""
    program = box.python(script)
    assert program.line() == "up"
    waiter = box.waiter()
    begun = time.monotonic()
    program.end()
    assert waiter.line() == "up"
    assert time.monotonic() - begun < 5
    assert waiter.end() == 0
    until(lambda: box.left_over() == {})


def test_a_forgotten_gate_frees_at_exit(box: Box) -> None:
    """A gate that nobody closes gives its seats back when the interpreter ends, without a fuss."""
    program = box.python("gate.slot('a/b').acquire(); print('up')")
    assert program.line() == "up"
    assert program.wait() == 0
    assert program.process.stderr is not None
    assert program.process.stderr.read() == b""
    assert box.left_over() == {}


def _end_at_once(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each lease ended in the moment in which it is granted, as a tiny max_hold may."""
    waiting_and_held = gate._runtime.waiting_and_held
    hold = waiting_and_held.hold

    def hold_and_end(lease: Lease, max_hold: Seconds | None) -> None:
        hold(lease, max_hold)
        lease.end(HoldExpiredError("held longer than its pool's max_hold"))

    monkeypatch.setattr(waiting_and_held, "hold", hold_and_end)


def test_an_end_that_comes_with_the_lease_is_told(
    open_gate: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks to hear of its end hears of one that came before it had its lease."""
    gate = open_gate()
    _end_at_once(gate, monkeypatch)
    told: list[HeadgateError] = []
    gate.slot("a/b", on_end=told.append).acquire().release()
    assert [type(error) for error in told] == [HoldExpiredError]


def test_a_task_whose_end_comes_with_the_lease_is_interrupted(
    open_gate: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body of an `async with` is cancelled once, and the reason comes out of it."""
    gate = open_gate()
    _end_at_once(gate, monkeypatch)

    async def program() -> None:
        with pytest.raises(HoldExpiredError):
            async with asyncio.timeout(LONG), gate.slot("a/b"):
                await asyncio.sleep(LONG)
        await asyncio.sleep(0)  # nothing of it is left to strike later

    asyncio.run(program())
