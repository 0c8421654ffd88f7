"""When memory is nearly gone, one job is parked instead of something being killed by the kernel."""

import time

from tests.support import until
from tests.work.conftest import JobBox

NIGHTFALL = 'sleep 30 & while [ ! -e "$DAWN" ]; do sleep 0.05; done; sleep 1; kill $!'
"""Ends a second after dawn: until then everybody has looked at the configuration again."""
DANGER = '[pools.host]\nlimit = 9\nmemory_floor = "9000GiB"\n'


def test_the_youngest_of_the_lowest_priority_is_parked(box: JobBox) -> None:
    """One at a time, with its place kept; it comes back when there is memory again."""
    box.config("[pools.host]\nlimit = 9\n")
    box.worker()
    env = ("--env", f"DAWN={box.folder / 'dawn'}")
    jobs = [
        box.submit(*env, "-p", priority, "--", "sh", "-c", NIGHTFALL)
        for priority in ("background", "normal", "background", "interactive")
    ]
    until(lambda: all(box.state(id) == "running" for id in jobs))
    box.config(f"{DANGER}[jobs]\nrelieve = true\nbackoff = '1s'\n")
    box.until_state(jobs[2], "parked")
    assert (box.job(jobs[2])["code"], box.job(jobs[2])["parks"]) == ("relieved", 1)
    assert "memory" in box.job(jobs[2])["reason"] or "free" in box.job(jobs[2])["reason"]
    assert [box.state(id) for id in jobs if id != jobs[2]] == ["running"] * 3
    box.config("[pools.host]\nlimit = 9\n")
    box.until_state(jobs[2], "running")
    (box.folder / "dawn").touch()
    for id in jobs:
        box.until_state(id, "done")


def test_nothing_is_parked_unless_asked_for(box: JobBox) -> None:
    """By default only starts are held back; what runs is left alone."""
    box.config("[pools.host]\nlimit = 9\n")
    box.worker()
    env = ("--env", f"DAWN={box.folder / 'dawn'}")
    first = box.submit(*env, "--", "sh", "-c", NIGHTFALL)
    box.until_state(first, "running")
    box.config(DANGER)
    time.sleep(1.5)  # a worker looks at the file each second; what comes before that may start
    second = box.submit("--", "true")
    until(lambda: box.job(second)["code"] == "memory_low")
    assert box.state(first) == "running"
    (box.folder / "dawn").touch()
    box.until_state(first, "done")
    assert box.state(second) == "queued"
    box.config("")
    box.until_state(second, "done")
