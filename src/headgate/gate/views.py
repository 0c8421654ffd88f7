"""What a gate shows: pools, the line, events, and what would become of work."""

import math
import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headgate.core.admission.seats import Reason
from headgate.core.display.snapshots import (
    Capacity,
    Event,
    JobStatus,
    Metered,
    Past,
    Queue,
    Running,
    SelectedWork,
    Status,
    Waiting,
)
from headgate.core.host.pressure import PressureLimits
from headgate.core.key_patterns import HOST, NO_KEY, parse_key, parse_pattern
from headgate.core.quantities import parse_priority, parse_task, priority_class, shown
from headgate.core.roles import parse_roles
from headgate.core.times import NO_TIME, Ms, Seconds, ms, seconds
from headgate.errors import UsageError
from headgate.gate.host.memory_and_load import strained
from headgate.gate.live_settings import Settings
from headgate.gate.liveness.process_marks import MARK
from headgate.gate.process_runtime import Runtime
from headgate.ledger.queries import status_and_queue
from headgate.ledger.queries.work_filter import ALL, WorkFilter
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import WITHOUT_HOST

if TYPE_CHECKING:
    from headgate.core.admission.candidates import Candidate, Plan
    from headgate.core.display.deadlock import Deadlock

_JUMP = Ms(2_000)
"""By how many milliseconds the wall clock may differ from the store's before it has jumped."""
_FAR = seconds(Ms(2**52))


class Views:
    """The part of a gate that changes nothing."""

    _mark: str | None = None
    """What whoever asks carries, if that is no program of this machine."""

    def __init__(self, runtime: Runtime, settings: Settings, view: str) -> None:
        self._view = view
        self._settings = settings
        self._runtime = runtime
        self._transactor = runtime.transactor

    @property
    def view(self) -> str:
        """The limits of whoever opened this gate, beside those that all share."""
        return self._view

    def status(self) -> Status:
        """All pools at this moment."""
        return self._transactor.read(
            lambda ledger: status_and_queue.status(ledger, Seconds(time.time()), self._view)
        )

    def said_cooldown(self, pool: str) -> Ms | None:
        """The cooldown that counts for a pool, if somebody has set one just for it."""
        name = parse_pattern(pool)

        def do(ledger: Ledger) -> Ms | None:
            declared = self._settings.config.pools.get(name)
            said = ledger.pool_row(name).cooldown
            return said if said is not None or declared is None else declared.cooldown

        return self._transactor.read(do)

    def known_keys(self) -> list[str]:
        """The keys whose work runs, waits or has ended, in order."""

        def do(ledger: Ledger) -> list[str]:
            there = {row.key for row in ledger.tx.held()} | {row.key for row in ledger.lanes()}
            return sorted(there.union(ledger.tx.known_keys()) - {NO_KEY})

        return self._transactor.read(do)

    def pool_names(self) -> list[str]:
        """The names of all pools, in order."""
        return self._transactor.read(lambda ledger: list(ledger.pool_set.pools.names))

    def capacity(
        self,
        key: str | None = None,
        *,
        priority: str | int | None = None,
        without_host: bool = False,
        roles: str | Sequence[str] = (),
    ) -> Capacity:
        """Whether work with this key would be let in now, how much of it, and if not, why."""
        parsed = parse_key(key) if key is not None else NO_KEY
        cls, carried = priority_class(parse_priority(priority)), parse_roles(roles)
        lender = WITHOUT_HOST if without_host else self._parent()
        self._runtime.poller.refresh(parsed)
        return self._transactor.read(
            lambda ledger: status_and_queue.capacity(
                ledger, parsed, cls, self._view, lender, roles=carried
            )
        )

    @property
    def pressure_limits(self) -> PressureLimits | None:
        """When this machine takes no more, by its configuration; None if it always does."""
        return self._transactor.read(lambda ledger: ledger.pool_set.pools[HOST].pressure_limits)

    def strained(self, *, danger: bool = False) -> Reason | None:
        """Why this machine takes no more; or, with `danger`, why what runs is in danger."""
        return strained(self.pressure_limits, self._settings.look_at_host(), danger=danger)

    def plan(self, candidates: "Iterable[Candidate]", *, log: bool = False) -> "Plan":
        """What would become of these if all were started now; nothing is.

        `log` writes the deferrals down, as events.
        """
        from headgate.gate.plan_ahead import plan, write_deferrals

        found = plan(self._runtime, candidates, self._view, self._parent(), self.moment)
        if log:
            self._transactor.run(lambda ledger: write_deferrals(ledger, found))
        return found

    def queue(self, *, most: int = 100, skip: int = 0, wanted: WorkFilter | None = None) -> Queue:
        """What runs and what waits, in the order of the line; with a filter, what fits."""
        from headgate.ledger.queries import job_queries, metered

        def do(ledger: Ledger) -> Queue:
            wall = Seconds(time.time())
            fits = ALL if wanted is None else wanted
            found = status_and_queue.queue(ledger, wall, most, skip, fits)
            aside, total = job_queries.aside_like(ledger, wall, most, fits)
            return found._replace(
                running=metered.with_requests(ledger, found.running, wall),
                aside=tuple(aside),
                total_aside=total,
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
        from headgate.ledger.queries import metered

        def do(ledger: Ledger) -> Waiting | Running | Past:
            wall = Seconds(time.time())
            found = status_and_queue.why(ledger, id, wall)
            if isinstance(found, Running):
                (found,) = metered.with_requests(ledger, (found,), wall)
            return found

        return self._transactor.read(do)

    def in_flight(self, id: int) -> tuple[int, Ms]:
        """How many requests of some work are on their way as far as the store knows, since when."""
        row = self._transactor.read(lambda ledger: ledger.tx.metered(id))
        return (row.in_flight, row.oldest) if row is not None else (0, NO_TIME)

    def metered(self, id: int, *, most: int = 5) -> Metered | None:
        """How an agent is counted and watched, and its last requests; None if nobody knows."""
        from headgate.ledger.queries import metered

        return self._transactor.read(
            lambda ledger: metered.metered(ledger, id, Seconds(time.time()), most)
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

    def find_job(self, name: str, what: str = "id") -> int:
        """The id of the job of this name: that has not ended, else of the latest that has."""
        from headgate.ledger.queries import job_queries

        wanted = parse_task(name, "name")
        return self._transactor.read(lambda ledger: job_queries.named(ledger, wanted, what))

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

    def moment(self, since: float | None) -> Ms:
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
        mark = os.environ.get(MARK, "") if self._mark is None else self._mark
        uid, _, id = mark.partition(".")
        if not id.isdigit() or len(id) > 18:
            return 0
        return int(id) if uid == self._runtime.uid() else 0
