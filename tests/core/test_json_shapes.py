"""JSON objects: the names of docs/json.md, in their order, and valid whatever is in them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.admission.candidates import Plan, Verdict
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import (
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
    UpstreamStatus,
    Waiting,
)
from headgate.core.notification_targets import NotifyTarget
from headgate.core.times import Ms, Seconds
from headgate.errors import UsageError
from headgate.notify import lacks, message

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCS, re.MULTILINE | re.DOTALL))
OPUS = "anthropic/claude-opus-4-6"
FULL = "*/claude-opus-* is full (4/4)"
NOON = Seconds(1_769_860_800.0)
HAPPENED = Event(7, NOON, "failed", 31, OPUS, "oracle-2", "", "exit 1", "review")
PAUSED = Event(9, NOON, "paused", None, "", "", "anthropic", "for 20m: rate-limited")
JOB = JobStatus(
    id=31,
    state="queued",
    code="pool_full",
    reason=FULL,
    key=OPUS,
    task="oracle-2",
    name="review",
    label="claude",
    priority=0,
    weight=1,
    position=2,
    eta=Seconds(180.0),
    submitted=NOON,
    started=None,
    ended=None,
    due=Seconds(NOON + 86_400),
    attempts=0,
    exit="",
    pid=0,
    pool="*/claude-opus-*",
    since=NOON,
    waited=Seconds(60.0),
)
WAITS = Waiting(
    *(31, OPUS, "oracle-2", 0, 1, "claude", 2, "pool_full", "*/claude-opus-*", FULL),
    *(Seconds(180.0), NOON, Seconds(60.0), "job"),
)
RUNS = Running(
    31,
    OPUS,
    "oracle-2",
    0,
    1,
    "claude",
    "running",
    NOON,
    Seconds(60.0),
    4711,
    None,
    "job",
    2,
)
RUN = AttemptStatus(1, OPUS, NOON, Seconds(NOON + 60), "exit", "exit 1", "1:0")
ASKED = RequestStatus(
    at=NOON,
    key=OPUS,
    task="",
    outcome="complete",
    status=200,
    waited=Seconds(2.0),
    first_byte=Seconds(2.9),
    took=Seconds(8.5),
    input_tokens=12_000,
    output_tokens=310,
    cached_tokens=9_000,
    tries=2,
)
METERED = Metered(
    meter="wire",
    reason="--meter says so",
    hint="",
    requests=1,
    refused=1,
    waited=Seconds(2.0),
    took=Seconds(8.5),
    input_tokens=12_000,
    output_tokens=310,
    cached_tokens=9_000,
    last_requests=(ASKED,),
)
UPSTREAM = UpstreamStatus(True, 2.5, 4, None, 3, 4, Seconds(1.5), Ms(900), False, "", "")
POOL = PoolStatus(
    *("host", 3, 3, "default", 1, 0, 2, True, None, Ms(0), None, {"interactive": 1}),
    upstream=UPSTREAM,
)
ROOM = Capacity(OPUS, "full", 0, 2, Seconds(5.0), Seconds(95.0), FULL, "pool_full")
PLAN = Plan((Verdict("start", "x", "", "", 0, 1),), NOON)
NAMES = {
    "Event": json_shapes.EVENT,
    "Message": json_shapes.MESSAGE,
    "Work": json_shapes.WORK,
    "Queue": json_shapes.QUEUE,
    "History": json_shapes.HISTORY,
    "Metered": json_shapes.METERED,
    "Request": json_shapes.REQUEST,
    "Attempt": json_shapes.ATTEMPT,
    "Outcome": json_shapes.OUTCOME,
    "Status": json_shapes.STATUS,
    "Pool": json_shapes.POOL,
    "Upstream": UpstreamStatus._fields,
    "Settings": json_shapes.SETTINGS,
    "Capacity": json_shapes.CAPACITY,
    "Plan": json_shapes.PLAN,
    "Verdict": json_shapes.VERDICT,
}


def told(event: Event, *, only_new: bool = True) -> dict[str, Any]:
    return {**message.message(event, "ci", "4d745f25-812", only_new=only_new), "host": "build-1"}


EXAMPLES = {
    "Event": json_shapes.document(json_shapes.event(HAPPENED)),
    "Message": told(PAUSED),
    "Work": json_shapes.document(json_shapes.work(JOB)),
    "Attempt": json_shapes.history({}, (), (), [RUN])["attempt_list"][0],
    "Request": json_shapes.metered(METERED)["last_requests"][0],
    "Outcome": json_shapes.document(
        json_shapes.outcome("77", "failed", "there is no job 77; see headgate queue")
    ),
    "Capacity": json_shapes.document(json_shapes.capacity(ROOM)),
}


def test_the_page_names_each_name_in_its_order() -> None:
    """The table of each object in docs/json.md is that of the code."""
    for section, names in NAMES.items():
        rows = re.findall(r"^\| (`.*?`) \|", SECTIONS[section], re.MULTILINE)
        assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(names)


def test_the_examples_of_the_page_are_true() -> None:
    """What docs/json.md shows is what comes out, to the order of the names."""
    for section, example in EXAMPLES.items():
        (text,) = re.findall(r"```json\n(.*?)```", SECTIONS[section], re.DOTALL)
        assert list(json.loads(text).items()) == list(example.items())


def test_every_shape_has_all_its_names() -> None:
    """Whatever is known of a thing, its object has the same names in the same order."""
    slot = RUNS._replace(type="slot", attempts=0)
    past = json_shapes.past_work(1, [HAPPENED])
    for found in (
        json_shapes.work(JOB),
        json_shapes.work(WAITS),
        json_shapes.work(RUNS, JOB),
        past,
    ):
        assert tuple(found) == json_shapes.WORK
    assert json_shapes.work(slot)["attempts"] is None
    assert tuple(json_shapes.history(past, [], None, [])) == (
        *json_shapes.WORK,
        *json_shapes.HISTORY,
    )
    assert json_shapes.history(past, [], None, [])["metered"] is None
    metered = json_shapes.history(past, [], None, [], meter=METERED)["metered"]
    assert tuple(metered) == json_shapes.METERED
    assert tuple(metered["last_requests"][0]) == json_shapes.REQUEST
    queue = Queue((RUNS,), (WAITS,), 1, (JOB,), 1, (JOB,))
    assert tuple(json_shapes.queue(queue, 1)) == json_shapes.QUEUE
    assert tuple(json_shapes.status(Status((POOL,), 1, 2, {}, NOON))) == json_shapes.STATUS
    assert tuple(json_shapes.pool(POOL)) == json_shapes.POOL
    assert tuple(json_shapes.pool(POOL)["upstream"]) == UpstreamStatus._fields
    assert tuple(json_shapes.settings(POOL)) == json_shapes.SETTINGS
    assert tuple(json_shapes.plan(PLAN, [])) == json_shapes.PLAN
    assert tuple(json_shapes.verdict(PLAN.verdicts[0], 1, {"id": 4})) == json_shapes.VERDICT
    assert tuple(told(HAPPENED)) == ("schema", *json_shapes.MESSAGE)


def test_what_is_known_of_a_job_is_shown_with_its_place() -> None:
    """The line knows where it stands, the job what it is called; in the line it is queued."""
    found = json_shapes.work(WAITS, JOB._replace(state="parked", code="rate_limited", attempts=3))
    assert (found["state"], found["code"], found["position"]) == ("queued", "pool_full", 2)
    assert (found["name"], found["attempts"]) == ("review", 3)
    assert json_shapes.work(WAITS, JOB._replace(state="running"))["state"] == "queued"
    ending = JOB._replace(state="running", code="cancelling", reason="by hand")
    assert (
        json_shapes.work(ending)["state"] == json_shapes.work(RUNS, ending)["state"] == "cancelling"
    )
    assert json_shapes.work(RUNS._replace(state="orphaned"), JOB)["state"] == "orphaned"


def test_old_names_stand_beside_the_new_ones() -> None:
    """For a while an object has both; a message's `id` was that of the work."""
    event = old_json_names.EVENT.restore(json_shapes.event(PAUSED))
    assert (event["id"], event["kind"], event["task"]) == (9, "paused", "")
    assert told(HAPPENED, only_new=False)["id"] == 31
    assert told(PAUSED, only_new=False)["key"] == ""
    status = old_json_names.STATUS.restore(json_shapes.status(Status((POOL,), 1, 2, {}, NOON)))
    assert (status["running"], status["waiting"]) == (1, 2)
    assert status["pools"][0]["paused_until"] == "resumed by hand"
    ending = json_shapes.work(JOB._replace(state="running", code="cancelling"))
    assert old_json_names.WORK.restore(ending)["state"] == "running"
    running = old_json_names.QUEUE.restore(json_shapes.queue(Queue((RUNS,), (), 0), 1))["running"][
        0
    ]
    assert (running["job"], running["attempt"]) == (True, 2)


@pytest.mark.parametrize(
    "view, old, new",
    [
        (HAPPENED, "id", 7),
        (HAPPENED, "kind", "failed"),
        (RUNS, "attempt", 2),
        (RUNS, "job", True),
        (WAITS, "job", True),
        (Status((), 3, 4, {}, NOON), "running", 3),
        (Status((), 3, 4, {}, NOON), "waiting", 4),
    ],
)
def test_old_attributes_warn(view: object, old: str, new: object) -> None:
    """They still work in Python, and say what to use."""
    with pytest.warns(DeprecationWarning, match=rf"\.{old} is now \w+\.\w+; .* next version"):
        assert getattr(view, old) == new


@given(st.text(st.characters(exclude_categories=()), max_size=50), st.integers(-(10**14), 10**14))
def test_whatever_is_in_it_comes_out_as_json(text: str, at: int) -> None:
    """Control characters and halves of characters too; a time of any year is one of ours."""
    event = Event(1, Seconds(at / 10), text or "x", None, text, text, text, text)
    for found in (
        json_shapes.event(event),
        old_json_names.EVENT.restore(json_shapes.event(event)),
        told(event),
    ):
        encoded = json_shapes.encode(found)
        assert encoded.isascii()
        again = json.loads(encoded)
        assert json.dumps(again, ensure_ascii=False).encode()  # no half of a pair is left
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", again["at"])


def test_plain_text_is_left_as_it_is() -> None:
    """Only what is no character is replaced; pairs become the character they stand for."""
    kept = "\x1b日本語\ufeff😀\u202e" + "A" * 1_000_000
    assert json.loads(json_shapes.encode({"a": [kept, "\ud800", "\udc00x"]})) == {
        "a": [kept, "\ufffd", "\ufffdx"]
    }


@pytest.mark.parametrize("said, only_new", [("", False), (" ", False), ("1", True), (" 1 ", True)])
def test_the_variable(said: str, only_new: bool) -> None:  # noqa: FBT001 - a case
    """Unset or empty means both, 1 only the new names."""
    assert json_shapes.only_new(said) is only_new


@pytest.mark.parametrize("said", ["0", "2", "true", "1\n2", "x" * 1000])
def test_a_bad_variable(said: str) -> None:
    """The message names the variable, what it is and what it may be; a target lacks a good one."""
    expected = r"bad HEADGATE_SCHEMA '.{0,60}': expected 1, or leave it unset"
    with pytest.raises(UsageError, match=expected):
        json_shapes.only_new(said)
    environ = {"HEADGATE_SCHEMA": said}
    assert re.fullmatch(expected, lacks(NotifyTarget("t", command=("true",)), environ))
