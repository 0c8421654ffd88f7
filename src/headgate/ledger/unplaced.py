"""The places of jobs in the line, told as events.

Who handed in jobs before there was a worker was told only that. When the first worker comes, each
that is not let in at once is told its place and what it waits for.
"""

from collections.abc import Iterable

from headgate.core.display.snapshots import JobStatus
from headgate.core.jobs.states import State, Word
from headgate.core.times import Seconds
from headgate.ledger.queries import job_queries
from headgate.ledger.transaction.ledger import Ledger

_MOST = 500
"""Of more than so many nobody wants to be told one by one."""
_LATELY = 20
"""Among so many of a job's last events is the one that tells its place, if it was told."""
_PLACE, _NO_WORKER = "position ", "no worker"


def tell_places(ledger: Ledger, jobs: Iterable[JobStatus]) -> None:
    """Keep an event of each job that waits in the line, with its place."""
    for job in jobs:
        if job.position is not None:
            text = f"{_PLACE}{job.position}: {job.reason}"
            ledger.tell("queued", text, work=job.id, key=job.key, task=job.task)


def tell_now(ledger: Ledger, wall: Seconds) -> None:
    """Tell those that were told of no worker so far, now that there is one."""
    rows = ledger.tx.jobs(Word.QUEUED, 0, _MOST)
    untold = [row for row in rows if row.state is State.QUEUED and not _was_told(ledger, row.id)]
    tell_places(ledger, job_queries.some(ledger, untold, wall))


def _was_told(ledger: Ledger, id: int) -> bool:
    events = ledger.tx.events(-1, _LATELY, id)
    told = [row.text for row in events if row.kind == "queued"]
    return any(text.startswith(_PLACE) and _NO_WORKER not in text for text in told)
