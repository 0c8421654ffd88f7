"""Who decides when a request may be sent: headgate itself, an oracle, and everybody else's ways.

`Headgate` is the real ledger on a store in memory, driven by the simulation's clock. The others
are here to be compared with it.
"""

import random
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headgate.core.pools import Declared, UsageSource
from headgate.core.signals import ACCEPTED, CONCURRENCY, OVERLOADED, QUOTA, RATE, Reading, Signal
from headgate.ledger import admit, learn, leave, watch
from headgate.ledger.admit import Request
from headgate.ledger.ledger import Ledger, Pages
from headgate.ledger.rows import Member
from headgate.sim.upstream import Answer, Upstream, Usage
from headgate.store.memory import MemoryStore

POOL = "provider"
_START = 1_000_000_000
_SIGNALS = {
    "concurrency": CONCURRENCY,
    "rate": RATE,
    "tokens": RATE,
    "quota": QUOTA,
    "overloaded": OVERLOADED,
}


class Job(NamedTuple):
    """A request that somebody wants to send."""

    id: int
    agent: int
    model: str = "m"
    weight: int = 1
    tokens: int = 0
    urgency: int = 0
    since: int = 0


class Governor(Protocol):
    """Decides who may send. Times are milliseconds from the start."""

    @property
    def limit(self) -> int:
        """How many it would have in flight now, for the picture."""

    def ask(self, job: Job, now: int) -> None:
        """Somebody wants to send; he is told through `granted`."""

    def granted(self, now: int) -> list[int]:
        """Who may send now, by id."""

    def accepted(self, id: int, now: int) -> None:
        """Upstream has let a request in."""

    def refused(self, id: int, answer: Answer, now: int) -> int | None:
        """Upstream has not; in how long its agent may ask again, None for at once."""

    def ended(self, id: int, now: int, *, completed: bool) -> None:
        """A request has ended."""

    def read(self, usage: Usage | None, asked: int, now: int) -> None:
        """The usage endpoint has said something, or nothing."""

    def next_poll(self, now: int) -> int | None:
        """When to ask the usage endpoint; None if not at all."""

    def wakes(self, now: int) -> int | None:
        """When time alone may let somebody in."""

    def restart(self, now: int) -> None:
        """All processes are killed and started anew."""


class _Everyone:
    """A census of a world in which nobody dies but by `restart`."""

    def dead(self, members: Iterable[object]) -> list[str]:
        return []

    def listening(self, member: str) -> bool:
        return True


class Headgate:
    """The real thing: ledger, rules and rows, with only the clock and the network made up."""

    def __init__(
        self,
        limit: int | None,
        *,
        adapt: str = "learn",
        usage: bool = False,
        cooldown: int | None = None,
        rpm: int = 0,
        tpm: int = 0,
    ) -> None:
        self._now = 0
        self._store = MemoryStore("sim", clock=lambda: _START + self._now)
        source = UsageSource("python", call="sim") if usage else None
        self._declared = {
            "host": Declared(limit="unlimited"),
            POOL: Declared(
                limit="learn" if limit is None else limit,
                adapt=adapt,
                cooldown=cooldown,
                usage=source,
                rpm=rpm or None,
                tpm=tpm or None,
            ),
        }
        self._granted: list[int] = []
        self._leases: dict[int, int] = {}
        self._jobs: dict[int, int] = {}
        self._plan = watch.NOTHING
        self._open()

    def _open(self) -> None:
        self._pages = Pages(self._declared)
        with self._store.transaction(write=True) as tx:
            tx.add_member(Member("sim", "sim", 1, "", self._store.now()))

    @property
    def limit(self) -> int:
        """The pool's limit at this moment."""
        with self._store.transaction(write=False) as tx:
            return self._ledger(tx).book.pools[POOL].limit or 0

    def _ledger(self, tx: object) -> Ledger:
        return Ledger(tx, self._pages, self._store.now(), _Everyone(), "sim")  # type: ignore[arg-type]

    def _do(self, do: object, now: int) -> None:
        self._now = now
        with self._store.transaction(write=True) as tx:
            ledger = self._ledger(tx)
            do(ledger)  # type: ignore[operator]
            while ledger.unsettled:
                admit.settle(ledger)
            for lease in ledger.granted:
                self._granted.append(self._jobs[lease])
            self._plan = watch.keep_watch(ledger, "sim", waiting=bool(ledger.lanes()))
        self._planned = now

    def ask(self, job: Job, now: int) -> None:
        """Ask for a seat."""

        def do(ledger: Ledger) -> None:
            request = Request(
                key=f"{POOL}/{job.model or 'm'}",
                member="sim",
                machine="sim",
                weight=job.weight,
                urgency=job.urgency,
                since=_START + job.since,
                task=f"agent-{job.agent}",
                tokens=job.tokens,
            )
            lease = admit.ask(ledger, request)
            self._leases[job.id] = lease
            self._jobs[lease] = job.id

        self._do(do, now)

    def granted(self, now: int) -> list[int]:
        """Who was let in since this was last asked."""
        if self._due(now):
            self._do(_tidy, now)
        found, self._granted = self._granted, []
        return found

    def _due(self, now: int) -> bool:
        return self._plan.due_in is not None and now >= self._planned + self._plan.due_in

    def accepted(self, id: int, now: int) -> None:
        """Report an acceptance."""
        lease = self._leases[id]
        self._do(lambda ledger: learn.report(ledger, Signal(ACCEPTED), lease=lease), now)

    def refused(self, id: int, answer: Answer, now: int) -> int | None:
        """Report a refusal, and give the seat back."""
        lease = self._leases.pop(id)
        signal = Signal(_SIGNALS[answer.kind], answer.retry_after, note=f"429 {answer.kind}")

        def do(ledger: Ledger) -> None:
            learn.report(ledger, signal, lease=lease)
            leave.release(ledger, lease)

        self._do(do, now)
        return None

    def ended(self, id: int, now: int, *, completed: bool) -> None:
        """Give the seat back."""
        lease = self._leases.pop(id)
        kind = "released" if completed else "cancelled"
        self._do(lambda ledger: leave.release(ledger, lease, kind), now)

    def read(self, usage: Usage | None, asked: int, now: int) -> None:
        """Take in a usage reading."""
        reading = None
        if usage is not None:
            reading = Reading(usage.in_use, usage.limit, usage.hard_cap)

        def do(ledger: Ledger) -> None:
            learn.record(ledger, POOL, reading, asked=_START + asked, problem="it failed")

        self._do(do, now)

    def next_poll(self, now: int) -> int | None:
        """When the ledger wants a reading."""
        wait = self._plan.polls.get(POOL)
        return None if wait is None else self._planned + wait

    def wakes(self, now: int) -> int | None:
        """When a rest, a pause or a bar is over."""
        return None if self._plan.due_in is None else self._planned + self._plan.due_in

    def restart(self, now: int) -> None:
        """Bury everybody, and begin again on the same rows."""
        self._do(lambda ledger: leave.bury(ledger, "sim"), now)
        self._granted.clear()
        self._leases.clear()
        self._plan = watch.NOTHING
        self._open()


def _tidy(ledger: Ledger) -> None:
    ledger.unsettled = True


class Line:
    """What the others have in common: a line in memory, seats counted, a cooldown."""

    def __init__(self, limit: int, cooldown: int = 0) -> None:
        self.limit = limit
        self._cooldown = cooldown
        self._line: deque[Job] = deque()
        self._flying: dict[int, Job] = {}
        self._sent: dict[int, int] = {}
        self._resting: deque[tuple[int, int]] = deque()
        self._paused = 0

    def ask(self, job: Job, now: int) -> None:
        """Join the line."""
        self._line.append(job)

    def granted(self, now: int) -> list[int]:
        """Let in whoever fits."""
        found = []
        while self._line and now >= self._paused and self._fits(self._line[0], now):
            job = self._line.popleft()
            self._flying[job.id] = job
            self._sent[job.id] = now
            found.append(job.id)
        return found

    def _fits(self, job: Job, now: int) -> bool:
        while self._resting and self._resting[0][0] <= now:
            self._resting.popleft()
        used = sum(other.weight for other in self._flying.values())
        return used + sum(weight for _, weight in self._resting) + job.weight <= self.limit

    def accepted(self, id: int, now: int) -> None:
        """Nothing is learned from it."""

    def refused(self, id: int, answer: Answer, now: int) -> int | None:
        """Give the seat back; its agent backs off by itself."""
        self._flying.pop(id)
        self._sent.pop(id)
        return answer.retry_after or 1_000

    def ended(self, id: int, now: int, *, completed: bool) -> None:
        """Give the seat back."""
        job = self._flying.pop(id)
        self.took(now - self._sent.pop(id), now)
        if self._cooldown:
            self._resting.append((now + self._cooldown, job.weight))

    def took(self, took: int, now: int) -> None:
        """A request took so long."""

    def read(self, usage: Usage | None, asked: int, now: int) -> None:
        """Nobody here reads it."""

    def next_poll(self, now: int) -> int | None:
        """Nobody here asks for it."""
        return None

    def wakes(self, now: int) -> int | None:
        """When a rest or a pause is over."""
        times = [at for at, _ in self._resting if at > now]
        if self._paused > now:
            times.append(self._paused)
        return min(times, default=None)

    def restart(self, now: int) -> None:
        """Everything is forgotten but the limit."""
        self._line.clear()
        self._flying.clear()
        self._sent.clear()
        self._resting.clear()


class Backoff(Line):
    """No governor at all: clients that back off, each for itself, twice as long each time."""

    def __init__(self, seed: int) -> None:
        super().__init__(1_000_000)
        self._tries: dict[int, int] = {}
        self._dice = random.Random(seed)  # noqa: S311 - a simulation wants it repeatable

    def refused(self, id: int, answer: Answer, now: int) -> int | None:
        """Back off."""
        agent = self._flying[id].agent
        super().refused(id, answer, now)
        tries = self._tries[agent] = self._tries.get(agent, 0) + 1
        wait = answer.retry_after or min(60_000, 500 * 2 ** min(tries, 7))
        return round(wait * (0.5 + self._dice.random()))

    def accepted(self, id: int, now: int) -> None:
        """Begin anew."""
        self._tries.pop(self._flying[id].agent, None)


class Aimd(Line):
    """Netflix's AIMD: a tenth less at each refusal, one more after each end at the limit."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._exact = float(limit)

    def refused(self, id: int, answer: Answer, now: int) -> int | None:
        """Cut."""
        self._exact = max(1.0, self._exact * 0.9)
        self.limit = int(self._exact)
        return super().refused(id, answer, now)

    def took(self, took: int, now: int) -> None:
        """Grow, if the limit is in use."""
        if len(self._flying) * 2 >= self.limit:
            self._exact = min(200.0, self._exact + 1)
            self.limit = int(self._exact)


class Vegas(Line):
    """Netflix's Vegas: the queue that the best latency would imply, kept between two bounds."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._best = 0

    def refused(self, id: int, answer: Answer, now: int) -> int | None:
        """Cut."""
        self.limit = max(1, self.limit - max(1, len(str(self.limit))))
        return super().refused(id, answer, now)

    def took(self, took: int, now: int) -> None:
        """Compare with the best latency."""
        self._best = min(self._best or took, took)
        queue = self.limit * (1 - self._best / max(took, 1))
        if queue < 3:
            self.limit += 1
        elif queue > 6:
            self.limit = max(1, self.limit - 1)


class Gradient(Line):
    """Netflix's Gradient2: a long average of latency divided by the present one."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._long = 0.0
        self._exact = float(limit)

    def took(self, took: int, now: int) -> None:
        """Follow the gradient."""
        self._long = took if not self._long else self._long + (took - self._long) / 100
        gradient = max(0.5, min(1.0, 1.5 * self._long / max(took, 1)))
        target = self._exact * gradient + 4
        self._exact = max(1.0, min(200.0, self._exact * 0.8 + target * 0.2))
        self.limit = int(self._exact)


class Oracle(Line):
    """Knows all that the provider knows, at every moment."""

    def __init__(self, upstream: Upstream, delay: int) -> None:
        super().__init__(1_000_000)
        self._upstream = upstream
        self._delay = delay
        self._on_the_way: deque[tuple[int, Job]] = deque()

    def granted(self, now: int) -> list[int]:
        """Let in whoever fits, and note that he is on the way."""
        found = super().granted(now)
        self.limit = 1_000_000
        return found

    def _fits(self, job: Job, now: int) -> bool:
        while self._on_the_way and self._on_the_way[0][0] < now - self._delay:
            self._on_the_way.popleft()
        coming = [other for _, other in self._on_the_way]
        fits = self._upstream.would_fit(
            now + self._delay, job.model, job.tokens, [(j.model, j.tokens) for j in coming]
        )
        if fits:
            self._on_the_way.append((now, job))
        return fits

    def wakes(self, now: int) -> int | None:
        """When something changes at the provider."""
        if not self._line:
            return None
        release = self._upstream.next_release()
        return release if now < release < now + 500 else now + 500
