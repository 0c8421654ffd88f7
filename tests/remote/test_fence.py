"""A client that is not heard of: it has ended what it had before its seats are given on."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Gate
from headgate.errors import FencedError, ServerError
from tests.remote.conftest import RemoteBox
from tests.remote.forwarder import Forwarder
from tests.support import HEADGATE, LONG, Program, gone, until

FENCE = "2s"
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def network(box: RemoteBox) -> Iterator[Forwarder]:
    """Between the clients of a box and its server."""
    it = Forwarder(box.port)
    box.local().set_limit("a/b", 1)
    box.env |= {"HEADGATE_STORE": it.url, "HEADGATE_FENCE": FENCE}
    yield it
    it.close()


def held(box: RemoteBox) -> int:
    return len(box.rows("lease"))


def holder(box: RemoteBox) -> tuple[Program, int]:
    """A `run` whose program sleeps whatever it is told, and that program's number."""
    ignore = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    program = box.run("-m", "a/b", "--grace", "30s", "--", "sh", "-c", ignore)
    return program, int(program.line())


def ends_before_it_is_given_on(box: RemoteBox, pid: int) -> float:
    """Wait until a program has ended, while it is counted; how long that took."""
    began = time.monotonic()
    while not gone(pid):
        assert held(box) == 1
        assert time.monotonic() - began < LONG
        time.sleep(0.005)
    assert held(box) == 1
    return time.monotonic() - began


def test_when_the_network_is_cut(box: RemoteBox, network: Forwarder) -> None:
    """A program that ignores SIGTERM is killed by the fence; only then its seats are given on."""
    program, pid = holder(box)
    network.cut()
    assert ends_before_it_is_given_on(box, pid) < 2.5
    with box.local().slot("a/b", timeout=LONG):
        pass
    assert program.wait() != 0


def test_when_the_runner_is_stopped(box: RemoteBox, network: Forwarder) -> None:
    """The guardian kills the program, and the runner."""
    program, pid = holder(box)
    program.send(signal.SIGSTOP)
    assert ends_before_it_is_given_on(box, pid) < 2.5
    assert program.wait() == -signal.SIGKILL
    with box.local().slot("a/b", timeout=LONG):
        pass


def test_when_the_runner_is_killed(box: RemoteBox, network: Forwarder) -> None:
    """Its program goes on until the fence."""
    program, pid = holder(box)
    program.kill()
    assert not gone(pid)
    assert ends_before_it_is_given_on(box, pid) > 0.5
    with box.local().slot("a/b", timeout=LONG):
        pass


def test_when_the_guardian_is_killed(box: RemoteBox, network: Forwarder) -> None:
    """There is another soon, which knows all."""
    program, pid = holder(box)
    (guardian,) = guardians(program.pid)
    os.kill(guardian, signal.SIGKILL)
    until(lambda: [one for one in guardians(program.pid) if one != guardian])
    program.send(signal.SIGSTOP)
    assert ends_before_it_is_given_on(box, pid) < 2.5


def test_when_the_server_is_killed(box: RemoteBox, network: Forwarder) -> None:
    """What is held stays held while it is gone, and after it is back; so does the line."""
    box.env["HEADGATE_FENCE"] = "15s"
    first, pid = holder(box)
    second = box.run("-m", "a/b", "--", "sh", "-c", "echo up")
    until(lambda: box.rows("ticket"))
    before = (box.rows("lease")[0][0], box.rows("ticket")[0][0])
    box.server.kill()
    time.sleep(0.5)
    box.serve()
    time.sleep(2.5)
    assert not gone(pid)
    assert (box.rows("lease")[0][0], box.rows("ticket")[0][0]) == before
    os.kill(pid, signal.SIGKILL)
    first.wait()
    assert second.line() == "up"
    assert second.wait() == 0


def test_who_waits_goes_on_waiting(box: RemoteBox, network: Forwarder) -> None:
    """Cut off beyond the fence it asks anew when the server is back, with its old time."""
    lease = box.local().slot("a/b").acquire()
    waiter = box.run("-m", "a/b", "--", "sh", "-c", "echo up")
    until(lambda: box.rows("ticket"))
    network.cut()
    until(lambda: looked_at(box) and not box.rows("ticket"))
    network.mend()
    until(lambda: box.rows("ticket"))
    lease.release()
    assert waiter.line() == "up"
    assert waiter.wait() == 0


def test_a_short_cut_harms_nobody(box: RemoteBox, network: Forwarder) -> None:
    """Nor do connections that are broken off again and again."""
    box.env["HEADGATE_FENCE"] = "6s"
    program, pid = holder(box)
    network.cut()
    time.sleep(0.7)
    network.mend()
    for _ in range(30):
        network.reset()
        time.sleep(0.1)
    assert not gone(pid)
    assert held(box) == 1
    assert [row.state for row in box.local().queue().running] == ["running"]
    os.kill(pid, signal.SIGKILL)
    program.wait()
    until(lambda: not held(box))


def test_a_task_is_cancelled_before(box: RemoteBox, network: Forwarder) -> None:
    """And the `async with` says why."""
    gate = Gate.open(network.url, fence=FENCE)

    async def program() -> None:
        async with gate.slot("a/b"):
            network.cut()
            cut.append(time.monotonic())
            try:
                await asyncio.sleep(LONG)
            finally:
                cut.append(time.monotonic())

    cut: list[float] = []
    with pytest.raises(FencedError, match="not heard of"):
        asyncio.run(program())
    assert cut[1] - cut[0] < 2
    assert held(box) == 1
    until(lambda: looked_at(box) and not held(box))
    network.mend()
    gate.close()


def test_a_thread_that_does_not_listen_is_killed_with_its_process(
    box: RemoteBox, network: Forwarder
) -> None:
    """Nothing else would end it."""
    program = box.python(
        "lease = gate.slot('a/b', on_end=lambda why: print(type(why).__name__)).acquire()\n"
        "print(os.getpid())\n"
        "while True: time.sleep(1)\n"
    )
    pid = int(program.line())
    network.cut()
    assert program.line() == "FencedError"
    assert ends_before_it_is_given_on(box, pid) < 2.5
    assert program.wait() == -signal.SIGKILL


def test_never(box: RemoteBox, network: Forwarder) -> None:
    """Such a client is counted for as long as it is silent, and is there again afterwards."""
    box.env["HEADGATE_FENCE"] = "never"
    program, pid = holder(box)
    network.cut()
    time.sleep(5)
    assert held(box) == 1
    assert not gone(pid)
    network.mend()
    os.kill(pid, signal.SIGKILL)
    program.wait()
    until(lambda: not held(box))


def test_a_cancel_from_elsewhere_ends_it(box: RemoteBox, network: Forwarder) -> None:
    """The client hears of it with its renewal, and the seats come back when it has ended."""
    program = box.run("-m", "a/b", "--", "sh", "-c", "echo $$; exec sleep 1000")
    pid = int(program.line())
    assert box.local().cancel(box.rows("lease")[0][0]) == "ended"
    assert gone(pid)
    assert program.wait() == 128 + signal.SIGTERM


def test_a_person_frees_what_is_silent(box: RemoteBox, network: Forwarder) -> None:
    """Not before it is suspect; and the client that comes back ends what it had."""
    box.env["HEADGATE_FENCE"] = "60s"
    program, pid = holder(box)
    id = str(box.rows("lease")[0][0])
    program.send(signal.SIGSTOP)
    words = (HEADGATE, "--store", box.store, "release", id)
    said = box.start(*words)
    assert said.wait() == 2
    assert "was heard of" in said.line(stream="stderr")
    program.send(signal.SIGCONT)
    os.kill(pid, signal.SIGKILL)
    program.wait()


def test_a_client_that_sleeps_in_the_line_finds_out_first(
    box: RemoteBox, network: Forwarder
) -> None:
    """Stopped beyond its fence, its turn come meanwhile, it starts nothing on the old grant."""
    lease = box.local().slot("a/b").acquire()
    waiter = box.run("-m", "a/b", "--", "sh", "-c", "echo up")
    until(lambda: box.rows("ticket"))
    waiter.send(signal.SIGSTOP)
    lease.release()
    until(lambda: looked_at(box) and not box.rows("lease") and not box.rows("ticket"))
    with box.local().slot("a/b", timeout=LONG):
        waiter.send(signal.SIGCONT)
        until(lambda: box.rows("ticket"))
        assert waiter.silent()
    assert waiter.line() == "up"
    assert waiter.wait() == 0


def test_a_server_that_is_gone_is_told(box: RemoteBox) -> None:
    """With its name, and nothing of the token."""
    box.server.kill()
    gate = Gate.open(box.url, token="secret")
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:\d+ refused the connection") as caught:
        gate.slot("a/b", timeout=1).acquire()
    assert "secret" not in str(caught.value)


def test_many_threads_of_one_client(box: RemoteBox) -> None:
    """Each gets its turn, and never more are in than may be."""
    box.local().set_limit("a/b", 3)
    gate = box.gate()
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(3):
            with gate.slot("a/b", timeout=LONG):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.01)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert inside == 0
    assert 1 < most <= 3


def guardians(parent: int) -> list[int]:
    """The guardians that a process has."""
    children = [
        int(pid)
        for task in Path(f"/proc/{parent}/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]
    return [pid for pid in children if b"guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def looked_at(box: RemoteBox) -> bool:
    """Have somebody look at the store, who frees what is to be freed."""
    return bool(box.local().status().pools)
