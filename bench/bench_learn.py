"""What learning and usage readings add to a decision and to a signal, against a pool with neither.

Both sides do the same work on the same kind of pool, by a clock that the benchmark moves: a request
ends every second, four others stay in flight, and seats rest for 15 s, which is as long as
ended requests are kept for a comparison with readings. So both sides have the same fifteen rows of
rests. The one that learns has been refused before (it has a bar), and its readings are fresh: there
is a new one every two seconds, and keeping it is nobody's decision and not in the figures.

Where a disk makes every commit take as long as one of its ticks, both sides take equally long and
the ratio is 1.00x: that says nothing. The lines about the processor leave the disk out.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from common import Figure, folder, micro, ratio

from headgate import Gate
from headgate.config import Watched
from headgate.core.admission.pools import LEARN, OFF, Declared, PoolRow, UsageSource
from headgate.core.answers.signals import ACCEPTED, CONCURRENCY, Reading, Signal
from headgate.core.learning import usage_readings
from headgate.core.learning.control_law import Bar, Learned
from headgate.core.learning.usage_readings import LAGS, SETTLES, Guess, Sight
from headgate.core.stored_text.stored_values import LEARNED, SIGHT
from headgate.core.times import Ms
from headgate.gate.lease import Lease
from headgate.ledger import release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals
from headgate.ledger.transaction import outside_use
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore

POOL, KEY, SEATS, HOST_SEATS = "bench/*", "bench/model", 64, 100
COOLDOWN, STEP, EVERY, HELD = Ms(usage_readings.KEEP), 1_000, Ms(2_000), 4
AIM = "<= 1.3x"
T = TypeVar("T")


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """The same on both stores, within a transaction and through the gate."""
    rounds, sizes = (1, (2, 2)) if tiny else (25, (100, 20))
    with folder() as here:
        numbers = itertools.count()

        def store(kind: str, clock: "_Clock") -> Store:
            if kind == "memory":
                return MemoryStore(clock=clock)
            return SqliteStore(here / f"{next(numbers)}.db", clock=clock)

        def books(kind: str, adapt: str, *, usage: bool) -> _Side:
            clock = _Clock()
            return _Books(store(kind, clock), clock, adapt, usage=usage)

        def gate(kind: str, adapt: str, *, usage: bool) -> _Side:
            clock = _Clock()
            return _Gate(store(kind, clock), clock, adapt, here, usage=usage)

        for kind, each in zip(("memory", "sqlite"), sizes, strict=True):
            for face, make in (("transactions", books), ("gate", gate)):
                plain = make(kind, OFF, usage=False)
                ours = make(kind, LEARN, usage=True)
                alone = make(kind, LEARN, usage=False)
                for what, mine, name in (
                    ("acquire+release", ours, "pair"),
                    ("acquire+accepted+release", ours, "answered"),
                    ("refusal against the readings", ours, "refused"),
                    ("refusal that cuts, no usage", alone, "refused"),
                ):
                    size = (rounds, each)
                    yield _figure(f"{kind} {face}: {what}", name, mine, plain, size)
                    if kind == "sqlite":  # whatever the disk is up to
                        mine.tick = plain.tick = time.process_time
                        yield *_figure("  of it processor", name, mine, plain, size)[:2], ""
                        mine.tick = plain.tick = time.perf_counter
                for side in (plain, ours, alone):
                    side.close()


def _figure(what: str, name: str, mine: "_Side", plain: "_Side", size: tuple[int, int]) -> Figure:
    """One piece of work on both sides, in so many rounds of so many each."""
    rounds, each = size
    a, b, times = ratio(
        partial(_usual, mine, name, each), partial(_usual, plain, name, each), rounds
    )
    return f"{what} {micro(a)}, off {micro(b)}", f"{times:.2f}x", AIM


def _usual(side: "_Side", name: str, each: int) -> float:
    """Seconds for one piece of work: the median of a few, because disks have moods."""
    work: Callable[[], float] = getattr(side, name)
    times = []
    for _ in range(each):
        side.prepare()
        times.append(work())
    return statistics.median(times)


class _Clock:
    """A store's clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now


class _Side:
    """A pool in a store, and the work to be measured; each method tells how long it took."""

    def __init__(self, clock: _Clock, *, learns: bool, usage: bool) -> None:
        self.tick = time.perf_counter
        self._clock = clock
        self._usage = usage
        it = Learned(SEATS - 4, SEATS, best=SEATS - 4, sure=SEATS - 4, epoch=3, refusals=3)
        bar = Bar(SEATS - 3, 1.5, clock.now - 3_600_000, clock.now + 86_400_000)
        it = it._replace(bars=(bar,), refused_at=bar.at, heard=True)
        self._row = PoolRow(POOL, learned=LEARNED.write(it) if learns else "")

    def prepare(self) -> None:
        """Let time pass, undo what the last refusal did, and read the usage when it is due."""
        self._clock.now += STEP
        self.do(self._restore)

    def _restore(self, ledger: Ledger) -> None:
        now = ledger.now
        if ledger.pool_row(POOL) != self._row:
            ledger.tx.set_pool_row(self._row)
        if self._usage and now % EVERY == 0:
            lags, settles = (Guess((1.5,) * len(of), (0.25,) * len(of)) for of in (LAGS, SETTLES))
            reading = Reading(HELD + 1.5, SEATS)
            sight = Sight(now, now, reading, samples=500, lags=lags, settles=settles, roomy=now)
            ledger.tx.set_note(f"usage:{POOL}", SIGHT.write(sight))
            outside_use.sight(
                ledger, POOL
            )  # whoever keeps a reading looks at it to settle the line

    def do(self, what: Callable[[Ledger], T]) -> T:
        """Have something done in a transaction."""
        raise NotImplementedError

    def pair(self) -> float:
        """Take seats and give them back."""
        raise NotImplementedError

    def answered(self) -> float:
        """The same, with an acceptance in between."""
        raise NotImplementedError

    def refused(self) -> float:
        """A refusal, once seats were taken."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the store."""
        raise NotImplementedError


class _Books(_Side):
    """One transaction for each step, as a process makes them."""

    def __init__(self, store: Store, clock: _Clock, adapt: str, *, usage: bool) -> None:
        super().__init__(clock, learns=adapt == LEARN, usage=usage)
        source = UsageSource("python", every=EVERY) if usage else None
        pool = Declared(limit=SEATS, cooldown=COOLDOWN, adapt=adapt, usage=source)
        self._store = store
        self._liveness = SimulatedLiveness("me")
        self._resolver = PoolResolver({POOL: pool, "host": Declared(limit=HOST_SEATS)})
        self.prepare()
        for _ in range(HELD):
            self._ask()

    def do(self, what: Callable[[Ledger], T]) -> T:
        with self._store.transaction(write=True) as tx:
            ledger = Ledger(
                tx=tx,
                resolver=self._resolver,
                now=self._store.now(),
                liveness=self._liveness,
                machine="here",
            )
            result = what(ledger)
            while ledger.unsettled:
                admit.settle(ledger)
        return result

    def _ask(self) -> int:
        request = Request(KEY, "me", "here", since=Ms(self._clock.now))
        return self.do(lambda ledger: admit.ask(ledger, request))

    def _release(self, id: int) -> None:
        self.do(lambda ledger: release.release(ledger, id))

    def _report(self, id: int, kind: str) -> None:
        self.do(lambda ledger: apply_signals.report(ledger, Signal(kind), lease=id))

    def pair(self) -> float:
        start = self.tick()
        self._release(self._ask())
        return self.tick() - start

    def answered(self) -> float:
        start = self.tick()
        id = self._ask()
        self._report(id, ACCEPTED)
        self._release(id)
        return self.tick() - start

    def refused(self) -> float:
        id = self._ask()
        start = self.tick()
        self._report(id, CONCURRENCY)
        took = self.tick() - start
        self._release(id)
        return took

    def close(self) -> None:
        self._store.close()


class _Gate(_Side):
    """As a program does it, in a plain thread."""

    def __init__(self, store: Store, clock: _Clock, adapt: str, here: Path, *, usage: bool) -> None:
        super().__init__(clock, learns=adapt == LEARN, usage=usage)
        config = here / f"{adapt}.toml"
        config.write_text(
            f'[pools.host]\nlimit = {HOST_SEATS}\n[pools."{POOL}"]\nlimit = {SEATS}\n'
            f'adapt = "{adapt}"\ncooldown = "{COOLDOWN}ms"\n'
        )
        functions = {POOL: lambda: None} if usage else None
        self._gate = Gate(store, config=Watched(config), usage=functions)
        self.prepare()
        self._held: list[Lease] = [self._gate.slot(KEY).acquire() for _ in range(HELD)]

    def do(self, what: Callable[[Ledger], T]) -> T:
        return self._gate._runtime.transactor.run(what)  # noqa: SLF001 - not for anyone else

    def pair(self) -> float:
        start = self.tick()
        with self._gate.slot(KEY):
            pass
        return self.tick() - start

    def answered(self) -> float:
        start = self.tick()
        with self._gate.slot(KEY) as lease:
            lease.report(ACCEPTED)
        return self.tick() - start

    def refused(self) -> float:
        with self._gate.slot(KEY) as lease:
            start = self.tick()
            lease.report(CONCURRENCY)
            lease.release()
            return self.tick() - start

    def close(self) -> None:
        self._gate.close()
