"""A machine is started again with its clock in the future; real processes, with clocks of ours."""

import json
from pathlib import Path

import pytest

from tests.support import HEADGATE, until
from tests.work.conftest import JobBox

CLOCKS = """
import json, os, sys, time
from pathlib import Path
from headgate.store import machine_and_clock as real

def said(name):
    return json.loads(Path(os.environ["TEST_CLOCK"]).read_text())[name]

time_ns, fixed = time.time_ns, real.__dict__.copy()
time.time_ns = lambda: time_ns() + said("error") * 1_000_000
time.time = lambda: time.time_ns() / 1e9
ours = {"machine_id": lambda: said("boot"), "synchronised": lambda: said("synchronised")}
for module in [it for name, it in sys.modules.items() if name.startswith("headgate")]:
    for name, function in ours.items():
        if getattr(module, name, None) is fixed.get(name, ours):
            setattr(module, name, function)
"""
YEARS = 5 * 365 * 86_400_000


class Machine:
    """What the clocks say in the processes of a box."""

    def __init__(self, box: JobBox) -> None:
        self._path = box.folder / "clock.json"
        folder = box.folder / "site"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(CLOCKS)
        box.env |= {"PYTHONPATH": str(folder), "TEST_CLOCK": str(self._path)}
        self.say("boot-1", error=0, synchronised=True)

    def say(self, boot: str, *, error: int, synchronised: bool) -> None:
        """Have this boot, and a clock that is wrong by so many milliseconds."""
        new = self._path.with_name("new.json")
        said = {"boot": boot, "error": error, "synchronised": synchronised}
        new.write_text(json.dumps(said))
        new.replace(self._path)


@pytest.fixture
def machine(box: JobBox) -> Machine:
    return Machine(box)


def left(box: JobBox, id: int) -> int:
    """In how many milliseconds of the store's clock a job expires."""
    (row,) = (row for row in box.rows("job") if row[0] == id)
    return int(row[13]) - max(int(event[1]) for event in box.rows("event"))


def paused(box: JobBox) -> bool:
    pools = box.asked("status")["pools"]
    return any(pool["pool"] == "q" and pool["paused"] for pool in pools)


def test_a_clock_in_the_future_at_boot(box: JobBox, machine: Machine) -> None:
    """No job expires, none is forgotten, jobs go on; put right, the clock is as it always was."""
    worker = box.worker("-q")
    old = box.finished("--", "echo", "kept")
    box.headgate("pause", "q", "--for", "2h")
    waits = box.submit("--expires", "1h", "-m", "q/x", "--", "true")
    worker.send(15)
    assert worker.wait() == 0

    machine.say("boot-2", error=YEARS, synchronised=False)
    worker = box.worker("-q")
    new = box.finished("--", "true")  # after the turn in which a worker clears up
    assert (box.state(waits), box.state(old), box.state(new)) == ("queued", "done", "done")
    assert box.headgate("logs", str(old)) == "kept\n"
    assert len(box.events("clock_doubted")) == 1
    doctor = json.loads(box.ask("doctor", "--json").out)
    assert "clock_doubted" in [finding["code"] for finding in doctor["findings"]]
    assert paused(box)

    machine.say("boot-2", error=0, synchronised=True)
    box.finished("--", "true")
    until(lambda: box.events("clock_corrected"))
    assert (box.state(waits), box.state(old)) == ("queued", "done")
    assert 0 < left(box, waits) <= 3_600_000
    assert paused(box)
    doctor = json.loads(box.ask("doctor", "--json").out)
    assert "clock_doubted" not in [finding["code"] for finding in doctor["findings"]]
    worker.send(15)
    worker.wait()

    machine.say("boot-3", error=0, synchronised=True)
    box.worker("-q")
    box.finished("--", "true")
    assert (box.state(waits), box.state(old)) == ("queued", "done")
    assert 0 < left(box, waits) <= 3_600_000
    assert len(box.events("clock_doubted")) == 1


def test_a_run_at_boot_sees_to_the_clock(box: JobBox, machine: Machine) -> None:
    """No worker is needed: whoever is first in a boot doubts its clock for all."""
    box.headgate("pause", "q", "--for", "2h")
    machine.say("boot-2", error=YEARS, synchronised=False)
    assert box.start(HEADGATE, "run", "-m", "q/x", "--no-wait", "--", "true").wait() == 75
    assert box.start(HEADGATE, "run", "-m", "r/x", "--no-wait", "--", "true").wait() == 0
    machine.say("boot-2", error=0, synchronised=True)
    assert box.start(HEADGATE, "run", "-m", "q/x", "--no-wait", "--", "true").wait() == 75
    box.headgate("resume", "q")
    assert box.start(HEADGATE, "run", "-m", "q/x", "--no-wait", "--", "true").wait() == 0


def test_where_the_clocks_are(box: JobBox, machine: Machine) -> None:
    """The processes of this test really have clocks of their own."""
    machine.say("boot-7", error=YEARS, synchronised=False)
    box.headgate("status")
    assert [row[0] for row in box.rows("note") if row[0].startswith("clock:")] == ["clock:boot-7"]
    assert Path(box.env["TEST_CLOCK"]).exists()
