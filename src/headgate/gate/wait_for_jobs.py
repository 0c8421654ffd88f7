"""Wait for jobs; under a lease, its seats are lent to them meanwhile.

Whoever waits without a lease only reads. Under a lease the wait is written down, with this process
as the one that waits: it counts until it is over, or until this process has ended.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from headgate.core.display.snapshots import JobStatus
from headgate.core.jobs.states import ENDED
from headgate.core.times import Seconds
from headgate.errors import HeadgateError, UsageError
from headgate.gate.lease import current_lease
from headgate.gate.transactions.operation import Joining, Retried
from headgate.ledger.admission import count_apart
from headgate.ledger.jobs import waits
from headgate.ledger.queries import deadlocks, job_queries

if TYPE_CHECKING:
    from headgate.gate.process_runtime import Runtime
    from headgate.ledger.transaction.ledger import Ledger

_NUMBERS = count(1)
_SHORTEST, _LONGEST = Seconds(0.02), Seconds(0.5)
_SUSPECT, _RARELY = Seconds(1), Seconds(10)
"""After what time a wait is first taken for a possible deadlock, and how rarely it is later on."""


def lease_here(runtime: "Runtime", parent: Callable[[], int]) -> int:
    """The lease under which this is called: of the slot around it, else of this program; or 0."""
    lease = current_lease.get()
    if lease is not None and runtime.waiting_and_held.leases.get(lease.id) is lease:
        return lease.id
    return parent()


class JobWait:
    """One wait for some jobs, under a lease or under none (0)."""

    def __init__(self, runtime: "Runtime", lease: int, ids: Sequence[int]) -> None:
        self._runtime = runtime
        self._transactor = runtime.transactor
        self._lease = lease
        self._ids = ids
        self._number = next(_NUMBERS)
        self._lends = False
        self._pause = _SUSPECT
        self._look_for_deadlocks = time.monotonic() + _SUSPECT

    def each(self, timeout: float | None) -> Generator[JobStatus, None, None]:
        """Each job when it has ended, in the order given; or as it is when the time is up."""
        deadline = _deadline(timeout)
        try:
            for id in self._ids:
                found = self._look(id)
                for pause in _pauses(deadline):
                    if found.state in ENDED:
                        break
                    time.sleep(pause)
                    found = self._look(id)
                yield found
        finally:
            self._end()

    async def one(self, timeout: float | None) -> JobStatus:  # noqa: ASYNC109 - as `each`
        """The first job when it has ended, without blocking the event loop."""
        import asyncio

        deadline = _deadline(timeout)
        try:
            found = await asyncio.to_thread(self._look, self._ids[0])
            for pause in _pauses(deadline):
                if found.state in ENDED:
                    break
                await asyncio.sleep(pause)
                found = await asyncio.to_thread(self._look, self._ids[0])
            return found
        finally:
            await asyncio.to_thread(self._end)

    def _look(self, id: int) -> JobStatus:
        found, amiss = self._transactor.read(partial(self._find, id=id))
        if found is None:
            raise UsageError(f"there is no job {id}; see headgate queue --all")
        if found.state in ENDED or not self._lease:
            return found
        if not self._lends:
            self._begin()
        elif amiss:
            self._transactor.run(partial(_mend, id=id))
        return found

    def _find(self, ledger: "Ledger", id: int) -> tuple[JobStatus | None, bool]:
        """A job, and whether something about its wait has to be written."""
        found = job_queries.job(ledger, id, Seconds(time.time()))
        if not self._lends or found is None or found.state in ENDED:
            return found, False
        amiss = waits.misplaced(ledger, id)
        if time.monotonic() >= self._look_for_deadlocks:
            self._pause = min(_RARELY, self._pause * 2)
            self._look_for_deadlocks = time.monotonic() + self._pause
            amiss = amiss or deadlocks.untold(ledger, self._lease)
        return found, amiss

    def _begin(self) -> None:
        """Lend the lease's seats, if it is there, to those that have not ended."""
        me = self._runtime.registry.me

        def do(ledger: "Ledger") -> bool:
            rows = [row for id in self._ids if (row := ledger.tx.job(id)) is not None]
            ids = [row.id for row in rows if not row.state.ended]
            return waits.begin(ledger, me, self._number, self._lease, ids)

        self._lends = True  # so that it is ended even if Ctrl-C comes now
        if not self._transactor.perform(Joining(do)):
            self._lends, self._lease = False, 0

    def _end(self) -> None:
        """Lend no more. If the store cannot be written now, it is done as soon as it can be."""
        if not self._lends:
            return
        self._lends = False
        me = self._runtime.registry.me

        def do(ledger: "Ledger") -> None:
            waits.end(ledger, me, self._number)
            count_apart.count_apart(ledger)
            deadlocks.forget_resolved(ledger)

        with suppress(HeadgateError):  # a gate that is closed has ended all its waits
            self._transactor.perform(Retried(do))


def _mend(ledger: "Ledger", id: int) -> None:
    """See to a job that an older process put back into the line, or could have another lender."""
    waits.put_into_lanes(ledger, id)
    deadlocks.tell(ledger)


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _pauses(deadline: float | None) -> Iterator[float]:
    """How long to sleep between two looks, until the time is up."""
    pause: float = _SHORTEST
    while (left := pause if deadline is None else min(pause, deadline - time.monotonic())) > 0:
        yield left
        pause = min(_LONGEST, pause * 1.3)
