"""What people do to jobs by hand: cancel, hold, let go, move, retry."""

from headgate.core.jobs.job import Job, Why, change
from headgate.core.jobs.states import JobEvent, Place, State
from headgate.core.quantities import FOREVER
from headgate.core.times import Ms
from headgate.errors import UsageError
from headgate.ledger import dead_members, release
from headgate.ledger.jobs import confirm
from headgate.ledger.jobs.lifecycle import advance, end_job, pick_up, stand, tell_of, unmet
from headgate.ledger.transaction.ledger import Ledger


def cancel(ledger: Ledger, id: int, why: str) -> bool:
    """End a job of which nothing runs; False if it is none, or something does."""
    pick_up(ledger)
    job, lease = ledger.tx.job(id), ledger.tx.lease(id)
    if job is None or job.state is State.RUNNING:
        return False
    if job.state.ended:
        raise UsageError(f"job {id} has ended already, as {job.state.word}")
    if lease is not None:  # whoever is about to start it finds nothing
        release.give_back(ledger, lease, "withdrawn")
    ledger.drop_ticket(id)
    end_job(ledger, job, JobEvent.CANCEL, Why("cancelled", why))
    return True


def hold(ledger: Ledger, id: int) -> None:
    """Take a job out of the line until somebody releases it; it keeps its place."""
    job = waiting(ledger, id)
    if job.state is State.HELD:
        return
    ledger.drop_ticket(id)
    ledger.tx.change_job(change(job, JobEvent.HOLD, ledger.now))
    tell_of(ledger, job, "held", "by hand")


def release_job(ledger: Ledger, id: int) -> None:
    """Let a held job into the line, at the place that it has kept.

    Or give the seats on of a client that is not heard of any more, on a person's word.
    """
    if dead_members.free(ledger, id):
        return
    job = waiting(ledger, id)
    if job.state is State.ASKED:
        confirm.answer_yes(ledger, job)
    elif job.state is not State.HELD:
        raise UsageError(f"job {id} is not held: it is {job.state.word}")
    tell_of(ledger, job, "let_go", "by hand")
    advance(ledger, job)


def move(ledger: Ledger, id: int, urgency: int | None, *, first: bool) -> None:
    """Give a job another priority, or put it before all others of its priority."""
    job = waiting(ledger, id)
    if urgency is not None:
        job = job._replace(urgency=urgency)
    if first:
        before = (job.urgency, -FOREVER, 0)
        firsts = (row for lane in ledger.lanes() for row in ledger.tx.page(lane.id, before, 1))
        ahead = [row.since for row in firsts if row.urgency == job.urgency]
        job = job._replace(since=min([job.since, *ahead]) - Ms(1))
    tell_of(ledger, job, "moved", "to the front" if first else f"priority {-job.urgency}")
    if ledger.drop_ticket(id) is None:
        ledger.tx.change_job(job)
    else:
        stand(ledger, job)


def retry(ledger: Ledger, id: int) -> None:
    """Put a job that has ended into the line again."""
    job = ledger.tx.job(id)
    if job is None:
        raise UsageError(f"there is no job {id}; see headgate queue --all")
    if not job.state.ended:
        raise UsageError(f"job {id} has not ended: it is {job.state.word}")
    for needed in ledger.tx.needs_of(id):
        other = ledger.tx.job(needed)
        if other is not None and other.state.ended and other.state is not State.DONE:
            raise UsageError(f"{unmet(other)}; retry that first: headgate retry {other.id}")
    tell_of(ledger, job, "retried", "by hand")
    advance(ledger, change(job, JobEvent.RETRY, ledger.now))


def waiting(ledger: Ledger, id: int) -> Job:
    """A job that waits; an error that says what it does instead."""
    job = ledger.tx.job(id)
    if job is None:
        raise UsageError(f"there is no job {id}; see headgate queue")
    match job.state.place:
        case Place.ASIDE | Place.LINE:
            return job
        case Place.SEATS:
            raise UsageError(f"job {id} runs already; to end it: headgate cancel {id}")
        case Place.OVER:
            raise UsageError(
                f"job {id} has ended, as {job.state.word}; to have it again: headgate retry {id}"
            )
