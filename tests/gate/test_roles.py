"""Roles, the most that one task may hold, and turns, with real processes on one store."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import HEADGATE, LONG, STEADY, Program, until
from tests.work.conftest import JobBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    it = JobBox(tmp_path)
    it.defaults = STEADY
    it.config(
        '[pools.host]\nlimit = 40\n[pools."role:reviewer"]\nlimit = 2\n'
        '[pools.a]\nper_task = 1\n[pools.b]\nlimit = 1\norder = "fair"\n'
    )
    yield it
    it.close()


def holder(box: JobBox, *words: str) -> Program:
    return box.start(HEADGATE, "run", *words, "--", "sh", "-c", "echo up; exec cat")


def do(box: JobBox, *words: str) -> None:
    subprocess.run(
        [HEADGATE, "limits", *words], env=box.env, check=True, timeout=LONG, stderr=subprocess.PIPE
    )


def running(box: JobBox) -> list[dict[str, object]]:
    said = subprocess.run(
        [HEADGATE, "queue", "--json"], env=box.env, capture_output=True, timeout=LONG, check=True
    )
    found: list[dict[str, object]] = json.loads(said.stdout)["running"]
    return found


def test_a_pool_of_a_role_counts_what_carries_it(box: JobBox) -> None:
    """Whatever its model; the third waits, and one without the role does not."""
    first = holder(box, "--role", "reviewer", "-m", "x/y")
    second = holder(box, "--role", "reviewer", "--role", "lead")
    assert first.line() == second.line() == "up"
    third = holder(box, "--role", "reviewer", "-m", "z/z")
    assert "role:reviewer is full (2/2)" in third.line(stream="stderr")
    other = holder(box, "--role", "lead", "-m", "x/y")
    assert other.line() == "up"
    assert first.end() == 0
    assert third.line() == "up"
    assert sorted(str(row["roles"]) for row in running(box)) == [
        "['lead', 'reviewer']",
        "['lead']",
        "['reviewer']",
    ]
    assert [one.end() for one in (second, third, other)] == [0, 0, 0]


def test_no_task_holds_more_than_it_may(box: JobBox) -> None:
    """Its second waits, and another task is not held up by that."""
    first = holder(box, "-m", "a/x", "--task", "t")
    assert first.line() == "up"
    second = holder(box, "-m", "a/x", "--task", "t")
    assert "its task holds all that one task may hold of a (1/1)" in second.line(stream="stderr")
    other = holder(box, "-m", "a/x", "--task", "u")
    assert other.line() == "up"
    assert first.end() == 0
    assert second.line() == "up"
    assert [one.end() for one in (second, other)] == [0, 0]


def test_tasks_take_turns(box: JobBox) -> None:
    """Of a task with an older line and one that came later, each has its turn."""
    first = holder(box, "-m", "b/x", "--task", "t")
    assert first.line() == "up"
    waiting = []
    for task in ("t", "t", "u", "u"):
        one = holder(box, "-m", "b/x", "--task", task)
        assert " waits, " in one.line(stream="stderr")
        waiting.append(one)
    one, two, three, four = waiting
    ends = first
    for following in (one, three, two, four):
        assert ends.end() == 0
        assert following.line() == "up"
        ends = following
    assert ends.end() == 0


def test_set_by_hand_it_counts_at_once(box: JobBox) -> None:
    """For those who wait already, too: they are told apart from then on."""
    do(box, "set", "c", "1", "--new")
    do(box, "order", "c", "fair", "--new")
    first = holder(box, "-m", "c/x", "--task", "t")
    assert first.line() == "up"
    second = holder(box, "-m", "c/x", "--task", "t")
    assert " waits, " in second.line(stream="stderr")
    do(box, "set", "c", "9")
    assert second.line() == "up"
    do(box, "per-task", "c", "1")
    third = holder(box, "-m", "c/x", "--task", "t")
    assert "its task holds all" in third.line(stream="stderr")
    do(box, "restore", "c")
    assert third.line() == "up"
    assert [one.end() for one in (first, second, third)] == [0, 0, 0]
    until(lambda: running(box) == [])


def test_set_in_the_configuration_it_counts_for_those_who_wait(box: JobBox) -> None:
    """They stood in one lane; the member on watch gives each task its own, and one goes past."""
    box.config("[pools.c]\nlimit = 1\n")
    first = holder(box, "-m", "c/x", "--task", "t")
    assert first.line() == "up"
    waiting = [holder(box, "-m", "c/x", "--task", task) for task in ("t", "u")]
    assert all(" waits, " in one.line(stream="stderr") for one in waiting)
    box.config("[pools.c]\nlimit = 3\nper_task = 1\n")
    second, other = waiting
    assert other.line() == "up"
    assert second.silent()
    assert first.end() == 0
    assert second.line() == "up"
    assert [one.end() for one in waiting] == [0, 0]
