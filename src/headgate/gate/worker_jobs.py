"""The face for workers and runners: take jobs over, and tell how they ended.

A worker enlists, and is given jobs whenever there is room for them. For each it starts a runner,
which opens a gate of its own, takes the job's lease over (`begin`), and gives it back (`finish`).
"""

import os
import time
from collections.abc import Callable
from functools import partial

from headgate.core.admission.lease_events import EndRequest, lease_mark
from headgate.core.jobs.job import End, Job
from headgate.core.jobs.states import State
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import CancelledWorkError, HeadgateError, StoreError, StoreReplacedError
from headgate.gate.lease import Lease
from headgate.gate.liveness.process_marks import MARK, programs
from headgate.gate.process_runtime import Runtime
from headgate.gate.transactions.operation import About, Joining, Operation
from headgate.ledger import dead_members, job_timers, release, unplaced
from headgate.ledger.jobs import lifecycle
from headgate.ledger.transaction.ledger import Ledger

_GONE = Seconds(10)
"""After which a store whose file is gone is not expected back."""
_SOON = Seconds(0.2)
_STARTING = Ms(20_000)
"""After which a job that its worker has not started is given to another."""


OnEnd = Callable[[int, HeadgateError], None]
"""Told that somebody wants a job to end, and why."""


class Taken(NamedTuple):
    """A job that is this process's to run."""

    job: Job
    lease: Lease


class _Grant(NamedTuple):
    """A job that was taken over, the mark of its programs, and how long it may take."""

    job: Job
    mark: str
    max_hold: Ms | None
    asked: EndRequest | None
    """Who has asked for its end already."""


Track = Callable[[_Grant], Taken]
"""Looks after a job that was taken over."""


def _grant(ledger: Ledger, job: Job | None) -> _Grant | None:
    if job is None:
        return None
    lease = ledger.tx.lease(job.id)
    return _Grant(
        job=job,
        mark=lease_mark(ledger.tx.uid(), job.id),
        max_hold=ledger.pool_set.max_hold(job.key if lease is None else lease.uses),
        asked=lease.cancel if lease is not None else None,
    )


class _Enlisting(Joining):
    """The coming of a worker: who waited for one hears where it stands."""

    def conclude(self, ledger: Ledger) -> None:
        """Tell those that were not let in."""
        if self.result:
            unplaced.tell_now(ledger, Seconds(time.time()))


class _Taking(Joining):
    """A job that this process takes over.

    It is looked after before anybody can wake this process again: else a request for its end that
    comes at once would be read by nobody.
    """

    def __init__(self, do: Callable[[Ledger], _Grant | None], mind: Track) -> None:
        super().__init__(do)
        self.taken: Taken | None = None
        self._track = mind

    def finish(self) -> None:
        """Look after it, and tell."""
        try:
            if self.error is None and self.result is not None:
                self.taken = self._track(self.result)
        finally:
            super().finish()


class _Finish(Operation):
    """The end of one job and, if its seats let in another, the beginning of that one.

    In one transaction, and without a new process: a runner that is there anyway goes on with the
    next job, for as long as its worker lives.
    """

    def __init__(self, me: str, id: int, end: End, worker: str, mind: Track | None = None) -> None:
        super().__init__(lambda _: None)
        self.grant: _Grant | None = None
        self.taken: Taken | None = None
        self._track = mind
        self._me = me
        self._id = id
        self._end = end
        self._worker = worker

    def about(self) -> About:
        """What it is about, as far as that is known beforehand."""
        return About(lease=self._id, job=self._id)

    def apply(self, ledger: Ledger) -> None:
        """Give the seats back."""
        self.grant = None
        lifecycle.finish(ledger, self._id, self._me, self._end)
        if self._worker in ledger.workers():
            ledger.next_runner = self._me

    def conclude(self, ledger: Ledger) -> None:
        """Take what was let in for us."""
        ledger.next_runner = ""
        for id, lease in ledger.granted.items():
            if lease.job and lease.member == self._me:
                self.grant = _grant(ledger, lifecycle.begin(ledger, id, self._me, self._me))

    def finish(self) -> None:
        """Look after the next one, and tell."""
        try:
            if self.error is None and self.grant is not None and self._track is not None:
                self.taken = self._track(self.grant)
        finally:
            super().finish()


class WorkerJobs:
    """What workers and runners do with the jobs of a store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._transactor = runtime.transactor

    @property
    def me(self) -> str:
        """This process, as the store knows it."""
        return self._runtime.registry.me

    def start_receiving(self, on_call: Callable[[], None]) -> None:
        """Be given jobs from now on; `on_call` is called when there may be some."""
        self._runtime.membership.on_call = on_call

        def do(ledger: Ledger) -> bool:
            first = not ledger.workers()
            ledger.set_works(self.me, works=True)
            dead_members.remove_dead_members(ledger)
            job_timers.tick(ledger)
            return first

        self._transactor.perform(_Enlisting(do))

    def stop_receiving(self) -> None:
        """Be given no more jobs, and let others have those that were not started yet."""

        def do(ledger: Ledger) -> None:
            ledger.set_works(self.me, works=False)
            for lease in lifecycle.to_start(ledger, self.me):
                release.release(ledger, lease.id, "lost", "its worker was stopped")

        self._transactor.run(do)
        self._runtime.membership.on_call = None

    def to_start(self) -> list[tuple[int, Ms]]:
        """The jobs that were given to this worker, each with when it was."""
        return self._transactor.read(
            lambda ledger: [(it.id, it.granted) for it in lifecycle.to_start(ledger, self.me)]
        )

    def without_runner(self) -> list[tuple[int, str]]:
        """Jobs whose runner is gone while their program lives on, each with that runner."""
        return self._transactor.read(
            lambda ledger: [
                (lease.id, lease.member)
                for lease in lifecycle.without_runner(ledger)
                if (job := ledger.tx.job(lease.id)) is not None and job.state is State.RUNNING
            ]
        )

    def begin(self, id: int, worker: str, on_end: OnEnd) -> Taken | None:
        """Take over a job that a worker was given; None if it is not to be had any more."""
        return self._take(partial(lifecycle.begin, id=id, worker=worker, me=self.me), on_end)

    def adopt(self, id: int, on_end: OnEnd) -> Taken | None:
        """Take over a job whose runner was killed."""
        return self._take(partial(lifecycle.adopt, id=id, me=self.me), on_end)

    def _take(self, do: Callable[[Ledger], Job | None], on_end: OnEnd) -> Taken | None:
        mind = partial(self._track, on_end=on_end)
        take = _Taking(lambda ledger: _grant(ledger, do(ledger)), mind)
        self._transactor.perform(take)
        return take.taken

    def _track(self, grant: "_Grant", on_end: OnEnd) -> Taken:
        job, mark, max_hold, asked = grant
        lease = Lease(
            self._runtime,
            job.id,
            key=job.key,
            task=job.task,
            weight=job.weight,
            mark=mark,
            waited=Seconds(0),
        )
        lease.on_end = partial(on_end, job.id)
        self._runtime.waiting_and_held.hold(lease, None if max_hold is None else seconds(max_hold))
        if asked is not None:  # before it was taken over
            lease.end(CancelledWorkError(asked.text))
        return Taken(job, lease)

    def finish(self, lease: Lease, end: End, worker: str, on_end: OnEnd) -> Taken | None:
        """Give a job's seats back and tell how it ended; perhaps there is a next one to run.

        Tried until the store has it, unless the store is gone.
        """
        self._runtime.waiting_and_held.forget(lease.id)
        gone = 0.0
        while True:
            mind = partial(self._track, on_end=on_end)
            operation = _Finish(self.me, lease.id, end, worker, mind=mind)
            try:
                self._transactor.perform(operation)
            except StoreReplacedError:
                gone = gone or time.monotonic()
                if time.monotonic() - gone > _GONE:
                    return None
                time.sleep(_SOON)
            except StoreError:
                gone = 0.0
                time.sleep(_SOON)
            else:
                return operation.taken

    def programs(self, lease: Lease) -> set[int]:
        """The processes of a job, found from outside, other than this one."""
        mark = lease.environment[MARK]
        row = self._transactor.read(lambda ledger: ledger.tx.lease(lease.id))
        if row is None:
            return set()
        found = programs(self._runtime.registry, row, mark)
        found = found or programs(
            self._runtime.registry, row, mark
        )  # one that starts another has none
        return found - {os.getpid()}

    def remember(self, lease: Lease, session: str) -> None:
        """Keep the session of a job, so that it can be resumed whatever is killed."""
        self._transactor.tell(partial(lifecycle.remember, id=lease.id, session=session))

    def tick(self, keep: Ms | None) -> list[int]:
        """Do what time does to jobs, and forget old ones; returns the ids of these."""

        def do(ledger: Ledger) -> list[int]:
            job_timers.tick(ledger)
            _take_back(ledger)
            job_timers.put_back(ledger)
            return [] if keep is None else job_timers.age_out(ledger, ledger.now - keep)

        found: list[int] = self._transactor.run(do)
        return found

    def relieve(self, why: str) -> int:
        """Have one job parked so that the machine gets room; its id, 0 for none."""
        return self._transactor.run(partial(job_timers.relieve, why=why))

    def due(self) -> bool:
        """Whether time has come for some job."""
        return self._transactor.read(lambda ledger: job_timers.due(ledger) or bool(_late(ledger)))


def _late(ledger: Ledger) -> list[int]:
    """Jobs that a worker which is there has not started for too long: it may be stopped."""
    return [
        lease.id
        for lease in ledger.tx.job_leases()
        if ledger.now - lease.granted > _STARTING
        and (job := ledger.tx.job(lease.id)) is not None
        and job.state is State.STARTING
    ]


def _take_back(ledger: Ledger) -> None:
    for id in _late(ledger):
        release.release(ledger, id, "lost", "its worker did not start it")
