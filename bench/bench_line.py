"""What a decision and a position cost with a thousand, a hundred thousand and a million waiting."""

import statistics
import time
from collections.abc import Iterator

from common import Figure, folder, micro

from headgate.core.admission.pools import OFF, Declared
from headgate.core.times import Ms, Seconds
from headgate.gate.liveness.local_members import LocalRegistry
from headgate.ledger import release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore

KEY, MACHINE = "anthropic/claude-opus-4-6", "here"


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Fill the line, then let one out and the next in, again and again."""
    sizes, turns = ((20, 40), 5) if tiny else ((1_000, 100_000, 1_000_000), 200)
    for kind in ("memory", "sqlite"):
        costs = []
        with folder() as here:
            store: Store = (
                MemoryStore()
                if kind == "memory"
                else SqliteStore(here / "line.db", synchronous="OFF")
            )
            line = _Line(store)
            for size in sizes:
                line.grow(size)
                decision, position = line.turn_over(turns)
                costs.append(decision)
                yield (
                    f"{kind}: {size:>9,} waiting: a decision {micro(decision)}, a position",
                    micro(position),
                    "ms",
                )
            store.close()
        yield (
            f"{kind}: a decision at {sizes[-1]:,} waiting, against {sizes[0]:,}",
            f"{costs[-1] / costs[0]:.2f}x",
            "<= 1.5x",
        )


class _Line:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.resolver = PoolResolver(
            {"anthropic/claude-opus-*": Declared(limit=4), "host": Declared(limit=4)},
            Declared(adapt=OFF),
        )
        self.registry = LocalRegistry(lambda: None)
        self.registry.join()
        self.waiting = 0
        self.running: list[int] = []

    def open(self, tx: object) -> Ledger:
        return Ledger(
            tx=tx,  # type: ignore[arg-type]
            resolver=self.resolver,
            now=self.store.now(),
            liveness=self.registry,
            machine=MACHINE,
        )

    def grow(self, size: int) -> None:
        """Add tickets until so many wait; their prompts began in no particular order."""
        while self.waiting < size:
            with self.store.transaction(write=True) as tx:
                ledger = self.open(tx)
                for _ in range(min(10_000, size - self.waiting)):
                    since = Ms(1 + (self.waiting * 7_919) % 1_000_003)
                    request = Request(KEY, self.registry.me, MACHINE, since=since)
                    id = admit.ask(ledger, request)
                    if id in ledger.granted:
                        self.running.append(id)
                    else:
                        self.waiting += 1

    def turn_over(self, turns: int) -> tuple[float, float]:
        """The median cost of a release with the grant that follows, and of finding a position."""
        decisions, positions = [], []
        for turn in range(turns):
            start = time.perf_counter()
            with self.store.transaction(write=True) as tx:
                ledger = self.open(tx)
                release.release(ledger, self.running.pop(0))
                admit.settle(ledger)
            decisions.append(time.perf_counter() - start)
            assert ledger.granted, "nobody was let in"  # noqa: S101 - else the figure means nothing
            self.running += ledger.granted
            self.waiting -= len(ledger.granted)
            with self.store.transaction(write=False) as tx:
                lane = tx.lanes()[0].id
                some = tx.page(lane, (0, 1 + turn * 4_999, 0), 1) or tx.page(lane, None, 1)
                start = time.perf_counter()
                status_and_queue.waiting(self.open(tx), [some[0].id], Seconds(0))
                positions.append(time.perf_counter() - start)
        return statistics.median(decisions), statistics.median(positions)
