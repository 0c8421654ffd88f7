"""The store goes away for a moment, is locked, or cannot be written: what runs goes on."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from headgate import StoreUnavailableError
from tests.support import LONG, Box, Program, until

pytestmark = pytest.mark.usefixtures("steady")


@contextmanager
def away(box: Box) -> Iterator[None]:
    """The store's file is not there for a while."""
    elsewhere = box.path.with_name("elsewhere.db")
    box.path.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(box.path)


@contextmanager
def locked(box: Box, *, patience: int = 10_000) -> Iterator[None]:
    """Some other program keeps the store locked for a while."""
    db = apsw.Connection(str(box.path))
    try:
        db.set_busy_timeout(patience)
        db.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        db.close()


def test_a_running_program_outlives_a_store_that_is_gone(box: Box) -> None:
    """The file vanishes and comes back while a program runs; it ends as it would, and frees."""
    box.headgate("limits", "set", "a/b", "1")
    holder = box.holder()
    with away(box):
        assert holder.process.stdin is not None
        assert holder.process.stdout is not None
        holder.process.stdin.write(b"still here\n")
        holder.process.stdin.flush()
        assert holder.line() == "still here"
    assert holder.end() == 0
    box.gate().slot("a/b", timeout=5).acquire().release()


def test_a_program_that_ends_while_the_store_is_gone_frees_its_seat(box: Box) -> None:
    """Its exit code is its own, and whoever looks later finds the seat free."""
    box.headgate("limits", "set", "a/b", "1")
    program = box.run("-m", "a/b", "--", "sh", "-c", "echo up; read x; exit 7")
    assert program.line() == "up"
    with away(box):
        assert program.end() == 7
    box.gate().slot("a/b", timeout=5).acquire().release()


def test_a_release_while_the_store_is_gone_is_not_lost(box: Box) -> None:
    """The plain face: given back during the blip, free for another process soon after it."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    lease = gate.slot("a/b").acquire()
    waiter = box.waiter()
    with away(box):
        assert lease.release()
    assert waiter.line(within=10) == "up"
    assert waiter.end() == 0


def test_an_async_release_while_the_store_is_gone_is_not_lost(box: Box) -> None:
    """The same for `async with`: its block ends in peace, and the seat is free after the blip."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    waiters: list[Program] = []

    async def program() -> None:
        with away(box):
            async with asyncio.timeout(LONG):
                await slot.__aexit__(None, None, None)

    async def begin() -> None:
        await slot.__aenter__()
        waiters.append(await asyncio.to_thread(box.waiter))
        await program()

    slot = gate.slot("a/b")
    asyncio.run(begin())
    assert waiters[0].line(within=10) == "up"
    assert waiters[0].end() == 0


def test_a_death_while_the_store_is_gone_is_noticed_afterwards(box: Box) -> None:
    """A holder is killed during the blip: whoever waits gets its seat once the store is back."""
    box.headgate("limits", "set", "a/b", "1")
    program = box.python("lease = gate.slot('a/b').acquire(); print('up'); time.sleep(1000)")
    assert program.line() == "up"
    waiter = box.waiter()
    with away(box):
        program.kill()
        time.sleep(0.5)  # the waiter tries, and cannot
    assert waiter.line(within=10) == "up"
    assert waiter.end() == 0


def test_a_pause_that_ends_while_the_store_is_gone(box: Box) -> None:
    """A moment that passes during the blip is not missed."""
    gate = box.gate()
    gate.pause("a/b", 600)
    waiter = box.waiter()
    gate.pause("a/b", "600ms")
    with away(box):
        time.sleep(1)
    assert waiter.line(within=10) == "up"
    assert waiter.end() == 0


def test_a_waiter_outlives_a_store_that_is_gone(box: Box) -> None:
    """Whoever stands in line keeps its place through a blip."""
    box.headgate("limits", "set", "a/b", "1")
    holder = box.holder()
    waiter = box.waiter()
    with away(box):
        time.sleep(1.2)  # longer than a waiter takes to look
        assert waiter.alive()
    assert holder.end() == 0
    assert waiter.line(within=10) == "up"
    assert waiter.end() == 0


def test_a_locked_store_delays_and_harms_nothing(box: Box) -> None:
    """Two seconds of somebody else's lock: request, release and program all go through."""
    box.headgate("limits", "set", "a/b", "2")
    gate = box.gate()
    lease = gate.slot("a/b").acquire()
    holder = box.holder()
    done = threading.Event()
    got = []

    def ask() -> None:
        lease.release()
        got.append(box.gate().slot("a/c", timeout=LONG).acquire())
        done.set()

    thread = threading.Thread(target=ask)
    with locked(box):
        thread.start()
        assert holder.process.stdin is not None
        holder.process.stdin.close()
        assert not done.wait(2)
    assert done.wait(LONG)
    thread.join(LONG)
    assert holder.wait() == 0
    until(lambda: [row[2] for row in box.rows("lease")] == ["a/c"])
    got[0].release()


def test_a_new_request_on_a_store_that_is_gone_is_an_error(box: Box) -> None:
    """Nothing is granted without the books; once they are back, everything works again."""
    gate = box.gate()
    lease = gate.slot("a/b").acquire()
    with away(box), pytest.raises(StoreUnavailableError, match="removed"):
        gate.slot("a/b").acquire()
    gate.slot("a/b").acquire().release()
    lease.release()
    until(lambda: gate.queue().running == ())


def test_a_request_that_failed_does_not_linger(box: Box) -> None:
    """A request that met the blip is over: it is not granted behind its owner's back afterwards."""
    gate = box.gate()

    async def program() -> None:
        await gate.slot("a/b").acquire_async()
        with away(box), pytest.raises(StoreUnavailableError):
            await gate.slot("a/b").acquire_async()
        await asyncio.sleep(1.2)  # longer than anything is tried again
        assert len(gate.queue().running) == 1

    asyncio.run(program())


def test_a_store_that_was_replaced_is_not_used(box: Box) -> None:
    """Another file under the same name would be a second set of books: it grants nothing."""
    gate = box.gate()
    lease = gate.slot("a/b").acquire()
    with away(box):
        other = box.gate()
        other.slot("a/b").acquire().release()
        other.close()
        with pytest.raises(StoreUnavailableError, match="replaced"):
            gate.slot("a/b").acquire()
        for path in box.folder.glob("s.db-*"):
            path.unlink()
    assert lease.id
