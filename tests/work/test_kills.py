"""Agents and their runners are killed: what is refused is parked, what was killed has failed."""

import os
import signal
from functools import partial

import pytest

from tests.support import gone, until
from tests.work.conftest import JobBox
from tests.work.scene import KINDS, LIVE, Scene

STEPS = ("--requests", "4", "--pause", "0.2")


def adopted(box: JobBox, times: int) -> bool:
    return len(box.events("adopted")) == times


@pytest.mark.parametrize("name", LIVE)
def test_a_zombie_whose_runner_is_killed(name: str, box: JobBox) -> None:
    """Another runner goes on with it, ends it in time, and its job is parked with its session."""
    scene = Scene(box)
    kind = scene.cast(name, *STEPS)
    box.worker()
    id = scene.submit(kind)
    until(lambda: scene.done() and scene.done()[0].steps)
    scene.shut()
    until(lambda: box.events("paused"))
    scene.kill_runner(id)
    until(lambda: gone(scene.agents()[0]), within=2 + 5)
    box.until_state(id, "parked", within=5)
    assert [row[3] for row in box.events("adopted")] == [id]
    found = box.job(id)
    (first,) = found["attempt_list"]
    assert first["code"] == "rate_limited"
    assert (found["parks"], bool(found["session"])) == (1, True)
    (paused, *_) = box.events("paused")
    scene.open(paused[6])
    box.until_state(id, "done")
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False, True], [1, 2, 3, 4])


def test_a_zombie_that_nobody_is_left_to_mind(box: JobBox) -> None:
    """With worker and runner killed it keeps its seat, until a worker comes and sees to it."""
    scene = Scene(box)
    kind = scene.cast("claude", *STEPS)
    worker = box.worker()
    id = scene.submit(kind)
    until(lambda: scene.done() and scene.done()[0].steps)
    scene.shut()
    until(lambda: box.events("paused"))
    worker.kill()
    scene.kill_runner(id)
    assert [row["id"] for row in box.running()] == [id]
    assert not gone(scene.agents()[0])
    box.worker()
    until(lambda: gone(scene.agents()[0]), within=2 + 5)
    box.until_state(id, "parked", within=5)
    assert not box.running()


def test_the_runner_is_killed_again_and_again(box: JobBox) -> None:
    """The agent works on undisturbed, and what it did is not done a second time."""
    scene = Scene(box)
    kind = scene.cast("claude", "--requests", "30", "--pause", "0.2")
    box.worker()
    id = scene.submit(kind)
    for times in range(1, 4):
        until(lambda: scene.done() and scene.done()[0].steps)
        scene.kill_runner(id)
        until(partial(adopted, box, times))
    assert not gone(scene.agents()[0])
    assert len(box.job(id)["attempt_list"]) == 1
    os.kill(scene.agents()[0], signal.SIGKILL)
    box.until_state(id, "done")
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False, True], list(range(1, 31)))


@pytest.mark.parametrize("name", KINDS)
def test_an_agent_that_is_killed_has_failed(name: str, box: JobBox) -> None:
    """Nothing was refused, so nothing is parked: the exit says by which signal it ended."""
    scene = Scene(box)
    kind = scene.cast(name, "--requests", "9", "--pause", "1")
    box.worker()
    id = scene.submit(kind)
    until(lambda: scene.done() and scene.done()[0].steps)
    os.kill(scene.agents()[0], signal.SIGKILL)
    box.until_state(id, "failed")
    job = box.job(id)
    assert (job["exit"], job["code"], job["reason"]) == ("0:9", "signal", "killed by SIGKILL")
    assert len(job["attempt_list"]) == 1
    assert not box.rows("lease")


def test_a_zombie_that_will_not_go(box: JobBox) -> None:
    """What ignores SIGTERM and has left a process elsewhere is ended all the same, both of it."""
    scene = Scene(box)
    kind = scene.cast("opencode", *STEPS, "--ignore-term", "--stray")
    box.worker()
    scene.shut()
    id = scene.submit(kind, "--grace", "500ms")
    box.until_state(id, "parked")
    (done,) = scene.done()
    (stray,) = done.pids("stray", "child")
    assert scene.all_gone()
    assert gone(stray)
    assert not box.rows("lease")
