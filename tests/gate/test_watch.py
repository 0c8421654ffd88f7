"""No process is special and none must be up: whoever waits keeps watch for all, whoever that is."""

import os
import signal
import time
from pathlib import Path

import apsw
import pytest

from tests.gate.test_blip import locked
from tests.support import Box, Program, gone, until

pytestmark = pytest.mark.usefixtures("steady")
HOLD = "lease = gate.slot(sys.argv[1]).acquire(); print('up'); time.sleep(1000)"


def watchman(box: Box) -> str:
    notes = dict(box.rows("note"))
    return next((text for name, text in notes.items() if name.startswith("watchman")), "")


def member_of(box: Box, pid: int) -> str:
    return next((row[0] for row in box.rows("member") if row[2] == pid), "")


def stop(box: Box, program: Program) -> None:
    """Stop a process between its transactions: stopped within one, it keeps the lock."""
    while True:
        program.send(signal.SIGSTOP)
        until(lambda: Path(f"/proc/{program.pid}/stat").read_text().split(") ")[1][0] == "T")
        try:
            with locked(box, patience=300):
                return
        except apsw.BusyError:
            program.send(signal.SIGCONT)
            time.sleep(0.02)


def test_the_first_who_waits_keeps_watch(box: Box) -> None:
    """The post goes to the first waiter, and on to the next when that one gets in."""
    gate = box.gate(limits={"host": 9})
    gate.set_limit("a/b", 1)
    lease = gate.slot("a/b").acquire()
    assert watchman(box) == ""
    first, second = box.waiter(), box.waiter()
    assert watchman(box) == member_of(box, first.pid)
    lease.release()
    assert first.line() == "up"
    until(lambda: watchman(box) == member_of(box, second.pid))
    assert first.end() == 0
    assert second.line() == "up"
    until(lambda: watchman(box) == "")
    assert second.end() == 0


def test_others_are_served_when_the_watchman_is_killed(box: Box) -> None:
    """The watchman and then the holder are killed: the next in line takes over and gets in."""
    box.env["HEADGATE_LIMITS"] = "a/b=1,host=9"
    program = box.python(HOLD, "a/b")
    assert program.line() == "up"
    waiters = [box.waiter() for _ in range(3)]
    waiters[0].kill()
    program.kill()
    begun = time.monotonic()
    assert waiters[1].line() == "up"
    assert time.monotonic() - begun < 5
    assert waiters[1].end() == 0
    assert waiters[2].end() == 0
    until(lambda: box.left_over() == {})


def test_others_are_served_when_watchman_and_holder_are_killed_together(box: Box) -> None:
    """Both at the same instant, whichever is noticed first."""
    box.env["HEADGATE_LIMITS"] = "a/b=1,host=9"
    for order in (1, -1):
        program = box.python(HOLD, "a/b")
        assert program.line() == "up"
        waiters = [box.waiter() for _ in range(2)]
        for victim in (program, waiters[0])[::order]:
            victim.send(signal.SIGKILL)
        begun = time.monotonic()
        assert waiters[1].line() == "up"
        assert time.monotonic() - begun < 5
        assert waiters[1].end() == 0


def test_others_are_served_while_the_watchman_is_stopped(box: Box) -> None:
    """Ctrl-Z on a waiting `run` must not leave the others without anyone who keeps watch."""
    box.env["HEADGATE_LIMITS"] = "a/b=1,a/c=1,host=9"
    kept, dies = box.python(HOLD, "a/b"), box.python(HOLD, "a/c")
    assert kept.line() == dies.line() == "up"
    stopped, waiter = box.waiter("a/b"), box.waiter("a/c")
    assert watchman(box) == member_of(box, stopped.pid)
    stop(box, stopped)
    dies.kill()
    assert waiter.line(within=10) == "up"
    assert waiter.end() == 0
    stopped.send(signal.SIGCONT)
    kept.kill()
    assert stopped.line() == "up"
    assert stopped.end() == 0


def test_a_death_is_noticed_that_happened_while_the_watchman_slept(box: Box) -> None:
    """A holder that came and was killed while the watchman was stopped is not overlooked."""
    box.env["HEADGATE_LIMITS"] = "a/b=1,a/c=1,host=9"
    kept = box.python(HOLD, "a/b")
    assert kept.line() == "up"
    stopped = box.waiter("a/b")
    stop(box, stopped)
    dies = box.python(HOLD, "a/c")
    assert dies.line() == "up"
    waiter = box.waiter("a/c")
    dies.kill()
    stopped.send(signal.SIGCONT)
    assert waiter.line(within=10) == "up"
    assert waiter.end() == 0


def test_a_killed_waiter_leaves_the_line_at_once(box: Box) -> None:
    """Its place vanishes for those behind it, without anyone asking."""
    box.env["HEADGATE_LIMITS"] = "a/b=1,host=9"
    holder = box.holder()
    for victim in (0, 1):  # the watchman itself, and one who is not
        waiters = [box.waiter() for _ in range(2)]
        last = box.run("-m", "a/b", "--", "true")
        assert "3rd in line" in last.line(stream="stderr")
        begun = time.monotonic()
        waiters[victim].kill()
        assert "2nd in line" in last.line(stream="stderr")
        assert time.monotonic() - begun < 5
        assert len(box.rows("ticket")) == 2
        for waiter in (waiters[1 - victim], last):
            waiter.send(signal.SIGTERM)
            assert waiter.wait() == 143
    assert holder.end() == 0
    assert box.left_over() == {}


def test_a_program_keeps_its_seat_when_a_wish_of_its_dead_owner_is_cleared(box: Box) -> None:
    """A killed process had a running program and a ticket: the ticket goes, the seat stays.

    The seat of a living program must not be handed on together with its owner's place in line.
    """
    box.env["HEADGATE_LIMITS"] = "a/b=1,a/c=1,host=9"
    script = """
import subprocess
lease = gate.slot("a/b", marked=True).acquire()
child = subprocess.Popen(
    ["sleep", "1000"], env={**os.environ, **lease.environment}, pass_fds=[gate.life_fd]
)
threading.Thread(target=lambda: gate.slot("a/c").acquire(), daemon=True).start()
while not gate.queue().total_waiting:
    time.sleep(0.01)
print(child.pid, flush=True)
time.sleep(1000)
"""
    holder = box.holder("a/c")
    owner = box.python(script)
    child = int(owner.line())
    box.pids.append(child)
    behind = box.waiter("a/c")
    owner.kill()
    assert holder.end() == 0
    assert behind.line() == "up"
    running = {row["key"]: row["state"] for row in box.running()}
    assert not gone(child)
    assert running == {"a/b": "orphaned", "a/c": "running"}
    waiter = box.waiter("a/b")
    os.kill(child, signal.SIGKILL)
    assert waiter.line() == "up"
    assert waiter.end() == behind.end() == 0
    until(lambda: box.left_over() == {})


def test_pipes_of_a_process_killed_before_its_first_row_are_cleared_up(box: Box) -> None:
    """Killed between making itself known and being written down: its pipes do not stay for ever."""
    box.headgate("status")
    with locked(box):
        program = box.run("--", "true")
        until(lambda: len(list(box.members.iterdir())) == 2)
        program.kill()
    long_ago = time.time() - 7200
    for path in box.members.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert box.run("--", "true").wait() == 0
    assert box.left_over() == {}
