"""Durable work at a server: handed in, waited for, and looked at."""

import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from headgate.core.display.snapshots import AttemptStatus, JobStatus
from headgate.core.jobs.states import ENDED, Word
from headgate.core.times import Seconds
from headgate.gate.submit_jobs import Jobs
from headgate.ledger import tokens
from headgate.ledger.jobs.lifecycle import Draft
from headgate.ledger.queries.work_filter import ALL, WorkFilter

_SHORTEST, _LONGEST = Seconds(0.05), Seconds(1)


class RemoteJobs(Jobs):
    """The jobs of a server's store. They run where its workers are, in folders that are there."""

    def __init__(self, call: Callable[..., Any], view: str) -> None:
        self._call = call
        self._view = view

    @property
    def folder(self) -> Path:
        """The output of jobs is where the server is: there is no such folder here."""
        return Path("/nonexistent")

    def make_folder(self) -> Path:
        """There is none to be made here."""
        return self.folder

    def submit(self, drafts: Sequence[Draft], once: tokens.Once | None = None) -> list[JobStatus]:
        """Hand in jobs; durable when this returns, all of them or none."""
        own = tuple(one._replace(spec=one.spec._replace(view=self._view)) for one in drafts)
        return list(self._call("jobs.submit", own))

    def status(self, id: int) -> JobStatus:
        """One job."""
        found: JobStatus = self._call("jobs.status", id)
        return found

    def attempts(self, id: int) -> tuple[AttemptStatus, ...]:
        """The attempts of a job."""
        return tuple(self._call("jobs.attempts", id))

    def command(self, id: int) -> tuple[str, ...]:
        """Nothing: a server tells nobody what a job was told to do, for it may hold a prompt."""
        return ()

    def finished(self, most: int = 100) -> list[JobStatus]:
        """The jobs that ended last, latest first."""
        return list(self._call("jobs.finished", most))

    def page(
        self,
        states: Sequence[Word] = tuple(Word),
        *,
        after: int = 0,
        most: int = 100,
        wanted: WorkFilter = ALL,
    ) -> tuple[list[JobStatus], int]:
        """Jobs by id, after one; and after which to go on, 0 at the end."""
        found, on = self._call("jobs.page", tuple(states), after=after, most=most, wanted=wanted)
        return list(found), int(on)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state that any is in."""
        return dict(self._call("jobs.counts"))

    def hold(self, id: int) -> None:
        """Take a waiting job out of the line until it is let go."""
        self._call("jobs.hold", id)

    def let_go(self, id: int) -> None:
        """Let a held job into the line; or give the seats on of a client that is gone."""
        self._call("jobs.let_go", id)

    def move(self, id: int, *, priority: str | int | None = None, first: bool = False) -> None:
        """Give a waiting job another priority, or put it before all others of its priority."""
        self._call("jobs.move", id, priority=priority, first=first)

    def retry(self, id: int) -> None:
        """Put a job that has ended into the line again."""
        self._call("jobs.retry", id)

    def wait_each(
        self, ids: Sequence[int], timeout: float | None = None
    ) -> Generator[JobStatus, None, None]:
        """Wait for several jobs: each when it has ended, in the order given.

        The seats of a lease of this client are not lent to them meanwhile.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for id in ids:
            pause: float = _SHORTEST
            while (found := self.status(id)).state not in ENDED:
                left = pause if deadline is None else min(pause, deadline - time.monotonic())
                if left <= 0:
                    break
                time.sleep(left)
                pause = min(_LONGEST, pause * 1.3)
            yield found

    async def wait_async(self, id: int, timeout: float | None = None) -> JobStatus:  # noqa: ASYNC109 - as `wait`
        """The same as `wait`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.wait, id, timeout)
