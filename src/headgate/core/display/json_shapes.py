"""JSON objects: one name for one thing, wherever it is shown.

Values in, dictionaries out; the command line, notifications and whatever else shows JSON make it
here. Each object has all of its names every time, in the same order, with null for what there is
not. Times are ISO 8601 in UTC, durations are seconds, and names that end in `_ms` milliseconds.
docs/json.md explains the names, and a test compares it with this file.

`document` puts the number of this schema first; it changes when a name changes its meaning or goes.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headgate.core.display.snapshots import (
    JOB,
    AttemptStatus,
    Capacity,
    Event,
    JobStatus,
    Metered,
    PoolStatus,
    Queue,
    RequestStatus,
    Running,
    Status,
    Waiting,
)
from headgate.core.jobs.states import Word
from headgate.core.times import Seconds, ms
from headgate.errors import UsageError

if TYPE_CHECKING:
    from headgate.core.admission.candidates import Plan, Verdict

SCHEMA = 1
VARIABLE = "HEADGATE_SCHEMA"
"""The environment variable that asks for the names of one schema only."""

Json = dict[str, Any]

EVENT = ("seq", "event", "at", "work", "task", "key", "pool", "text", "name")
MESSAGE = (*EVENT, "summary", "position", "until", "target", "host", "delivery")
WORK = (
    *("id", "type", "state", "code", "reason", "key", "task", "name", "label"),
    *("priority", "weight", "pool", "position", "eta", "since", "waited"),
    *("submitted", "started", "held", "ended", "due"),
    *("attempts", "exit", "pid", "borrows", "last_line", "in_flight", "oldest_request"),
    *("session", "given_session", "parks", "roles"),
)
HISTORY = ("pools", "events", "attempt_list", "deadlock", "metered")
METERED = Metered._fields
REQUEST = RequestStatus._fields
ATTEMPT = ("number", "key", "started", "ended", "code", "reason", "exit")
CAPACITY = ("key", "state", "free", "queued", "retry_after", "eta", "reason", "code")
POOL = (*(name for name in PoolStatus._fields if name != "room"), "free", "own_free")
SETTINGS = (
    *("pool", "limit", "source", "configured_limit", "cooldown_ms", "max_hold", "reserve"),
    *("per_task", "order"),
    *("adapt", "auto_reduced", "auto_reduced_from", "probing", "rpm", "tpm", "spacing_ms"),
    *("lag_ms", "next_probe"),
)
VERDICT = (
    *("line", "verdict", "id", "name", "key", "task", "priority", "weight"),
    *("code", "pool", "reason", "position", "eta"),
)
OUTCOME = ("id", "outcome", "error")
QUEUE = (
    *("running", "waiting", "aside", "ended"),
    *("total_running", "total_waiting", "total_aside"),
)
STATUS = ("pools", "total_running", "total_waiting", "unlimited", "at")
PLAN = ("candidates", "start", "defer", "at")

_TIMES = {
    *("at", "since", "submitted", "started", "ended", "due"),
    *("paused_until", "next_probe", "next_start", "oldest_request"),
}
_LAST_SECOND = 253_402_300_799.0  # of the year 9999, the last that ISO 8601 writes plainly
CANCELLING, ENDED = "cancelling", "ended"


def only_new(said: str) -> bool:
    """Whether only this schema's names are wanted, by what HEADGATE_SCHEMA says."""
    if said.strip() in {"", str(SCHEMA)}:
        return bool(said.strip())
    raise UsageError(f"bad {VARIABLE} {said[:40]!r}: expected {SCHEMA}, or leave it unset")


def document(fields: Json) -> Json:
    """An object that stands by itself: it says which schema it follows."""
    return {"schema": SCHEMA, **fields}


def event(it: Event) -> Json:
    """Something that happened; the same in lists, histories and notifications."""
    return _object(EVENT, it._asdict())


def work(it: Waiting | Running | JobStatus, job: JobStatus | None = None) -> Json:
    """A piece of work, whatever it does now; `job` says more where it is one."""
    found = _known(job) | _known(it)
    if job is not None or isinstance(it, JobStatus):
        found["type"] = JOB
    elif found["type"] != JOB:
        found["attempts"] = None  # it is started once, and by itself
    if isinstance(it, Waiting):
        found["state"] = Word.QUEUED.value
    elif found["state"] == Word.RUNNING and found.get("code") == CANCELLING:
        found["state"] = CANCELLING
    found["pid"] = found.get("pid") or None
    return _object(WORK, found)


def past_work(id: int, events: Sequence[Event]) -> Json:
    """Work that only its events still know of; they do not tell what type it was."""
    last = events[-1]
    said = {"code": last.event, "reason": last.text, "key": last.key, "task": last.task}
    return _object(WORK, {"id": id, "state": ENDED, "ended": last.at, **said})


def history(
    it: Json,
    pools: Iterable[str],
    events: Iterable[Event] | None,
    attempts: Iterable[AttemptStatus],
    *,
    deadlock: str | None = None,
    meter: Metered | None = None,
) -> Json:
    """All about one piece of work; `events` are told of what neither waits nor runs."""
    return {
        **it,
        "pools": list(pools),
        "events": None if events is None else [event(one) for one in events],
        "attempt_list": [_object(ATTEMPT, one._asdict()) for one in attempts],
        "deadlock": deadlock,
        "metered": None if meter is None else metered(meter),
    }


def metered(it: Metered) -> Json:
    """How an agent is counted and watched, and what its requests come to."""
    last = [_object(REQUEST, one._asdict()) for one in it.last_requests]
    return _object(METERED, {**it._asdict(), "last_requests": last})


def queue(it: Queue, total_running: int, ended: Iterable[JobStatus] | None = None) -> Json:
    """What runs and what waits, and on request what has ended."""
    jobs = {job.id: job for job in it.jobs}
    return {
        "running": [work(one, jobs.get(one.id)) for one in it.running],
        "waiting": [work(one, jobs.get(one.id)) for one in it.waiting],
        "aside": [work(job) for job in it.aside],
        "ended": None if ended is None else [work(job) for job in ended],
        "total_running": total_running,
        "total_waiting": it.total_waiting,
        "total_aside": it.total_aside,
    }


def status(it: Status) -> Json:
    """All pools, and how many run and wait."""
    return {
        "pools": [pool(one) for one in it.pools],
        "total_running": it.total_running,
        "total_waiting": it.total_waiting,
        "unlimited": it.unlimited,
        "at": iso(it.at),
    }


def pool(it: PoolStatus) -> Json:
    """One pool; if it is paused and `paused_until` is null, somebody has to resume it."""
    upstream = it.upstream
    said = None if upstream is None else _object(upstream._fields, upstream._asdict())
    until = it.paused_until if it.paused else None
    found = {**it._asdict(), "paused_until": until, "upstream": said}
    return _object(POOL, {**found, "free": it.free, "own_free": it.own_free})


def settings(it: PoolStatus) -> Json:
    """A pool's settings, and what it has learned."""
    lag = it.upstream.lag_ms if it.upstream else None
    return _object(SETTINGS, {**it._asdict(), "lag_ms": lag})


def capacity(it: Capacity) -> Json:
    """Whether there is room for a key."""
    return _object(CAPACITY, it._asdict())


def plan(it: "Plan", verdicts: Iterable[Json]) -> Json:
    """What would become of all candidates."""
    return {
        "candidates": list(verdicts),
        "start": len(it.starts),
        "defer": len(it.deferred),
        "at": iso(it.at),
    }


def verdict(it: "Verdict", line: int, echo: Json) -> Json:
    """What would become of one candidate; `echo` is what its owner calls it."""
    return _object(VERDICT, {**it._asdict(), "name": None, **echo, "line": line})


def outcome(id: str, what: str, error: str | None = None) -> Json:
    """What a verb did to one piece of work, by its id; as it was typed if that is no id."""
    number = int(id) if id.isascii() and id.isdigit() and len(id) < 19 else id
    return _object(OUTCOME, {"id": number, "outcome": what, "error": error})


def iso(at: float) -> str:
    """A time as ISO 8601 in UTC, to the millisecond."""
    from datetime import UTC, datetime, timedelta

    told = ms(Seconds(min(max(0.0, at), _LAST_SECOND)))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=told)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def encode(value: object, indent: int | None = None) -> str:
    """JSON in ASCII, on one line unless indented, whatever texts are in it."""
    import json

    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _known(view: Waiting | Running | JobStatus | None) -> Json:
    """What a view says, without what it leaves open, so that another one may say it."""
    fields = {} if view is None else view._asdict()
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def _object(names: Iterable[str], facts: Json) -> Json:
    return {name: _value(name, facts.get(name)) for name in names}


def _value(name: str, value: object) -> object:
    if (value is None and name != "roles") or value == "":
        return None
    if name == "roles":
        return list(value) if isinstance(value, tuple) else []
    return iso(value) if name in _TIMES and isinstance(value, (int, float)) else value


def _plain(value: object) -> object:
    """Texts that every reader of JSON takes: half of a surrogate pair is no character."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(name): _plain(item) for name, item in value.items()}
    return value
