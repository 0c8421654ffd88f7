"""The names that JSON objects had before schema 1. They, and this file, go with the next version.

Until then an object has its old names beside the new ones, and every name that it had before keeps
the value that it had: an empty text where the new value is null, and a list under `attempts` in
what `why` tells of a job. So no script breaks, and HEADGATE_SCHEMA=1 shows what comes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from headgate.core.display.json_shapes import CANCELLING, SCHEMA, VARIABLE, Json
from headgate.core.display.snapshots import JOB
from headgate.core.jobs.states import Word
from headgate.core.named_tuple import NamedTuple

BY_HAND = "resumed by hand"
_EMPTY = "an empty text is now null"


class Old(NamedTuple):
    """What was renamed in an object, and the object with its old names."""

    renamed: Mapping[str, str]
    restore: Callable[[Json], Json]
    besides: tuple[str, ...] = ()
    """What else has changed, for people."""

    @property
    def warns(self) -> bool:
        """Whether there is more to say than that empty texts are null: nobody is told that alone.

        For that would be said at every look, and hardly any script compares with an empty text.
        """
        return bool(self.renamed or self.besides)

    def warning(self) -> str:
        """What to tell the people whose scripts read it."""
        changes = [f"`{old}` is now `{new}`" for old, new in self.renamed.items()]
        return (
            f"in JSON, {', '.join([*changes, *self.besides, _EMPTY])}; what was there before goes "
            f"with the next version, and {VARIABLE}={SCHEMA} leaves it out today (docs/json.md)"
        )


def _texts(it: Json, *names: str) -> Json:
    """Empty texts, where there is none."""
    return {name: "" for name in names if it[name] is None}


def _event(it: Json) -> Json:
    return {
        **it,
        **_texts(it, "key", "task", "pool", "text"),
        "id": it["seq"],
        "kind": it["event"],
    }


def _message(it: Json) -> Json:
    return {**it, **_texts(it, "key", "task", "pool", "text"), "id": it["work"]}


def _job(it: Json) -> Json:
    """A job as it was shown by itself."""
    state = Word.RUNNING.value if it["state"] == CANCELLING else it["state"]
    return {
        **it,
        **_texts(it, "code", "reason", "key", "task", "name", "label"),
        "state": state,
    }


def _running(it: Json) -> Json:
    return {
        **it,
        **_texts(it, "key", "task", "label", "last_line"),
        "job": it["type"] == JOB,
        "attempt": it["attempts"] or 0,
    }


def _waiting(it: Json) -> Json:
    return {**it, **_texts(it, "key", "task", "label", "pool"), "job": it["type"] == JOB}


def _queue(it: Json) -> Json:
    ended = it["ended"]
    return {
        **it,
        "running": [_running(one) for one in it["running"]],
        "waiting": [_waiting(one) for one in it["waiting"]],
        "aside": [_job(one) for one in it["aside"]],
        "ended": None if ended is None else [_job(one) for one in ended],
    }


def _why(it: Json) -> Json:
    if it["events"] is None:
        found = _running(it) if it["position"] is None else {**_waiting(it), "state": "waiting"}
    elif it["type"] == JOB:
        found = _job(it)
    else:
        found = {**it, **_texts(it, "key", "task", "reason")}
    if it["type"] == JOB:
        runs = it["attempt_list"]
        found["attempts"] = [
            {**run, **_texts(run, "key", "code", "reason", "exit")} for run in runs
        ]
    if it["events"] is not None:
        found["events"] = [_event(one) for one in it["events"]]
    return found


def _status(it: Json) -> Json:
    return {
        **it,
        "pools": [_pool(one) for one in it["pools"]],
        "running": it["total_running"],
        "waiting": it["total_waiting"],
    }


def _pool(it: Json) -> Json:
    upstream = it["upstream"]
    if upstream is not None:
        upstream = {**upstream, **_texts(upstream, "note", "problem")}
    until = BY_HAND if it["paused"] and it["paused_until"] is None else it["paused_until"]
    return {**it, **_texts(it, "short_of"), "paused_until": until, "upstream": upstream}


def _capacity(it: Json) -> Json:
    return {**it, **_texts(it, "key")}


def _plan(it: Json) -> Json:
    return {**it, "candidates": [{**one, **_texts(one, "key", "task")} for one in it["candidates"]]}


def _outcome(it: Json) -> Json:
    if it["error"] is None:
        return it
    return {**it, "id": str(it["id"]), "reason": it["error"]}


def _job_or_outcome(it: Json) -> Json:
    return {**it, "id": str(it["id"])} if "outcome" in it else _job(it)


def _targets(it: Json) -> Json:
    targets = [{**one, "name": one["target"]} for one in it["targets"]]
    for target in targets:
        if "only" in target:
            target["only"] = {name: said for name, said in target["only"].items() if said}
    return {**it, "targets": targets}


def _findings(it: Json) -> Json:
    return {
        **it,
        "problems": it["total_problems"],
        "warnings": it["total_warnings"],
        "findings": [{**one, **_texts(one, "advice")} for one in it["findings"]],
    }


def _copies(it: Json) -> Json:
    return {**it, "rounds": [{**one, "verdict": one["reason"]} for one in it["rounds"]]}


def _requests(it: Json) -> Json:
    return {**it, "kind": it["signal"] or ""}


_WORK = {"job": "type", "attempt": "attempts"}
EVENT = Old({"id": "seq", "kind": "event"}, _event)
MESSAGE = Old({"id": "work"}, _message)
WORK = Old({}, _job)
QUEUE = Old(_WORK, _queue)
WHY = Old(
    {**_WORK, "attempts": "attempt_list"},
    _why,
    (f"`attempts` the count of them, the state `waiting` is now `{Word.QUEUED}`",),
)
_PAUSE = ("a pause without an end has null as `paused_until`",)
STATUS = Old({"running": "total_running", "waiting": "total_waiting"}, _status, _PAUSE)
POOL = Old({}, _pool)
CAPACITY = Old({}, _capacity)
PLAN = Old({}, _plan)
OUTCOME = Old({"reason": "error"}, _outcome)
JOB_OR_OUTCOME = Old({}, _job_or_outcome)
TARGETS = Old({"name": "target"}, _targets)
FINDINGS = Old({"problems": "total_problems", "warnings": "total_warnings"}, _findings)
COPIES = Old({"verdict": "reason"}, _copies)
REQUESTS = Old({"kind": "signal"}, _requests)


def restore(it: Any, old: Old) -> Any:  # noqa: ANN401 - an object, or a list of them
    """A document with its old names, which may be a list of objects."""
    return [old.restore(one) for one in it] if isinstance(it, list) else old.restore(it)
