"""The shapes of docs/json.md and of what is asked, for the OpenAPI.

`core/display/json_shapes` makes the objects. A test compares their names with these, and
schemathesis what is answered.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headgate.core.jobs.states import Word

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""ISO 8601 in UTC, to the millisecond."""
MOST_ID = 2**53 - 1
"""What every reader of JSON takes as it is."""
Id = Annotated[int, Field(ge=1, le=MOST_ID)]


class Shape(BaseModel):
    """An object that is answered."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Document(Shape):
    """One that stands by itself."""

    schema_: Annotated[Literal[1], Field(alias="schema")]


def _whole(value: object) -> object:
    """JSON knows no difference between 1 and 1.0."""
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Said(BaseModel):
    """An object that is asked for, none of whose values is converted."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, said: object) -> object:
        if not isinstance(said, dict):
            return said
        return {name: _whole(value) for name, value in said.items()}


class Asked(Said):
    """One all of whose names mean something."""

    model_config = ConfigDict(extra="forbid")


class ProblemDetails(Shape):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    exit_code: int | None


class EventShape(Shape):
    """Something that happened."""

    seq: int
    event: str
    at: Time
    work: int | None
    task: str | None
    key: str | None
    pool: str | None
    text: str | None
    name: str | None


class WorkShape(Shape):
    """A job, or a program that waits for seats or holds them."""

    id: int
    type: Literal["job", "slot"] | None
    state: str
    code: str | None
    reason: str | None
    key: str | None
    task: str | None
    name: str | None
    label: str | None
    priority: int | None
    weight: int | None
    pool: str | None
    position: int | None
    eta: float | None
    since: Time | None
    waited: float | None
    submitted: Time | None
    started: Time | None
    held: float | None
    ended: Time | None
    due: Time | None
    attempts: int | None
    exit: str | None
    pid: int | None
    borrows: int | None
    last_line: str | None
    in_flight: int | None
    oldest_request: Time | None
    session: str | None
    given_session: bool | None
    parks: int | None
    roles: list[str]


class WorkDocument(WorkShape, Document):
    """One piece of work."""


class AttemptShape(Shape):
    """One run of a job."""

    number: int
    key: str | None
    started: Time
    ended: Time | None
    code: str | None
    reason: str | None
    exit: str | None


class RequestShape(Shape):
    """A request of an agent that has ended."""

    at: Time
    key: str | None
    task: str | None
    outcome: str
    status: int | None
    waited: float
    first_byte: float | None
    took: float
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    tries: int


class MeteredShape(Shape):
    """How an agent is counted and watched."""

    meter: str
    reason: str | None
    hint: str | None
    requests: int
    refused: int
    waited: float
    took: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    last_requests: list[RequestShape]


class HistoryDocument(WorkDocument):
    """All about one piece of work."""

    pools: list[str]
    events: list[EventShape] | None
    attempt_list: list[AttemptShape]
    deadlock: str | None
    metered: MeteredShape | None


class QueueDocument(Document):
    """What runs and what waits."""

    running: list[WorkShape]
    waiting: list[WorkShape]
    aside: list[WorkShape]
    ended: list[WorkShape] | None
    total_running: int
    total_waiting: int
    total_aside: int


class UpstreamShape(Shape):
    """What the provider itself says."""

    fresh: bool
    in_use: float | None
    limit: int | None
    hard_cap: int | None
    estimate: int
    cap: int | None
    age: float | None
    lag_ms: int | None
    low_priority: bool
    note: str | None
    problem: str | None


class PoolShape(Shape):
    """One pool at one moment."""

    pool: str
    limit: int | None
    configured_limit: int | None
    source: str
    in_use: int
    cooling: int
    queued: int
    paused: bool
    paused_until: Time | None
    cooldown_ms: int
    max_hold: float | None
    reserve: dict[str, int]
    per_task: int | None
    order: str
    auto_reduced: bool
    auto_reduced_from: int | None
    notice: str | None
    adapt: str
    probing: bool
    next_probe: Time | None
    foreign: int
    upstream: UpstreamShape | None
    rpm: int | None
    tpm: int | None
    spacing_ms: int
    next_start: Time | None
    short_of: str | None
    strain: str | None
    unreadable: list[str]
    bounded_by: str | None
    free: int | None
    own_free: int | None


class PoolDocument(PoolShape, Document):
    """One pool."""


class StatusDocument(Document):
    """All pools."""

    pools: list[PoolShape]
    total_running: int
    total_waiting: int
    unlimited: dict[str, int]
    at: Time


class SettingsShape(Shape):
    """What is set and learned of a pool."""

    pool: str
    limit: int | None
    source: str
    configured_limit: int | None
    cooldown_ms: int
    max_hold: float | None
    reserve: dict[str, int]
    per_task: int | None
    order: str
    adapt: str
    auto_reduced: bool
    auto_reduced_from: int | None
    probing: bool
    rpm: int | None
    tpm: int | None
    spacing_ms: int
    lag_ms: int | None
    next_probe: Time | None


class SettingsDocument(SettingsShape, Document):
    """The settings of one pool."""


class LimitsDocument(Document):
    """The settings of all pools."""

    pools: list[SettingsShape]


class CapacityDocument(Document):
    """Whether there is room for a key."""

    key: str | None
    state: Literal["open", "near", "full", "paused"]
    free: int | None
    queued: int
    retry_after: float | None
    eta: float | None
    reason: str | None
    code: str | None


class VerdictShape(Shape):
    """What would become of one candidate."""

    line: int
    verdict: Literal["start", "defer"]
    id: Any
    name: Any
    key: str | None
    task: str | None
    priority: int
    weight: int
    code: str | None
    pool: str | None
    reason: str | None
    position: int | None
    eta: float | None


class PlanDocument(Document):
    """What would become of all candidates."""

    candidates: list[VerdictShape]
    start: int
    defer: int
    at: Time


class OutcomeShape(Shape):
    """What came of something for one id."""

    id: int
    outcome: Literal["withdrawn", "ended", "failed"]
    error: str | None


class OutcomeDocument(OutcomeShape, Document):
    """What came of it."""


class OutcomesDocument(Document):
    """What came of something for each of some ids."""

    outcomes: list[OutcomeShape]


class JobsDocument(Document):
    """Jobs; `next` is null at the end."""

    jobs: list[WorkShape]
    next: int | None


class EventsDocument(Document):
    """Events; more come after `last`."""

    events: list[EventShape]
    last: int | None


class TemplateShape(Shape):
    """A command that jobs can be made of."""

    name: str
    arguments: list[str]


class TemplatesDocument(Document):
    """All of them."""

    templates: list[TemplateShape]


class HealthDocument(Document):
    """Whether the server answers."""

    ok: bool
    version: str
    draining: bool


StateName = Literal[
    "queued", "running", "held", "parked", "done", "failed", "cancelled", "expired", "lost"
]
assert set(StateName.__args__) == {word.value for word in Word}  # type: ignore[attr-defined]  # noqa: S101 - a slip would be told at once
