"""What upstream and people say to a lease while its work goes on.

Upstream answers a request: `PENDING` until it has, then `ACCEPTED` or refused, with the time of the
refusal. People, the machine and a pool's `max_hold` can ask for its end: an `EndRequest` says who
does, because that decides what becomes of a job. Its text is for people.
"""

from enum import Enum

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms


class AnswerKind(Enum):
    """What upstream said to a lease."""

    PENDING = "nothing so far"
    ACCEPTED = "yes"
    REFUSED = "no"


class Answer(NamedTuple):
    """What upstream said to a lease, and when it said no (0 unless it did)."""

    kind: AnswerKind
    at: Ms = NO_TIME


PENDING = Answer(AnswerKind.PENDING)
ACCEPTED = Answer(AnswerKind.ACCEPTED)


def refused(at: Ms) -> Answer:
    """A refusal."""
    return Answer(AnswerKind.REFUSED, at)


class EndCause(Enum):
    """Why a lease is to end."""

    CANCEL = "somebody cancelled it"
    RELIEVE = "its machine needs room; a job is parked"
    MAX_HOLD = "it held its seats longer than a pool allows; a job has failed"


class EndRequest(NamedTuple):
    """A request to end a lease's work: who asked, and a sentence for people."""

    cause: EndCause
    text: str


RELIEF = "to relieve the machine: "
"""How people are told that a job makes room."""


def relief(why: str) -> EndRequest:
    """The request that a job makes room on its machine."""
    return EndRequest(EndCause.RELIEVE, f"{RELIEF}{why}")


def lease_mark(uid: str, id: int) -> str:
    """What a lease's programs carry as HEADGATE_LEASE: unique across stores."""
    return f"{uid}.{id}"
