"""Jobs in the memory of one process: they end with it, so only tests and programs use them."""

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.core.jobs.job import Job
from headgate.core.jobs.states import Place, Word
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction.job_rows import Attempt

K = TypeVar("K")
V = TypeVar("V")


class MemoryJobRows:
    """The tables of jobs, and how a change to any table is undone."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._jobs: dict[int, Job] = {}
        self._after: dict[tuple[int, int], None] = {}
        self._attempts: dict[tuple[int, int], Attempt] = {}

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        if key in table:
            self._undo.append((table.__setitem__, (key, table[key])))
        else:
            self._undo.append((table.pop, (key, None)))
        table[key] = value

    def _pop(self, table: dict[K, V], key: K) -> None:
        if key in table:
            self._undo.append((table.__setitem__, (key, table.pop(key))))

    def add_job(self, row: Job) -> None:
        self._set(self._jobs, row.id, row)

    def job(self, id: int) -> Job | None:
        return self._jobs.get(id)

    def change_job(self, row: Job) -> None:
        old = self._jobs.get(row.id)
        if old is not None:
            kept = row._replace(
                weight=old.weight,
                task=old.task,
                name=old.name,
                label=old.label,
                submitted=old.submitted,
                spec=old.spec,
            )
            self._set(self._jobs, row.id, kept)

    def jobs(self, word: Word, after: int, most: int) -> list[Job]:
        found = sorted(
            row for row in self._jobs.values() if row.state.word is word and row.id > after
        )
        return found[::-1][:most] if after < 0 else found[:most]

    def jobs_named(self, name: str) -> list[Job]:
        return sorted((row for row in self._jobs.values() if row.name == name), reverse=True)

    def count_jobs(self, word: Word) -> int:
        return sum(row.state.word is word for row in self._jobs.values())

    def _aside(self) -> list[Job]:
        return sorted(row for row in self._jobs.values() if row.state.place is Place.ASIDE)

    def aside(self, most: int) -> list[Job]:
        return self._aside()[:most]

    def count_aside(self) -> int:
        return len(self._aside())

    def due_jobs(self, now: Ms, most: int) -> list[Job]:
        due = (row for row in self._jobs.values() if 0 < row.due <= now)
        return sorted(due, key=lambda row: (row.due, row.id))[:most]

    def next_due(self) -> Ms:
        return min((row.due for row in self._jobs.values() if row.due), default=NO_TIME)

    def old_jobs(self, before: Ms, most: int) -> list[int]:
        old = ((row.ended, row.id) for row in self._jobs.values() if 0 < row.ended < before)
        return [id for _, id in sorted(old)][:most]

    def drop_job(self, id: int) -> None:
        self._pop(self._jobs, id)
        for key in [key for key in self._attempts if key[0] == id]:
            self._pop(self._attempts, key)
        for pair in [pair for pair in self._after if pair[0] == id]:
            self._pop(self._after, pair)

    def add_after(self, job: int, needs: int) -> None:
        self._set(self._after, (job, needs), None)

    def needs_of(self, job: int) -> list[int]:
        return sorted(needs for one, needs in self._after if one == job)

    def needed_by(self, needs: int) -> list[int]:
        return sorted(job for job, other in self._after if other == needs)

    def drop_after(self, job: int, needs: int) -> None:
        self._pop(self._after, (job, needs))

    def keep_attempt(self, row: Attempt) -> None:
        self._set(self._attempts, (row.job, row.number), row)

    def attempts(self, job: int) -> list[Attempt]:
        return sorted(row for row in self._attempts.values() if row.job == job)
