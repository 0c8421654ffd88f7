"""What is shown of jobs. Nothing here writes."""

from collections.abc import Iterable

from headgate.core.display.snapshots import JOB, AttemptStatus, JobStatus, Queue
from headgate.core.jobs.job import PARKED_CODES, Job
from headgate.core.jobs.states import ENDED, Place, Word
from headgate.core.quantities import shown
from headgate.core.roles import role_names
from headgate.core.times import Seconds, seconds
from headgate.errors import UsageError
from headgate.ledger.queries import status_and_queue
from headgate.ledger.queries.status_and_queue import wall_time
from headgate.ledger.queries.work_filter import WorkFilter
from headgate.ledger.transaction.ledger import Ledger

_ALL = 10**9
_LOOK = 5_000
"""How many jobs are looked at for one page."""


def job(ledger: Ledger, id: int, wall: Seconds) -> JobStatus | None:
    """One job; None if there is none with this id."""
    row = ledger.tx.job(id)
    return None if row is None else some(ledger, [row], wall)[0]


def named(ledger: Ledger, name: str, what: str) -> int:
    """The job that a name stands for: the one that has not ended, else the latest that has."""
    rows = ledger.tx.jobs_named(name)
    going_on = [row for row in rows if row.state.place is not Place.OVER]
    if len(going_on) > 1:
        listed = ", ".join(f"{row.id} ({row.state.word.value})" for row in reversed(going_on))
        raise UsageError(
            f"bad {what} {shown(name)}: {len(going_on)} jobs of that name have not ended: {listed};"
            " give the number of one"
        )
    if not rows:
        raise UsageError(
            f"bad {what} {shown(name)}: expected a number or the name of a job, as shown by "
            "headgate queue"
        )
    return (going_on or rows)[0].id


def some(ledger: Ledger, rows: list[Job], wall: Seconds, *, spots: bool = True) -> list[JobStatus]:
    """Jobs as people want to see them, with the places of those that stand in line."""
    in_line = [row.id for row in rows if spots and row.state.place is Place.LINE]
    places = status_and_queue.waiting(ledger, in_line, wall)
    found = []
    for row in rows:
        spot = places.get(row.id)
        lease = ledger.tx.lease(row.id) if row.state.place is Place.SEATS else None
        code, text = row.code, row.text
        if spot is not None:
            code, text = spot.code, spot.reason
        elif lease is not None and lease.cancel:
            code, text = "cancelling", lease.cancel.text
        found.append(
            JobStatus(
                id=row.id,
                state=row.state.word.value,
                code=code,
                reason=text,
                key=row.key,
                task=row.task,
                name=row.name,
                label=row.label,
                priority=-row.urgency,
                weight=row.weight,
                position=spot.position if spot else None,
                eta=spot.eta if spot else None,
                submitted=wall_time(ledger, row.submitted or None, wall) or Seconds(0),
                started=wall_time(ledger, row.started or None, wall),
                ended=wall_time(ledger, row.ended or None, wall),
                due=wall_time(ledger, row.due or None, wall),
                attempts=row.attempts,
                exit=row.exit,
                pid=lease.pid if lease else 0,
                pool=spot.pool if spot else "",
                since=spot.since if spot else None,
                waited=spot.waited if spot else None,
                held=seconds(ledger.now - lease.granted) if lease else None,
                session=row.session,
                given_session=bool(row.session) and _is_given(ledger, row),
                parks=_parks(ledger, row),
                roles=role_names(ledger.tx.roles(row.id)),
            )
        )
    return found


def _is_given(ledger: Ledger, job: Job) -> bool:
    from headgate.core.agents.given_session import is_given

    return is_given(job.session, ledger.tx.uid(), job.id, job.attempts)


def _parks(ledger: Ledger, job: Job) -> int:
    """How often a job was parked: refused, or ended to make room."""
    runs = ledger.tx.attempts(job.id) if job.attempts else ()
    return sum(run.code in PARKED_CODES for run in runs)


def attempts(ledger: Ledger, id: int, wall: Seconds) -> tuple[AttemptStatus, ...]:
    """The attempts of a job."""
    return tuple(
        AttemptStatus(
            number=row.number,
            key=row.key,
            started=wall_time(ledger, row.started or None, wall) or Seconds(0),
            ended=wall_time(ledger, row.ended or None, wall),
            code=row.code,
            reason=row.text,
            exit=row.exit,
        )
        for row in ledger.tx.attempts(id)
    )


def of_queue(ledger: Ledger, queue: Queue, wall: Seconds) -> list[JobStatus]:
    """What the line itself does not say of the jobs in it: their state, name, times, attempts."""
    ids = [work.id for work in queue.running if work.type == JOB]
    ids += [work.id for work in queue.waiting if work.type == JOB]
    rows = [row for id in ids if (row := ledger.tx.job(id)) is not None]
    return some(ledger, rows, wall, spots=False)


def aside(ledger: Ledger, wall: Seconds, most: int) -> list[JobStatus]:
    """Jobs that wait for something else than seats: a person, another job, their next try."""
    return some(ledger, ledger.tx.aside(most), wall)


def aside_like(
    ledger: Ledger, wall: Seconds, most: int, wanted: WorkFilter
) -> tuple[list[JobStatus], int]:
    """The same, of what fits a filter; and how many that are."""
    if wanted.takes_all:
        return aside(ledger, wall, most), ledger.tx.count_aside()
    rows = [row for row in ledger.tx.aside(_ALL) if wanted.takes(row.key, row.task, row.name)]
    return some(ledger, rows[:most], wall), len(rows)


def finished(
    ledger: Ledger, wall: Seconds, most: int, words: Iterable[Word] = ENDED
) -> list[JobStatus]:
    """The jobs that ended last, latest first."""
    rows = [row for word in words for row in ledger.tx.jobs(word, -1, most)]
    rows.sort(key=lambda row: (-row.ended, -row.id))
    return some(ledger, rows[:most], wall)


def page(
    ledger: Ledger,
    wall: Seconds,
    words: Iterable[Word],
    *,
    after: int,
    most: int,
    wanted: WorkFilter,
) -> tuple[list[JobStatus], int]:
    """Jobs by id that people call so, after an id; and after which to go on, 0 at the end.

    It looks at a bounded number of them, so a page may be short, or even empty, and not the last.
    """
    looked = [row for word in words for row in ledger.tx.jobs(word, after, _LOOK)]
    looked.sort(key=lambda row: row.id)
    more = len(looked) >= _LOOK
    found = [row for row in looked[:_LOOK] if wanted.takes(row.key, row.task, row.name)]
    if len(found) > most:
        return some(ledger, found[:most], wall), found[most - 1].id
    return some(ledger, found, wall), looked[_LOOK - 1].id if more else 0


def counts(ledger: Ledger) -> dict[str, int]:
    """How many jobs people call what, for each word that any is called."""
    found = {word.value: ledger.tx.count_jobs(word) for word in Word}
    return {word: count for word, count in found.items() if count}
