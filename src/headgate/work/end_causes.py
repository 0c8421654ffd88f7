"""Why a runner ends the program that it looks after, and how the attempt has ended then."""

from headgate.core.agents.agent_watch import WatchVerdict
from headgate.core.jobs.job import AttemptOutcome, End
from headgate.core.named_tuple import NamedTuple
from headgate.errors import HeadgateError, HoldExpiredError
from headgate.ledger.jobs.lifecycle import MAX_HOLD


class EndAsked(NamedTuple):
    """Somebody wants the program to end: it was cancelled, or held its seats for too long."""

    outcome: AttemptOutcome
    code: str
    text: str


class Stopped(NamedTuple):
    """The runner itself was told to stop, by a signal."""

    signal: str


Cause = WatchVerdict | EndAsked | Stopped
"""Why a runner ends the program that it looks after."""


def asked(why: HeadgateError) -> EndAsked:
    """What somebody wants by ending a lease."""
    if isinstance(why, HoldExpiredError):
        return EndAsked(AttemptOutcome.OVERDUE, MAX_HOLD, str(why))
    return EndAsked(AttemptOutcome.CANCELLED, "cancelled", str(why))


def as_caused(ended: End, cause: Cause) -> End:
    """How an attempt ended that was ended for a cause, or is judged by one."""
    match cause:
        case EndAsked():
            return ended._replace(outcome=cause.outcome, code=cause.code, text=cause.text)
        case Stopped():
            text = f"its runner was stopped by {cause.signal}"
            return ended._replace(outcome=AttemptOutcome.LOST, code="stopped", text=text)
        case WatchVerdict():
            outcome = AttemptOutcome.PARKED if cause.park else AttemptOutcome.FAILED
            if cause.resumes:
                outcome = AttemptOutcome.USED_UP
            quota = cause.park and cause.awaits_quota
            return ended._replace(
                outcome=outcome,
                code=cause.code,
                text=cause.text,
                awaits_quota=quota,
                not_before=cause.not_before,
            )
