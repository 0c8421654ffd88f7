"""The face for programs.

gate = Gate.open()
with gate.slot("anthropic/claude-opus-4-6", task="oracle-2"):
    ...

async with gate.slot("anthropic/claude-opus-4-6", task="oracle-2") as lease:
    ...
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headgate import config as configuration
from headgate.core.admission.pools import LEARN
from headgate.core.admission.seats import Reason
from headgate.core.admission.setting_precedence import parse_view
from headgate.core.answers.signals import USAGE, Signal, parse_reading, parse_signal, parse_wait
from headgate.core.display.snapshots import (
    CancelOutcome,
    Capacity,
    Event,
    JobStatus,
    Past,
    Queue,
    Running,
    SelectedWork,
    Status,
    Waiting,
)
from headgate.core.host.pressure import PressureLimits
from headgate.core.key_patterns import HOST, NO_KEY, parse_key, parse_pattern
from headgate.core.quantities import (
    parse_duration,
    parse_limit,
    parse_priority,
    parse_task,
    parse_tokens,
    parse_weight,
    priority_class,
    shown,
)
from headgate.core.times import NO_TIME, Ms, Seconds, ms, seconds
from headgate.errors import HeadgateError, UsageError
from headgate.gate.host.memory_and_load import strained
from headgate.gate.lease import Lease
from headgate.gate.live_settings import Settings, Source
from headgate.gate.liveness.process_marks import MARK
from headgate.gate.process_runtime import Runtime
from headgate.gate.slot import Slot
from headgate.gate.transactions.operation import Operation
from headgate.ledger import limits_by_hand
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from headgate.store import Store, open_store

if TYPE_CHECKING:
    from headgate.core.admission.candidates import Candidate, Plan
    from headgate.core.agents.find_profile import Profile
    from headgate.core.agents.run_limits import JobPolicy
    from headgate.core.answers.answer_rules import Rule
    from headgate.core.display.deadlock import Deadlock
    from headgate.gate.notification_feed import NotificationFeed
    from headgate.gate.submit_jobs import Jobs
    from headgate.gate.worker_jobs import WorkerJobs

_JUMP = Ms(2_000)
_FAR = seconds(Ms(2**52))
"""By how many milliseconds the wall clock may differ from the store's before it has jumped."""


class Gate:
    """An open gate: asks for seats, holds them, tells what is going on. Any thread may use it."""

    def __init__(
        self,
        store: Store,
        *,
        config: Source | None = None,
        view: str = "",
        usage: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        self._view = view
        self._settings = Settings(config or configuration.Watched(None), view, usage)
        self._runtime = Runtime(store, self._settings)
        self._transactor = self._runtime.transactor

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        config: str | Path | None = None,
        limits: Mapping[str, int] | None = None,
        usage: Mapping[str, Callable[[], object]] | None = None,
    ) -> "Gate":
        """Open the gate of a store: by default the one that this person's programs share.

        `config` names a configuration file in place of the usual one. `limits` are this gate's own
        and beat all others, like HEADGATE_LIMITS. `usage` gives, for some pools, a function that
        tells what upstream counts: a number, or that and its limit; None if it cannot tell.
        """
        path = Path(config) if config is not None else configuration.find()
        text = os.environ.get("HEADGATE_LIMITS", "")
        view = parse_view(text)
        if limits:
            own = parse_view(",".join(f"{name}={n}" for name, n in limits.items()), "limits")
            merged = {part.rpartition("=")[0]: part for part in f"{view},{own}".split(",") if part}
            view = parse_view(",".join(merged.values()))
        watched = configuration.Watched(path)
        return cls(open_store(url), config=watched, view=view, usage=usage)

    def slot(
        self,
        key: str | None = None,
        *,
        task: str | None = None,
        priority: str | int | None = None,
        since: float | None = None,
        weight: int = 1,
        timeout: float | str | None = None,
        on_wait: Callable[[Waiting], None] | None = None,
        on_end: Callable[[HeadgateError], None] | None = None,
        label: str = "",
        marked: bool = False,
        tokens: int = 0,
    ) -> "Slot":
        """Seats for one piece of work, for use with `async with` or `with`.

        key       what the work uses, as in `anthropic/claude-opus-4-6`; None for no model
        task      whom it is for; identity only, it never changes what is counted
        priority  `interactive`, `normal`, `background`, or a number (higher goes first)
        since     when the task's current prompt began (seconds since the epoch); now if None
        weight    how many seats it takes in each of its pools
        timeout   wait at most so long (seconds, or `2m`), then WaitTimeoutError; 0 for NoRoomError
                  at once; None to wait as long as it takes
        on_wait   called with a `Waiting` when the request has to queue, and when its position
                  or reason changes; never when it is let in at once
        on_end    called when somebody cancels the work or it outlives its pool's `max_hold`;
                  by default an asyncio task is cancelled, and a thread is left alone
        label     a word for people: what program this is
        marked    programs started under the lease carry its mark in their environment, and keep
                  its seats for as long as one of them lives
        tokens    about how many tokens it will use, for pools with a `tpm`; what it really used
                  can be told with `lease.report`
        """
        wait = None if timeout is None else seconds(parse_duration(timeout, "timeout"))
        lender = self._parent()
        request = Request(
            key=parse_key(key) if key is not None else NO_KEY,
            member=self._runtime.registry.me,
            machine=self._runtime.membership.machine,
            weight=parse_weight(weight),
            urgency=-parse_priority(priority),
            since=self._since(since),
            task=parse_task(task),
            label=parse_task(label),
            marked=marked,
            lender=lender,
            view=self._view,
            tokens=parse_tokens(tokens),
        )
        return Slot(
            runtime=self._runtime, request=request, wait=wait, on_wait=on_wait, on_end=on_end
        )

    def status(self) -> Status:
        """All pools at this moment."""
        return self._transactor.read(
            lambda ledger: status_and_queue.status(ledger, Seconds(time.time()), self._view)
        )

    def capacity(self, key: str | None = None, *, priority: str | int | None = None) -> Capacity:
        """Whether work with this key would be let in now, how much of it, and if not, why."""
        parsed = parse_key(key) if key is not None else NO_KEY
        cls = priority_class(parse_priority(priority))
        lender = self._parent()
        self._runtime.poller.refresh(parsed)
        return self._transactor.read(
            lambda ledger: status_and_queue.capacity(ledger, parsed, cls, self._view, lender)
        )

    @property
    def pressure_limits(self) -> PressureLimits | None:
        """When this machine takes no more, by its configuration; None if it always does."""
        return self._transactor.read(lambda ledger: ledger.pool_set.pools[HOST].pressure_limits)

    def strained(self, *, danger: bool = False) -> Reason | None:
        """Why this machine takes no more; or, with `danger`, why what runs is in danger."""
        return strained(self.pressure_limits, self._settings.look_at_host(), danger=danger)

    def plan(self, candidates: "Iterable[Candidate]") -> "Plan":
        """What would become of these if all were started now; nothing is."""
        from headgate.gate.plan_ahead import plan

        return plan(self._runtime, candidates, self._view, self._parent(), self._since)

    def queue(self, *, most: int = 100, skip: int = 0) -> Queue:
        """What runs and what waits, in the order of the line."""
        from headgate.ledger.queries import job_queries

        def do(ledger: Ledger) -> Queue:
            wall = Seconds(time.time())
            found = status_and_queue.queue(ledger, wall, most, skip)
            return found._replace(
                aside=tuple(job_queries.aside(ledger, wall, most)),
                total_aside=ledger.tx.count_aside(),
                jobs=tuple(job_queries.of_queue(ledger, found, wall)),
            )

        return self._transactor.read(do)

    def events(self, *, after: int = -1, most: int = 100) -> tuple[Event, ...]:
        """What happened after an event's `seq`; the latest events by default."""
        wall = Seconds(time.time())
        return self._transactor.read(
            lambda ledger: tuple(
                status_and_queue.event(row, ledger, wall)
                for row in ledger.tx.events(after, most, 0)
            )
        )

    def why(self, id: int) -> Waiting | Running | Past:
        """What is known of one piece of work: where it waits, that it runs, or how it ended."""
        return self._transactor.read(
            lambda ledger: status_and_queue.why(ledger, id, Seconds(time.time()))
        )

    def deadlocks(self) -> "tuple[Deadlock, ...]":
        """Work that waits for each other in a circle, and will not go on by itself."""
        from headgate.ledger.queries import deadlocks

        return self._transactor.read(deadlocks.find)

    def deadlock_of(self, id: int) -> "Deadlock | None":
        """The circle that keeps a piece of work from going on; None if there is none."""
        from headgate.ledger.queries import deadlocks

        return self._transactor.read(lambda ledger: deadlocks.of(ledger, id))

    def job(self, id: int) -> JobStatus | None:
        """What is known of a job; None if there is none with this id."""
        from headgate.ledger.queries import job_queries

        return self._transactor.read(
            lambda ledger: job_queries.job(ledger, id, Seconds(time.time()))
        )

    def report(
        self,
        pool: str,
        signal: str,
        *,
        retry_after: float | str | None = None,
        in_use: float | None = None,
        limit: int | None = None,
        note: str = "",
    ) -> None:
        """Tell a pool what was learned from upstream.

        In a program that itself runs under a lease of this pool, it is that lease's signal.

        signal        accepted, concurrency-limited, rate-limited, quota-gone, overloaded or usage
        retry_after   for how long upstream asks to be left alone: seconds, or `2m`
        in_use        what upstream counts as in use, for `usage`; `limit` is what it allows
        """
        name, kind = parse_pattern(pool), parse_signal(signal)
        reading = parse_reading(in_use, limit) if kind == USAGE else None
        if kind == USAGE and reading is None:
            raise UsageError(f"bad usage {shown(in_use)}: expected how much is in use, as a number")
        told = Signal(kind, parse_wait(retry_after), reading, note=parse_task(note, "note"))
        lease = self._parent()
        self._transactor.run(
            lambda ledger: apply_signals.report(ledger, told, pool=name, lease=lease)
        )

    def set_limit(self, pool: str, limit: int | str) -> None:
        """Set a limit by hand, or have it `learn`: persisted, and live at once everywhere."""
        name = parse_pattern(pool)
        seats = LEARN if limit == LEARN and name != HOST else parse_limit(limit)
        self._transactor.run(lambda ledger: limits_by_hand.set_limit(ledger, name, seats))

    def unset_limit(self, pool: str) -> None:
        """Lift a pool's limit; everyone waiting for it is let in."""
        name = parse_pattern(pool)
        self._transactor.run(lambda ledger: limits_by_hand.unset_limit(ledger, name))

    def set_cooldown(self, pool: str, cooldown: float | str) -> None:
        """Set how long seats freed from now on rest."""
        name, rest = parse_pattern(pool), parse_duration(cooldown, "cooldown")
        self._transactor.run(lambda ledger: limits_by_hand.set_cooldown(ledger, name, rest))

    def restore(self, pool: str) -> None:
        """Forget what was set by hand for a pool: the configuration counts again."""
        name = parse_pattern(pool)
        self._transactor.run(lambda ledger: limits_by_hand.restore(ledger, name))

    def pause(self, pool: str, duration: float | str | None = None, *, note: str = "") -> None:
        """Let nothing start in a pool for a while, or until it is resumed."""
        name = parse_pattern(pool)
        length = None if duration is None else parse_duration(duration)
        note = parse_task(note, "note")
        self._transactor.run(lambda ledger: limits_by_hand.pause(ledger, name, length, note))

    def resume(self, pool: str) -> bool:
        """End a pause; False if there was none."""
        name = parse_pattern(pool)
        return self._transactor.run(lambda ledger: limits_by_hand.resume(ledger, name))

    def cancel(self, id: int, *, grace: float | None = None) -> str:
        """End a piece of work in any state; tells what became of it. Waits until it is so.

        After `grace` seconds it is killed: by default as many as its job, or the configuration,
        gives it.
        """
        (found,) = self.cancel_all([id], grace=grace)
        if found.error is not None:
            raise found.error
        return found.outcome

    def cancel_all(
        self,
        ids: Iterable[int] | None = None,
        *,
        task: str | None = None,
        name: str | None = None,
        key: str | None = None,
        grace: float | None = None,
        on_outcome: Callable[[CancelOutcome], None] | None = None,
    ) -> list[CancelOutcome]:
        """End many pieces of work: those with these ids, or all that `find_work` finds.

        Nothing of what waits is started any more: one transaction takes it out of the line, and
        asks what runs to end. That ends side by side. Waits until all of it has ended; one that
        cannot be cancelled does not keep the others, and has the outcome `failed`.

        grace       as for `cancel`
        on_outcome  called with each outcome as soon as it is known
        """
        from headgate.gate.cancel import cancel_all

        if ids is None:
            ids = [work.id for work in self.find_work(task=task, name=name, key=key)]
        elif any(given is not None for given in (task, name, key)):
            raise UsageError("cancel some work by ids, or by task, name and key; not by both")
        patience = None if grace is None else Seconds(grace)
        return cancel_all(self._runtime, ids, patience, self.grace, on_outcome)

    def find_work(
        self, *, task: str | None = None, name: str | None = None, key: str | None = None
    ) -> list[SelectedWork]:
        """What waits or runs for a task, has a name, and a key that a pattern matches; by id.

        What is None is no matter: without any of them, all that waits or runs. The work that this
        program itself is part of is left out.
        """
        from headgate.ledger.queries import select_work

        for given, what in ((task, "task"), (name, "name")):
            if given is not None and not parse_task(given, what):
                raise UsageError(f"bad {what} {shown(given)}: expected the {what} of some work")
        selection = select_work.Selection(
            task=None if task is None else parse_task(task),
            name=None if name is None else parse_task(name, "name"),
            pattern=None if key is None else parse_pattern(key),
        )
        me = self._parent()
        return self._transactor.read(
            lambda ledger: select_work.select(ledger, selection, select_work.around(ledger, me))
        )

    def notification_feed(self) -> "NotificationFeed":
        """The events on their way to the targets of notifications; for one notifier."""
        from headgate.gate.notification_feed import NotificationFeed

        return NotificationFeed(self._runtime, lambda: self._settings.config.notify)

    @property
    def jobs(self) -> "Jobs":
        """Durable work."""
        from headgate.gate.submit_jobs import Jobs
        from headgate.gate.wait_for_jobs import lease_here

        return Jobs(self._runtime, self._view, partial(lease_here, self._runtime, self._parent))

    @property
    def worker_jobs(self) -> "WorkerJobs":
        """For those who do that work."""
        from headgate.gate.worker_jobs import WorkerJobs

        return WorkerJobs(self._runtime)

    @property
    def grace(self) -> Seconds:
        """How many seconds a cancelled program gets to end by itself."""
        return seconds(self._settings.config.grace)

    @property
    def url(self) -> str:
        """How others open this store."""
        return self._runtime.store.url

    @property
    def job_policy(self) -> "JobPolicy":
        """How jobs are watched, and for how long they wait and are kept."""
        return self._settings.config.jobs

    def profiles(self) -> "tuple[Profile, ...]":
        """The kinds of agents that are known, the configuration's own first."""
        from headgate.config.profiles import all_profiles

        return all_profiles(self._settings.config)

    def key_of(self, argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
        """What a command uses, where its own words or its environment tell."""
        from headgate.core.agents import find_profile

        return find_profile.key(find_profile.find(argv, self.profiles()), argv, environment)

    def rules(self) -> "tuple[Rule, ...]":
        """How to read what upstream answers."""
        return self._settings.rules()

    def moment(self, since: float | None) -> Ms:
        """A wall-clock time on the store's clock; 0 stands for now."""
        return self._since(since)

    @property
    def life_fd(self) -> int:
        """A program that inherits this keeps this gate's leases for as long as it lives."""
        return self._runtime.registry.life_fd

    def started(self, lease: Lease, pid: int) -> None:
        """Let people know which process uses a lease."""

        def set_pid(ledger: Ledger) -> None:
            row = ledger.tx.lease(lease.id)
            if row is not None:
                ledger.tx.change_lease(row._replace(pid=pid))

        self._transactor.submit(Operation(set_pid))

    def get_ready(self) -> None:
        """Start what runs in the background now, and not with the first request."""
        self._runtime.background.start()

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does, but never within a transaction."""
        from signal import SIGSTOP, raise_signal

        with self._transactor.at_rest():
            raise_signal(SIGSTOP)  # os.kill() may return before this thread is stopped

    def leave_behind(self) -> None:
        """Close the gate, but leave its leases to the programs that live on with them."""
        self._runtime.close(stay_for_programs=True)

    def close(self) -> None:
        """Give everything back and let go of the store."""
        self._runtime.close()

    def __enter__(self) -> Self:
        """Use the gate."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Use the gate."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it, without making the event loop wait."""
        import asyncio

        await asyncio.to_thread(self.close)

    def _since(self, since: float | None) -> Ms:
        """A wall-clock time on the store's clock; 0 stands for now."""
        if since is None:
            return NO_TIME
        if not math.isfinite(since):
            raise UsageError(f"bad since {since!r}: expected seconds since the epoch")
        lead = self._runtime.store.now() - ms(Seconds(time.time()))
        jumped = lead if abs(lead) > _JUMP else NO_TIME  # else equal moments would come out unequal
        return ms(max(-_FAR, min(Seconds(since), _FAR))) + jumped or Ms(1)

    def _parent(self) -> int:
        """The lease this program itself runs under, if it is of the same store."""
        mark = os.environ.get(MARK, "")
        uid, _, id = mark.partition(".")
        if not id.isdigit() or len(id) > 18:
            return 0
        return int(id) if uid == self._runtime.uid() else 0
