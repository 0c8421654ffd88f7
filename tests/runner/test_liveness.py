"""A seat is held exactly as long as its user lives, however the user and its wrapper end."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate.core.times import Seconds
from headgate.gate.liveness.process_marks import end
from tests.support import HEADGATE, LONG, Box, Program, gone, pool_of, until

pytestmark = pytest.mark.usefixtures("steady")
SOON = 5.0
"""Seconds, on a machine that does other things too. Alone it takes a few milliseconds."""

PLAIN = "echo $$; exec sleep 1000"
SHELL = "echo $$; sleep 1000 & wait"
STUBBORN = "trap '' TERM INT HUP; echo $$; while :; do sleep 0.1; done"
DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.write(1, f"{os.getpid()}\\n".encode())
os.closerange(0, 4096)
time.sleep(1000)
"""
AGENTS = {
    "plain": ["sh", "-c", PLAIN],
    "a shell with a child": ["sh", "-c", SHELL],
    "ignores SIGTERM": ["sh", "-c", STUBBORN],
    "double-forked, without descriptors": [sys.executable, "-I", "-S", "-c", DAEMON],
}


@pytest.fixture
def one(box: Box) -> Box:
    """A box in which a/b has one seat."""
    box.gate().set_limit("a/b", 1)
    return box


def orphan(box: Box, *argv: str) -> int:
    """An agent whose wrapper was killed; its pid."""
    program = box.run("-m", "a/b", "--grace", "300ms", "--", *argv)
    pid = int(program.line())
    box.pids.append(pid)
    program.kill()
    return pid


def starts(waiter: Program, begun: float) -> None:
    assert waiter.line() == "up"
    assert time.monotonic() - begun < SOON
    assert waiter.end() == 0


@pytest.mark.parametrize("kind", AGENTS)
def test_an_agent_whose_wrapper_was_killed_keeps_its_seat(one: Box, kind: str) -> None:
    """It is still counted, shown as orphaned, and nobody else gets in; until it ends by itself."""
    pid = orphan(one, *AGENTS[kind])
    waiter = one.waiter()
    assert [(row["state"], row["key"]) for row in one.running()] == [("orphaned", "a/b")]
    assert pool_of(one.gate(), "a/b").in_use == 1
    assert waiter.silent()
    begun = time.monotonic()
    for victim in (pid, *children(pid)):
        os.kill(victim, signal.SIGKILL)
    starts(waiter, begun)
    assert one.events("lost")


def children(pid: int) -> list[int]:
    """Processes started by this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("kind", AGENTS)
def test_cancel_ends_an_orphan(one: Box, kind: str) -> None:
    """`cancel` ends every process of it, and returns when the seat is free."""
    pid = orphan(one, *AGENTS[kind])
    family = [pid, *children(pid)]
    id = one.running()[0]["id"]
    one.headgate("cancel", str(id), "--grace", "300ms")
    assert all(gone(member) for member in family)
    assert one.left_over() == {}


@pytest.mark.parametrize("kind", ["plain", "a shell with a child", "ignores SIGTERM"])
def test_cancel_ends_a_program_with_its_wrapper(one: Box, kind: str) -> None:
    """The wrapper ends its program, says why, and ends with the program's code."""
    stubborn = kind == "ignores SIGTERM"
    grace = "300ms" if stubborn else f"{LONG:g}s"
    program = one.run("-m", "a/b", "--grace", grace, "--", *AGENTS[kind])
    pid = int(program.line())
    family = [pid, *children(pid)]
    one.headgate("cancel", str(one.running()[0]["id"]), "--grace", grace)
    assert all(gone(member) for member in family)
    assert program.wait() == (137 if stubborn else 143)
    assert "cancelled by hand" in program.line(stream="stderr")
    assert one.left_over() == {}


def test_cancel_ends_what_has_shed_its_environment(one: Box) -> None:
    """A stubborn stray without the mark is still a child of the wrapper: it is ended as well."""
    inner = shlex.quote(STUBBORN)
    program = one.run(
        "-m", "a/b", "--grace", "300ms", "--", "sh", "-c", f"env -i sh -c {inner} & wait"
    )
    pid = int(program.line())
    one.pids.append(pid)
    one.headgate("cancel", str(one.running()[0]["id"]), "--grace", "300ms")
    assert gone(pid)
    program.wait()
    assert one.left_over() == {}


def test_an_agent_ends_by_itself_after_its_wrapper(one: Box) -> None:
    """Nobody looks, nobody cancels: the waiter of another process is told when the agent ends."""
    program = one.run("-m", "a/b", "--", "sh", "-c", "echo up; read x")
    assert program.line() == "up"
    program.kill()
    waiter = one.waiter()
    begun = time.monotonic()
    program.go()
    starts(waiter, begun)


def test_wrapper_and_agent_killed_together(one: Box) -> None:
    """The seat is free at once, not after a timeout."""
    program = one.run("-m", "a/b", "--", "sh", "-c", PLAIN)
    pid = int(program.line())
    waiter = one.waiter()
    begun = time.monotonic()
    program.send(signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    starts(waiter, begun)
    assert gone(pid)


def test_wrapper_and_agent_killed_with_nobody_waiting(one: Box) -> None:
    """The next one to come finds the seat free, and the dead are off the books."""
    program = one.run("-m", "a/b", "--", "sh", "-c", PLAIN)
    pid = int(program.line())
    os.kill(pid, signal.SIGSTOP)
    program.kill()
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))
    assert one.run("-m", "a/b", "--no-wait", "--", "true").wait() == 0
    assert one.left_over() == {}


def test_only_the_agent_is_killed(one: Box) -> None:
    """The wrapper gives the seat back and says 137."""
    program = one.run("-m", "a/b", "--", "sh", "-c", PLAIN)
    pid = int(program.line())
    waiter = one.waiter()
    begun = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    assert program.wait() == 137
    starts(waiter, begun)
    assert one.left_over() == {}


def test_a_stray_that_hands_over_to_another(one: Box) -> None:
    """A stray that starts a successor and ends does not lose the seat in between."""
    script = (
        "import os, sys, time\n"
        "os.closerange(3, 4096)\n"
        "for n in range(3):\n"
        "    print(os.getpid(), flush=True)\n"
        "    sys.stdin.readline()\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "print(os.getpid(), flush=True)\n"
        "sys.stdin.readline()\n"
    )
    program = one.run("-m", "a/b", "--", sys.executable, "-I", "-u", "-c", script)
    pids = [int(program.line())]
    program.kill()
    waiter = one.waiter()
    assert program.process.stdin is not None
    for _ in range(3):
        program.process.stdin.write(b"\n")
        program.process.stdin.flush()
        pids.append(int(program.line()))
        until(lambda: gone(pids[-2]))
        assert [row["state"] for row in one.running()] == ["orphaned"]
        assert waiter.silent()
    begun = time.monotonic()
    program.go()
    starts(waiter, begun)


def test_many_seats_of_the_dead_free_together(box: Box) -> None:
    """Ten killed holders make room for ten waiters."""
    box.env["HEADGATE_LIMITS"] = "a/b=5,host=99"
    program = "leases = [gate.slot('a/b').acquire() for _ in range(5)]; print('up'); time.sleep(99)"
    holder = box.python(program)
    assert holder.line() == "up"
    waiters = [box.waiter() for _ in range(5)]
    begun = time.monotonic()
    holder.kill()
    assert [waiter.line() for waiter in waiters] == ["up"] * 5
    assert time.monotonic() - begun < SOON
    for waiter in waiters:
        assert waiter.end() == 0
    assert box.left_over() == {}


def test_a_wrapper_that_is_stopped_keeps_its_seat(one: Box) -> None:
    """Stopped is not dead, however long it takes."""
    program = one.run("-m", "a/b", "--", "sh", "-c", PLAIN)
    pid = int(program.line())
    until(lambda: one.rows("lease")[0][13] == pid)  # it has nothing more to write
    program.send(signal.SIGSTOP)
    os.kill(pid, signal.SIGSTOP)
    waiter = one.waiter()
    with pytest.raises(AssertionError):
        waiter.line(within=1.5)
    assert pool_of(one.gate(), "a/b").in_use == 1
    program.send(signal.SIGCONT)
    os.kill(pid, signal.SIGKILL)
    assert program.wait() == 137
    assert waiter.line() == "up"
    assert waiter.end() == 0


def test_cancel_from_within(one: Box) -> None:
    """An agent may cancel itself: it ends, and so does its seat."""
    program = one.run(
        "-m", "a/b", "--grace", "300ms", "--", "sh", "-c",
        f"{HEADGATE} cancel ${{HEADGATE_LEASE#*.}}; sleep 1000",
    )  # fmt: skip
    assert program.wait() in {137, 143}
    until(lambda: one.left_over() == {})


def _unshare() -> str:
    """Why process namespaces cannot be made here; empty if they can."""
    try:
        probe = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        )
    except OSError as error:
        return f"no unshare(1) here: {error}"
    return probe.stderr.decode().strip() if probe.returncode else ""


class TestContainers:
    """Two process namespaces that share the state folder, as two containers would."""

    @pytest.fixture(autouse=True)
    def _can(self) -> None:
        if why := _unshare():
            pytest.skip(f"CONTAINERS NOT TESTED: {why}")

    def inside(self, box: Box, *argv: str) -> Program:
        """Start something in a process namespace of its own."""
        return box.start("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *argv)

    def run(self, box: Box, script: str) -> Program:
        return self.inside(box, HEADGATE, "run", "-m", "a/b", "--", "sh", "-c", script)

    def test_caps_hold_between_them(self, one: Box) -> None:
        """A seat taken in one is taken in the other, and handed over when given back."""
        first = self.run(one, "echo up; exec cat")
        assert first.line() == "up"
        second = self.run(one, "echo up; exec cat")
        assert "1/1" in second.line(stream="stderr")
        outside = one.waiter()
        assert first.end() == 0
        assert second.line() == "up"
        assert outside.silent()
        assert second.end() == 0
        assert outside.line() == "up"
        assert outside.end() == 0
        assert one.left_over() == {}

    def test_a_kill_in_one_frees_for_the_other(self, one: Box) -> None:
        """The whole container is killed: the waiter in the other starts at once."""
        first = self.run(one, "echo up; exec cat")
        assert first.line() == "up"
        second = self.run(one, "echo up; exec cat")
        assert "1/1" in second.line(stream="stderr")
        begun = time.monotonic()
        first.kill()
        assert second.line() == "up"
        assert time.monotonic() - begun < SOON
        assert second.end() == 0
        assert one.left_over() == {}

    def test_a_killed_wrapper_in_one_keeps_the_other_out(self, one: Box) -> None:
        """Its agent lives on in there: still counted out here, until it ends."""
        script = (
            f"{HEADGATE} run -m a/b -- sh -c 'echo up; read x' <&3 & wrapper=$!; "
            "read line; kill -9 $wrapper; wait $wrapper; echo killed; wait; sleep 1000"
        )
        pipe = one.folder / "pipe"
        os.mkfifo(pipe)
        hold = os.open(pipe, os.O_RDWR)
        try:
            container = self.inside(one, "sh", "-c", f"exec 3<{pipe}; {script}")
            assert container.line() == "up"
            waiter = one.waiter()
            container.go()
            assert container.line() == "killed"
            assert [row["state"] for row in one.running()] == ["orphaned"]
            assert waiter.silent()
            begun = time.monotonic()
            os.write(hold, b"\n")
            assert waiter.line() == "up"
            assert time.monotonic() - begun < SOON
        finally:
            os.close(hold)
        assert waiter.end() == 0

    def test_a_marked_stray_in_one_keeps_those_outside_out(self, one: Box) -> None:
        """A stray without its pipe is seen by its mark: the machine sees into its containers."""
        daemon = shlex.join([sys.executable, "-I", "-S", "-c", DAEMON])
        script = (
            f"{HEADGATE} run -m a/b -- {daemon} & wrapper=$!; "
            "read line; kill -9 $wrapper; wait $wrapper; echo killed; sleep 1000"
        )
        container = self.inside(one, "sh", "-c", script)
        assert container.line().isdigit()
        container.go()
        assert container.line() == "killed"
        assert [row["state"] for row in one.running()] == ["orphaned"]
        waiter = one.waiter()
        assert waiter.silent()
        begun = time.monotonic()
        container.kill()
        starts(waiter, begun)

    def test_what_a_program_left_running_keeps_its_seat_everywhere(self, one: Box) -> None:
        """A stray without the pipe is counted even where nobody can see it."""
        leave = (
            "import subprocess as s; s.Popen(['sleep', '1000'], start_new_session=True, "
            "stdin=s.DEVNULL, stdout=s.DEVNULL, stderr=s.DEVNULL)"
        )
        both = f'headgate run -m a/b -- "{sys.executable}" -c "{leave}"; echo over; exec cat'
        first = self.inside(one, "sh", "-c", both.replace("headgate", HEADGATE, 1))
        assert first.line() == "over"
        second = self.run(one, "echo up; exec cat")
        assert "1/1" in second.line(stream="stderr")
        first.kill()  # and with it all that is in its namespace
        assert second.line() == "up"
        assert second.end() == 0


def test_an_orphan_that_shed_its_environment_is_ended(one: Box) -> None:
    """`cancel` finds what still has the pipe, though nothing of it carries the mark."""
    program = one.run("-m", "a/b", "--", "env", "-i", "sleep", "1000")
    pid = int(until(lambda: sum(row[13] for row in one.rows("lease"))))
    program.kill()
    one.pids.append(pid)
    assert [row["state"] for row in one.running()] == ["orphaned"]
    one.headgate("cancel", str(one.running()[0]["id"]), "--grace", "5s")
    until(lambda: gone(pid))
    assert one.running() == []
    assert [event[7] for event in one.events("cancelled")] == ["cancelled by hand"]


def test_a_program_is_asked_first_however_long_it_is_looked_for() -> None:
    """Finding it may take longer than its grace; it is not killed before it was asked."""
    program = Program(["sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"])
    assert program.line() == "up"
    late = [0.0]

    def find() -> set[int]:
        late[0] = 60.0
        return {program.pid} if program.alive() else set()

    assert end(find, Seconds(LONG), clock=lambda: time.monotonic() + late[0])
    assert program.wait() == 7
    program.close()
