"""What people do to jobs by hand: cancel, hold, let go, move, retry."""

from headgate.core.amounts import FOREVER
from headgate.core.jobs import CANCELLED, DONE, ENDED, HELD, QUEUED, RUNNING, End, load
from headgate.errors import UsageError
from headgate.ledger import leave
from headgate.ledger.jobs import advance, end_job, pick_up, stand, tell_of, unmet
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Job


def cancel(ledger: Ledger, id: int, why: str) -> bool:
    """End a job of which nothing runs; False if it is none, or something does."""
    pick_up(ledger)
    job, lease = ledger.tx.job(id), ledger.tx.lease(id)
    if job is None or (lease is not None and job.code != "starting"):
        return False
    if job.state in ENDED:
        raise UsageError(f"job {id} has ended already, as {job.state}")
    if lease is not None:  # whoever is about to start it finds nothing
        leave.give_back(ledger, lease, "withdrawn")
    ledger.drop_ticket(id)
    ledger.unsettled = True
    end_job(ledger, job, End(CANCELLED, CANCELLED, why))
    return True


def hold(ledger: Ledger, id: int) -> None:
    """Take a job out of the line until somebody releases it; it keeps its place."""
    job = waiting(ledger, id)
    if job.state == HELD:
        return
    ledger.drop_ticket(id)
    ledger.unsettled = True
    changed = job._replace(state=HELD, code="held", text="waits to be released", due=job.expires)
    ledger.tx.change_job(changed)
    tell_of(ledger, job, HELD, "by hand")


def let_go(ledger: Ledger, id: int) -> None:
    """Let a held job into the line, at the place that it has kept."""
    job = waiting(ledger, id)
    if job.state != HELD:
        raise UsageError(f"job {id} is not held: it is {job.state}")
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
        job = job._replace(since=min([job.since, *ahead]) - 1)
    tell_of(ledger, job, "moved", "to the front" if first else f"priority {-job.urgency}")
    if ledger.drop_ticket(id) is None:
        ledger.tx.change_job(job)
    else:
        stand(ledger, job, load(job.spec))


def retry(ledger: Ledger, id: int) -> None:
    """Put a job that has ended into the line again."""
    job = ledger.tx.job(id)
    if job is None:
        raise UsageError(f"there is no job {id}; see headgate queue --all")
    if job.state not in ENDED:
        raise UsageError(f"job {id} has not ended: it is {job.state}")
    for needed in ledger.tx.needs_of(id):
        other = ledger.tx.job(needed)
        if other is not None and other.state in ENDED and other.state != DONE:
            raise UsageError(f"{unmet(other)}; retry that first: headgate retry {other.id}")
    tell_of(ledger, job, "retried", "by hand")
    fresh = job._replace(
        parks=0, failures=0, started=0, ended=0, exit="", session="", since=ledger.now
    )
    ledger.tx.change_job(fresh._replace(state=QUEUED))
    advance(ledger, fresh)


def waiting(ledger: Ledger, id: int) -> Job:
    """A job that waits; an error that says what it does instead."""
    job = ledger.tx.job(id)
    if job is None:
        raise UsageError(f"there is no job {id}; see headgate queue")
    if job.state == RUNNING:
        raise UsageError(f"job {id} runs already; to end it: headgate cancel {id}")
    if job.state in ENDED:
        raise UsageError(
            f"job {id} has ended, as {job.state}; to have it again: headgate retry {id}"
        )
    return job
