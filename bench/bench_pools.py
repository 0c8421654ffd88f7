"""What a decision and `status` cost with ten thousand pools and keys, and twenty thousand jobs.

A hundred of the pools are patterns. Every pool has learned something, every key was seen, and each
has two jobs in line. `few` is the same with ten pools and keys: the baseline of the same run.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure, folder, micro

from headgate import Gate
from headgate.config.file import load
from headgate.core.learning.control_law import begin
from headgate.core.times import Ms
from headgate.gate.submit_jobs import draft
from headgate.ledger import release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import Member
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store.sqlite import SqliteStore

MACHINE = "here"


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """The same work in a store with few pools and in one with many."""
    sizes, jobs, turns = ((10, 20), 200, 5) if tiny else ((10, 10_000), 20_000, 200)
    for bound in ("host", "patterns"):
        costs = []
        for size in sizes:
            with folder() as here:
                city = _City(here, size, jobs, bound)
                costs.append((city.decision(turns), city.request(turns)))
                if bound == "host":
                    yield f"{size:,} pools: `status`", *_status(city, tiny=tiny)
                city.close()
        for what, few, many in zip(("a decision", "a request that waits"), *costs, strict=True):
            yield (
                f"{sizes[-1]:,} pools, the {bound} full: {what} {micro(many)}, few {micro(few)}",
                f"{many / few:.2f}x",
                "<= 2 ms",
            )


def _status(city: "_City", *, tiny: bool) -> tuple[str, str]:
    command = [str(Path(sys.executable).with_name("headgate")), "--store", city.store.url, "status"]
    times = []
    for _ in range(1 if tiny else 5):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=city.environment)
        times.append(time.perf_counter() - start)
    return f"{statistics.median(times) * 1e3:.0f} ms", "<= 1 s"


class _City:
    """A store with many pools, in which every key has two jobs."""

    def __init__(self, here: Path, size: int, jobs: int, bound: str) -> None:
        patterns = max(1, size // 100)
        self.keys = [f"p{n % patterns}/m{n}" for n in range(size)]
        settings = here / "headgate" / "config.toml"
        host = 8 if bound == "host" else 100_000
        few = 1_000 if bound == "host" else 2
        lines = [f"[pools.host]\nlimit = {host}"]
        lines += [f'[pools."p{n}/*"]\nlimit = {few}\ncooldown = "0s"' for n in range(patterns)]
        lines += [f'[pools."{key}"]\nlimit = 4\ncooldown = "0s"' for key in self.keys[patterns:]]
        settings.write_text("\n".join(lines))
        self.environment = {**os.environ, "HEADGATE_CONFIG": str(settings)}
        self.store = SqliteStore(here / "many.db", synchronous="OFF")
        with Gate(SqliteStore(here / "many.db", synchronous="OFF"), config=None) as gate:
            for part in range(0, jobs, 5_000):
                numbers = range(part, min(jobs, part + 5_000))
                gate.jobs.submit([draft(["true"], key=self.keys[n % size]) for n in numbers])
        found = load(settings)
        self.resolver = PoolResolver(found.pools, found.defaults)
        self.liveness = SimulatedLiveness("worker")
        self.running: list[int] = []
        with self.store.transaction(write=True) as tx:
            ledger = self.open(tx)
            tx.add_member(
                Member(id="worker", machine=MACHINE, pid=1, pid_space="", joined=Ms(0), works=1)
            )
            for key in self.keys:
                tx.learn_hold(key, Ms(60_000))
                ledger.learn(key, begin(4)) if key in ledger.pool_set.pools else None
            ledger.reconsider()
            admit.settle(ledger)
            self.running += ledger.granted
        self._by_key = 0

    def open(self, tx: object) -> Ledger:
        return Ledger(
            tx=tx,  # type: ignore[arg-type]
            resolver=self.resolver,
            now=self.store.now(),
            liveness=self.liveness,
            machine=MACHINE,
        )

    def decision(self, turns: int) -> float:
        """One job ends, and the next of those that wait gets its seat."""
        times = []
        for _ in range(turns):
            start = time.perf_counter()
            with self.store.transaction(write=True) as tx:
                ledger = self.open(tx)
                release.release(ledger, self.running.pop(0))
                ledger.freed_job_leases.clear()
                while ledger.unsettled:
                    admit.settle(ledger)
            times.append(time.perf_counter() - start)
            assert ledger.granted, "nobody was let in"  # noqa: S101 - else the figure means nothing
            self.running += ledger.granted
        return statistics.median(times)

    def request(self, turns: int) -> float:
        """Somebody asks for a seat, and has to wait."""
        times = []
        for turn in range(turns):
            start = time.perf_counter()
            with self.store.transaction(write=True) as tx:
                ledger = self.open(tx)
                key = self.keys[turn % len(self.keys)]
                admit.ask(ledger, Request(key, "worker", MACHINE, since=ledger.now))
                while ledger.unsettled:
                    admit.settle(ledger)
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def close(self) -> None:
        self.store.close()
