"""A missing pipe is not a death: only certainty frees a seat, and the living make theirs anew."""

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gate.test_watch import stop
from tests.support import HEADGATE, Box, Program, gone, until

pytestmark = pytest.mark.usefixtures("steady")
SOON = 5.0
"""Seconds, on a machine that does other things too. Alone it takes some milliseconds."""
SHED = "env -i sh -c 'echo $$; exec sleep 1000'"
"""A program without the mark, which has the pipe."""


@pytest.fixture
def one(box: Box) -> Box:
    """A box in which a/b has one seat."""
    box.gate().set_limit("a/b", 1)
    return box


def pipes(box: Box) -> list[Path]:
    return sorted(box.members.iterdir()) if box.members.exists() else []


def are_whole(box: Box, members: int) -> bool:
    found = pipes(box)
    return len(found) == 2 * members and all(pipe.is_fifo() for pipe in found)


def remove(box: Box) -> None:
    shutil.rmtree(box.members)


def remove_files(box: Box) -> None:
    for pipe in pipes(box):
        pipe.unlink()


def put_files(box: Box) -> None:
    for pipe in pipes(box):
        pipe.unlink()
        pipe.touch()


def put_folders(box: Box) -> None:
    for pipe in pipes(box):
        pipe.unlink()
        pipe.mkdir()


def put_other_pipes(box: Box) -> None:
    """As a backup does that is copied back."""
    for pipe in pipes(box):
        pipe.unlink()
        os.mkfifo(pipe)


def move_away(box: Box) -> None:
    box.members.rename(box.members.with_name("elsewhere"))


WAYS: list[Callable[[Box], None]] = [
    remove,
    remove_files,
    put_files,
    put_folders,
    put_other_pipes,
    move_away,
]


def starts(waiter: Program) -> None:
    assert waiter.line(within=SOON) == "up"


@pytest.mark.parametrize("spoil", WAYS)
def test_a_holder_keeps_its_seat_without_its_pipes(one: Box, spoil: Callable[[Box], None]) -> None:
    """Whatever was done to the folder, nobody is let in beside it; and its end is still seen."""
    holder = one.holder()
    spoil(one)
    waiter = one.waiter()
    assert waiter.silent(for_seconds=2.5)
    assert [row["state"] for row in one.running()] == ["running"]
    holder.kill()
    holder.go()  # its program ends, too
    starts(waiter)
    assert waiter.end() == 0


@pytest.mark.parametrize("spoil", [way for way in WAYS if way is not put_folders])
def test_the_living_make_their_pipes_anew(one: Box, spoil: Callable[[Box], None]) -> None:
    """Holder and waiter have new pipes as soon as somebody looks, and are woken through them."""
    holder, waiter = one.holder(), one.waiter()
    spoil(one)
    until(lambda: are_whole(one, 2), within=SOON)
    begun = time.monotonic()
    assert holder.end() == 0
    starts(waiter)
    assert time.monotonic() - begun < SOON
    assert waiter.end() == 0
    assert one.left_over() == {}


def test_a_waiter_without_its_pipes_keeps_its_place(one: Box) -> None:
    """Who comes later does not get in before one whose pipes were removed."""
    holder, first = one.holder(), one.waiter()
    remove(one)
    second = one.waiter()
    assert holder.end() == 0
    starts(first)
    assert second.silent()
    assert first.end() == 0
    starts(second)
    assert second.end() == 0
    assert one.left_over() == {}


def test_a_stopped_holder_keeps_its_seat_without_its_pipes(one: Box) -> None:
    """It cannot make them anew before it goes on; nobody takes that for its end."""
    holder = one.holder()
    stop(one, holder)
    remove(one)
    waiter = one.waiter()
    assert waiter.silent(for_seconds=2.5)
    holder.send(signal.SIGCONT)
    until(lambda: are_whole(one, 2), within=SOON)
    assert holder.end() == 0
    starts(waiter)
    assert waiter.end() == 0


@pytest.mark.parametrize("command", ["echo $$; exec sleep 1000", SHED])
def test_a_program_keeps_its_seat_without_its_runner_and_the_pipes(one: Box, command: str) -> None:
    """An orphan is found by its mark, or by the pipe that it inherited, which has no file."""
    holder = one.run("-m", "a/b", "--", "sh", "-c", command)
    pid = int(holder.line())
    one.pids.append(pid)
    holder.kill()
    remove(one)
    waiter = one.waiter()
    assert waiter.silent(for_seconds=2.5)
    assert [row["state"] for row in one.running()] == ["orphaned"]
    os.kill(pid, signal.SIGKILL)
    starts(waiter)
    assert waiter.end() == 0


def test_a_program_is_found_by_its_pipe_after_its_runner_made_another(one: Box) -> None:
    """The runner makes its pipes anew and is killed; its program has the old one only."""
    holder = one.run("-m", "a/b", "--", "sh", "-c", SHED)
    pid = int(holder.line())
    one.pids.append(pid)
    remove(one)
    waiter = one.waiter()
    until(lambda: are_whole(one, 2), within=SOON)
    holder.kill()
    assert waiter.silent(for_seconds=2.5)
    assert not gone(pid)
    id = one.running()[0]["id"]
    one.headgate("cancel", str(id), "--grace", "300ms")
    assert gone(pid)
    starts(waiter)
    assert waiter.end() == 0


def test_cancel_reaches_a_holder_without_its_pipes(one: Box) -> None:
    """It is told to end through the pipe that it still has open."""
    holder = one.holder()
    id = one.running()[0]["id"]
    remove(one)
    one.headgate("cancel", str(id), within=SOON)
    assert holder.wait() == 143
    assert one.left_over() == {}


def test_pipes_removed_between_joining_and_the_grant(one: Box) -> None:
    """The folder vanishes while the transaction is open in which a process becomes a member."""
    script = """
import shutil
from headgate.gate.liveness.membership import Membership
begin = Membership.begin
def spoil(self, ledger):
    begin(self, ledger)
    shutil.rmtree(self.registry.folder, ignore_errors=True)
Membership.begin = spoil
lease = gate.slot("a/b").acquire()
print("up")
sys.stdin.read()
"""
    holder = one.python(script)
    assert holder.line() == "up"
    waiter = one.waiter()
    assert waiter.silent(for_seconds=2.5)
    assert holder.end() == 0
    starts(waiter)
    assert waiter.end() == 0


def test_a_process_without_descriptors_takes_nobody_for_dead(one: Box) -> None:
    """Who cannot open anything cannot know, and frees nothing."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
gate.slot("other/x").acquire().release()
used = []
try:
    while True:
        used.append(os.dup(0))
except OSError:
    pass
from headgate.ledger import dead_members
print(gate._runtime.transactor.look(dead_members.find_dead))
os._exit(0)
"""
    holder = one.run("-m", "a/b", "--", "sh", "-c", "echo $$; exec sleep 1000")
    pid = int(holder.line())
    one.pids.append(pid)
    assert one.python(script).line() == "[]"
    holder.kill()
    assert one.python(script).line() in {"[]", ""}  # it found nobody dead, or it found out nothing


def can_unshare() -> bool:
    try:
        words = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="needs another pid namespace")
def test_who_is_out_of_sight_keeps_its_seat_without_its_pipes(one: Box) -> None:
    """Of a process in another container, nobody can tell whether it has ended: `doctor` says so."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", HEADGATE]
    program = ["run", "-m", "a/b", "--", "sh", "-c", "echo up; exec cat"]
    holder = one.start(*words, *program)
    assert holder.line() == "up"
    (member,) = [row[0] for row in one.rows("member")]
    remove(one)
    waiter = one.waiter()
    assert waiter.silent(for_seconds=2.5)
    assert "lost their pipes" in one.headgate("doctor")
    holder.kill()
    assert waiter.silent(for_seconds=2.5)
    os.mkfifo(one.members / f"{member}.life")  # a person knows, and says so
    starts(waiter)
    assert waiter.end() == 0


def test_never_two_while_the_folder_is_removed_again_and_again(one: Box, tmp_path: Path) -> None:
    """Programs come and go under a cap of one, and each finds itself alone."""
    busy = tmp_path / "busy"
    script = f"mkdir {busy} || echo two; sleep 0.0$(($$ % 10)); rmdir {busy}; echo done"
    programs = [one.run("-m", "a/b", "--", "sh", "-c", script) for _ in range(12)]
    pauses = itertools.cycle((0.0, 0.2, 0.01, 0.07, 0.03, 0.15))
    while any(program.alive() for program in programs):
        shutil.rmtree(one.members, ignore_errors=True)
        time.sleep(next(pauses))
    assert [program.line() for program in programs] == ["done"] * len(programs)
    until(lambda: not one.running())
