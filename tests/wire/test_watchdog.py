"""The watchdog of a wire: a wire is mended although nobody is left who looks after its agent."""

import os
import signal
import time
from pathlib import Path

from tests.support import gone, until
from tests.wire.stage import Asker, metered, watchdogs, wires
from tests.work.conftest import JobBox

SOON = 5.0
"""Seconds, on a busy machine; it takes half a second on a quiet one."""


def answered(agent: Asker) -> float:
    """Ask until there is an answer: how long that takes."""
    began = time.monotonic()
    while agent.ask()["status"] != 200:
        assert time.monotonic() - began < SOON
    return time.monotonic() - began


def kill(*pids: int) -> None:
    """As nearly at once as can be."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def guarded(box: JobBox) -> tuple[int, int]:
    """A wire and its watchdog, when both are there."""

    def look() -> tuple[int, int] | None:
        """One look, for the next may find others."""
        found, dogs = wires(box), watchdogs(box)
        return (next(iter(found)), next(iter(dogs))) if len(found) == len(dogs) == 1 else None

    pair = until(look)
    assert pair is not None
    return pair


def test_runner_and_wire_are_killed(box: JobBox) -> None:
    """The agent of a `run` goes on, as often as its wire is killed; in the end all is gone."""
    _, agent = metered(box)
    assert agent.ask()["status"] == 200
    runner = agent.program.process.pid
    for _ in range(3):
        wire, _ = guarded(box)
        kill(*(pid for pid in (wire, runner) if not gone(pid)))
        answered(agent)
        assert wire not in wires(box)
    agent.program.go()
    until(lambda: gone(agent.pid))
    until(lambda: not wires(box) and not watchdogs(box))
    until(lambda: not list(Path(f"{box.path}.wire").iterdir()))


def test_the_runner_is_killed_after_its_wire(box: JobBox) -> None:
    """Before it could mend it: that is noticed at once."""
    _, agent = metered(box)
    wire, _ = guarded(box)
    os.kill(agent.program.process.pid, signal.SIGSTOP)
    kill(wire)
    agent.start()
    kill(agent.program.process.pid)
    assert agent.read()["status"] == 200


def test_the_runner_is_stopped(box: JobBox) -> None:
    """It is not waited for; when it goes on, it finds the new wire, and ends it at the end."""
    _, agent = metered(box)
    wire, _ = guarded(box)
    os.kill(agent.program.process.pid, signal.SIGSTOP)
    kill(wire)
    answered(agent)
    other, _ = guarded(box)
    os.kill(agent.program.process.pid, signal.SIGCONT)
    for _ in range(3):
        answered(agent)
    assert guarded(box)[0] == other
    assert agent.program.end() == 0
    until(lambda: not wires(box) and not watchdogs(box))


def test_a_runner_that_lives_mends_it(box: JobBox) -> None:
    """There is one wire then, and one watchdog, and the runner talks with it."""
    _, agent = metered(box)
    wire, dog = guarded(box)
    kill(wire)
    assert agent.ask()["status"] == 200
    until(lambda: gone(dog))
    other, _ = guarded(box)
    assert other != wire
    assert agent.program.end() == 0
    until(lambda: not wires(box) and not watchdogs(box))


def test_a_killed_watchdog_is_replaced(box: JobBox) -> None:
    """The next one does what it would have done."""
    _, agent = metered(box)
    _, dog = guarded(box)
    kill(dog)
    until(lambda: gone(dog) and len(watchdogs(box)) == 1)
    wire, _ = guarded(box)
    kill(wire, agent.program.process.pid)
    answered(agent)


def test_one_that_is_asked_to_end_is_mended_too(box: JobBox) -> None:
    """As long as its agent is there; SIGTERM says nothing about that."""
    _, agent = metered(box)
    wire, _ = guarded(box)
    kill(agent.program.process.pid)
    os.kill(wire, signal.SIGTERM)
    answered(agent)
    until(lambda: gone(wire))
