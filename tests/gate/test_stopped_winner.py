"""Who is stopped idles no seat: it is passed over, or gives back what it has not begun to use."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gate.test_lost_pipes import can_unshare
from tests.gate.test_watch import stop
from tests.support import HEADGATE, Box, Program, until

pytestmark = pytest.mark.usefixtures("steady")
SOON = 5.0
"""Seconds, on a machine that does other things too. Alone it takes some milliseconds."""
TAKEN_BACK = 10.0
"""Seconds within which an idle seat is given on; it takes five, and the next look."""

RUN = """
from headgate.cli import main
gate.close()
main(["run", "-m", "a/b", "--", "sh", "-c", "echo up; exec cat"])
"""
SYNC = """
with gate.slot("a/b"):
    print("up")
    sys.stdin.read()
"""
ASYNC = """
import asyncio
async def work():
    async with gate.slot("a/b"):
        print("up")
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(work())
"""
KINDS = {"run": RUN, "with": SYNC, "async with": ASYNC}

STOPS = """
import signal
def stop_once(at, name):
    original = getattr(at, name)
    def stopping(*args, **more):
        setattr(at, name, original)
        print("stops", flush=True)
        signal.raise_signal(signal.SIGSTOP)
        return original(*args, **more)
    setattr(at, name, stopping)
"""
BEFORE_ITS_START = (
    STOPS
    + """
from headgate.gate.slot import Slot
stop_once(Slot, "_won")
"""
)
BEFORE_IT_KNOWS = (
    STOPS
    + """
from headgate.gate.process_runtime import Runtime
original = Runtime._catch_up
def catch_up(self, **how):
    if self.transactor.look(lambda ledger: ledger.tx.leases_of(self.registry.me)):
        Runtime._catch_up = original
        print("stops", flush=True)
        signal.raise_signal(signal.SIGSTOP)
    return original(self, **how)
Runtime._catch_up = catch_up
"""
)
"""It has been let in by somebody else, and has not looked yet."""


@pytest.fixture
def one(box: Box) -> Box:
    """A box in which a/b has one seat."""
    box.gate().set_limit("a/b", 1)
    return box


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def waits(box: Box, program: Program) -> int:
    """The ticket of a process that has just begun to wait."""
    return until(lambda: next((id for id, pid in tickets(box) if pid == program.pid), 0))


def tickets(box: Box) -> list[tuple[int, int]]:
    pids = {row[0]: row[2] for row in box.rows("member")}
    return [(row[0], pids.get(row[7], 0)) for row in box.rows("ticket")]


def reason(box: Box, id: int) -> str:
    gate = box.gate()
    return next((row.code for row in gate.queue().waiting if row.id == id), "")


def test_who_is_stopped_when_its_turn_comes_is_passed_over(one: Box) -> None:
    """The next gets in at once; the stopped one keeps its place, and `why` says why it waits."""
    holder, first, second, third = one.holder(), one.waiter(), one.waiter(), one.waiter()
    id = waits(one, first)
    stop(one, first)
    begun = time.monotonic()
    assert holder.end() == 0
    assert second.line(within=SOON) == "up"
    assert time.monotonic() - begun < SOON
    assert reason(one, id) == "pool_full"
    first.send(signal.SIGCONT)
    assert second.end() == 0
    assert first.line(within=SOON) == "up"  # before the third, which came later
    assert third.silent()
    assert first.end() == 0
    assert third.line(within=SOON) == "up"
    assert third.end() == 0
    assert one.left_over() == {}


def test_who_is_stopped_alone_starts_when_it_goes_on(one: Box) -> None:
    """Its seat stays free meanwhile, and nobody has to remind it."""
    holder, waiter = one.holder(), one.waiter()
    id = waits(one, waiter)
    stop(one, waiter)
    assert holder.end() == 0
    assert reason(one, id) == "process_stopped"
    assert "its process is stopped" in one.headgate("why", str(id))
    begun = time.monotonic()
    waiter.send(signal.SIGCONT)
    assert waiter.line(within=SOON) == "up"
    assert time.monotonic() - begun < SOON
    assert waiter.end() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_stopped_before_its_start_gives_its_seat_back(one: Box, kind: str) -> None:
    """Another gets it after a few seconds. It finds out when it goes on, and starts nothing."""
    winner = one.python(BEFORE_ITS_START + KINDS[kind])
    assert winner.line() == "stops"
    until(lambda: state(winner.pid) == "T")
    waiter = one.waiter()
    assert waiter.line(within=TAKEN_BACK) == "up"
    assert [row[2] for row in one.rows("event")].count("returned") == 1
    winner.send(signal.SIGCONT)
    until(lambda: one.rows("ticket"))
    assert winner.silent(for_seconds=0.5)
    assert waiter.end() == 0
    assert winner.line(within=SOON) == "up"
    assert winner.end() == 0
    assert one.left_over() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_its_old_place_when_it_goes_on(one: Box, kind: str) -> None:
    """Those who came later than its request still come after it."""
    holder = one.holder()
    winner = one.python(BEFORE_IT_KNOWS + KINDS[kind])
    id = waits(one, winner)
    second, third = one.waiter(), one.waiter()
    assert holder.end() == 0
    assert winner.line() == "stops"
    assert second.line(within=TAKEN_BACK) == "up"
    winner.send(signal.SIGCONT)
    assert waits(one, winner) == id
    assert second.end() == 0
    assert winner.line(within=SOON) == "up"
    assert third.silent()
    assert winner.end() == 0
    assert third.line(within=SOON) == "up"
    assert third.end() == 0
    assert one.left_over() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_else_wants_it(one: Box, kind: str) -> None:
    """Its seat is still its own when it goes on, however late that is."""
    winner = one.python(BEFORE_ITS_START + KINDS[kind])
    assert winner.line() == "stops"
    until(lambda: state(winner.pid) == "T")
    time.sleep(1.5)
    winner.send(signal.SIGCONT)
    assert winner.line(within=SOON) == "up"
    assert winner.end() == 0
    assert one.left_over() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_who_has_begun_keeps_its_seat_while_it_is_stopped(one: Box, kind: str) -> None:
    """A stopped runner whose program runs, and a stopped program at its work, lose nothing."""
    holder = one.python(KINDS[kind])
    assert holder.line() == "up"
    stop(one, holder)
    waiter = one.waiter()
    assert waiter.silent(for_seconds=8)
    holder.send(signal.SIGCONT)
    assert holder.end() == 0
    assert waiter.line(within=SOON) == "up"
    assert waiter.end() == 0


def test_it_keeps_its_seat_after_its_pipes_were_made_anew(one: Box) -> None:
    """What it has begun is told by its new pipes, too."""
    holder = one.python(SYNC)
    assert holder.line() == "up"
    waiter = one.waiter()
    for pipe in one.members.iterdir():
        pipe.unlink()
    until(lambda: len(list(one.members.iterdir())) == 4, within=SOON)
    stop(one, holder)
    assert waiter.silent(for_seconds=8)
    holder.send(signal.SIGCONT)
    assert holder.end() == 0
    assert waiter.line(within=SOON) == "up"
    assert waiter.end() == 0


def test_a_stopped_worker_is_given_no_jobs(one: Box) -> None:
    """Another worker starts them, or they wait for one."""
    worker = one.start(HEADGATE, "worker")
    until(lambda: any(row[5] for row in one.rows("member")))
    stop(one, worker)
    id = one.headgate("submit", "-m", "a/b", "--", "true").split()[0]
    assert one.gate().queue().waiting[0].code == "no_worker"
    other = one.start(HEADGATE, "worker")
    until(lambda: one.gate().jobs.counts().get("done"), within=SOON)
    assert id
    for each in (worker, other):
        each.send(signal.SIGCONT)
        each.send(signal.SIGTERM)
        assert each.wait() == 0


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A control group that can be frozen."""
    group = Path("/sys/fs/cgroup/freezer") / f"headgate-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs a control group of its own")
    yield group
    (group / "freezer.state").write_text("THAWED")
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_a_frozen_container_is_passed_over(one: Box, freezer: Path) -> None:
    """The kernel shows its processes as asleep; its control group says that they are frozen."""
    holder, first, second = one.holder(), one.waiter(), one.waiter()
    (freezer / "cgroup.procs").write_text(str(first.pid))
    (freezer / "freezer.state").write_text("FROZEN")
    until(lambda: (freezer / "freezer.state").read_text().strip() == "FROZEN")
    assert holder.end() == 0
    assert second.line(within=SOON) == "up"
    (freezer / "freezer.state").write_text("THAWED")
    assert second.end() == 0
    assert first.line(within=SOON) == "up"
    assert first.end() == 0


@pytest.mark.skipif(not can_unshare(), reason="needs another pid namespace")
def test_a_stopped_process_out_of_sight_gives_its_seat_back(one: Box) -> None:
    """Nobody knows that another container is paused; that it has not begun is seen."""
    holder = one.holder()
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", HEADGATE]
    first = one.start(*words, "run", "-m", "a/b", "--", "sh", "-c", "echo up; exec cat")
    assert " waits, " in first.line(stream="stderr")
    inner = int(subprocess.check_output(["pgrep", "-P", str(first.pid)]))
    second = one.waiter()
    os.kill(inner, signal.SIGSTOP)
    assert holder.end() == 0
    assert second.line(within=TAKEN_BACK) == "up"
    os.kill(inner, signal.SIGCONT)
    assert first.silent(for_seconds=1)
    assert second.end() == 0
    assert first.line(within=SOON) == "up"
    first.go()
    assert first.wait() == 0
