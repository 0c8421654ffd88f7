"""A provider's own count as a gate: who asks, who need not, and what happens if none can be had."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headgate import Gate, NoRoomError
from headgate.core.times import Ms, Seconds
from headgate.gate import usage_poller
from headgate.ledger.watch_duty import WatchList
from headgate.usage.call import ask_function
from tests.gate.conftest import Opener
from tests.support import HEADGATE, LONG, Box, pool_of, until
from tests.usage.server import Peer, Server, answer

KEY_ENV = "UPSTREAM_TEST_KEY"

Reader = Callable[[Callable[[], object]], Gate]


@pytest.fixture
def reader(box: Box, open_gate: Opener) -> Iterator[Reader]:
    """Opens gates whose pool u is told about by a function; `open_gate` opens plain ones."""
    opened: list[Gate] = []

    def start(function: Callable[[], object]) -> Gate:
        opened.append(Gate.open(box.url, usage={"u": function}))
        opened[-1].set_limit("u", 2)
        opened[-1].set_cooldown("u", 0)
        return opened[-1]

    yield start
    for gate in opened:
        gate.close()


class Waiter:
    """Somebody who waits for a seat in a thread of his own."""

    def __init__(self, gate: Gate, key: str = "u/m") -> None:
        self.inside = threading.Event()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(gate, key), daemon=True)
        self._thread.start()

    def _wait(self, gate: Gate, key: str) -> None:
        with gate.slot(key):
            self.inside.set()
            self._leave.wait(LONG)

    def end(self) -> None:
        assert self.inside.wait(LONG)
        self._leave.set()
        self._thread.join(LONG)


def settle(gate: Gate) -> None:
    """Have this gate settle the line: a seat is taken and given back."""
    gate.slot("other/x").acquire().release()


def test_a_function_counts_whoever_settles(reader: Reader, open_gate: Opener) -> None:
    """A program without the function lets nobody in whom the function keeps out."""
    used = [(2, 2)]
    waiter = Waiter(reader(lambda: used[0]))
    plain = open_gate()
    until(lambda: [row.code for row in plain.queue().waiting] == ["upstream_full"])
    settle(plain)
    with pytest.raises(NoRoomError):
        plain.slot("u/m", timeout=0).acquire()
    assert not waiter.inside.is_set()
    used[0] = (0, 2)
    waiter.end()


def test_an_answer_under_way_is_awaited_by_all(reader: Reader, open_gate: Opener) -> None:
    """While the function takes its time, a program without it lets nobody in either."""
    asked, go = threading.Event(), threading.Event()

    def slow() -> int:
        asked.set()
        go.wait(LONG)
        return 0

    waiter = Waiter(reader(slow))
    assert asked.wait(LONG)
    plain = open_gate()
    settle(plain)
    assert [row.code for row in plain.queue().waiting] == ["no_reading"]
    assert not waiter.inside.is_set()
    go.set()
    waiter.end()


def test_a_function_that_hangs_is_not_waited_for(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while the limit counts as if there were no function, and people are told."""
    monkeypatch.setattr(usage_poller, "_TIMEOUT", 0.2)
    go = threading.Event()
    calls = []

    def hang() -> int:
        calls.append(1)
        go.wait(LONG)
        return 0

    gate = reader(hang)
    try:
        leases = [gate.slot("u/m", timeout=LONG).acquire() for _ in range(2)]
        with pytest.raises(NoRoomError):
            gate.slot("u/m", timeout=0).acquire()
        upstream = pool_of(gate, "u").upstream
        assert upstream is not None
        assert upstream.problem == "u did not return within 0.2s"
        assert len(calls) == 1
        for lease in leases:
            lease.release()
    finally:
        go.set()


def test_a_function_that_hangs_is_no_matter_of_other_gates(reader: Reader) -> None:
    """Another gate's function for a pool of the same name is called all the same."""
    go = threading.Event()
    asked = threading.Event()

    def hang() -> int:
        asked.set()
        go.wait(LONG)
        return 0

    first = threading.Thread(target=ask_function, args=(hang, "u", Seconds(LONG)))
    first.start()
    try:
        assert asked.wait(LONG)
        gate = reader(lambda: 1)
        gate.slot("u/m", timeout=LONG).acquire().release()
        upstream = pool_of(gate, "u").upstream
        assert upstream is not None
        assert (upstream.in_use, upstream.problem) == (1, "")
    finally:
        go.set()
        first.join(LONG)


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_a_function_that_would_end_the_program(reader: Reader, ending: BaseException) -> None:
    """It ends the reading, not the program and not the wait."""

    def leave() -> int:
        raise ending

    gate = reader(leave)
    gate.slot("u/m", timeout=LONG).acquire().release()
    upstream = pool_of(gate, "u").upstream
    assert upstream is not None
    assert upstream.problem == f"the function for u raised {type(ending).__name__}"


def test_who_does_not_wait_has_one_reading_made(reader: Reader) -> None:
    """Capacity, and a slot that takes no for an answer, ask if nobody has; once is enough."""
    calls: list[int] = []

    def count() -> tuple[int, int]:
        calls.append(1)
        return 1, 2

    gate = reader(count)
    found = gate.capacity("u/m")
    assert (found.free, found.code, len(calls)) == (1, None, 1)
    assert gate.capacity("u/m").free == 1
    assert gate.capacity("other/x").code is None
    gate.slot("u/m", timeout=0).acquire().release()
    assert len(calls) == 1


def test_who_takes_no_for_an_answer_gets_a_true_one(reader: Reader) -> None:
    """The first to ask an idle pool without waiting is told what upstream counts now."""
    gate = reader(lambda: (2, 2))
    with pytest.raises(NoRoomError, match="provider"):
        gate.slot("u/m", timeout=0).acquire()
    assert gate.capacity("u/m").code == "upstream_full"


@pytest.fixture
def provider(box: Box) -> Iterator[Server]:
    """A usage endpoint that wants a key, for pool u."""

    def serve(peer: Peer) -> None:
        peer.send(answer({"n": 0}))

    server = Server(serve)
    box.config(
        "[pools.u]\nlimit = 2\ncooldown = 0\n"
        f'usage = {{ kind = "json", url = "http://127.0.0.1:{server.port}/v1/usage", used = "n", '
        f'every = "250ms", key_env = "{KEY_ENV}" }}\n'
    )
    yield server
    server.close()


def test_who_lacks_the_key_leaves_the_pool_shut(provider: Server, open_gate: Opener) -> None:
    """Not knowing is no reason to let anybody in; upstream is not asked without the key."""
    gate = open_gate()
    assert gate.capacity("u/m").code == "no_reading"
    with pytest.raises(NoRoomError):
        gate.slot("u/m", timeout=0).acquire()
    assert not provider.heads


@pytest.mark.usefixtures("provider")
def test_who_lacks_the_key_looks_again_after_a_second(open_gate: Opener) -> None:
    """However often it is told that a reading is due: it has nothing to ask with."""
    gate = open_gate()
    before = time.monotonic()
    assert gate.capacity("u/m").code == "no_reading"
    asking = gate._runtime.poller
    asking.plan(WatchList(on_watch=True, polls={"u": Ms(0), "v": Ms(0)}))
    due = dict(asking._due)
    assert due["u"] >= before + 1
    asking.plan(WatchList(on_watch=True, polls={"u": Ms(0), "v": Ms(0)}))
    assert asking._due == due, "what is due is not put off by looking again"


def test_who_has_the_key_asks_for_who_has_not(box: Box, provider: Server) -> None:
    """Another program that waits does have it: one reading lets both in."""
    poor = box.waiter("u/m")
    assert poor.silent()
    rich = box.run("-m", "u/m", "--", "sh", "-c", "echo up; exec cat", env={KEY_ENV: "sk-test"})
    assert rich.line() == "up"
    assert poor.line() == "up"
    assert provider.heads
    for program in (poor, rich):
        assert program.end() == 0


@pytest.mark.usefixtures("provider")
def test_a_key_that_nobody_has(open_gate: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end the limit counts, and people are told what is missing; once."""
    monkeypatch.setattr(usage_poller, "_PATIENCE", 500)
    gate = open_gate()
    lease = gate.slot("u/m", timeout=LONG).acquire()
    upstream = pool_of(gate, "u").upstream
    assert upstream is not None
    assert upstream.problem == f"{KEY_ENV} is not set"
    assert [event.event for event in gate.events()].count("usage_failed") == 1
    lease.release()


def test_a_report_inside_a_run_is_its_leases(box: Box) -> None:
    """The mark in the environment ties it to the lease; of another pool it is nobody's."""
    box.config("[pools.a]\nlimit = 4\ncooldown = 0\n[pools.c]\nlimit = 4\n")
    script = (
        f"{HEADGATE} report a accepted && {HEADGATE} report a concurrency-limited "
        f"--retry-after 0 && {HEADGATE} report c concurrency-limited && echo up; exec cat"
    )
    program = box.run("-m", "a/b", "--", "sh", "-c", script)
    assert program.line() == "up"
    gate = box.gate()
    (row,) = gate.queue().running
    cuts = {event.pool: event.work for event in gate.events() if event.event == "limit_reduced"}
    assert cuts == {"a": row.id, "c": None}
    assert "noted for the lease" in program.line(stream="stderr")
    program.end()


def test_a_report_outside_of_any_run_is_nobodys(box: Box) -> None:
    """An acceptance that belongs to no lease raises nothing, and its sender is told so."""
    box.config("[pools.a]\nlimit = 4\ncooldown = 0\n")
    told = box.start(HEADGATE, "report", "a", "accepted")
    assert "counts only with the lease" in told.line(stream="stderr")
    assert told.wait() == 0
