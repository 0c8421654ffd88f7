"""Jobs that ask before they start: when there is room for one, a person has to say yes.

Until then it is out of the line, and others take the room. Its place is kept: with a yes it goes
back to it, and is let in when there is room again.
"""

from collections.abc import Iterable

from headgate.core.jobs.job import Job, Why, change, load
from headgate.core.jobs.states import JobEvent, State
from headgate.core.quantities import FOREVER, show_duration
from headgate.core.stored_text.formats import whole
from headgate.core.times import NO_TIME
from headgate.ledger.jobs.lifecycle import tell_of
from headgate.ledger.transaction.ledger import Ledger

_CONFIRMED = "confirmed"
"""The note with the ids of jobs that somebody has said yes to and that have not started yet."""


def wants_yes(ledger: Ledger, id: int) -> bool:
    """Whether a job that could start has to ask first; only before its first start."""
    job = ledger.tx.job(id)
    if job is None or job.attempts or load(job.spec).confirm is None:
        return False
    return id not in _confirmed(ledger)


def ask_all(ledger: Ledger, ids: Iterable[int]) -> None:
    """Take jobs out of the line, and ask for each whether it is to start."""
    for id in ids:
        _ask(ledger, id)


def _ask(ledger: Ledger, id: int) -> None:
    job = ledger.tx.job(id)
    if job is None or ledger.drop_ticket(id) is None:
        return
    within = show_duration(load(job.spec).confirm or NO_TIME)
    why = Why(
        "confirm", f"there is room for it; to say yes: headgate release {id}, within {within}"
    )
    ledger.tx.change_job(change(job, JobEvent.ASK, ledger.now, why))
    tell_of(ledger, job, "confirm", why.text)


def answer_yes(ledger: Ledger, job: Job) -> None:
    """Remember that somebody has said yes, until it has started."""
    kept = [id for id in _confirmed(ledger) if _still_waits(ledger, id)]
    ledger.tx.set_note(_CONFIRMED, " ".join(map(str, sorted({*kept, job.id}))))


def _still_waits(ledger: Ledger, id: int) -> bool:
    job = ledger.tx.job(id)
    return job is not None and not job.attempts and not job.state.ended


def _confirmed(ledger: Ledger) -> set[int]:
    """What cannot be read is no yes: they are asked again."""
    words = ledger.tx.note(_CONFIRMED).split()
    return {id for word in words if (id := whole(word, FOREVER)) is not None}


def unanswered(job: Job) -> str:
    """What to say of a job that expires because nobody has said yes."""
    if job.state is not State.ASKED:
        return ""
    return f"nobody said yes within {show_duration(load(job.spec).confirm or NO_TIME)}"
