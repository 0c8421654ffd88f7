"""What a job is: what it was submitted with, how its attempts end, and how events change it.

A job has one id for its whole life. Its ticket and its lease have the same, so it stands in line
once, runs once, and keeps its place when it is parked. Its states are in `states`; `change` is the
only way from one to another.
"""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from headgate.core.jobs.states import Effect, JobEvent, State, Timer, transition
from headgate.core.jobs.stored_spec import read_spec
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms

ATTEMPTS = 10
BACKOFF = Ms(5_000)
LONGEST_BACKOFF = Ms(600_000)
FALLBACK_AFTER = Ms(300_000)


PARKED_CODES = ("rate_limited", "relieved")
"""The codes of attempts after which a job is parked."""


class Spec(NamedTuple):
    """What a job was submitted with. Times are milliseconds; None where the worker decides.

    `models` are the keys it may use, first choice first; `terms` what was said about watching it.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = {}
    view: str = ""
    expires: Ms | None = None
    models: tuple[str, ...] = ()
    fallback_after: Ms | None = FALLBACK_AFTER
    escalate: bool = False
    retries: int = 0
    attempts: int = ATTEMPTS
    backoff: Ms = BACKOFF
    longest_backoff: Ms = LONGEST_BACKOFF
    grace: Ms | None = None
    terms: Mapping[str, int | bool | None] = {}
    confirm: Ms | None = None
    """For how long it waits for a person's yes when there is room for it; None to ask nobody."""
    stdin: str | None = None
    """What its program can read; bytes that are no text are kept as surrogates."""


UNREADABLE = Spec((), "", attempts=1)
"""Of a job whose text in the store is damaged: it has no command, and fails when it is its turn."""


class Job(NamedTuple):
    """A durable command. `code` and `text` tell people why it is in its state, and steer nothing.

    `due` is when time alone does something to it (0 for never): it expires, may be tried again, or
    may go to its next model. `expires` is when it has waited too long to be started at all. `parks`
    are the attempts that came to nothing since it was submitted or retried by hand, `failures`
    those of them that were its own fault. `adopted`: its program runs under a second runner. The
    caller of `change` sets the other fields.
    """

    id: int
    state: State
    code: str
    text: str
    key: str
    urgency: int
    since: Ms
    weight: int
    task: str
    name: str
    label: str
    submitted: Ms
    spec: str
    due: Ms = NO_TIME
    expires: Ms = NO_TIME
    attempts: int = 0
    parks: int = 0
    failures: int = 0
    started: Ms = NO_TIME
    ended: Ms = NO_TIME
    exit: str = ""
    session: str = ""
    adopted: bool = False


class AttemptOutcome(Enum):
    """How an attempt ended. What follows for the job depends on how often it may be tried."""

    DONE = "its program did what it should"
    FAILED = "its program failed"
    OVERDUE = "it was ended: it held its seats for longer than a pool allows"
    USED_UP = "it was ended: it took too long, was silent for too long, or made too many calls"
    PARKED = "it came to nothing without a fault of its own: no room upstream, or on the machine"
    LOST = "nobody knows, or its runner was stopped"
    CANCELLED = "it was ended because somebody asked for that"


class End(NamedTuple):
    """How an attempt ended, as a code and a sentence; `exit` is `code:signal` if it is known.

    `awaits_quota`: upstream said until when its quota is gone. It costs no attempt to have asked.
    """

    outcome: AttemptOutcome
    code: str
    text: str
    exit: str = ""
    session: str = ""
    awaits_quota: bool = False
    not_before: Ms | None = None
    """For how many milliseconds upstream wants to be left alone, if it said so."""


class Why(NamedTuple):
    """What people are told of a change: a code and a sentence."""

    code: str
    text: str


_NOTHING = Why("", "")
_HELD = Why("held", "waits to be released")
_STARTING = Why("starting", "is being started")
_ADOPTED = Why("adopted", "its runner was killed; it goes on")


def submitted(job: Job, now: Ms) -> Job:
    """A job as it is handed in: held, until somebody or something lets it go."""
    job = _with_reason(job._replace(state=State.HELD), _NOTHING)
    return _timed(_set(job, Effect.EXPIRY_BEGINS, now), now)


def change(job: Job, event: JobEvent, now: Ms, why: Why = _NOTHING) -> Job:
    """A job after an event. `why` is told where the state does not say enough by itself."""
    step = transition(job.state, event)
    job = job._replace(state=step.to, adopted=False)
    for effect in step.effects:
        job = _set(job, effect, now)
    return _timed(_with_reason(job, why), now)


def in_line(job: Job) -> Job:
    """A job that had a ticket. It was queued; if it is held, the word in its row was damaged."""
    return job._replace(state=State.QUEUED) if job.state is State.HELD else job


def _set(job: Job, effect: Effect, now: Ms) -> Job:  # noqa: C901 - a case for each effect
    match effect:
        case Effect.EXPIRY_BEGINS:
            limit = load(job.spec).expires
            return job._replace(expires=NO_TIME if limit is None or job.started else now + limit)
        case Effect.ANSWER_BEGINS:
            return job._replace(expires=now + (load(job.spec).confirm or NO_TIME))
        case Effect.NO_EXPIRY:
            return job._replace(expires=NO_TIME)
        case Effect.FIRST_START:
            return job._replace(started=job.started or now)
        case Effect.ATTEMPT:
            return job._replace(attempts=job.attempts + 1)
        case Effect.IN_VAIN:
            return job._replace(parks=job.parks + 1)
        case Effect.FAILURE:
            return job._replace(failures=job.failures + 1)
        case Effect.ESCALATES:
            return job._replace(key=next_model(load(job.spec), job.key))
        case Effect.NEW_SESSION:
            return job._replace(session="")
        case Effect.ADOPTED:
            return job._replace(adopted=True)
        case Effect.ENDED:
            return job._replace(ended=now)
        case Effect.AFRESH:
            fresh = job._replace(parks=0, failures=0, started=NO_TIME, ended=NO_TIME, since=now)
            return fresh._replace(exit="", session="")


def _with_reason(job: Job, why: Why) -> Job:
    match job.state:
        case State.HELD:
            why = _HELD
        case State.QUEUED:
            why = _NOTHING
        case State.STARTING:
            why = _STARTING
        case State.RUNNING:
            why = _ADOPTED if job.adopted else _NOTHING
        case State.AFTER:
            why = Why("after", why.text)
        case State.ASKED | State.BACKOFF | State.PARKED:
            pass
        case State.DONE | State.FAILED | State.CANCELLED | State.EXPIRED | State.LOST:
            pass
    return job._replace(code=why.code, text=why.text)


def _timed(job: Job, now: Ms) -> Job:
    """The job with the moment at which time does to it what its state says."""
    match job.state.timer:
        case Timer.NONE:
            return job._replace(due=NO_TIME)
        case Timer.EXPIRES:
            return job._replace(due=job.expires)
        case Timer.FALLS_BACK:
            spec = load(job.spec)
            falls = len(spec.models) > 1 and spec.fallback_after is not None
            times = (now + (spec.fallback_after or NO_TIME) if falls else NO_TIME, job.expires)
            return job._replace(due=sooner(*times))
        case Timer.RETURNS:
            return job._replace(due=now + backoff(load(job.spec), job.id, job.parks))


def sooner(*times: Ms) -> Ms:
    """The earliest of some times; 0 stands for never."""
    return min((time for time in times if time), default=NO_TIME)


def next_model(spec: Spec, key: str) -> str:
    """The model that a retry after a failure takes: of the next tier, where it is to have one."""
    if not spec.escalate or key not in spec.models:
        return key
    return spec.models[min(spec.models.index(key) + 1, len(spec.models) - 1)]


def dump(spec: Spec) -> str:
    """A spec as text; what is as it usually is takes no room."""
    import json

    usual = Spec((), "")
    said = {
        name: value
        for name, value in spec._asdict().items()
        if name in {"argv", "cwd"} or value != getattr(usual, name)
    }
    return json.dumps(said, separators=(",", ":"))


@lru_cache(maxsize=8)  # one change of a job looks at it several times
def load(text: str) -> Spec:
    """The spec that a text stands for; what a newer version has added is not for us."""
    said = read_spec(text)
    return UNREADABLE if said is None else Spec(**said)


def command(spec: Spec, key: str) -> list[str]:
    """The words to run, with the model filled in where the job may use several."""
    if not spec.models:
        return list(spec.argv)
    model = key.partition("/")[2]
    return [word.replace("{model}", model).replace("{key}", key) for word in spec.argv]


def backoff(spec: Spec, id: int, parks: int) -> Ms:
    """How long a job stays out of the line after so many attempts in vain: it doubles each time.

    For how long upstream asked to be left alone is its pool's business: the job waits for that in
    line, where nobody who came later gets in before it.
    """
    wait = min(spec.longest_backoff, spec.backoff * (1 << max(0, min(parks - 1, 30))))
    return wait + wait * (id * 7919 % 251) // 1000


def exit_text(code: int, signal: int) -> str:
    """An exit as `code:signal`, one of them 0."""
    return f"{code}:{signal}"
