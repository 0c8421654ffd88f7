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

from headgate.core import line
from headgate.core.amounts import priority_class, show_duration
from headgate.core.jobs import (
    CANCELLED,
    DONE,
    ENDED,
    EXPIRED,
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
from headgate.core.line import Head
from headgate.errors import UsageError
from headgate.ledger import leave
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Attempt, Job, Lane, Lease, Ticket

_AT_ONCE = 1_000
"""How many jobs one transaction sees to when time has come for many."""
_LOOK_AGAIN = 5_000


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
        _tell(ledger, job, HELD, "until somebody releases it")
    else:
        _advance(ledger, job)
    return id


def require(ledger: Ledger, ids: Iterable[int]) -> None:
    """Refuse to come after jobs that are not there."""
    missing = [str(id) for id in dict.fromkeys(ids) if ledger.tx.job(id) is None]
    if missing:
        more = ", …" if len(missing) > 5 else ""
        raise UsageError(f"bad --after {', '.join(missing[:5])}{more}: there is no such job")


def _advance(ledger: Ledger, job: Job) -> None:
    """Put a job into the line, unless others have to be done first or have failed."""
    for needed in ledger.tx.needs_of(job.id):
        other = ledger.tx.job(needed)
        if other is None or other.state == DONE:
            ledger.tx.drop_after(job.id, needed)
        elif other.state in ENDED:
            _end(ledger, job, End(FAILED, "dependency", _unmet(other)))
            return
    waits = ledger.tx.needs_of(job.id)
    if waits:
        names = ", ".join(map(str, waits[:5])) + (" …" if len(waits) > 5 else "")
        text = f"comes after job {names}"
        ledger.tx.change_job(job._replace(state=QUEUED, code="after", text=text, due=0))
        _tell(ledger, job, QUEUED, text)
        return
    enter(ledger, _expiring(ledger, job._replace(state=QUEUED, code="", text="")))


def _unmet(other: Job) -> str:
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
    _stand(ledger, job._replace(code="", text="", due=_sooner(falls, job.expires)), spec)


def _stand(ledger: Ledger, job: Job, spec: Spec) -> None:
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


def _sooner(*times: int) -> int:
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
        _end(ledger, job, End(CANCELLED, CANCELLED, lease.cancel))
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
        _tell(ledger, job, "readmitted", f"attempt {number}, {how}")
    else:
        _tell(ledger, job, "started", f"after {show_duration(ledger.now - job.submitted)}")
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
    _tell(ledger, job, "adopted", "its runner was killed, and its program goes on")
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
    if lease.cancel and end.code != MAX_HOLD:
        end = end._replace(state=CANCELLED, code=CANCELLED, text=lease.cancel)
    _conclude(ledger, job, end)
    return True


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
            _end(ledger, job, end._replace(state=state, text=said))
        elif end.state == PARKED:
            _put_aside(ledger, job._replace(parks=tries), spec, end)
        else:
            _again(ledger, job._replace(parks=tries, code=end.code, text=end.text))
    elif end.state == FAILED and job.failures < spec.retries and tries < spec.attempts:
        job = job._replace(parks=tries, failures=job.failures + 1, session="")
        _put_aside(ledger, job._replace(key=_higher(spec, job.key)), spec, end)
    else:
        _end(ledger, job, end)


def _again(ledger: Ledger, job: Job) -> None:
    """Put a job that lost its runner back to its place in the line."""
    _tell(ledger, job, "requeued", job.text)
    enter(ledger, job._replace(state=QUEUED, expires=0))


def _put_aside(ledger: Ledger, job: Job, spec: Spec, end: End) -> None:
    """Keep a job's place, and let it come back after a while."""
    wait = backoff(spec, job.id, job.parks, end.retry_after)
    state = PARKED if end.state == PARKED else QUEUED
    until = ledger.now + wait
    changed = job._replace(state=state, code=end.code, text=end.text, due=until, expires=0)
    ledger.tx.change_job(changed)
    kind = PARKED if state == PARKED else "retried"
    _tell(ledger, job, kind, f"{end.text}; tried again in {show_duration(wait)}")


def _higher(spec: Spec, key: str) -> str:
    """The model of the next tier, where a retry is to have one."""
    if not spec.escalate or key not in spec.models:
        return key
    return spec.models[min(spec.models.index(key) + 1, len(spec.models) - 1)]


def _end(ledger: Ledger, job: Job, end: End) -> None:
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
        _tell(ledger, job, end.state, end.text)
        for id in ledger.tx.needed_by(job.id):
            other = ledger.tx.job(id)
            if other is None or other.state in ENDED:
                continue
            if end.state == DONE:
                ledger.tx.drop_after(id, job.id)
                if other.state == QUEUED:
                    _advance(ledger, other)
            else:
                unmet = _unmet(job._replace(state=end.state))
                ends.append((other, End(FAILED, "dependency", unmet)))


def pick_up(ledger: Ledger) -> None:
    """See to jobs whose lease was freed because nobody was left who could tell of them."""
    while ledger.orphans:
        lease, text = ledger.orphans.pop()
        job = ledger.tx.job(lease.id)
        if job is None:
            continue
        if lease.cancel:
            end = End(CANCELLED, CANCELLED, lease.cancel)
            _close_attempt(ledger, job, end)
            _end(ledger, job, end)
        elif job.code == "starting":  # its worker died before anything was started
            enter(ledger, job._replace(state=PARKED if job.parks else QUEUED, code="", text=""))
        else:
            end = End(LOST, "lost", text)
            _close_attempt(ledger, job, end)
            _conclude(ledger, job, end)


def due(ledger: Ledger) -> bool:
    """Whether time has come for some job."""
    return 0 < ledger.tx.next_due() <= ledger.now


def tick(ledger: Ledger) -> None:
    """Do what time does to jobs: let them expire, come back, or go to their next model."""
    for id in ids(ledger.tx.due_jobs(ledger.now, _AT_ONCE)):
        job = ledger.tx.job(id)
        if job is None or not job.due:
            continue  # the end of one before it has ended it, too
        if job.expires and ledger.now >= job.expires:
            ledger.drop_ticket(job.id)
            ledger.unsettled = True
            limit = show_duration(load(job.spec).expires or 0)
            _end(ledger, job, End(EXPIRED, EXPIRED, f"not started within {limit}"))
        elif ledger.tx.ticket(job.id) is None:
            enter(ledger, job)
        else:
            _fall_back(ledger, job)


def _fall_back(ledger: Ledger, job: Job) -> None:
    """Have a job that waits for its model take the next one, if there is room for it now."""
    spec = load(job.spec)
    for key in spec.models if ledger.workers() else ():
        if key != job.key and _room(ledger, job, key, spec.view):
            ledger.drop_ticket(job.id)
            text = f"{job.key} was full for too long"
            _tell(ledger, job, "fallback", f"takes {key}: {text}")
            enter(ledger, job._replace(key=key))
            return
    again = ledger.now + _LOOK_AGAIN
    ledger.tx.change_job(job._replace(due=_sooner(again, job.expires)))


def _room(ledger: Ledger, job: Job, key: str, view: str) -> bool:
    needs, _ = ledger.needs(key, ledger.machine, job.weight, view=view)
    head = Head((job.urgency, job.since, job.id), 0, priority_class(-job.urgency), needs, {})
    if line.obstacles(head, ledger.use, ledger.now):
        return False
    wanted = {need.place for need in needs}
    others = (lane for lane in ledger.active_lanes() if lane.key == key)
    return not any(
        need.place in wanted
        for lane in others
        for need in ledger.needs(lane.key, lane.machine, 1, view=lane.view)[0]
    )


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
    _end(ledger, job, End(CANCELLED, CANCELLED, why))
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
    _tell(ledger, job, HELD, "by hand")


def let_go(ledger: Ledger, id: int) -> None:
    """Let a held job into the line, at the place that it has kept."""
    job = waiting(ledger, id)
    if job.state != HELD:
        raise UsageError(f"job {id} is not held: it is {job.state}")
    _tell(ledger, job, "let_go", "by hand")
    _advance(ledger, job)


def move(ledger: Ledger, id: int, urgency: int | None, *, first: bool) -> None:
    """Give a job another priority, or put it before all others of its priority."""
    job = waiting(ledger, id)
    if urgency is not None:
        job = job._replace(urgency=urgency)
    if first:
        heads = (ledger.tx.head(lane.id) for lane in ledger.lanes())
        ahead = [head.since for head in heads if head and head.urgency == job.urgency]
        job = job._replace(since=min([job.since, *ahead]) - 1)
    _tell(ledger, job, "moved", "to the front" if first else f"priority {-job.urgency}")
    if ledger.drop_ticket(id) is None:
        ledger.tx.change_job(job)
    else:
        _stand(ledger, job, load(job.spec))


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
            raise UsageError(f"{_unmet(other)}; retry that first: headgate retry {other.id}")
    _tell(ledger, job, "retried", "by hand")
    fresh = job._replace(
        parks=0, failures=0, started=0, ended=0, exit="", session="", since=ledger.now
    )
    ledger.tx.change_job(fresh._replace(state=QUEUED))
    _advance(ledger, fresh)


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


def age_out(ledger: Ledger, before: int) -> list[int]:
    """Forget jobs that ended before a time; returns their ids."""
    old = ledger.tx.old_jobs(before, _AT_ONCE)
    for id in old:
        ledger.tx.drop_job(id)
    return old


def to_start(ledger: Ledger, me: str) -> list[Job]:
    """Jobs that were given to a worker and not started yet."""
    jobs = (ledger.tx.job(lease.id) for lease in ledger.tx.job_leases() if lease.member == me)
    return [job for job in jobs if job is not None and job.code == "starting"]


def unminded(ledger: Ledger) -> list[Lease]:
    """Leases of jobs whose runner is gone."""
    return [lease for lease in ledger.tx.job_leases() if not ledger.census.listening(lease.member)]


def _tell(ledger: Ledger, job: Job, kind: str, text: str) -> None:
    ledger.tell(kind, text, work=job.id, key=job.key, task=job.task)


def ids(jobs: Iterable[Job]) -> list[int]:
    """The ids of some jobs."""
    return [job.id for job in jobs]
