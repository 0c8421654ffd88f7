"""What time and trouble do to jobs: they expire, come back, go to their next model, make room.

No job expires or is forgotten by time that the wall clock tells of and nobody has seen pass
(`core/wall_clock.py`).
"""

from headgate.core import wall_clock
from headgate.core.admission import next_in_line
from headgate.core.admission.lease_events import EndCause, relief
from headgate.core.jobs.job import Job, Why, change, load, sooner
from headgate.core.jobs.states import JobEvent, Timer, Word
from headgate.core.quantities import FOREVER, show_duration
from headgate.core.stored_text.formats import whole
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.admission.dry_run import DryRun
from headgate.ledger.jobs import confirm, waits
from headgate.ledger.jobs.lifecycle import advance, end_job, ids, stand, tell_of
from headgate.ledger.transaction.ledger import Ledger

_AT_ONCE = 1_000
"""How many jobs one transaction sees to when time has come for many."""
_LOOK_AGAIN = Ms(5_000)
_DOUBTED_AGAIN = Ms(10 * 60_000)
"""After which a job is looked at again that would have expired by a clock that is doubted."""


def due(ledger: Ledger) -> bool:
    """Whether time has come for some job."""
    return 0 < ledger.tx.next_due() <= ledger.now


def tick(ledger: Ledger) -> None:
    """Do what time does to jobs: let them expire, come back, or go to their next model."""
    for id in ids(ledger.tx.due_jobs(ledger.now, _AT_ONCE)):
        job = ledger.tx.job(id)
        if job is None or not job.due:
            continue  # the end of one before it has ended it, too
        match job.state.timer:
            case Timer.RETURNS:
                stand(ledger, change(job, JobEvent.COME_BACK, ledger.now))
            case Timer.EXPIRES | Timer.FALLS_BACK if job.expires and ledger.now >= job.expires:
                if _unseen(ledger, job.submitted) > ledger.now - job.expires:
                    ledger.tx.change_job(job._replace(due=ledger.now + _DOUBTED_AGAIN))
                else:
                    _expire(ledger, job)
            case Timer.FALLS_BACK:
                _fall_back(ledger, job)
            case Timer.EXPIRES:  # the clock was put back, or a time that means nothing
                ledger.tx.change_job(job._replace(due=job.expires))
            case Timer.NONE:
                ledger.tx.change_job(job._replace(due=NO_TIME))


def _unseen(ledger: Ledger, moment: Ms) -> Ms:
    return wall_clock.unseen(ledger.tx.note(wall_clock.NOTE), moment, ledger.now)


def _expire(ledger: Ledger, job: Job) -> None:
    ledger.drop_ticket(job.id)
    limit = show_duration(load(job.spec).expires or NO_TIME)
    text = confirm.unanswered(job) or f"not started within {limit}"
    end_job(ledger, job, JobEvent.EXPIRE, Why("expired", text))


def _fall_back(ledger: Ledger, job: Job) -> None:
    """Have a job that waits for its model take the next one, if there is room for it now."""
    spec = load(job.spec)
    for key in spec.models if ledger.workers() else ():
        if key != job.key and _room(ledger, job, key, spec.view):
            ledger.drop_ticket(job.id)
            text = f"{job.key} was full for too long"
            tell_of(ledger, job, "fallback", f"takes {key}: {text}")
            stand(ledger, change(job._replace(key=key), JobEvent.FALL_BACK, ledger.now))
            return
    again = ledger.now + _LOOK_AGAIN
    ledger.tx.change_job(job._replace(due=sooner(again, job.expires)))


def _room(ledger: Ledger, job: Job, key: str, view: str) -> bool:
    """Whether a job would be let in at once if it asked for another model: by a dry run.

    It leaves its own line for that, so it does not push in where others wait for the model, though
    the line might let it. And many may ask at a time: no dry run is made where the model is full.
    """
    request = Request(
        key=key,
        member="",
        machine=ledger.machine,
        weight=job.weight,
        urgency=job.urgency,
        since=job.since,
        lender=waits.lender_of(ledger, job.id),
        view=view,
        task=job.task,
        roles=ledger.tx.roles(job.id),
    )
    lane = admit.lane_of(ledger, request)
    head = admit.head_of(ledger, lane, job.weight, task=job.task)
    if next_in_line.obstacles(head, ledger.use, ledger.now):
        return False
    if any(lane.key == key for lane in admit.rivals_for(ledger, head)):
        return False
    dry = DryRun(ledger, [request])
    return dry.newcomers[0].head.id in dry.granted


def relieve(ledger: Ledger, why: str) -> int:
    """Have the youngest job of the lowest priority parked, one at a time; its id, 0 for none."""
    running = [lease for lease in ledger.tx.job_leases() if lease.machine == ledger.machine]
    if any(lease.cancel and lease.cancel.cause is EndCause.RELIEVE for lease in running):
        return 0
    free = [lease for lease in running if lease.cancel is None]
    if not free:
        return 0
    chosen = max(free, key=lambda lease: (lease.urgency, lease.granted, lease.id))
    ledger.tx.change_lease(chosen._replace(cancel=relief(why)))
    ledger.woken.add(chosen.member)
    return chosen.id


def age_out(ledger: Ledger, before: Ms) -> list[int]:
    """Forget jobs that ended before a time; returns their ids."""
    old = ledger.tx.old_jobs(before - _unseen(ledger, NO_TIME), _AT_ONCE)
    for id in old:
        ledger.tx.drop_job(id)
    return old


def put_back(ledger: Ledger) -> list[int]:
    """Put jobs back into the line that have expired by a clock that was wrong; their ids.

    The store says since when it was (`store/wall_clock.py`), and has made them younger already.
    """
    since = whole(ledger.tx.note(wall_clock.TAKEN_BACK), FOREVER)
    if since is None:
        return []
    found, after = [], 0
    while jobs := ledger.tx.jobs(Word.EXPIRED, after, _AT_ONCE):
        after = jobs[-1].id
        for job in jobs:
            left = job.submitted + (load(job.spec).expires or NO_TIME) - ledger.now
            if job.ended >= since and left > 0:
                tell_of(ledger, job, "retried", "it had expired by a clock that was wrong")
                advance(ledger, change(job, JobEvent.RETRY, ledger.now))
                found.append(job.id)
    ledger.tx.set_note(wall_clock.TAKEN_BACK, "")
    return found
