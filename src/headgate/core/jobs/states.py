"""The states of a job, and every way from one to another.

There are two rules, and both are tables here:

1. A job is in one state at a time. The state says what the job has (a ticket in the line, a lease,
   or neither), and what time alone will do to it (`Timer`).
2. A state changes by an event, and only as `TRANSITIONS` says. A pair of state and event that is
   not there is a mistake of ours, and raises `InternalError`.

How to read the table: a job is handed in as HELD. Unless somebody asked for that, it is let go in
the same transaction: to AFTER if other jobs have to be done first, else to QUEUED, the line. The
line gives it seats (STARTING), and a runner starts its program (RUNNING). One that wants to be
confirmed leaves the line when there is room for it (ASKED), others take that room, and a person's
yes puts it back at its old place. An attempt that came to
nothing may be made again: at once if its runner was lost (QUEUED), later if the job failed
(BACKOFF) or was refused (PARKED). Those two are out of the line until their time has come, and then
go back to QUEUED, where their place was kept. A job that has ended can be had again by hand: then
it begins anew, as HELD.

People see nine words, not thirteen states: a job that is in line, waits for others or is tried
again later is `queued` to them, one that is being started is `running`, and one that asks is
`held`. The reason beside the word tells them apart. `docs/jobs.md` shows the tables;
`tools/jobstates.py` writes them there.

Nothing here knows of rows. How a state is kept in a store is up to `headgate.store.column_codec`.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum

from headgate.core.named_tuple import NamedTuple
from headgate.errors import InternalError


class Word(StrEnum):
    """What people are told of a job's state."""

    QUEUED = "queued"
    HELD = "held"
    PARKED = "parked"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOST = "lost"


ENDED = (Word.DONE, Word.FAILED, Word.CANCELLED, Word.EXPIRED, Word.LOST)
"""The words for a job that has ended."""


class Place(Enum):
    """What a job has in a state."""

    ASIDE = "nothing"
    LINE = "a ticket"
    SEATS = "a lease"
    OVER = "an end"


class Timer(Enum):
    """What time alone does to a job in a state, and so what its `due` is."""

    NONE = "nothing"
    EXPIRES = "it expires"
    FALLS_BACK = "it expires, or takes its next model"
    RETURNS = "it goes back into the line"


class State(Enum):
    """Where a job is in its life."""

    HELD = "waits for a person"
    AFTER = "waits for other jobs"
    QUEUED = "is in the line, and waits for nothing but seats"
    ASKED = "has room, and waits for a person to say yes"
    BACKOFF = "has failed, and will be tried again"
    PARKED = "was refused or made room, and comes back"
    STARTING = "has its seats; nothing of it runs yet"
    RUNNING = "its program runs"
    DONE = "has done what it should"
    FAILED = "has failed"
    CANCELLED = "was cancelled"
    EXPIRED = "was not started in time"
    LOST = "nobody knows how its last attempt ended"

    @property
    def word(self) -> Word:
        """What people call it."""
        return _TRAITS[self].word

    @property
    def place(self) -> Place:
        """What a job has while it is in this state."""
        return _TRAITS[self].place

    @property
    def timer(self) -> Timer:
        """What time alone does to a job in this state."""
        return _TRAITS[self].timer

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self.place is Place.OVER


class _Traits(NamedTuple):
    word: Word
    place: Place
    timer: Timer = Timer.NONE


_TRAITS = {
    State.HELD: _Traits(Word.HELD, Place.ASIDE, Timer.EXPIRES),
    State.AFTER: _Traits(Word.QUEUED, Place.ASIDE),
    State.QUEUED: _Traits(Word.QUEUED, Place.LINE, Timer.FALLS_BACK),
    State.ASKED: _Traits(Word.HELD, Place.ASIDE, Timer.EXPIRES),
    State.BACKOFF: _Traits(Word.QUEUED, Place.ASIDE, Timer.RETURNS),
    State.PARKED: _Traits(Word.PARKED, Place.ASIDE, Timer.RETURNS),
    State.STARTING: _Traits(Word.RUNNING, Place.SEATS),
    State.RUNNING: _Traits(Word.RUNNING, Place.SEATS),
    State.DONE: _Traits(Word.DONE, Place.OVER),
    State.FAILED: _Traits(Word.FAILED, Place.OVER),
    State.CANCELLED: _Traits(Word.CANCELLED, Place.OVER),
    State.EXPIRED: _Traits(Word.EXPIRED, Place.OVER),
    State.LOST: _Traits(Word.LOST, Place.OVER),
}


class JobEvent(Enum):
    """What can happen to a job."""

    WAIT = "other jobs have to be done first"
    ENTER = "nothing keeps it out of the line any more"
    NEED_FAILED = "a job that it comes after was not done"
    HOLD = "a person takes it out of the line"
    ASK = "there is room for it, and a person has to say yes first"
    GRANT = "the line gives it its seats"
    FALL_BACK = "its model was full for too long, and another has room"
    RETURN = "it lost its seats before anything was started"
    BEGIN = "a runner starts its program"
    ADOPT = "another runner goes on with its program"
    SUCCEED = "its program did what it should"
    TRY_LATER = "its program failed, and it has tries left"
    GO_ON_LATER = "its program was ended for what it used up, and it has tries left"
    FAIL = "its program failed, or was refused once too often"
    PARK = "upstream had no room for it, or the machine needs some"
    AWAIT_QUOTA = "upstream has said until when its quota is gone, and its pool is closed"
    REQUEUE = "nobody knows how its attempt ended, and it has tries left"
    LOSE = "nobody knows how its last attempt ended"
    COME_BACK = "its time has come"
    CANCEL = "a person wants it no more"
    EXPIRE = "it was not started in time"
    RETRY = "a person wants it again"


class Effect(Enum):
    """What a transition sets beside the state, its reason and its `due`."""

    EXPIRY_BEGINS = "its time to be started in begins, unless it ever was"
    ANSWER_BEGINS = "its time to be answered in begins"
    NO_EXPIRY = "it expires no more"
    FIRST_START = "when it was first started"
    ATTEMPT = "counts an attempt"
    IN_VAIN = "counts an attempt in vain"
    FAILURE = "counts a failure"
    ESCALATES = "takes its next model, if it escalates"
    NEW_SESSION = "forgets its session"
    ADOPTED = "its runner is not the one that started it"
    ENDED = "when it ended"
    AFRESH = "forgets all that came of it, and goes to the end of the line"


class Transition(NamedTuple):
    """Which state follows, and what is set on the way."""

    to: State
    effects: tuple[Effect, ...] = ()


def _to(state: State, *effects: Effect) -> Transition:
    return Transition(state, effects)


_CANCELLED = _to(State.CANCELLED, Effect.ENDED, Effect.NO_EXPIRY)
_EXPIRED = _to(State.EXPIRED, Effect.ENDED, Effect.NO_EXPIRY)
_FAILED = _to(State.FAILED, Effect.ENDED, Effect.NO_EXPIRY)
_PARKED = _to(State.PARKED, Effect.IN_VAIN, Effect.NO_EXPIRY)
_ENTERED = _to(State.QUEUED, Effect.EXPIRY_BEGINS)
_AGAIN = _to(State.HELD, Effect.AFRESH)

TRANSITIONS: Mapping[tuple[State, JobEvent], Transition] = {
    (State.HELD, JobEvent.WAIT): _to(State.AFTER, Effect.NO_EXPIRY),
    (State.HELD, JobEvent.ENTER): _ENTERED,
    (State.HELD, JobEvent.NEED_FAILED): _FAILED,
    (State.HELD, JobEvent.CANCEL): _CANCELLED,
    (State.HELD, JobEvent.EXPIRE): _EXPIRED,
    (State.AFTER, JobEvent.WAIT): _to(State.AFTER),
    (State.AFTER, JobEvent.ENTER): _ENTERED,
    (State.AFTER, JobEvent.NEED_FAILED): _FAILED,
    (State.AFTER, JobEvent.HOLD): _to(State.HELD),
    (State.AFTER, JobEvent.CANCEL): _CANCELLED,
    (State.QUEUED, JobEvent.ASK): _to(State.ASKED, Effect.ANSWER_BEGINS),
    (State.QUEUED, JobEvent.GRANT): _to(State.STARTING),
    (State.QUEUED, JobEvent.FALL_BACK): _to(State.QUEUED),
    (State.QUEUED, JobEvent.HOLD): _to(State.HELD),
    (State.QUEUED, JobEvent.CANCEL): _CANCELLED,
    (State.QUEUED, JobEvent.EXPIRE): _EXPIRED,
    (State.ASKED, JobEvent.ENTER): _ENTERED,
    (State.ASKED, JobEvent.HOLD): _to(State.HELD, Effect.EXPIRY_BEGINS),
    (State.ASKED, JobEvent.CANCEL): _CANCELLED,
    (State.ASKED, JobEvent.EXPIRE): _EXPIRED,
    (State.BACKOFF, JobEvent.COME_BACK): _to(State.QUEUED),
    (State.BACKOFF, JobEvent.HOLD): _to(State.HELD),
    (State.BACKOFF, JobEvent.CANCEL): _CANCELLED,
    (State.PARKED, JobEvent.COME_BACK): _to(State.QUEUED),
    (State.PARKED, JobEvent.HOLD): _to(State.HELD),
    (State.PARKED, JobEvent.CANCEL): _CANCELLED,
    (State.STARTING, JobEvent.BEGIN): _to(
        State.RUNNING, Effect.ATTEMPT, Effect.FIRST_START, Effect.NO_EXPIRY
    ),
    (State.STARTING, JobEvent.RETURN): _to(State.QUEUED),
    (State.STARTING, JobEvent.PARK): _PARKED,
    (State.STARTING, JobEvent.FAIL): _FAILED,
    (State.STARTING, JobEvent.CANCEL): _CANCELLED,
    (State.RUNNING, JobEvent.ADOPT): _to(State.RUNNING, Effect.ADOPTED),
    (State.RUNNING, JobEvent.SUCCEED): _to(State.DONE, Effect.ENDED, Effect.NO_EXPIRY),
    (State.RUNNING, JobEvent.TRY_LATER): _to(
        State.BACKOFF,
        Effect.IN_VAIN,
        Effect.FAILURE,
        Effect.ESCALATES,
        Effect.NEW_SESSION,
        Effect.NO_EXPIRY,
    ),
    (State.RUNNING, JobEvent.GO_ON_LATER): _to(
        State.BACKOFF, Effect.IN_VAIN, Effect.FAILURE, Effect.NO_EXPIRY
    ),
    (State.RUNNING, JobEvent.FAIL): _FAILED,
    (State.RUNNING, JobEvent.PARK): _PARKED,
    (State.RUNNING, JobEvent.AWAIT_QUOTA): _to(State.PARKED, Effect.NO_EXPIRY),
    (State.RUNNING, JobEvent.REQUEUE): _to(State.QUEUED, Effect.IN_VAIN, Effect.NO_EXPIRY),
    (State.RUNNING, JobEvent.LOSE): _to(State.LOST, Effect.ENDED, Effect.NO_EXPIRY),
    (State.RUNNING, JobEvent.CANCEL): _CANCELLED,
    (State.DONE, JobEvent.RETRY): _AGAIN,
    (State.FAILED, JobEvent.RETRY): _AGAIN,
    (State.CANCELLED, JobEvent.RETRY): _AGAIN,
    (State.EXPIRED, JobEvent.RETRY): _AGAIN,
    (State.LOST, JobEvent.RETRY): _AGAIN,
}


def transition(state: State, event: JobEvent) -> Transition:
    """What an event does to a job in a state; an error if it cannot happen there."""
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise InternalError(
            f"a job that is {state.name} met the event {event.name} ({event.value}), which its "
            "states do not know: please report this"
        )
    return found
