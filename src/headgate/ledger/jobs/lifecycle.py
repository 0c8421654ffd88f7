"""Durable work: submit it, let it stand in line, hand it to a worker, and see to how it ends.

A job that waits for seats has a ticket, one that has them a lease, both with the job's id. The
ticket belongs to no process. It is granted to a *worker* (a member that said it starts jobs), which
starts a runner; the runner takes the lease over (`begin`) and tells how it ended (`finish`).
If either dies instead, its lease is freed like any other when the last of its programs has gone,
and the job is picked up where it was (`pick_up`).

Every state has its reason: a code and a sentence.
"""

from collections.abc import Iterable

from headgate.core.admission.lease_events import EndCause, EndRequest
from headgate.core.answers.signals import LONGEST_QUOTA
from headgate.core.jobs.job import (
    AttemptOutcome,
    End,
    Job,
    Spec,
    Why,
    change,
    dump,
    in_line,
    load,
    next_model,
    submitted,
)
from headgate.core.jobs.states import JobEvent, Place, State
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import priority_class, show_duration
from headgate.core.roles import uses
from headgate.core.times import NO_TIME, Ms
from headgate.errors import UsageError
from headgate.ledger import release
from headgate.ledger.jobs import waits
from headgate.ledger.transaction.job_rows import Attempt
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Lane, LeaseRow, Ticket

_BY_ITSELF = {AttemptOutcome.DONE, AttemptOutcome.FAILED, AttemptOutcome.USED_UP}
"""Outcomes of attempts that nobody has interrupted for the sake of others."""
_SLOW = Ms(5_000)
"""After which a worker should have started a job."""
MAX_HOLD = "max_hold"
"""The code of a job that was ended because it held its seats for too long."""


class Draft(NamedTuple):
    """A job as it is handed in."""

    spec: Spec
    key: str
    urgency: int = 0
    since: Ms = NO_TIME
    weight: int = 1
    task: str = ""
    name: str = ""
    label: str = ""
    after: tuple[int, ...] = ()
    hold: bool = False
    roles: str = ""


def submit(ledger: Ledger, draft: Draft) -> int:
    """Keep a job, and put it into the line unless it has to wait for something else first."""
    require(ledger, draft.after)
    id = ledger.tx.next_id()
    draft_row = Job(
        id=id,
        state=State.HELD,
        code="",
        text="",
        key=draft.key,
        urgency=draft.urgency,
        since=draft.since or ledger.now,
        weight=draft.weight,
        task=draft.task or f"{draft.label}-{id}",
        name=draft.name,
        label=draft.label,
        submitted=ledger.now,
        spec=dump(draft.spec),
    )
    job = submitted(draft_row, ledger.now)
    ledger.tx.add_job(job)
    ledger.tx.set_roles(id, draft.roles)
    for needed in draft.after:
        ledger.tx.add_after(id, needed)
    if draft.hold:
        tell_of(ledger, job, "held", "until somebody releases it")
    else:
        advance(ledger, job, new=True)
    return id


def require(ledger: Ledger, ids: Iterable[int]) -> None:
    """Refuse to come after jobs that are not there."""
    missing = [str(id) for id in dict.fromkeys(ids) if ledger.tx.job(id) is None]
    if missing:
        more = ", …" if len(missing) > 5 else ""
        raise UsageError(f"bad --after {', '.join(missing[:5])}{more}: there is no such job")


def advance(ledger: Ledger, job: Job, *, new: bool = False) -> None:
    """Let a job into the line, unless others have to be done first or have failed."""
    for needed in ledger.tx.needs_of(job.id):
        other = ledger.tx.job(needed)
        if other is None or other.state is State.DONE:
            ledger.tx.drop_after(job.id, needed)
        elif other.state.ended:
            end_job(ledger, job, JobEvent.NEED_FAILED, _unmet(other))
            return
    waits = ledger.tx.needs_of(job.id)
    if waits:
        names = ", ".join(map(str, waits[:5])) + (" …" if len(waits) > 5 else "")
        why = Why("after", f"comes after job {names}")
        ledger.tx.change_job(change(job, JobEvent.WAIT, ledger.now, why))
        tell_of(ledger, job, "queued", why.text)
        return
    stand(ledger, change(job, JobEvent.ENTER, ledger.now), new=new)


def unmet(other: Job) -> str:
    """What to say of a job that others come after, and that was not done."""
    return f"job {other.id}, which it comes after, ended as {other.state.word}"


def _unmet(other: Job) -> Why:
    return Why("dependency", unmet(other))


def stand(ledger: Ledger, job: Job, *, new: bool = False) -> None:
    """Keep a job that is in the line, with a ticket at the place of its priority and age.

    Nobody can wait for a new job so far, so nobody lends it any seats.
    """
    cls = priority_class(-job.urgency)
    like = Lane(
        id=0,
        machine="",
        key=job.key,
        cls=cls,
        lender=0 if new else waits.lender_of(ledger, job.id),
        view=load(job.spec).view,
        waiting=0,
        roles=ledger.tx.roles(job.id),
    )
    like = ledger.own_lane(like, job.task)
    ledger.add_ticket(
        Ticket(
            id=job.id,
            lane=ledger.tx.lane(like),
            urgency=job.urgency,
            since=job.since,
            arrived=job.submitted,
            weight=job.weight,
            task=job.task,
            member="",
            label=job.label,
            marked=1,
            overtaken="",
        )
    )
    ledger.tx.change_job(job)


def granted(ledger: Ledger, id: int) -> None:
    """Note that a job has its seats: it is started as soon as its worker gets to it."""
    job = ledger.tx.job(id)
    if job is not None:
        ledger.tx.change_job(change(in_line(job), JobEvent.GRANT, ledger.now))


def begin(ledger: Ledger, id: int, worker: str, me: str) -> Job | None:
    """Take a job over from the worker that was given it; None if it is not to be had any more."""
    lease, job = ledger.tx.lease(id), ledger.tx.job(id)
    if lease is None or job is None or lease.member != worker or job.state is not State.STARTING:
        return None
    if lease.cancel is not None:
        release.give_back(ledger, lease, "cancelled")
        _unstarted(ledger, job, lease.cancel)
        return None
    again = job.parks > 0 or job.started > NO_TIME
    job = change(job, JobEvent.BEGIN, ledger.now)
    ledger.tx.change_lease(lease._replace(member=me))
    ledger.tx.keep_attempt(Attempt(job=id, number=job.attempts, key=job.key, started=ledger.now))
    ledger.tx.change_job(job)
    if again:
        how = "with its session" if job.session else "from the start"
        tell_of(ledger, job, "readmitted", f"attempt {job.attempts}, {how}")
    else:
        tell_of(ledger, job, "started", f"after {show_duration(ledger.now - job.submitted)}")
    return job


def adopt(ledger: Ledger, id: int, me: str) -> Job | None:
    """Take over a job whose runner has died while its program lives on; None if it has not."""
    lease, job = ledger.tx.lease(id), ledger.tx.job(id)
    if lease is None or job is None or job.state is not State.RUNNING:
        return None
    if ledger.listening(lease.member):
        return None
    ledger.tx.change_lease(lease._replace(member=me, life=lease.life or lease.member))
    job = change(job, JobEvent.ADOPT, ledger.now)
    ledger.tx.change_job(job)
    tell_of(ledger, job, "adopted", "its runner was killed, and its program goes on")
    return job


def remember(ledger: Ledger, id: int, session: str) -> None:
    """Keep the session that a job's program has told of."""
    job = ledger.tx.job(id)
    if job is not None and job.state is State.RUNNING and job.session != session:
        ledger.tx.change_job(job._replace(session=session))


def finish(ledger: Ledger, id: int, me: str, end: End) -> bool:
    """An attempt has ended, and its programs with it: free its seats, and decide what follows."""
    lease, job = ledger.tx.lease(id), ledger.tx.job(id)
    if lease is None or job is None or lease.member != me or job.state is not State.RUNNING:
        return False
    by_itself = end.outcome in _BY_ITSELF and lease.cancel is None
    release.give_back(ledger, lease, "released" if by_itself else "ended")
    asked = as_asked(lease.cancel, end)
    _close_attempt(ledger, job, asked if asked.outcome is AttemptOutcome.PARKED else end)
    job = job._replace(session=end.session or job.session, exit=end.exit)
    _conclude(ledger, job, asked)
    return True


def as_asked(request: EndRequest | None, end: End) -> End:
    """The attempt's outcome, given who asked for its end.

    After a cancel the job is cancelled, however the attempt ended. After relief or `max_hold`, an
    attempt that had already ended by itself keeps its own outcome.
    """
    if request is None:
        return end
    ended = end.outcome in {AttemptOutcome.CANCELLED, AttemptOutcome.LOST}
    match request.cause:
        case EndCause.CANCEL:
            if end.outcome is AttemptOutcome.OVERDUE:
                return end
            return end._replace(
                outcome=AttemptOutcome.CANCELLED, code="cancelled", text=request.text
            )
        case EndCause.RELIEVE:
            parked = end._replace(outcome=AttemptOutcome.PARKED, code="relieved", text=request.text)
            return parked if ended else end
        case EndCause.MAX_HOLD:
            overdue = end._replace(outcome=AttemptOutcome.OVERDUE, code=MAX_HOLD, text=request.text)
            return overdue if ended else end


def _close_attempt(ledger: Ledger, job: Job, end: End) -> None:
    last = ledger.tx.attempts(job.id)[-1:]
    for row in last:
        if not row.ended:
            ledger.tx.keep_attempt(
                row._replace(ended=ledger.now, code=end.code, text=end.text, exit=end.exit)
            )


def _conclude(ledger: Ledger, job: Job, end: End) -> None:
    """What becomes of a job after an attempt."""
    spec = load(job.spec)
    tries = job.parks + 1
    last = tries >= spec.attempts
    why = Why(end.code, end.text)
    counted = Why(end.code, f"{end.text}; that was attempt {tries} of {spec.attempts}")
    match end.outcome:
        case AttemptOutcome.DONE:
            end_job(ledger, job, JobEvent.SUCCEED, why)
        case AttemptOutcome.CANCELLED:
            end_job(ledger, job, JobEvent.CANCEL, why)
        case AttemptOutcome.PARKED if end.awaits_quota and _is_kept_out(ledger, job, end):
            _put_aside(ledger, job, JobEvent.AWAIT_QUOTA, why, end.not_before)
        case AttemptOutcome.PARKED if last:
            end_job(ledger, job, JobEvent.FAIL, counted)
        case AttemptOutcome.PARKED:
            _put_aside(ledger, job, JobEvent.PARK, why, end.not_before)
        case AttemptOutcome.LOST if last:
            end_job(ledger, job, JobEvent.LOSE, counted)
        case AttemptOutcome.LOST:
            tell_of(ledger, job, "requeued", end.text)
            stand(ledger, change(job, JobEvent.REQUEUE, ledger.now))
        case AttemptOutcome.FAILED | AttemptOutcome.OVERDUE | AttemptOutcome.USED_UP:
            if last or job.failures >= spec.retries:
                end_job(ledger, job, JobEvent.FAIL, why)
            else:
                _put_aside(ledger, job, _retry(spec, job, end), why)


def _retry(spec: Spec, job: Job, end: End) -> JobEvent:
    """How a job is tried again: it goes on, unless it failed by itself or has another model."""
    goes_on = end.outcome is not AttemptOutcome.FAILED and _keeps_model(spec, job)
    return JobEvent.GO_ON_LATER if goes_on else JobEvent.TRY_LATER


def _is_kept_out(ledger: Ledger, job: Job, end: End) -> bool:
    """Whether it will not be started before its quota is back: by a closed pool, or by its due."""
    if not job.key:
        return end.not_before is not None
    used = uses(job.key, ledger.tx.roles(job.id))
    return any(pool.paused(ledger.now) for pool in ledger.pool_set.of(used))


def _keeps_model(spec: Spec, job: Job) -> bool:
    """Whether another try has the same model: with another it begins anew."""
    return next_model(spec, job.key) == job.key


def _put_aside(
    ledger: Ledger, job: Job, event: JobEvent, why: Why, not_before: Ms | None = None
) -> None:
    """Keep a job's place, and let it come back after a while.

    No pool keeps a job out of the line that holds seats of no model, so it waits out here for as
    long as upstream wants to be left alone.
    """
    changed = change(job, event, ledger.now, why)
    if not job.key and not_before is not None:
        until = ledger.now + min(not_before, LONGEST_QUOTA)
        changed = changed._replace(due=max(changed.due, until))
    ledger.tx.change_job(changed)
    kind = "parked" if changed.state is State.PARKED else "retried"
    wait = show_duration(changed.due - ledger.now)
    tell_of(ledger, job, kind, f"{why.text}; tried again in {wait}")


def end_job(ledger: Ledger, job: Job, event: JobEvent, why: Why) -> None:
    """End a job, and see to those that come after it."""
    ends = [(job, event, why)]
    while ends:
        before, event, why = ends.pop()
        job = change(before, event, ledger.now, why)
        ledger.tx.change_job(job)
        tell_of(ledger, job, job.state.word.value, why.text)
        for id in ledger.tx.needed_by(job.id):
            other = ledger.tx.job(id)
            if other is None or other.state.ended:
                continue
            if job.state is not State.DONE:
                ends.append((other, JobEvent.NEED_FAILED, _unmet(job)))
                continue
            ledger.tx.drop_after(id, job.id)
            if other.state is State.AFTER:
                advance(ledger, other)


def pick_up(ledger: Ledger) -> None:
    """See to jobs whose lease was freed because nobody was left who could tell of them."""
    while ledger.freed_job_leases:
        lease, text = ledger.freed_job_leases.pop()
        job = ledger.tx.job(lease.id)
        if job is None or job.state.place is not Place.SEATS:
            continue
        if job.state is State.STARTING:
            _unstarted(ledger, job, lease.cancel)
        else:
            end = as_asked(lease.cancel, End(AttemptOutcome.LOST, "lost", text))
            _close_attempt(ledger, job, end)
            _conclude(ledger, job, end)


def _unstarted(ledger: Ledger, job: Job, request: EndRequest | None) -> None:
    """What becomes of a job whose seats are gone before anything of it was started."""
    if request is None or request.cause is EndCause.MAX_HOLD:
        stand(ledger, change(job, JobEvent.RETURN, ledger.now))
    else:
        _conclude(ledger, job, as_asked(request, End(AttemptOutcome.CANCELLED, "cancelled", "")))


def to_start(ledger: Ledger, me: str) -> list[LeaseRow]:
    """The leases of jobs that were given to a worker and not started yet."""
    return [
        lease
        for lease in ledger.tx.job_leases()
        if lease.member == me
        and (job := ledger.tx.job(lease.id)) is not None
        and job.state is State.STARTING
    ]


def slow_workers(ledger: Ledger) -> set[str]:
    """Workers that have not started what they were given: they may have been stopped."""
    return {
        lease.member
        for lease in ledger.tx.job_leases()
        if ledger.now - lease.granted > _SLOW
        and (job := ledger.tx.job(lease.id)) is not None
        and job.state is State.STARTING
    }


def without_runner(ledger: Ledger) -> list[LeaseRow]:
    """Leases of jobs whose runner is gone."""
    return [lease for lease in ledger.tx.job_leases() if not ledger.listening(lease.member)]


def tell_of(ledger: Ledger, job: Job, kind: str, text: str) -> None:
    """Keep an event of a job."""
    ledger.tell(kind, text, work=job.id, key=job.key, task=job.task)


def ids(jobs: Iterable[Job]) -> list[int]:
    """The ids of some jobs."""
    return [job.id for job in jobs]
