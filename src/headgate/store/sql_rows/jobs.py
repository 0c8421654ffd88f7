"""Jobs, their attempts, and which of them come after which."""

from headgate.core.jobs.job import Job
from headgate.core.jobs.states import Word
from headgate.core.times import Ms
from headgate.ledger.transaction.job_rows import Attempt
from headgate.store import column_codec
from headgate.store.sql_rows.session import Session, firsts


class JobRows(Session):
    """Durable work. A job is remembered by its id; lists of them are asked for each time."""

    def forget(self) -> None:
        """Remember nothing of any transaction before."""
        super().forget()
        self._jobs: dict[int, Job | None] = {}
        self._attempts: dict[int, list[Attempt]] = {}
        self._needed_by: dict[int, list[int]] = {}
        self._needs_of: dict[int, list[int]] = {}

    def add_job(self, row: Job) -> None:
        self._jobs[row.id] = row
        self._needs_of[row.id] = []  # what it comes after is said next
        self._change_columns("add_job", column_codec.write_job(row))

    def job(self, id: int) -> Job | None:
        if id not in self._jobs:
            rows = self._ask("job", id)
            self._jobs[id] = column_codec.read_job(rows[0]) if rows else None
        return self._jobs[id]

    def change_job(self, row: Job) -> None:
        before = self.job(row.id)
        if before is not None:
            self._jobs[row.id] = row._replace(
                weight=before.weight,
                task=before.task,
                name=before.name,
                label=before.label,
                submitted=before.submitted,
                spec=before.spec,
            )
            self._change_columns("change_job", column_codec.write_job(row))

    def jobs(self, word: Word, after: int, most: int) -> list[Job]:
        found: list[Job] = []
        for state, returned in column_codec.where(word):
            if after < 0:
                rows = self._ask("latest_jobs", state, returned, most)
            else:
                rows = self._ask("jobs", state, returned, after, most)
            found += map(column_codec.read_job, rows)
        return sorted(found, key=lambda row: row.id, reverse=after < 0)[:most]

    def jobs_named(self, name: str) -> list[Job]:
        return [column_codec.read_job(row) for row in self._ask("jobs_named", name)]

    def count_jobs(self, word: Word) -> int:
        found = self._number("count_jobs", word.value)
        if word is Word.QUEUED:
            return found + self._returned()
        return found - self._returned() if word is Word.PARKED else found

    def _returned(self) -> int:
        """How many jobs were parked and are back in the line, as version 0.1.0 wrote them."""
        return self._number("count_returned")

    def aside(self, most: int) -> list[Job]:
        return [column_codec.read_job(row) for row in self._ask("aside", most)]

    def count_aside(self) -> int:
        return self._number("count_aside")

    def due_jobs(self, now: Ms, most: int) -> list[Job]:
        return [column_codec.read_job(row) for row in self._ask("due_jobs", now, most)]

    def next_due(self) -> Ms:
        return Ms(self._number("next_due"))

    def old_jobs(self, before: Ms, most: int) -> list[int]:
        return firsts(self._ask("old_jobs", before, most))

    def drop_job(self, id: int) -> None:
        self._jobs[id] = None
        self._attempts.pop(id, None)
        self._needs_of.pop(id, None)
        self._needed_by.clear()
        self._change("drop_job", id)
        self._change("drop_attempts", id)
        self._change("drop_needs", id)

    def add_after(self, job: int, needs: int) -> None:
        self._needed_by.clear()
        if job in self._needs_of:
            self._needs_of[job] = sorted({*self._needs_of[job], needs})
        self._change("add_after", job, needs)

    def needs_of(self, job: int) -> list[int]:
        if job not in self._needs_of:
            self._needs_of[job] = firsts(self._ask("needs_of", job))
        return list(self._needs_of[job])

    def needed_by(self, needs: int) -> list[int]:
        if needs not in self._needed_by:
            self._needed_by[needs] = firsts(self._ask("needed_by", needs))
        return list(self._needed_by[needs])

    def drop_after(self, job: int, needs: int) -> None:
        self._needed_by.clear()
        if job in self._needs_of:
            self._needs_of[job] = [one for one in self._needs_of[job] if one != needs]
        self._change("drop_after", job, needs)

    def keep_attempt(self, row: Attempt) -> None:
        known = self._attempts.get(row.job)
        if known is not None:
            others = [one for one in known if one.number != row.number]
            self._attempts[row.job] = sorted([*others, row], key=lambda one: one.number)
        self._change("keep_attempt", *row)

    def attempts(self, job: int) -> list[Attempt]:
        if job not in self._attempts:
            self._attempts[job] = [Attempt._make(row) for row in self._ask("attempts", job)]
        return list(self._attempts[job])
