"""Frozen answers: what status, capacity, queue and why say about one moment.

Times are seconds since the epoch, durations are seconds. The names are those of the JSON objects
that `json_shapes` makes of these. Names that have changed live on for one version, as properties
that warn.
"""

from warnings import warn

from headgate.core.admission.seats import Reason
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import FOREVER, show_duration
from headgate.core.times import NO_TIME, Ms, Seconds
from headgate.errors import HeadgateError

JOB, SLOT = "job", "slot"
"""What a piece of work is: a durable job, or a program or a block that waits for its seats itself
(`headgate run`, `gate.slot`)."""


def _renamed(old: str, new: str) -> None:
    warn(
        f"{old} is now {new}; the old name goes with the next version",
        DeprecationWarning,
        stacklevel=3,
    )


class UpstreamStatus(NamedTuple):
    """What upstream itself says about one pool."""

    fresh: bool
    in_use: float | None
    limit: int | None
    hard_cap: int | None
    estimate: int
    """What it must have in flight now."""
    cap: int | None
    """How much we let it have in flight; None where that is only up to the pool's limit."""
    age: Seconds | None
    lag_ms: Ms | None
    """How long it goes on counting what has ended; None while that is not known."""
    low_priority: bool
    note: str
    problem: str


class PoolStatus(NamedTuple):
    """One pool at one moment."""

    pool: str
    limit: int | None
    configured_limit: int | None
    source: str
    in_use: int
    cooling: int
    queued: int
    paused: bool
    paused_until: Seconds | None
    cooldown_ms: Ms
    max_hold: Seconds | None
    reserve: dict[str, int]
    per_task: int | None = None
    """The most that one task may hold; None for as many as it gets."""
    order: str = "oldest"
    """Who is next: the oldest, or with `fair` the tasks in turn."""
    auto_reduced: bool = False
    auto_reduced_from: int | None = None
    notice: str | None = None
    adapt: str = "off"
    probing: bool = False
    next_probe: Seconds | None = None
    """When the next level may be tried again, where one has failed."""
    foreign: int = 0
    """Programs that were seen to use it without having asked."""
    upstream: UpstreamStatus | None = None
    rpm: int | None = None
    tpm: int | None = None
    spacing_ms: Ms = NO_TIME
    next_start: Seconds | None = None
    """When the next may start, where the rates have no room now."""
    short_of: str = ""
    """What it waits for until then: rpm, tpm or spacing."""
    strain: str | None = None
    """Why the machine itself takes no more at the moment."""
    unreadable: tuple[str, ...] = ()
    """What is kept about it and cannot be read, and what counts in its place."""
    bounded_by: str = ""
    """The pool that leaves its work less room than it does itself."""
    room: int | None = None
    """How many more of its work would be let in; None if no pool limits it, or nobody asked."""

    @property
    def free(self) -> int | None:
        """What one more would really find: how many could start now; None for no limit."""
        own = self.own_free
        if self.room is None or own is None:
            return own if self.room is None else self.room
        return min(own, self.room)

    @property
    def own_free(self) -> int | None:
        """Seats that this pool itself has left; None where it has no limit."""
        limit, taken = self.limit, self.in_use + self.foreign + self.cooling
        if self.upstream is not None:
            cap = self.upstream.cap
            if self.upstream.fresh:
                taken = max(self.upstream.estimate, self.in_use + self.foreign)
            if cap is not None:
                limit = cap if limit is None else min(limit, cap)
        if limit is None:
            return None
        shut = self.paused or self.strain or self.next_start is not None
        return 0 if shut else max(0, limit - taken)


class Status(NamedTuple):
    """All pools at one moment, and what runs outside of every limit."""

    pools: tuple[PoolStatus, ...]
    total_running: int
    total_waiting: int
    unlimited: dict[str, int]
    at: Seconds

    @property
    def running(self) -> int:
        """The old name of `total_running`."""
        _renamed("Status.running", "Status.total_running")
        return self.total_running

    @property
    def waiting(self) -> int:
        """The old name of `total_waiting`."""
        _renamed("Status.waiting", "Status.total_waiting")
        return self.total_waiting

    def pool(self, name: str) -> PoolStatus:
        """The status of one pool, by its name."""
        for status in self.pools:
            if status.pool == name:
                return status
        raise KeyError(name)


class Capacity(NamedTuple):
    """Whether work with this key would be let in now."""

    key: str
    state: str
    free: int | None
    queued: int
    retry_after: Seconds | None
    eta: Seconds | None
    reason: str | None
    code: str | None


class Waiting(NamedTuple):
    """A ticket in the line: where it stands, why, and until about when."""

    id: int
    key: str
    task: str
    priority: int
    weight: int
    label: str
    position: int
    code: str
    pool: str
    reason: str
    eta: Seconds | None
    since: Seconds
    waited: Seconds
    type: str = SLOT
    roles: tuple[str, ...] = ()

    @property
    def job(self) -> bool:
        """What `type` says now."""
        _renamed("Waiting.job", "Waiting.type")
        return self.type == JOB


class Running(NamedTuple):
    """A lease: who holds seats, and since when."""

    id: int
    key: str
    task: str
    priority: int
    weight: int
    label: str
    state: str
    started: Seconds
    held: Seconds
    pid: int
    borrows: int | None
    type: str = SLOT
    attempts: int = 0
    last_line: str = ""
    in_flight: int | None = None
    """How many of its requests are on their way; None if nobody sees them, or none is."""
    oldest_request: Seconds | None = None
    """Since when the oldest of them is."""
    """The last line of its output, where that is kept."""
    roles: tuple[str, ...] = ()

    @property
    def job(self) -> bool:
        """What `type` says now."""
        _renamed("Running.job", "Running.type")
        return self.type == JOB

    @property
    def attempt(self) -> int:
        """The old name of `attempts`."""
        _renamed("Running.attempt", "Running.attempts")
        return self.attempts


class JobStatus(NamedTuple):
    """A job: its state, why it is in it, and where it stands if it stands in line."""

    id: int
    state: str
    code: str
    reason: str
    key: str
    task: str
    name: str
    label: str
    priority: int
    weight: int
    position: int | None
    eta: Seconds | None
    submitted: Seconds
    started: Seconds | None
    ended: Seconds | None
    due: Seconds | None
    attempts: int
    exit: str
    pid: int
    pool: str = ""
    """The pool that it waits for."""
    since: Seconds | None = None
    waited: Seconds | None = None
    held: Seconds | None = None
    session: str = ""
    """The session of its agent, where that has told it."""
    given_session: bool = False
    """Whether headgate gave that session its id, because its agent would not have told one."""
    parks: int = 0
    """How often it was parked."""
    roles: tuple[str, ...] = ()
    """What it is done as."""


class AttemptStatus(NamedTuple):
    """One run of a job, and how it ended."""

    number: int
    key: str
    started: Seconds
    ended: Seconds | None
    code: str
    reason: str
    exit: str


class RequestStatus(NamedTuple):
    """A request of an agent that has ended."""

    at: Seconds
    key: str
    task: str
    outcome: str
    status: int | None
    waited: Seconds
    """For how long it was held back here, for a seat or after a refusal."""
    first_byte: Seconds | None
    took: Seconds
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    tries: int


class Metered(NamedTuple):
    """How an agent is counted and watched, why so, and what its requests come to."""

    meter: str
    reason: str
    hint: str
    """What could be asked for, and would know better."""
    requests: int
    refused: int
    waited: Seconds
    took: Seconds
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    last_requests: tuple[RequestStatus, ...] = ()
    """Those that ended last, in their order."""


class Queue(NamedTuple):
    """What runs and what waits, in the order of the line."""

    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]
    total_waiting: int
    aside: tuple[JobStatus, ...] = ()
    """Jobs that wait for something else than seats: a person, another job, their next try."""
    total_aside: int = 0
    jobs: tuple[JobStatus, ...] = ()
    """What else is known of those of the running and waiting that are jobs."""
    total_running: int = 0
    """How many run that were looked at: all that fit, with a filter."""


class SelectedWork(NamedTuple):
    """A piece of work that was chosen by what it is for; `state` is as people say it."""

    id: int
    type: str
    state: str
    key: str
    task: str
    name: str
    label: str


class CancelOutcome(NamedTuple):
    """What became of a piece of work that was to be cancelled."""

    id: int
    outcome: str
    """`withdrawn`: it is out of the line. `ended`: it ran, and has ended. `failed`: see `error`."""
    error: HeadgateError | None = None


class Event(NamedTuple):
    """Something that happened."""

    seq: int
    """Its number: later events have higher ones."""
    at: Seconds
    event: str
    """What happened."""
    work: int | None
    """The id of the job, lease or ticket that it is about."""
    key: str
    task: str
    pool: str
    text: str
    name: str = ""
    """What the job that it is about was named."""

    @property
    def id(self) -> int:
        """The old name of `seq`."""
        _renamed("Event.id", "Event.seq")
        return self.seq

    @property
    def kind(self) -> str:
        """The old name of `event`."""
        _renamed("Event.kind", "Event.event")
        return self.event


class Past(NamedTuple):
    """Work that neither waits nor runs any more, by its last events; none if it never was."""

    events: tuple[Event, ...]


_SENTENCES = {
    "pool_full": "{pool} is full{figures}",
    "task_full": "its task holds all that one task may hold of {pool}{figures}",
    "pool_paused": "{pool} is paused {until}{note}",
    "cooling": "{pool} has seats that rest after their release{figures}",
    "reserved": "{pool} keeps its free seats for {words} work{figures}",
    "kept": "{pool} keeps its free seats for an older ticket{figures}",
    "too_heavy": "{pool} can never hold {used} seats, its limit is {limit}",
    "outgrown": "{pool} was cut to a limit of {limit}, which {used} seats do not fit",
    "behind": "others are ahead in the line for {pool}{figures}",
    "no_worker": "no worker is there to start it (headgate worker)",
    "client_silent": "its client was not heard of lately; it keeps its place, and starts when that "
    "is heard of again",
    "process_stopped": "its process is stopped; it keeps its place, and starts when that goes on",
    "next": "it is about to be let in",
    "confirming": "{pool} waits for an answer before it lets in another one{figures}",
    "upstream_full": "{pool} is full by the provider's own count{figures}",
    "no_reading": "{pool} waits for a reading of what the provider counts",
    "rate": "{pool} has used up its {words} of this minute, {until}",
    "spacing": "{pool} keeps its starts apart, {until}",
    "memory_low": "{pool} has {words}",
    "load_high": "{pool} has {words}",
}
_RATES = {"rpm": "requests", "tpm": "tokens"}


def explain(reason: Reason, now: Ms) -> str:
    """A reason as a sentence for people."""
    until = reason.until or now
    sentence = _SENTENCES.get(reason.code, "{code} {pool}{figures}")
    return sentence.format(
        code=reason.code,
        pool=reason.pool,
        used=reason.used,
        limit=reason.limit,
        figures=f" ({reason.used}/{reason.limit})" if reason.limit is not None else "",
        note=f": {reason.note}" if reason.note else "",
        words=_RATES.get(reason.note, reason.note),
        until=f"for {show_duration(until - now)} more"
        if until < FOREVER
        else f"until it is resumed (headgate resume '{reason.pool}')",
    ).strip()
