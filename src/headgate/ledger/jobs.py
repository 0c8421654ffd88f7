"""Durable work: submit it, let it stand in line, hand it to a worker, and see to how it ends.

A job that waits for seats has a ticket, one that has them a lease, both with the job's id. The
ticket belongs to no process. It is granted to a *worker* (a member that said it starts jobs), which
starts a runner; the runner takes the lease over (`begin`) and tells how it ended (`finish`).
If either dies instead, its lease is freed like any other when the last of its programs has gone,
and the job is picked up where it was (`pick_up`).

Every state has its reason: a code and a sentence.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headgate.core.amounts import priority_class, show_duration
from headgate.core.jobs import (
    CANCELLED,
    DONE,
    ENDED,
    FAILED,
    HELD,
    LOST,
    MAX_HOLD,
    PARKED,
    QUEUED,
    RUNNING,
    End,
    Spec,
    backoff,
    dump,
    load,
)
from headgate.errors import UsageError
from headgate.ledger import leave
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Attempt, Job, Lane, Lease, Ticket

RELIEF = "to relieve the machine: "
"""How the wish to end a job begins that is to be parked, not cancelled."""


class Draft(NamedTuple):
    """A job as it is handed in."""

    spec: Spec
    key: str
    urgency: int = 0
    since: int = 0
    weight: int = 1
    task: str = ""
    name: str = ""
    label: str = ""
    after: tuple[int, ...] = ()
    hold: bool = False


def submit(ledger: Ledger, draft: Draft) -> int:
    """Keep a job, and put it into the line unless it has to wait for something else first."""
    require(ledger, draft.after)
    id = ledger.tx.next_id()
    job = Job(
        id,
        HELD if draft.hold else QUEUED,
        "held" if draft.hold else "",
        "waits to be released" if draft.hold else "",
        draft.key,
        draft.urgency,
        draft.since or ledger.now,
        draft.weight,
        draft.task or f"{draft.label}-{id}",
        draft.name,
        draft.label,
        ledger.now,
        0,
        0,
        0,
        0,
        0,
        0,
        "",
        "",
        dump(draft.spec),
    )
    for needed in draft.after:
        ledger.tx.add_after(id, needed)
    ledger.tx.add_job(job)
    if draft.hold:
        job = _expiring(ledger, job)
        ledger.tx.change_job(job._replace(due=job.expires))
        tell_of(ledger, job, HELD, "until somebody releases it")
    else:
        advance(ledger, job)
    return id


def require(ledger: Ledger, ids: Iterable[int]) -> None:
    """Refuse to come after jobs that are not there."""
    missing = [str(id) for id in dict.fromkeys(ids) if ledger.tx.job(id) is None]
    if missing:
        more = ", …" if len(missing) > 5 else ""
        raise UsageError(f"bad --after {', '.join(missing[:5])}{more}: there is no such job")


def advance(ledger: Ledger, job: Job) -> None:
    """Put a job into the line, unless others have to be done first or have failed."""
    for needed in ledger.tx.needs_of(job.id):
        other = ledger.tx.job(needed)
        if other is None or other.state == DONE:
            ledger.tx.drop_after(job.id, needed)
        elif other.state in ENDED:
            end_job(ledger, job, End(FAILED, "dependency", unmet(other)))
            return
    waits = ledger.tx.needs_of(job.id)
    if waits:
        names = ", ".join(map(str, waits[:5])) + (" …" if len(waits) > 5 else "")
        text = f"comes after job {names}"
        ledger.tx.change_job(job._replace(state=QUEUED, code="after", text=text, due=0))
        tell_of(ledger, job, QUEUED, text)
        return
    enter(ledger, _expiring(ledger, job._replace(state=QUEUED, code="", text="")))


def unmet(other: Job) -> str:
    """What to say of a job that others come after, and that was not done."""
    return f"job {other.id}, which it comes after, ended as {other.state}"


def _expiring(ledger: Ledger, job: Job) -> Job:
    """A job with the moment at which it will have waited too long; never, once it was started."""
    spec = load(job.spec)
    never = spec.expires is None or job.started
    return job._replace(expires=0 if never else ledger.now + (spec.expires or 0))


def enter(ledger: Ledger, job: Job) -> None:
    """Put a job into the line: from now on it waits for nothing but its seats."""
    spec = load(job.spec)
    falls = 0
    if len(spec.models) > 1 and spec.fallback_after is not None:
        falls = ledger.now + spec.fallback_after
    stand(ledger, job._replace(code="", text="", due=sooner(falls, job.expires)), spec)


def stand(ledger: Ledger, job: Job, spec: Spec) -> None:
    """Keep a job with a ticket, at the place that its priority and its age give it."""
    cls = priority_class(-job.urgency)
    lane = ledger.tx.lane(Lane(0, "", job.key, cls, 0, spec.view, 0))
    ledger.add_ticket(
        Ticket(
            job.id,
            lane,
            job.urgency,
            job.since,
            job.submitted,
            job.weight,
            job.task,
            "",
            job.label,
            1,
            "",
        )
    )
    ledger.tx.change_job(job)
    ledger.unsettled = True


def sooner(*times: int) -> int:
    """The first of some moments, of which 0 is none."""
    return min((time for time in times if time), default=0)


def granted(ledger: Ledger, id: int) -> None:
    """Note that a job has its seats: it is started as soon as its worker gets to it."""
    job = ledger.tx.job(id)
    if job is not None:
        text = "is being started"
        ledger.tx.change_job(job._replace(state=RUNNING, code="starting", text=text, due=0))


def begin(ledger: Ledger, id: int, worker: str, me: str) -> Job | None:
    """Take a job over from the worker that was given it; None if it is not to be had any more."""
    lease, job = ledger.tx.lease(id), ledger.tx.job(id)
    if lease is None or job is None or lease.member != worker or job.code != "starting":
        return None
    if lease.cancel:
        leave.give_back(ledger, lease, CANCELLED)
        _conclude(ledger, job, _as_asked(lease, End(CANCELLED, CANCELLED, lease.cancel)))
        return None
    number = job.attempts + 1
    ledger.tx.change_lease(lease._replace(member=me))
    ledger.tx.keep_attempt(Attempt(id, number, job.key, ledger.now))
    job = job._replace(
        code="",
        text="",
        attempts=number,
        expires=0,
        started=job.started or ledger.now,
    )
    ledger.tx.change_job(job)
    if job.parks:
        how = "with its session" if job.session else "from the start"
        tell_of(ledger, job, "readmitted", f"attempt {number}, {how}")
    else:
        tell_of(ledger, job, "started", f"after {show_duration(ledger.now - job.submitted)}")
    return job


def adopt(ledger: Ledger, id: int, me: str) -> Job | None:
    """Take over a job whose runner has died while its program lives on; None if it has not."""
    lease, job = ledger.tx.lease(id), ledger.tx.job(id)
    if lease is None or job is None or job.code == "starting":
        return None
    if ledger.census.listening(lease.member):
        return None
    ledger.tx.change_lease(lease._replace(member=me))
    ledger.tx.change_job(job._replace(code="adopted", text="its runner was killed; it goes on"))
    tell_of(ledger, job, "adopted", "its runner was killed, and its program goes on")
    return job


def finish(ledger: Ledger, id: int, me: str, end: End) -> bool:
    """An attempt has ended, and its programs with it: free its seats, and decide what follows."""
    lease, job = ledger.tx.lease(id), ledger.tx.job(id)
    if lease is None or job is None or lease.member != me:
        return False
    served = end.state in {DONE, FAILED} and not lease.cancel
    leave.give_back(ledger, lease, "released" if served else end.state)
    _close_attempt(ledger, job, end)
    job = job._replace(session=end.session or job.session, exit=end.exit)
    _conclude(ledger, job, _as_asked(lease, end))
    return True


def _as_asked(lease: Lease, end: End) -> End:
    """How an attempt ended that somebody asked to end."""
    if lease.cancel.startswith(RELIEF):
        return end._replace(state=PARKED, code="relieved", text=lease.cancel)
    if lease.cancel and end.code != MAX_HOLD:
        return end._replace(state=CANCELLED, code=CANCELLED, text=lease.cancel)
    return end


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
    if end.state in {PARKED, LOST}:
        if tries >= spec.attempts:
            state = FAILED if end.state == PARKED else LOST
            said = f"{end.text}; that was attempt {tries} of {spec.attempts}"
            end_job(ledger, job, end._replace(state=state, text=said))
        elif end.state == PARKED:
            _put_aside(ledger, job._replace(parks=tries), spec, end)
        else:
            _again(ledger, job._replace(parks=tries, code=end.code, text=end.text))
    elif end.state == FAILED and job.failures < spec.retries and tries < spec.attempts:
        job = job._replace(parks=tries, failures=job.failures + 1, session="")
        _put_aside(ledger, job._replace(key=_higher(spec, job.key)), spec, end)
    else:
        end_job(ledger, job, end)


def _again(ledger: Ledger, job: Job) -> None:
    """Put a job that lost its runner back to its place in the line."""
    tell_of(ledger, job, "requeued", job.text)
    enter(ledger, job._replace(state=QUEUED, expires=0))


def _put_aside(ledger: Ledger, job: Job, spec: Spec, end: End) -> None:
    """Keep a job's place, and let it come back after a while."""
    wait = backoff(spec, job.id, job.parks)
    state = PARKED if end.state == PARKED else QUEUED
    until = ledger.now + wait
    changed = job._replace(state=state, code=end.code, text=end.text, due=until, expires=0)
    ledger.tx.change_job(changed)
    kind = PARKED if state == PARKED else "retried"
    tell_of(ledger, job, kind, f"{end.text}; tried again in {show_duration(wait)}")


def _higher(spec: Spec, key: str) -> str:
    """The model of the next tier, where a retry is to have one."""
    if not spec.escalate or key not in spec.models:
        return key
    return spec.models[min(spec.models.index(key) + 1, len(spec.models) - 1)]


def end_job(ledger: Ledger, job: Job, end: End) -> None:
    """End a job, and see to those that come after it."""
    ends = [(job, end)]
    while ends:
        job, end = ends.pop()
        ledger.tx.change_job(
            job._replace(
                state=end.state,
                code=end.code,
                text=end.text,
                due=0,
                expires=0,
                ended=ledger.now,
                exit=end.exit or job.exit,
            )
        )
        tell_of(ledger, job, end.state, end.text)
        for id in ledger.tx.needed_by(job.id):
            other = ledger.tx.job(id)
            if other is None or other.state in ENDED:
                continue
            if end.state == DONE:
                ledger.tx.drop_after(id, job.id)
                if other.state == QUEUED:
                    advance(ledger, other)
            else:
                text = unmet(job._replace(state=end.state))
                ends.append((other, End(FAILED, "dependency", text)))


def pick_up(ledger: Ledger) -> None:
    """See to jobs whose lease was freed because nobody was left who could tell of them."""
    while ledger.orphans:
        lease, text = ledger.orphans.pop()
        job = ledger.tx.job(lease.id)
        if job is None:
            continue
        if job.code == "starting" and not lease.cancel:  # nothing of it was started yet
            enter(ledger, job._replace(state=PARKED if job.parks else QUEUED, code="", text=""))
        else:
            end = _as_asked(lease, End(LOST, "lost", text))
            _close_attempt(ledger, job, end)
            _conclude(ledger, job, end)


def to_start(ledger: Ledger, me: str) -> list[Job]:
    """Jobs that were given to a worker and not started yet."""
    jobs = (ledger.tx.job(lease.id) for lease in ledger.tx.job_leases() if lease.member == me)
    return [job for job in jobs if job is not None and job.code == "starting"]


def unminded(ledger: Ledger) -> list[Lease]:
    """Leases of jobs whose runner is gone."""
    return [lease for lease in ledger.tx.job_leases() if not ledger.census.listening(lease.member)]


def tell_of(ledger: Ledger, job: Job, kind: str, text: str) -> None:
    """Keep an event of a job."""
    ledger.tell(kind, text, work=job.id, key=job.key, task=job.task)


def ids(jobs: Iterable[Job]) -> list[int]:
    """The ids of some jobs."""
    return [job.id for job in jobs]
