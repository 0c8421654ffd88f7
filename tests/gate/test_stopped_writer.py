"""A process is stopped within a transaction: nobody can write, and what can be kept is kept."""

import signal
import threading
import time
from pathlib import Path

import apsw
import pytest

from headgate import StoreUnavailableError
from headgate.store import sqlite
from tests.support import HEADGATE, Box, Program, pool_of, until

pytestmark = pytest.mark.usefixtures("steady")
SOON = 8.0
"""Seconds, on a machine that does other things too. Without a lock of 30 s it takes three."""

WRITER = """
import signal
def stop(ledger):
    print("stops", flush=True)
    signal.raise_signal(signal.SIGSTOP)
gate._runtime.transactor.run(stop)
"""


@pytest.fixture
def one(box: Box) -> Box:
    """A box in which a/b has one seat."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    gate.close()
    return box


def stopped_writer(box: Box) -> Program:
    program = box.python(WRITER)
    assert program.line() == "stops"
    return program


def test_cancel_lets_a_stopped_writer_go_on(one: Box) -> None:
    """Whoever holds the lease was stopped with the store's lock: it goes on, so that it can end."""
    holder = one.python(f"""
import threading
asked = threading.Event()
lease = gate.slot("a/b").acquire()
lease.when_ended(lambda error: asked.set())
print(lease.id)
{WRITER}
asked.wait(1000)
lease.release()
""")
    id = holder.line()
    assert holder.line() == "stops"
    cancel = one.start(HEADGATE, "cancel", id, "--grace", "15s")
    assert cancel.line(stream="stderr") == f"headgate: {id} has ended"
    assert cancel.wait() == 0
    assert holder.wait() == 0


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.5)


def test_a_program_ends_while_nobody_can_write(one: Box) -> None:
    """`run` ends soon after it, with its code; its seat is free as soon as somebody can write."""
    program = one.run("-m", "a/b", "--", "sh", "-c", "echo up; read x; exit 7")
    assert program.line() == "up"
    until(lambda: one.rows("lease")[0][13])  # what is told of a start is written
    writer = stopped_writer(one)
    begun = time.monotonic()
    assert program.end() == 7
    assert time.monotonic() - begun < SOON
    writer.send(signal.SIGCONT)
    assert writer.wait() == 0
    one.gate().slot("a/b", timeout=5).acquire().release()
    until(lambda: not one.rows("lease"))


def test_a_release_does_not_wait_for_a_stopped_writer(one: Box) -> None:
    """A thread goes on; the seat is given back when the store can be written, and not lost."""
    gate = one.gate()
    lease = gate.slot("a/b").acquire()
    writer = stopped_writer(one)
    thread = threading.Thread(target=lease.release)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()
    writer.send(signal.SIGCONT)
    assert writer.wait() == 0
    until(lambda: not one.rows("lease"))
    assert [row[2] for row in one.rows("event")][-1] == "released"


def test_a_python_program_ends_while_nobody_can_write(one: Box) -> None:
    """Its release, its gate and its end take a few seconds together, and no more."""
    program = one.python(
        "with gate.slot('a/b'):\n    print('up')\n    sys.stdin.read()\nprint('over')"
    )
    assert program.line() == "up"
    writer = stopped_writer(one)
    begun = time.monotonic()
    program.go()
    assert program.line() == "over"
    assert program.wait() == 0
    assert time.monotonic() - begun < SOON
    writer.kill()
    one.gate().slot("a/b", timeout=5).acquire().release()


@pytest.mark.parametrize("words", ["status", "queue", "events", "capacity a/b"])
def test_readers_go_on_while_nobody_can_write(one: Box, words: str) -> None:
    """What is shown is shown, also if somebody has died and nobody can take that in."""
    holder = one.python("lease = gate.slot('a/b').acquire(); print('up'); time.sleep(1000)")
    assert holder.line() == "up"
    writer = stopped_writer(one)
    holder.kill()
    begun = time.monotonic()
    reader = one.start(HEADGATE, *words.split())
    no_room = 75 if words.startswith("capacity") else 0
    assert reader.wait(SOON) == no_room
    assert time.monotonic() - begun < SOON
    assert reader.process.stderr is not None
    assert reader.process.stderr.read() == b""
    writer.kill()
    until(lambda: pool_of(one.gate(), "a/b").in_use == 0)


@pytest.mark.usefixtures("short_patience")
def test_the_message_names_who_holds_the_lock(one: Box) -> None:
    """Its number, its name, that it is stopped, and what to do about it."""
    gate = one.gate()
    writer = stopped_writer(one)
    with pytest.raises(StoreUnavailableError) as found:
        gate.set_limit("a/b", 2)
    text = str(found.value)
    assert f"locked by pid {writer.pid} (python" in text
    assert f"which is stopped; let it go on (kill -CONT {writer.pid}) or end it" in text
    writer.send(signal.SIGCONT)
    assert writer.wait() == 0
    gate.set_limit("a/b", 2)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stop_does_not_wait_for_the_stores_lock(box: Box) -> None:
    """Ctrl-Z stops a `run` that waits to write; when it goes on, it has its time before it."""
    box.headgate("limits", "set", "a", "5")
    db = apsw.Connection(str(box.path))
    db.execute("BEGIN IMMEDIATE")
    program = box.run("-m", "a/b", "--", "echo", "up", process_group=0)
    until(lambda: len([*Path(f"/proc/{program.pid}/task").iterdir()]) > 1)  # it asks for its seats
    time.sleep(0.5)
    program.send(signal.SIGTSTP)
    until(lambda: state(program.pid) == "T", within=10)
    program.send(signal.SIGCONT)
    until(lambda: state(program.pid) == "S")
    db.execute("ROLLBACK")
    db.close()
    assert program.line() == "up"
    assert program.wait() == 0
