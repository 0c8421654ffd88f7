"""A run inside a run: a parent that waits for its child lends it the seat."""

import os
import shlex
import sys
import time

import pytest

from tests.support import HEADGATE, Box, pool_of, until

pytestmark = pytest.mark.usefixtures("steady")


@pytest.fixture
def tight(box: Box) -> Box:
    """One seat on the machine, one for the model."""
    box.headgate("limits", "set", "host", "1")
    box.headgate("limits", "set", "a/b", "1")
    return box


def nested(depth: int, command: str, key: str = "a/b") -> list[str]:
    """`headgate run -- headgate run -- … command`, each inside a shell as agents do it."""
    argv = ["sh", "-c", command]
    for _ in range(depth):
        argv = ["sh", "-c", f"{HEADGATE} run -m {key} -- {shlex.join(argv)}; exit $?"]
    return argv[2:]


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_a_run_inside_a_run_does_not_deadlock(tight: Box, depth: int) -> None:
    """With one seat for all, the innermost still starts, and the family is counted once."""
    program = tight.start("sh", "-c", *nested(depth, "echo up; read x; exit 6"))
    assert program.line() == "up"
    gate = tight.gate()
    assert (pool_of(gate, "host").in_use, pool_of(gate, "a/b").in_use) == (1, 1)
    running = gate.queue().running
    assert len(running) == depth
    assert [row.borrows for row in running] == [None, *(row.id for row in running[:-1])]
    assert program.end() == 6
    assert tight.left_over() == {}


def test_the_family_gives_its_seat_back_as_a_whole(tight: Box) -> None:
    """While any of a family runs nobody else starts; when all have ended the next one does."""
    program = tight.start("sh", "-c", *nested(3, "echo up; read x"))
    assert program.line() == "up"
    waiter = tight.waiter()
    assert program.end() == 1
    assert waiter.line() == "up"
    assert waiter.end() == 0


def test_two_children_at_once_take_turns(tight: Box) -> None:
    """One seat can be lent to one child: the second of two starts when the first has ended."""
    log = tight.folder / "log"
    child = f"{HEADGATE} run -q -m a/b -- sh -c 'echo + >>{log}; sleep 0.3; echo - >>{log}'"
    program = tight.run("-m", "a/b", "--", "sh", "-c", f"{child} & {child} & {child} & wait")
    assert program.wait() == 0
    assert log.read_text().split() == ["+", "-"] * 3
    assert tight.left_over() == {}


def test_two_children_at_once_where_there_is_room(box: Box) -> None:
    """With two seats one child borrows, the other takes its own, and both run at once."""
    box.headgate("limits", "set", "a/b", "2")
    child = f"{HEADGATE} run -q -m a/b -- sh -c 'echo up; read x <{box.folder}/pipe'"
    box.start("mkfifo", str(box.folder / "pipe")).wait()
    program = box.run("-m", "a/b", "--", "sh", "-c", f"{child} & {child} & wait")
    assert [program.line(), program.line()] == ["up", "up"]
    gate = box.gate()
    assert pool_of(gate, "a/b").in_use == 2
    with pytest.raises(Exception, match="no room"):
        gate.slot("a/b", timeout=0).acquire()
    gate.close()
    (box.folder / "pipe").write_text("x\nx\n")
    assert program.wait() == 0
    assert box.left_over() == {}


def test_a_child_of_another_model_needs_a_seat_of_its_own_there(tight: Box) -> None:
    """The machine's seat is lent, the other model's is not: the child waits for that one only."""
    tight.headgate("limits", "set", "x/y", "1")
    tight.headgate("limits", "set", "host", "2")
    gate = tight.gate()
    blocker = gate.slot("x/y").acquire()
    program = tight.run(
        "-m", "a/b", "--", "sh", "-c", f"{HEADGATE} run -m x/y -- echo up; echo code $?"
    )
    assert "x/y is full" in program.line(stream="stderr")
    blocker.release()
    assert program.line() == "up"
    assert program.line() == "code 0"
    assert program.wait() == 0
    gate.close()
    assert tight.left_over() == {}


def test_a_child_of_another_model_counts_in_its_own_pool(tight: Box) -> None:
    """It is seen where it works, and once on the machine."""
    program = tight.run("-m", "a/b", "--", "sh", "-c", *[
        f"{HEADGATE} run -m x/y -- sh -c 'echo up; read x'"
    ])  # fmt: skip
    tight.headgate("limits", "set", "x/y", "3")
    assert program.line() == "up"
    status = tight.gate().status()
    assert {p.pool: p.in_use for p in status.pools if p.in_use} == {"host": 1, "a/b": 1, "x/y": 1}
    assert program.end() == 1


def test_a_heavier_child_needs_the_difference(box: Box) -> None:
    """A parent of weight one lends its one seat to a child of weight three."""
    box.headgate("limits", "set", "a/b", "3")
    program = box.run(
        "-m", "a/b", "--", "sh", "-c",
        f"{HEADGATE} run -m a/b --weight 3 -- sh -c 'echo up; read x'",
    )  # fmt: skip
    assert program.line() == "up"
    assert pool_of(box.gate(), "a/b").in_use == 3
    assert program.end() == 1
    assert box.left_over() == {}


def test_a_python_program_under_a_run_borrows_too(tight: Box) -> None:
    """Gate.slot inside a program that has a lease uses that lease's seat."""
    script = (
        "from headgate import Gate\n"
        "with Gate.open() as gate, gate.slot('a/b', timeout=0) as lease:\n"
        "    print(lease.task, gate.status().pool('a/b').in_use)\n"
    )
    program = tight.run("-m", "a/b", "--task", "t", "--", sys.executable, "-c", script)
    assert program.line().endswith(" 1")
    assert program.wait() == 0


def test_a_child_inherits_its_parents_task(box: Box) -> None:
    """The work of a child is for whom its parent works, unless it says otherwise."""
    inner = f"{HEADGATE} run -- sh -c 'echo $HEADGATE_TASK'"
    other = f"{HEADGATE} run --task u -- sh -c 'echo $HEADGATE_TASK'"
    program = box.run("--task", "t", "--", "sh", "-c", f"{inner}; {other}")
    assert [program.line(), program.line()] == ["t", "u"]
    assert program.wait() == 0


def test_a_parent_that_ends_first_leaves_the_seat_to_its_child(tight: Box) -> None:
    """A child in the background outlives its parent: the seat is its own until it ends."""
    script = f"{HEADGATE} run -q -m a/b -- sh -c 'echo up; read x; read y' <&3 & read x; exit 0"
    program = tight.start(HEADGATE, "run", "-m", "a/b", "--", "sh", "-c", f"exec 3<&0; {script}")
    assert program.line() == "up"
    assert program.process.stdin is not None
    program.process.stdin.write(b"\n")
    program.process.stdin.flush()
    waiter = tight.waiter()
    assert waiter.silent()
    program.process.stdin.close()
    assert waiter.line() == "up"
    assert waiter.end() == 0
    until(lambda: tight.left_over() == {})


def test_a_killed_parent_leaves_the_seat_to_its_child(tight: Box) -> None:
    """The outer wrapper and its shell are killed, the inner run goes on: still one seat in use."""
    inner = f"{HEADGATE} run -q -m a/b -- sh -c 'echo $$; read x'"
    program = tight.run("-m", "a/b", "--", "sh", "-c", f"echo $$; {inner}; :")
    shell, agent = int(program.line()), int(program.line())
    tight.pids.extend([shell, agent])
    program.kill()
    os.kill(shell, 9)
    waiter = tight.waiter()
    assert pool_of(tight.gate(), "a/b").in_use == 1
    assert waiter.silent()
    begun = time.monotonic()
    program.go()
    assert waiter.line() == "up"
    assert time.monotonic() - begun < 5
    assert waiter.end() == 0
    until(lambda: tight.left_over() == {})


def test_a_lease_of_another_store_lends_nothing(tight: Box) -> None:
    """A mark from elsewhere is no claim here."""
    gate = tight.gate()
    lease = gate.slot("a/b").acquire()
    for mark in (f"0badc0de.{lease.id}", f"{lease.id}", "garbage", ".", "x.99999999999999999999"):
        program = tight.run("-m", "a/b", "--no-wait", "--", "true", env={"HEADGATE_LEASE": mark})
        assert program.wait() == 75, mark
    lease.release()
