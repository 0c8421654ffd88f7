"""The rows of jobs: what they are, what they come after, and each run of them."""

from typing import Protocol

from headgate.core.jobs.job import Job
from headgate.core.jobs.states import Word
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms


class Attempt(NamedTuple):
    """One run of a job; `ended` is 0 while it goes on."""

    job: int
    number: int
    key: str
    started: Ms
    ended: Ms = NO_TIME
    code: str = ""
    text: str = ""
    exit: str = ""


class JobTx(Protocol):
    """The part of a transaction that is about these."""

    def add_job(self, row: Job) -> None:
        """Keep a new job; what it comes after is said after that."""

    def job(self, id: int) -> Job | None:
        """A job."""

    def change_job(self, row: Job) -> None:
        """Keep a job anew, all but what it was submitted with."""

    def jobs(self, word: Word, after: int, most: int) -> list[Job]:
        """Jobs that people call so, by id; the latest first if `after` is negative."""

    def jobs_named(self, name: str) -> list[Job]:
        """All jobs of a name, the latest first."""

    def count_jobs(self, word: Word) -> int:
        """How many jobs people call so."""

    def aside(self, most: int) -> list[Job]:
        """Jobs that wait for something else than seats, by id: those that say what for."""

    def count_aside(self) -> int:
        """How many jobs wait for something else than seats."""

    def due_jobs(self, now: Ms, most: int) -> list[Job]:
        """Jobs to which time does something now."""

    def next_due(self) -> Ms:
        """When time next does something to a job; 0 for never."""

    def old_jobs(self, before: Ms, most: int) -> list[int]:
        """Jobs that ended before a time."""

    def drop_job(self, id: int) -> None:
        """Forget a job, its attempts, and what it waits for."""

    def add_after(self, job: int, needs: int) -> None:
        """Have a job wait for another."""

    def needs_of(self, job: int) -> list[int]:
        """The jobs that a job waits for."""

    def needed_by(self, needs: int) -> list[int]:
        """The jobs that wait for a job."""

    def drop_after(self, job: int, needs: int) -> None:
        """Have a job wait for another no longer."""

    def keep_attempt(self, row: Attempt) -> None:
        """Keep an attempt, new or changed."""

    def attempts(self, job: int) -> list[Attempt]:
        """A job's attempts in order."""
