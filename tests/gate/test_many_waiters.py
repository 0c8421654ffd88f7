"""Many processes that wait for one seat: they cost next to nothing, and are served at once."""

import os
import signal
import sys
import time
from functools import partial

import pytest

from tests.gate.test_watch import HOLD, member_of, watchman
from tests.support import LONG, Box, gone, until

pytestmark = pytest.mark.usefixtures("steady")
CROWD = """
import os, resource, signal, sys
from headgate import CancelledWorkError, Gate
from headgate.gate.liveness.preload_modules import preload
from headgate.gate.process_runtime import Runtime

number, files, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if files:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
preload()
if all(os.fork() for _ in range(number)):
    sys.stdin.read()
    os._exit(0)

looks = 0
take_in = Runtime._take_in_changes

def counted(self, ledger, **how):
    global looks
    looks += 1
    return take_in(self, ledger, **how)

def tell(*words):
    os.write(log, f"{' '.join(map(str, words))}\\n".encode())

Runtime._take_in_changes = counted
log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
signal.signal(signal.SIGUSR1, lambda *_: tell("looks", os.getpid(), looks))
gate = Gate.open()
try:
    with gate.slot("a/b"):
        tell("in", os.getpid())
except CancelledWorkError:
    tell("cancelled", os.getpid())
gate.close()
os._exit(0)
"""
"""So many processes that each wait for a seat; forked, because that is quicker."""


class Crowd:
    """Many who wait for a seat, and tell in a file that they got it."""

    def __init__(self, box: Box, number: int, *, files: int = 0, hold: str = HOLD) -> None:
        box.env["HEADGATE_LIMITS"] = "a/b=1,host=9999"
        self._box = box
        self._log = box.folder / "log"
        self.holder = box.python(hold, "a/b")
        assert self.holder.line() == "up"
        box.start(sys.executable, "-c", CROWD, str(number), str(files), str(self._log))
        until(lambda: len(box.rows("ticket")) == number, within=2 * LONG)

    def told(self, word: str) -> list[list[int]]:
        """What they have told so far."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [[int(n) for n in line.split()[1:]] for line in lines if line.startswith(word)]

    def pids(self) -> list[int]:
        """Those who wait, in the order in which they came."""
        members = {row[0]: row[2] for row in self._box.rows("member")}
        return [members[row[7]] for row in sorted(self._box.rows("ticket"))]

    def on_watch(self) -> int:
        """Who is on watch; 0 for nobody that lives."""
        members = {row[0]: row[2] for row in self._box.rows("member")}
        pid = members.get(watchman(self._box), 0)
        return 0 if gone(pid) else pid

    def looks(self) -> dict[int, int]:
        """How often each has looked at the store so far."""
        before, pids = len(self.told("looks")), self.pids()
        for pid in pids:
            os.kill(pid, signal.SIGUSR1)
        until(lambda: len(self.told("looks")) == before + len(pids))
        return {one[0]: one[1] for one in self.told("looks")[before:]}


def test_300_waiters_are_served_one_after_the_other(box: Box) -> None:
    """One seat goes through a crowd without a pause, and people can look on."""
    crowd = Crowd(box, 300)
    crowd.holder.kill()
    until(lambda: len(crowd.told("in")) > 0)
    assert "a/b" in box.headgate("queue")
    until(lambda: len(crowd.told("in")) >= 100)


def test_who_waits_does_not_look(box: Box) -> None:
    """Only the member on watch looks each second; a few look now and then whether it is there."""
    crowd = Crowd(box, 60)
    watch = crowd.on_watch()
    time.sleep(1.5)  # until the last have begun to wait
    before = crowd.looks()
    time.sleep(4)
    after = crowd.looks()
    looked = {pid: after[pid] - before[pid] for pid in after}
    assert 2 <= looked.pop(watch) <= 8
    assert sum(looked.values()) <= 30, "which was 4 for each of 59"
    assert sum(not number for number in looked.values()) >= 30


def test_somebody_takes_over_when_the_member_on_watch_is_killed(box: Box) -> None:
    """One of fifty takes over, and only one; what the dead held is given on."""
    crowd = Crowd(box, 50)
    for _ in range(3):
        watch = crowd.on_watch()
        os.kill(watch, signal.SIGKILL)
        until(partial(lambda watch: crowd.on_watch() not in {0, watch}, watch))
    until(lambda: len(crowd.pids()) == 47)
    crowd.holder.kill()
    until(lambda: len(crowd.told("in")) == 47)
    until(lambda: box.rows("member") == [])


def test_a_waiter_in_a_crowd_hears_at_once_that_it_was_cancelled(box: Box) -> None:
    """It sleeps for a minute if nobody wakes it: who cancels it does."""
    crowd = Crowd(box, 20)
    ids = sorted(row[0] for row in box.rows("ticket"))
    for id, pid in list(zip(ids, crowd.pids(), strict=True))[5:8]:
        box.headgate("cancel", str(id))
        until(partial(lambda pid: [pid] in crowd.told("cancelled"), pid), within=10)


def test_more_members_than_descriptors(box: Box) -> None:
    """The member on watch may not open a file for each: it looks at the rest each second."""
    crowd = Crowd(box, 90, files=80)
    victims = [pid for pid in crowd.pids() if pid != crowd.on_watch()][::3]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(box.rows("ticket")) == 90 - len(victims))
    crowd.holder.kill()
    until(lambda: len(crowd.told("in")) == 90 - len(victims))


def test_who_is_let_in_by_a_process_that_dies_before_it_wakes_anybody(box: Box) -> None:
    """The member on watch sees that nothing was started, and wakes it in its place."""
    hold = """
lease = gate.slot(sys.argv[1]).acquire()
print("up")
sys.stdin.read()
gate._runtime.registry.wake = lambda member: os._exit(9)
lease.release()
"""
    crowd = Crowd(box, 20, hold=hold)
    first = crowd.pids()[0]
    assert crowd.holder.end() == 9
    until(lambda: [first] in crowd.told("in"), within=10)


def test_the_last_in_line_is_named_as_the_successor(box: Box) -> None:
    """So that the post does not change hands with every seat; who was killed is not named."""
    box.env["HEADGATE_LIMITS"] = "a/b=1,host=9"
    holder = box.holder()
    first, second, third, last = (box.waiter() for _ in range(4))
    assert watchman(box) == member_of(box, first.pid)
    last.kill()
    assert holder.end() == 0
    assert first.line() == "up"
    until(lambda: watchman(box) == member_of(box, third.pid))
    assert first.end() == 0
    assert second.line() == "up"
    assert watchman(box) == member_of(box, third.pid)
    assert second.end() == third.end() == 0
