"""How many round trips and statements each operation takes: the contract's part that is counted.

A store behind a network answers all that a decision needs in one round trip, and takes all its
writes with the commit in another. Whatever needs a third is named here, with its reason.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate import Gate
from headgate.config import Watched
from headgate.core.times import Ms
from headgate.errors import GateClosedError
from headgate.gate.lease import Lease
from headgate.gate.slot import Slot
from headgate.gate.submit_jobs import draft
from headgate.store.sqlite import SqliteStore
from tests.store.far import FarStore, Trip
from tests.store.rows import request
from tests.support import until

KEY, POOL = "a/b", "a/b"
CONFIG = """
[pools.host]
limit = 50
[pools."a/b"]
limit = 2
cooldown = "0s"
[pools."r/x"]
limit = 3
rpm = 100
cooldown = "1ms"
"""


class Counted(NamedTuple):
    """What one transaction took."""

    trips: int
    asked: int
    changed: int


class Bench:
    """A gate on a counted store."""

    def __init__(self, folder: Path, kind: str) -> None:
        config = folder / "config.toml"
        config.write_text(CONFIG)
        self.kind = kind
        self.store = FarStore(folder / "s.db", far=kind == "far")
        self._other = SqliteStore(folder / "s.db")
        self.gate = Gate(self.store, config=Watched(config))
        self.gate.slot("other/x").acquire().release()  # it is a member now, and knows its pools

    def count(self, do: Callable[[], object]) -> Counted:
        """What the first transaction of something takes."""
        if self.kind != "alone":
            with self._other.transaction(write=True) as tx:
                tx.set_note("other", str(tx.next_id()))
        self.store.transactions.clear()
        do()
        until(lambda: self.store.transactions)
        return _sum(self.store.transactions[0])

    def acquire(self, key: str = KEY) -> Lease:
        return self.gate.slot(key).acquire()

    def wait_in_line(self) -> Counted:
        """Somebody begins to wait, in a thread of its own."""

        def begin() -> None:
            threading.Thread(target=self.acquire, daemon=True).start()

        return self.count(begin)

    def told(self, lease: Lease, signal: str) -> Counted:
        return self.count(lambda: lease.report(signal))


def _sum(trips: list[Trip]) -> Counted:
    return Counted(
        trips=len(trips),
        asked=sum(len(trip.questions) for trip in trips),
        changed=sum(not name.startswith("trim_") for trip in trips for name in trip.changes),
    )


@pytest.fixture(params=["alone", "near", "far"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    it = Bench(tmp_path, request.param)
    yield it
    it.gate.close()


def _measure(bench: Bench) -> dict[str, Counted]:
    """One of each, in an order in which each finds what it needs."""
    found = {}
    found["acquire"] = bench.count(bench.acquire)
    (first,) = bench.gate._runtime.waiting_and_held.leases.values()
    second = bench.acquire()
    found["accepted"] = bench.told(first, "accepted")
    found["acquire, has to wait"] = bench.wait_in_line()
    until(lambda: bench.gate.status().total_waiting == 1)
    found["release, lets one in"] = bench.count(first.release)
    until(lambda: bench.gate.status().total_waiting == 0)
    found["refused"] = bench.told(second, "concurrency-limited")
    found["release"] = bench.count(second.release)
    found["acquire, with a rate"] = bench.count(lambda: bench.acquire("r/x"))
    job = draft(["true"], key="a/b")
    found["submit"] = bench.count(lambda: bench.gate.jobs.submit([job]))
    ended = [request(), request(), request()]
    found["three requests"] = bench.count(
        lambda: bench.gate.record_requests(first.id, ended, 1, Ms(5))
    )
    return found


RECORDED: dict[str, dict[str, tuple[int, int]]] = {
    "alone": {
        "acquire": (0, 3),
        "accepted": (0, 2),
        "acquire, has to wait": (3, 4),
        "release, lets one in": (1, 8),
        "refused": (2, 4),
        "release": (0, 3),
        "acquire, with a rate": (0, 4),
        "submit": (1, 6),
        "three requests": (0, 5),
    },
    "near": {
        "acquire": (6, 3),
        "accepted": (3, 2),
        "acquire, has to wait": (10, 4),
        "release, lets one in": (10, 7),
        "refused": (6, 4),
        "release": (3, 2),
        "acquire, with a rate": (7, 4),
        "submit": (9, 6),
        "three requests": (1, 5),
    },
    "far": {
        "acquire": (17, 3),
        "accepted": (18, 2),
        "acquire, has to wait": (17, 4),
        "release, lets one in": (18, 8),
        "refused": (18, 4),
        "release": (18, 3),
        "acquire, with a rate": (18, 4),
        "submit": (16, 6),
        "three requests": (16, 5),
    },
}
"""Statements that ask and that change. A far store asks for all that may be needed; a near one for
what is, and for little of that if nobody else has written since it last asked ("alone")."""


def test_each_operation_takes_what_was_recorded(bench: Bench) -> None:
    """A change that asks more, or that writes and asks again, shows here."""
    found = {name: (it.asked, it.changed) for name, it in _measure(bench).items()}
    assert found == RECORDED[bench.kind]


def test_a_far_store_needs_two_round_trips(tmp_path: Path) -> None:
    """Acquire, release, the settling of the line, signals, a submit: one to ask, one to write."""
    bench = Bench(tmp_path, "far")
    try:
        assert {name: it.trips for name, it in _measure(bench).items()} == dict.fromkeys(
            RECORDED["far"], 2
        )
    finally:
        bench.gate.close()


def test_who_waits_does_not_read_all_members(tmp_path: Path) -> None:
    """What it costs to wait, and to look where one stands, does not grow with those who wait."""
    bench = Bench(tmp_path, "near")
    with Gate.open(bench.store.url, config=tmp_path / "config.toml") as other:
        held = [other.slot(KEY).acquire() for _ in range(2)]
        _wait(other.slot(KEY))  # it is on watch, and looks out for everybody
        until(lambda: other.status().total_waiting == 1)
        bench.store.transactions.clear()
        bench.store.looks.clear()
        _wait(bench.gate.slot(KEY, on_wait=lambda _: None))
        until(lambda: "rank" in _asked(bench.store.looks))
        assert "working_members" in _asked(bench.store.transactions)
        assert "members" not in _asked([*bench.store.transactions, *bench.store.looks])
        bench.gate.close()
        del held


def _asked(done: list[list[Trip]]) -> set[str]:
    return {name for trips in done for trip in trips for name in trip.questions}


def _wait(slot: Slot) -> None:
    """Wait for a seat in a thread of its own, until the gate is closed."""

    def wait() -> None:
        with suppress(GateClosedError):
            slot.acquire()

    threading.Thread(target=wait, daemon=True).start()
