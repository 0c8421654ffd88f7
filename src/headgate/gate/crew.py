"""The face for workers and runners: take jobs over, and tell how they ended.

A worker enlists, and is given jobs whenever there is room for them. For each it starts a runner,
which opens a gate of its own, takes the job's lease over (`begin`), and gives it back (`finish`).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.core.jobs import End
from headgate.errors import HeadgateError
from headgate.gate.errand import Errand
from headgate.gate.lease import Lease
from headgate.ledger import jobs, leave
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Job

if TYPE_CHECKING:
    from headgate.gate.clerk import Clerk

_STARTING = 20_000
"""Milliseconds after which a job that its worker has not started is given to another."""


class Taken(NamedTuple):
    """A job that is this process's to run."""

    job: Job
    lease: Lease


class _Joining(Errand):
    """Something that makes this process a member."""

    joins = True


class Crew:
    """What workers and runners do with the jobs of a store."""

    def __init__(self, clerk: "Clerk") -> None:
        self._clerk = clerk

    @property
    def me(self) -> str:
        """This process, as the store knows it."""
        return self._clerk.roll.me

    def _run(self, do: Callable[[Ledger], Any], kind: type[Errand] = _Joining) -> Any:  # noqa: ANN401
        import threading

        done = threading.Event()
        errand = kind(do, lambda _: done.set())
        self._clerk.submit(errand)
        done.wait()
        if errand.error is not None:
            raise errand.error
        return errand.result

    def enlist(self, on_call: Callable[[], None]) -> None:
        """Be given jobs from now on; `on_call` is called when there may be some."""
        self._clerk.on_call = on_call

        def do(ledger: Ledger) -> None:
            _set_works(ledger, self.me, works=1)
            leave.sweep(ledger)
            jobs.tick(ledger)
            ledger.unsettled = True

        self._run(do)

    def discharge(self) -> None:
        """Be given no more jobs, and let others have those that were not started yet."""

        def do(ledger: Ledger) -> None:
            _set_works(ledger, self.me, works=0)
            for job in jobs.to_start(ledger, self.me):
                leave.release(ledger, job.id, "lost", "its worker was stopped")
            ledger.unsettled = True

        self._clerk.run(do)
        self._clerk.on_call = None

    def to_start(self) -> list[int]:
        """The jobs that were given to this worker."""
        return self._clerk.read(lambda ledger: jobs.ids(jobs.to_start(ledger, self.me)))

    def unminded(self) -> list[int]:
        """Jobs whose runner is gone while their program lives on."""
        return self._clerk.read(
            lambda ledger: [
                lease.id
                for lease in jobs.unminded(ledger)
                if (job := ledger.tx.job(lease.id)) is not None and job.code != "starting"
            ]
        )

    def begin(self, id: int, worker: str, on_end: Callable[[HeadgateError], None]) -> Taken | None:
        """Take over a job that a worker was given; None if it is not to be had any more."""
        return self._take(partial(jobs.begin, id=id, worker=worker, me=self.me), on_end)

    def adopt(self, id: int, on_end: Callable[[HeadgateError], None]) -> Taken | None:
        """Take over a job whose runner was killed."""
        return self._take(partial(jobs.adopt, id=id, me=self.me), on_end)

    def _take(
        self, do: Callable[[Ledger], Job | None], on_end: Callable[[HeadgateError], None]
    ) -> Taken | None:
        found: list[Any] = []

        def take(ledger: Ledger) -> Job | None:
            found.clear()
            job = do(ledger)
            if job is not None:
                holds = [pool.max_hold for pool in ledger.book.of(job.key) if pool.max_hold]
                found.extend((leave.mark(ledger.tx.uid(), job.id), min(holds, default=None)))
            return job

        job = self._run(take)
        if job is None:
            return None
        mark, max_hold = found
        lease = Lease(
            self._clerk,
            job.id,
            key=job.key,
            task=job.task,
            weight=job.weight,
            mark=mark,
            waited=0.0,
        )
        lease.on_end = on_end
        self._clerk.mind(lease, None if max_hold is None else max_hold / 1000)
        return Taken(job, lease)

    def finish(self, lease: Lease, end: End) -> bool:
        """Give a job's seats back and tell how it ended; tried until the store has it."""
        self._clerk.leases.pop(lease.id, None)
        do = partial(jobs.finish, id=lease.id, me=self.me, end=end)
        while True:
            try:
                return bool(self._run(do, Errand))
            except HeadgateError:
                time.sleep(0.2)

    def tick(self, keep: int | None) -> list[int]:
        """Do what time does to jobs, and forget old ones; returns the ids of these."""

        def do(ledger: Ledger) -> list[int]:
            jobs.tick(ledger)
            _take_back(ledger)
            return [] if keep is None else jobs.age_out(ledger, ledger.now - keep)

        found: list[int] = self._clerk.run(do)
        return found

    def due(self) -> bool:
        """Whether time has come for some job."""
        return self._clerk.read(lambda ledger: jobs.due(ledger) or bool(_late(ledger)))


def _set_works(ledger: Ledger, me: str, *, works: int) -> None:
    for row in ledger.tx.members():
        if row.id == me:
            ledger.tx.add_member(row._replace(works=works))


def _late(ledger: Ledger) -> list[int]:
    """Jobs that a worker which is there has not started for too long: it may be stopped."""
    return [
        lease.id
        for lease in ledger.tx.job_leases()
        if ledger.now - lease.granted > _STARTING
        and (job := ledger.tx.job(lease.id)) is not None
        and job.code == "starting"
    ]


def _take_back(ledger: Ledger) -> None:
    for id in _late(ledger):
        leave.release(ledger, id, "lost", "its worker did not start it")
