"""Another version is installed over one whose processes run, in the same environment.

They have loaded some of their modules, and load the rest when they need it: from files that are
another version's by now. Under the version before, that is this version, and it all has to fit.
Under this version it is one of which nothing can be loaded at all: nothing has to be.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.support import Program, until
from tests.upgrade.conftest import WHEEL, Installed, Version
from tests.work.conftest import JobBox
from tests.work.scene import BRISK, Scene

MAX_HOLD = 10.0
"""Seconds: enough for an installation in between."""
CONFIG = f"""
{BRISK.replace('grace = "1s"', 'grace = "10s"')}
[pools."long/*"]
limit = 4
max_hold = "{MAX_HOLD:g}s"
[pools."one/*"]
limit = 1
[pools."two/*"]
limit = 2
"""
CHANGED = """
[profiles.mine]
like = "claude"
[[classify]]
line = "slow down"
signal = "rate-limited"
[[notify]]
name = "none"
events = ["limit_reduced"]
command = ["true"]
[pools."asked/*"]
limit = 9
usage = { kind = "json", url = "http://127.0.0.1:9/", used = "count" }
"""
PROGRAM = """
other = Gate.open(usage={"counted/x": lambda: 0})
with gate.slot("p/q", label="mine") as lease:
    print("in")
    sys.stdin.readline()
    lease.answered(429, {"retry-after": "1"}, b"")
    lease.report("accepted")
    print(gate.capacity("p/q").state, len(gate.queue().running) > 0, len(gate.status().pools) > 0)
with other.slot("counted/x"):
    print("again")
"""
ASKS = """
print(len(gate.plan([Candidate("one/x")]).verdicts))
try:
    gate.cancel(lease.id)
except UsageError:  # it has ended
    print("out")
"""
"""What a program of the version before cannot do any more once other files are in place."""

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc"),
]


class Cast:
    """Processes of one version at different moments of their lives."""

    def __init__(self, scene: Scene, version: Version, more: str) -> None:
        self.scene = scene
        self.box = scene.box
        self.version = version
        kind = scene.cast("claude", "--requests", "3", "--pause", "0.2")
        self.worker = version.worker()
        self.holder = version.holder("one/x")
        self.waiter = version.waiter("one/x", "sh", "-c", "exit 7")
        self.cancelled = version.holder("c/d")
        self.ended = version.holder("e/f")
        self.program = version.python(PROGRAM + more)
        assert self.program.line() == "in"
        self.end = scene.box.folder / "end"
        script = f"until test -e {self.end}; do sleep 0.05; done; exit 3"
        jobs = [("-m", "two/x", "--", "sh", "-c", script)] * 4
        self.jobs = [version.submit(*words) for words in jobs]
        self.orphan = version.submit(
            "--", "sh", "-c", f"until test -e {self.end}; do sleep 0.05; done"
        )
        scene.shut()
        self.parked = version.submit("--cwd", str(self.box.folder), "--", kind.program, *kind.words)
        until(lambda: self.box.events("parked"))
        self.overdue = version.submit("-m", "long/y", "--", "sleep", "1000")
        self.late = version.run("long/x", "sh", "-c", "echo up; exec sleep 1000")
        assert self.late.line() == "up"
        for id in (*self.jobs[:2], self.overdue, self.orphan):
            self.box.until_state(id, "running")
        until(lambda: all(row[13] for row in self.box.rows("lease") if row[18]))
        members = (self.holder, self.waiter, self.cancelled, self.ended, self.program, self.late)
        until(lambda: all(threads(each) <= 2 for each in members))

    def lease(self, key: str) -> int:
        return int(next(row[0] for row in self.box.rows("lease") if row[2] == key))


def threads(program: Program) -> int:
    """How many threads it has: its own, the gate's, and for a while the one that loads modules."""
    return len(os.listdir(f"/proc/{program.pid}/task"))  # noqa: PTH208


@pytest.mark.parametrize("moment", ["before", "this"])
def test_processes_go_on_when_their_files_are_replaced(
    moment: str, box: JobBox, place: Installed, wheel: Path, following: Path
) -> None:
    """Whatever each was doing, it goes on, and its end is recorded as what it was."""
    first, then = (WHEEL, wheel) if moment == "before" else (wheel, following)
    place.install(first)
    version = Version(box, place.headgate, place.python)
    cast = Cast(Scene(box, config=CONFIG), version, ASKS if moment == "this" else "")
    place.install(then)
    now = Version(box)
    now.do("status")
    box.config(CONFIG + CHANGED)

    os.kill(box.runner(cast.orphan), signal.SIGKILL)
    assert cast.ended.end() == 0
    now.do("cancel", str(cast.lease("c/d")))
    assert cast.cancelled.wait() == 143
    assert cast.holder.end() == 0
    assert cast.waiter.wait() == 7
    cast.program.go()
    said = ["paused True True", "again", *(("1", "out") if moment == "this" else ())]
    assert [cast.program.line() for _ in said] == said
    assert cast.program.wait() == 0, cast.program.process.stderr

    until(lambda: box.events("adopted"))
    late = now.submit("-m", "two/x", "--", "sh", "-c", "exit 4")
    cast.end.touch()
    cast.scene.provider.plan(cap=50)
    now.do("resume", str(box.events("paused")[0][6]))
    assert cast.late.wait() == 143
    for id in (*cast.jobs, late, cast.overdue):
        box.until_state(id, "failed")
    for id in (cast.orphan, cast.parked):
        box.until_state(id, "done")
    found = {id: now.asked("why", str(id)) for id in (*cast.jobs, late, cast.overdue)}
    assert [found[id]["exit"] for id in cast.jobs] == ["3:0"] * 4
    assert {len(found[id]["attempts"]) for id in cast.jobs} == {1}
    assert (found[late]["exit"], found[cast.overdue]["code"]) == ("4:0", "max_hold")
    cast.worker.send(signal.SIGTERM)
    assert cast.worker.wait() == 0
    until(lambda: not now.asked("queue")["running"])
    assert box.left_over() == {}
    assert box.rows("process") == []
