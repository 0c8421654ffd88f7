"""The watch over an agent whose requests are seen: they tell, and its output does no more."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.config import load
from headgate.config.profiles import all_profiles
from headgate.core.agents.agent_watch import AgentWatch, RequestEnd, RunLimits, WatchVerdict
from headgate.core.agents.find_profile import GENERIC
from headgate.core.answers.builtin_rules import BUILTIN as RULES
from headgate.core.answers.signals import CONCURRENCY, QUOTA, RATE, Signal
from headgate.core.times import Ms, Seconds

PROFILES = {profile.name: profile for profile in all_profiles(load(None))} | {"": GENERIC}
WALL = Seconds(1_790_000_000.0)
MINUTE = Ms(60_000)
BEGAN = Ms(1_000)
STALE = RunLimits(stale_after=MINUTE, park=False)
PATIENT = RunLimits(patience=Ms(90_000))
PRINTED = json.dumps(
    {"type": "system", "subtype": "api_retry", "error_status": 429, "error": "rate_limit"}
)
REFUSED = Signal(RATE)
OWN = "anthropic/claude-opus-4-6"
SERVED = RequestEnd(OWN, 200, served=True)
TOOL = SERVED._replace(tools=("Bash#1",))
FAILED = RequestEnd(OWN, 500, served=False)


def watch(limits: RunLimits = PATIENT, name: str = "claude") -> AgentWatch:
    return AgentWatch(PROFILES[name], limits, RULES, "anthropic", BEGAN)


def code(verdict: WatchVerdict | None) -> str:
    return verdict.code if verdict else ""


# Stalls.


def test_without_a_request_a_byte_or_a_line_it_is_stale() -> None:
    """Each of them is a sign of life; after the last one it has so long, and no longer."""
    it = watch(STALE)
    it.request_begun(Ms(30_000))
    assert it.due(Ms(30_000)) == 90_000
    it.request_begun(Ms(80_000))  # a part of an answer passes
    it.request_ended(Ms(85_000), SERVED, in_tool=False)
    it.feed("a line", Ms(100_000), WALL)
    assert it.due(Ms(100_000)) == 160_000
    assert it.verdict(Ms(159_999)) is None
    verdict = it.verdict(Ms(160_000))
    assert verdict == WatchVerdict(
        "stale", "it wrote and asked nothing for 1m; stale_after is 1m", resumes=True
    )


def test_a_long_answer_in_a_silent_mode_is_no_stall() -> None:
    """The bytes of an answer count, although the agent prints nothing for minutes."""
    it = watch(STALE)
    for now in range(10_000, 600_000, 50_000):
        it.request_begun(Ms(now))
        assert it.verdict(Ms(now + 49_000)) is None


def test_a_long_tool_is_no_stall() -> None:
    """An agent that was told to call a tool may be silent for as long as the tool takes."""
    it = watch(STALE)
    it.request_begun(Ms(10_000))
    it.request_accepted(Ms(11_000))
    it.request_ended(Ms(20_000), TOOL, in_tool=True)
    assert it.due(Ms(20_000)) is None
    assert it.verdict(Ms(7_200_000)) is None
    it.request_begun(Ms(7_200_000))  # the tool is done, and its outcome on its way
    assert it.due(Ms(7_200_000)) == 7_260_000
    assert code(it.verdict(Ms(7_260_000))) == "stale"


def test_an_answer_without_a_tool_is_no_excuse() -> None:
    """An agent that has its answer and then does nothing is stale."""
    it = watch(STALE)
    it.request_begun(Ms(10_000))
    it.request_ended(Ms(20_000), TOOL, in_tool=True)
    it.request_begun(Ms(25_000))
    it.request_ended(Ms(30_000), SERVED, in_tool=False)
    assert code(it.verdict(Ms(89_999))) == ""
    assert code(it.verdict(Ms(90_000))) == "stale"


def test_a_tool_does_not_excuse_from_max_runtime() -> None:
    """Only the silence is excused."""
    it = watch(RunLimits(stale_after=MINUTE, max_runtime=Ms(10 * MINUTE)))
    it.request_begun(Ms(10_000))
    it.request_ended(Ms(20_000), TOOL, in_tool=True)
    assert it.due(Ms(20_000)) == 601_000
    assert code(it.verdict(Ms(601_000))) == "max_runtime"


@pytest.mark.parametrize("status", [500, 401, 200, 0])
def test_who_only_asks_in_vain_is_stale(status: int) -> None:
    """Errors, broken answers and none at all are no progress, however often it asks."""
    it = watch(STALE)
    for now in range(10_000, 70_000, 5_000):
        it.request_begun(Ms(now))
        it.feed("Retrying...", Ms(now), WALL)
        it.request_ended(Ms(now), FAILED._replace(status=status), in_tool=False)
    assert it.verdict(Ms(69_999)) is None
    assert it.due(Ms(69_999)) == 70_000
    said = it.verdict(Ms(70_000))
    assert code(said) == "stale"
    assert said is not None
    assert "it asked in vain for 1m: 12 requests failed" in said.text
    assert (f"the last with {status}" in said.text) == (status >= 400)


def test_two_failures_are_no_stall() -> None:
    """A request that was answered with an error, and one more, say little; a success clears it."""
    it = watch(STALE)
    for now in (10_000, 60_000):
        it.request_ended(Ms(now), FAILED, in_tool=False)
    assert it.verdict(Ms(119_000)) is None
    it.request_ended(Ms(119_000), FAILED, in_tool=False)
    assert code(it.verdict(Ms(119_000))) == "stale"
    it.request_ended(Ms(119_500), SERVED, in_tool=False)
    assert it.verdict(Ms(119_500)) is None


def test_a_helper_that_is_served_is_no_progress() -> None:
    """Titles are written by another model, while the agent's own asks in vain."""
    it = AgentWatch(GENERIC, STALE, RULES, "anthropic", BEGAN, own_key=OWN)
    for now in range(10_000, 80_000, 5_000):
        it.request_ended(Ms(now), FAILED, in_tool=False)
        it.request_ended(Ms(now), SERVED._replace(key="anthropic/claude-haiku-4"), in_tool=False)
    assert code(it.verdict(Ms(80_000))) == "stale"


def test_tool_calls_are_counted_from_answers() -> None:
    """The same call in a row, and all of them; what is printed of them counts no more."""
    it = watch(RunLimits(same_tool_calls=3, max_tool_calls=5), name="claude")
    line = (
        '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{}}]}}'
    )
    it.request_begun(Ms(2_000))
    for _ in range(9):
        it.feed(line, Ms(3_000), WALL)
    for call in ("a#1", "a#1", "b#2"):
        it.request_ended(Ms(4_000), SERVED._replace(tools=(call,)), in_tool=True)
    assert (it.tool_calls, it.verdict(Ms(4_000))) == (3, None)
    it.request_ended(Ms(5_000), SERVED._replace(tools=("b#2", "b#2")), in_tool=True)
    assert code(it.verdict(Ms(5_000))) == "tool_loop"
    it.request_ended(Ms(6_000), SERVED._replace(tools=("c#3",)), in_tool=True)
    assert code(it.verdict(Ms(6_000))) == "tool_calls"


# Refusals.


def test_who_retries_in_vain_is_parked_after_its_patience() -> None:
    """It counts from the first refusal that the agent was told of, however many follow."""
    it = watch()
    for now in range(10_000, 100_000, 5_000):
        it.request_begun(Ms(now))
        it.request_refused(REFUSED, Ms(now))
        it.request_ended(Ms(now), FAILED, in_tool=False)
    assert it.verdict(Ms(99_999)) is None
    assert it.verdict(Ms(100_000)) == WatchVerdict(
        "rate_limited", "upstream refused it (rate-limited), and no progress for 1m30s", park=True
    )


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_its_kind_is_no_matter(name: str) -> None:
    """An agent that prints nothing of its retries gets no more time than one that does."""
    it = watch(name=name)
    it.request_begun(Ms(10_000))
    it.request_refused(Signal(CONCURRENCY), Ms(10_000))
    assert it.due(Ms(10_000)) == 100_000
    assert code(it.verdict(Ms(100_000))) == "rate_limited"


def test_an_acceptance_clears_it() -> None:
    """The next refusal starts anew; what is printed meanwhile clears nothing."""
    it = watch()
    it.request_begun(Ms(10_000))
    it.request_refused(REFUSED, Ms(10_000))
    it.feed("I will try that again.", Ms(50_000), WALL)
    assert it.due(Ms(50_000)) == 100_000
    it.request_accepted(Ms(60_000))
    assert (it.refused_at, it.retry_after) == (None, None)
    assert it.verdict(Ms(900_000)) is None
    it.request_refused(REFUSED, Ms(900_000))
    assert it.due(Ms(900_000)) == 990_000


def test_a_refusal_that_outlasts_its_patience_parks_at_once() -> None:
    """There is nothing to wait for; a quota that says when it is back is waited for by the job."""
    it = watch()
    it.request_begun(Ms(10_000))
    it.request_refused(Signal(QUOTA, Ms(3_600_000)), Ms(10_000))
    verdict = it.verdict(Ms(10_000))
    assert verdict is not None
    assert (verdict.code, verdict.park, verdict.awaits_quota) == ("rate_limited", True, True)
    assert it.retry_after == 3_600_000
    it.request_accepted(Ms(10_500))  # another of its requests was, in the meantime
    assert it.verdict(Ms(10_500)) is None


@pytest.mark.parametrize("wait", [None, Ms(1_000), Ms(90_000)])
def test_a_shorter_one_does_not(wait: Ms | None) -> None:
    """One that ends within its patience, or does not say when, leaves the agent its time."""
    it = watch()
    it.request_begun(Ms(10_000))
    it.request_refused(Signal(RATE, wait), Ms(10_000))
    assert it.verdict(Ms(10_000)) is None
    assert code(it.verdict(Ms(100_000))) == "rate_limited"


def test_who_may_not_be_parked_is_not() -> None:
    """Without `park` it goes on, and its own end decides."""
    it = watch(RunLimits(park=False))
    it.request_begun(Ms(10_000))
    it.request_refused(Signal(QUOTA, Ms(3_600_000)), Ms(10_000))
    assert it.verdict(Ms(10**9)) is None


# What is printed.


def test_printed_refusals_decide_nothing_once_a_request_was_seen() -> None:
    """They are no signals, and no reason to park, however long they go on."""
    it = watch()
    it.request_begun(Ms(2_000))
    it.request_accepted(Ms(3_000))
    for now in range(10_000, 500_000, 5_000):
        assert it.feed(PRINTED, Ms(now), WALL) is None
    assert it.verdict(Ms(500_000)) is None
    assert it.outcome(1, 0) is None
    assert it.confirmed is None


def test_before_that_they_do() -> None:
    """An agent that asks by a way of its own is judged by its output, as without a wire."""
    it = watch()
    signal = it.feed(PRINTED, Ms(10_000), WALL)
    assert signal is not None
    assert signal.kind == RATE
    assert code(it.verdict(Ms(100_000))) == "rate_limited"


def test_its_session_and_its_end_are_still_read() -> None:
    """Only what it says of upstream is told by the wire; the rest is told by its output."""
    it = watch()
    it.request_begun(Ms(2_000))
    it.feed('{"type":"system","subtype":"init","session_id":"s-1"}', Ms(3_000), WALL)
    it.feed('{"type":"result","subtype":"success","is_error":false,"result":"ok"}', Ms(4_000), WALL)
    assert (it.session, it.finished) == ("s-1", True)


KINDS = ("begun", "accepted", "refused", "long", "ended", "failed", "tool", "line", "printed")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 200_000),
    ),
    max_size=30,
)


@given(STEPS)
def test_nothing_is_due_before_the_verdict(steps: list[tuple[str, int]]) -> None:
    """Whatever happens: until `due` the verdict is None, and at `due` it may be something else."""
    it, now = watch(RunLimits(stale_after=MINUTE, patience=Ms(90_000))), BEGAN
    for what, later in steps:
        now = Ms(now + later)
        match what:
            case "begun":
                it.request_begun(now)
            case "accepted":
                it.request_accepted(now)
            case "refused":
                it.request_refused(REFUSED, now)
            case "long":
                it.request_refused(Signal(QUOTA, Ms(10**7)), now)
            case "ended":
                it.request_ended(now, SERVED, in_tool=False)
            case "failed":
                it.request_ended(now, FAILED, in_tool=False)
            case "tool":
                it.request_ended(now, TOOL, in_tool=True)
            case _:
                it.feed(PRINTED if what == "printed" else "a line", now, WALL)
        due = it.due(now)
        assert (due == now) == (it.verdict(now) is not None)
        if due is not None and due > now:
            assert it.verdict(Ms(due - 1)) is None
            assert it.verdict(due) is not None
