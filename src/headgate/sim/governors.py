"""Who decides when a request may be sent: what that takes, and headgate itself.

`Headgate` is the real ledger on a store in memory, driven by the simulation's clock. What it is
compared with is in `baselines`.
"""

from typing import Protocol

from headgate.core.admission.pools import Declared, UsageSource
from headgate.core.answers.signals import (
    ACCEPTED,
    CONCURRENCY,
    OVERLOADED,
    QUOTA,
    RATE,
    Reading,
    Signal,
)
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms
from headgate.ledger import dead_members, release, watch_duty
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals, upstream_state
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import Member
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.sim.upstream import ProviderAnswer, Usage
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


class SimulatedJob(NamedTuple):
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

    def ask(self, job: SimulatedJob, now: int) -> None:
        """Somebody wants to send; he is told through `granted`."""

    def granted(self, now: int) -> list[int]:
        """Who may send now, by id."""

    def accepted(self, id: int, now: int) -> None:
        """Upstream has let a request in."""

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
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


class Headgate:
    """The real thing: ledger, rules and rows, with only the clock and the network made up."""

    def __init__(
        self,
        limit: int | None,
        *,
        adapt: str = "learn",
        usage: bool = False,
        cooldown: Ms | None = None,
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
        self._plan = watch_duty.NOTHING
        self._open()

    def _open(self) -> None:
        self._resolver = PoolResolver(self._declared)
        self._liveness = SimulatedLiveness("sim")
        with self._store.transaction(write=True) as tx:
            tx.add_member(
                Member(id="sim", machine="sim", pid=1, pid_space="", joined=self._store.now())
            )

    @property
    def limit(self) -> int:
        """The pool's limit at this moment."""
        with self._store.transaction(write=False) as tx:
            return self._ledger(tx).pool_set.pools[POOL].limit or 0

    def _ledger(self, tx: object) -> Ledger:
        return Ledger(
            tx=tx,  # type: ignore[arg-type]
            resolver=self._resolver,
            now=self._store.now(),
            liveness=self._liveness,
            machine="sim",
        )

    def _do(self, do: object, now: int) -> None:
        self._now = now
        with self._store.transaction(write=True) as tx:
            ledger = self._ledger(tx)
            do(ledger)  # type: ignore[operator]
            while ledger.unsettled:
                admit.settle(ledger)
            for lease in ledger.granted:
                self._granted.append(self._jobs[lease])
            self._plan = watch_duty.keep_watch(ledger, "sim", waiting=bool(ledger.lanes()))
        self._planned = now

    def ask(self, job: SimulatedJob, now: int) -> None:
        """Ask for a seat."""

        def do(ledger: Ledger) -> None:
            request = Request(
                key=f"{POOL}/{job.model or 'm'}",
                member="sim",
                machine="sim",
                weight=job.weight,
                urgency=job.urgency,
                since=Ms(_START + job.since),
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
        self._do(lambda ledger: apply_signals.report(ledger, Signal(ACCEPTED), lease=lease), now)

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
        """Report a refusal, and give the seat back."""
        lease = self._leases.pop(id)
        wait = None if answer.retry_after is None else Ms(answer.retry_after)
        signal = Signal(_SIGNALS[answer.kind], wait, note=f"429 {answer.kind}")

        def do(ledger: Ledger) -> None:
            apply_signals.report(ledger, signal, lease=lease)
            release.release(ledger, lease)

        self._do(do, now)
        return None

    def ended(self, id: int, now: int, *, completed: bool) -> None:
        """Give the seat back."""
        lease = self._leases.pop(id)
        kind = "released" if completed else "cancelled"
        self._do(lambda ledger: release.release(ledger, lease, kind), now)

    def read(self, usage: Usage | None, asked: int, now: int) -> None:
        """Take in a usage reading."""
        reading = None
        if usage is not None:
            reading = Reading(usage.in_use, usage.limit, usage.hard_cap)

        def do(ledger: Ledger) -> None:
            upstream_state.record(
                ledger, POOL, reading, asked=Ms(_START + asked), problem="it failed"
            )

        self._do(do, now)

    def next_poll(self, now: int) -> int | None:
        """When the ledger wants a reading."""
        wait = self._plan.polls.get(POOL)
        return None if wait is None else self._planned + wait

    def wakes(self, now: int) -> int | None:
        """When a rest, a pause or a bar is over."""
        return None if self._plan.due_in is None else self._planned + self._plan.due_in

    def restart(self, now: int) -> None:
        """Take everybody for dead, and begin again on the same rows."""
        self._liveness.end("sim")
        self._do(lambda ledger: dead_members.remove_dead_member(ledger, "sim"), now)
        self._granted.clear()
        self._leases.clear()
        self._plan = watch_duty.NOTHING
        self._open()


def _tidy(ledger: Ledger) -> None:
    ledger.reconsider()
