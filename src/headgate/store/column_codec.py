"""How jobs and leases are kept in columns: the only place that knows.

The columns are those of version 0.1.0, and so are the values, because processes of that version may
run on the same store. It had no states, so some columns mean several things at once:

    job.state, job.code           what it is
    'queued', ''                  QUEUED
    'parked', ''                  QUEUED, of one that was parked before; read, no longer written
    'queued', 'after'             AFTER
    'queued', any other code      BACKOFF
    'parked', any code            PARKED
    'held', 'confirm'             ASKED
    'running', 'starting'         STARTING
    'running', '' or 'adopted'    RUNNING
    the word alone                HELD, and the states of jobs that have ended

    lease.state                   what upstream said: 0 nothing, 1 yes, from 2 on the time of its no
    lease.cancel                  '' or who asked for its end, told by how the sentence begins
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.admission.lease_events import (
    ACCEPTED,
    PENDING,
    RELIEF,
    Answer,
    AnswerKind,
    EndCause,
    EndRequest,
    refused,
)
from headgate.core.jobs.job import Job
from headgate.core.jobs.states import State, Word
from headgate.core.times import Ms
from headgate.ledger.transaction.rows import LeaseRow

_AFTER, _STARTING, _ADOPTED, _CONFIRM = "after", "starting", "adopted", "confirm"
_FIRST_TIME = 2
"""The least value of `lease.state` that is a time."""
_OVERDUE = "held longer than its pool's max_hold"
_BEGINNINGS = {EndCause.RELIEVE: RELIEF, EndCause.MAX_HOLD: _OVERDUE}

Columns = Mapping[str, Any]


def read_state(word: str, code: str) -> State:
    """The state that two columns stand for."""
    match word, code:
        case (("queued" | "parked"), ""):
            return State.QUEUED
        case "queued", "after":
            return State.AFTER
        case "queued", _:
            return State.BACKOFF
        case "running", "starting":
            return State.STARTING
        case "held", "confirm":
            return State.ASKED
        case _:
            return _BY_WORD.get(word, State.HELD)  # a word of no meaning: somebody has to decide


_BY_WORD = {
    state.word.value: state
    for state in State
    if state not in {State.QUEUED, State.AFTER, State.ASKED, State.BACKOFF, State.STARTING}
}


def write_code(job: Job) -> str:
    """The code that goes with the word of a job's state; both together are its state."""
    match job.state:
        case State.QUEUED:
            return ""
        case State.AFTER:
            return _AFTER
        case State.STARTING:
            return _STARTING
        case State.RUNNING:
            return _ADOPTED if job.adopted else ""
        case State.ASKED:
            return _CONFIRM
        case State.BACKOFF | State.PARKED:
            return job.code if job.code not in {"", _AFTER} else "unknown"  # each has a meaning
        case State.HELD:
            return "held"
        case State.DONE | State.FAILED | State.CANCELLED | State.EXPIRED | State.LOST:
            return job.code


def where(word: Word) -> list[tuple[str, bool]]:
    """The pairs (`job.state`, whether without a code) under which jobs with this word are kept."""
    if word is Word.QUEUED:
        return [("queued", False), ("parked", True)]
    return [(word.value, False)]


def read_answer(number: int) -> Answer:
    """What upstream said to a lease."""
    if number >= _FIRST_TIME:
        return refused(Ms(number))
    return ACCEPTED if number else PENDING


def write_answer(answer: Answer) -> int:
    """What upstream said to a lease, as a number."""
    match answer.kind:
        case AnswerKind.PENDING:
            return 0
        case AnswerKind.ACCEPTED:
            return 1
        case AnswerKind.REFUSED:
            return max(_FIRST_TIME, answer.at)


def read_end_request(text: str) -> EndRequest | None:
    """Who asked for a lease's end; None if nobody did."""
    if not text:
        return None
    for cause, beginning in _BEGINNINGS.items():
        if text.startswith(beginning):
            return EndRequest(cause, text)
    return EndRequest(EndCause.CANCEL, text)


def write_end_request(request: EndRequest | None) -> str:
    """Who asked for a lease's end, as a sentence that begins as its cause demands."""
    if request is None:
        return ""
    beginning = _BEGINNINGS.get(request.cause, "")
    if request.text.startswith(beginning):
        return request.text or "cancelled"
    return f"{beginning}{request.text}"


def read_job(row: Sequence[Any]) -> Job:
    """A row of `job`."""
    (
        id,
        state,
        code,
        text,
        key,
        urgency,
        since,
        weight,
        task,
        name,
        label,
        submitted,
        due,
        expires,
        attempts,
        parks,
        started,
        ended,
        exit_,
        session,
        spec,
        failures,
    ) = row
    return Job(
        id=id,
        code=code,
        text=text,
        key=key,
        urgency=urgency,
        since=since,
        weight=weight,
        task=task,
        name=name,
        label=label,
        submitted=submitted,
        due=due,
        expires=expires,
        attempts=attempts,
        parks=parks,
        started=started,
        ended=ended,
        exit=exit_,
        session=session,
        spec=spec,
        failures=failures,
        state=(known := read_state(state, code)),
        adopted=known is State.RUNNING and code == _ADOPTED,
    )


def write_job(job: Job) -> Columns:
    """A job by the names of its columns."""
    named = job._asdict()
    del named["adopted"]
    named["state"] = job.state.word.value
    named["code"] = write_code(job)
    return named


def read_lease(row: Sequence[Any]) -> LeaseRow:
    """A row of `lease`, whose columns are in the order of the fields, and its roles."""
    *first, cancel, sent, state, tokens, job, life, roles = row
    end, answer = read_end_request(cancel), read_answer(state)
    return LeaseRow._make((*first, end, sent, answer, tokens, job, life, roles))


def write_lease(lease: LeaseRow) -> tuple[Any, ...]:
    """A row of `lease`."""
    *first, cancel, sent, answer, tokens, job, life, _ = lease
    return (*first, write_end_request(cancel), sent, write_answer(answer), tokens, job, life)
