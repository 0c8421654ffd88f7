"""How many round trips and statements each operation takes: the contract's part that is counted.

A store behind a network answers all that a decision needs in one round trip, and takes all its
writes with the commit in another. Whatever needs a third is named here, with its reason.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate import Gate
from headgate.config import Watched
from headgate.gate.lease import Lease
from headgate.gate.submit_jobs import draft
from tests.store.far import FarStore, Trip
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

    def __init__(self, folder: Path, *, far: bool) -> None:
        config = folder / "config.toml"
        config.write_text(CONFIG)
        self.store = FarStore(folder / "s.db", far=far)
        self.gate = Gate(self.store, config=Watched(config))
        self.gate.slot("other/x").acquire().release()  # it is a member now, and knows its pools

    def count(self, do: Callable[[], object]) -> Counted:
        """What the first transaction of something takes."""
        self.store.transactions.clear()
        do()
        until(lambda: self.store.transactions)
        return _sum(self.store.transactions[0])

    def acquire(self, key: str = KEY) -> Lease:
        return self.gate.slot(key).acquire()

    def wait_in_line(self) -> Counted:
        """Somebody begins to wait, in a thread of its own."""
        import threading

        def begin() -> None:
            threading.Thread(target=self.acquire, daemon=True).start()

        return self.count(begin)

    def told(self, lease: Lease, signal: str) -> Counted:
        return self.count(lambda: lease.report(signal))


def _sum(trips: list[Trip]) -> Counted:
    return Counted(
        trips=len(trips),
        asked=sum(len(trip.questions) for trip in trips),
        changed=sum(name != "trim_events" for trip in trips for name in trip.changes),
    )


@pytest.fixture(params=["near", "far"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    it = Bench(tmp_path, far=request.param == "far")
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
    return found


RECORDED: dict[str, dict[str, tuple[int, int]]] = {
    "near": {
        "acquire": (6, 3),
        "accepted": (3, 2),
        "acquire, has to wait": (9, 4),
        "release, lets one in": (10, 7),
        "refused": (6, 4),
        "release": (3, 2),
        "acquire, with a rate": (7, 4),
        "submit": (9, 6),
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
    },
}
"""Statements that ask and that change. A far store asks for all that may be needed; a near one for
what is."""


def test_each_operation_takes_what_was_recorded(bench: Bench) -> None:
    """A change that asks more, or that writes and asks again, shows here."""
    found = {name: (it.asked, it.changed) for name, it in _measure(bench).items()}
    assert found == RECORDED["far" if bench.store.far else "near"]


def test_a_far_store_needs_two_round_trips(tmp_path: Path) -> None:
    """Acquire, release, the settling of the line, signals, a submit: one to ask, one to write."""
    bench = Bench(tmp_path, far=True)
    try:
        assert {name: it.trips for name, it in _measure(bench).items()} == dict.fromkeys(
            RECORDED["far"], 2
        )
    finally:
        bench.gate.close()
