"""The watch over an agent's output: what is a signal, who is a zombie, how an end is judged."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.config import load
from headgate.config.profile_fields import BUILTIN
from headgate.config.profiles import all_profiles
from headgate.core.agents.agent_watch import AgentWatch, RunLimits, WatchVerdict
from headgate.core.agents.find_profile import GENERIC, Profile
from headgate.core.agents.run_limits import JobPolicy, warnings
from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.builtin_rules import BUILTIN as RULES
from headgate.core.answers.signals import CONCURRENCY, QUOTA, RATE
from headgate.core.times import Ms, Seconds

PROFILES = {profile.name: profile for profile in all_profiles(load(None))} | {"": GENERIC}
WALL = Seconds(1_790_000_000.0)
MINUTE = Ms(60_000)

RETRY = json.dumps(
    {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 1,
        "retry_delay_ms": 5_000,
        "error_status": 429,
        "error": "rate_limit",
        "session_id": "s-1",
    }
)
INIT = '{"type":"system","subtype":"init","session_id":"s-1"}'
WORK = '{"type":"assistant","message":{"content":[]},"session_id":"s-1"}'
REFUSED = (
    '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,'
    '"result":"API Error: Request rejected (429)"}'
)
DONE = '{"type":"result","subtype":"success","is_error":false,"result":"done"}'
PLAIN = "API Error: Request rejected (429)"
OTHER = "litellm.RateLimitError: too many"
ATTEMPT = "Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {}"


def agent_watch(
    name: str = "claude",
    terms: RunLimits | None = None,
    provider: str = "anthropic",
    *,
    events: bool = True,
) -> AgentWatch:
    profile, limits = PROFILES[name], terms or RunLimits()
    return AgentWatch(profile, limits, RULES, provider, Ms(1_000), writes_events=events)


def call(command: str, name: str = "Bash") -> str:
    block = {"type": "tool_use", "name": name, "input": {"command": command}}
    return json.dumps({"type": "assistant", "message": {"content": [block]}})


def code(verdict: WatchVerdict | None) -> str:
    return verdict.code if verdict else ""


# Refusals.


def test_a_refusal_is_a_signal_and_no_end() -> None:
    """The line is reported at once; the agent may try to help itself."""
    watch = agent_watch()
    signal = watch.feed(RETRY, Ms(2_000), WALL)
    assert signal
    assert (signal.kind, signal.retry_after) == (RATE, 5_000)
    assert (watch.refused_at, watch.retry_after) == (2_000, 5_000)
    assert watch.verdict(Ms(2_000)) is None
    assert watch.due(Ms(2_000)) == 92_000


def test_other_lines_are_no_signals() -> None:
    """Work, text and blank lines say nothing to a pool."""
    watch = agent_watch()
    assert [watch.feed(line, Ms(1), WALL) for line in (INIT, WORK, "hello", "", " ")] == [None] * 5


def test_an_agent_that_only_retries_is_a_zombie() -> None:
    """Its patience counts from the first refusal, however many follow, and its job is parked."""
    watch = agent_watch()
    watch.feed(INIT, Ms(1_000), WALL)
    for now in range(10_000, 100_000, 5_000):
        watch.feed(RETRY, Ms(now), WALL)
    assert watch.verdict(Ms(99_999)) is None
    verdict = watch.verdict(Ms(100_000))
    assert verdict == WatchVerdict(
        "rate_limited",
        "upstream refused it (rate-limited), and no progress for 1m30s",
        park=True,
        not_before=Ms(5_000),
    )
    assert watch.due(Ms(100_000)) == 100_000


def test_progress_clears_the_suspicion() -> None:
    """An agent that goes on is no zombie; the next refusal starts anew."""
    watch = agent_watch()
    watch.feed(RETRY, Ms(10_000), WALL)
    watch.feed(WORK, Ms(50_000), WALL)
    assert (watch.refused_at, watch.retry_after) == (None, None)
    assert watch.due(Ms(50_000)) is None
    assert watch.verdict(Ms(500_000)) is None
    watch.feed(RETRY, Ms(600_000), WALL)
    assert watch.due(Ms(600_000)) == 690_000


@pytest.mark.parametrize(
    "line",
    [
        INIT,
        '{"type":"system","subtype":"api_retry","error_status":500}',
        '{"type":"assistant","error":"rate_limit","message":{"model":"<synthetic>"}}',
        "stack trace",
        "",
    ],
)
def test_what_is_no_progress_does_not_clear_it(line: str) -> None:
    """Notices, synthetic messages, and text beside events show no work."""
    watch = agent_watch()
    watch.feed(RETRY, Ms(0), WALL)
    watch.feed(line, Ms(60_000), WALL)
    assert code(watch.verdict(Ms(90_000))) == "rate_limited"


def test_text_right_after_a_refusal_belongs_to_it() -> None:
    """A hint below an error is not progress; a later line is."""
    mine = Rule("mine", CONCURRENCY, line="seats gone")
    watch = AgentWatch(GENERIC, RunLimits(), (mine, *RULES), "", Ms(0))
    watch.feed("seats gone", Ms(1_000), WALL)
    watch.feed("see https://example.com/limits", Ms(1_001), WALL)
    assert watch.refused_at == 1_000
    watch.feed("going on", Ms(3_000), WALL)
    assert watch.refused_at is None


def test_a_stack_trace_is_no_progress() -> None:
    """What gemini writes below a refusal may come late and still shows no work."""
    watch = agent_watch("gemini")
    watch.feed(ATTEMPT, Ms(0), WALL)
    for line in ("    at async x (file:///y.js:1:2) {", "  status: 429", "}"):
        watch.feed(line, Ms(5_000), WALL)
    assert watch.refused_at == 0


def test_the_silence_of_a_silent_agent_proves_little() -> None:
    """Its text shows no work: it is ended when refused again, or after a long silence."""
    watch = agent_watch("gemini")
    watch.feed(ATTEMPT, Ms(0), WALL)
    assert watch.verdict(Ms(100_000)) is None
    assert watch.due(Ms(100_000)) == 360_000
    watch.feed(ATTEMPT, Ms(95_000), WALL)
    assert code(watch.verdict(Ms(95_000))) == "rate_limited"


def test_events_end_that_leniency() -> None:
    """Where there are events, silence is silence."""
    watch = agent_watch("gemini")
    watch.feed('{"type":"init","session_id":"s"}', Ms(0), WALL)
    watch.feed(ATTEMPT, Ms(0), WALL)
    assert watch.due(Ms(0)) == 90_000


def test_without_parking_a_zombie_is_left_alone() -> None:
    """Signals are still reported; only budgets end it."""
    watch = agent_watch(terms=RunLimits(park=False, max_runtime=Ms(10 * MINUTE)))
    assert watch.feed(RETRY, Ms(2_000), WALL)
    assert watch.verdict(Ms(5 * MINUTE)) is None
    assert watch.due(Ms(2_000)) == 1_000 + 10 * MINUTE
    assert code(watch.verdict(Ms(11 * MINUTE))) == "max_runtime"


def test_rules_of_the_user_count() -> None:
    """A rule for the agent's own lines makes them refusals; one for others' does not."""
    mine = Rule("mine", CONCURRENCY, profile="robo", line="seats gone")
    others = Rule("others", CONCURRENCY, profile="claude", line="no luck")
    watch = AgentWatch(Profile("robo"), RunLimits(), (mine, others, *RULES), "", Ms(0))
    signal = watch.feed("seats gone", Ms(1), WALL)
    assert signal
    assert signal.kind == CONCURRENCY
    assert watch.feed("no luck", Ms(2), WALL) is None


def test_a_profile_that_is_like_another_knows_its_lines() -> None:
    """The rules for claude hold for what speaks like it, and not for the rest."""
    alike = PROFILES["claude"]._replace(name="mine", speaks="claude")
    for profile, parked in ((alike, True), (PROFILES["codex"], False)):
        watch = AgentWatch(profile, RunLimits(), RULES, "", Ms(0))
        watch.feed(PLAIN, Ms(1), WALL)
        assert bool(watch.outcome(1, 0)) is parked


def test_when_to_come_back_is_read_by_the_wall_clock() -> None:
    """A moment becomes a number of milliseconds."""
    watch = agent_watch()
    assert not watch.feed(f"Claude AI usage limit reached|{int(WALL) + 60}", Ms(5), WALL)
    assert watch.outcome(1, 0)
    assert watch.confirmed
    assert (watch.confirmed.kind, watch.retry_after) == (QUOTA, 60_000)


# How it ends.


@pytest.mark.parametrize(
    "name, lines, exit_code, parked",
    [
        ("claude", [RETRY, REFUSED], 1, True),
        ("claude", [REFUSED], 0, True),
        ("claude", [RETRY, WORK, DONE], 0, False),
        ("claude", [RETRY, WORK], 1, False),
        ("claude", [WORK, DONE], 0, False),
        ("claude", [PLAIN], 1, True),
        ("claude", [PLAIN], 0, False),
        ("", [PLAIN], 1, False),
        ("", [RETRY, REFUSED], 1, False),
        ("claude", [PLAIN, "see the docs"], 1, True),
        ("claude", [PLAIN, WORK], 1, False),
        ("claude", [PLAIN], 143, False),
        ("aider", [OTHER, "Tokens: 2k sent"], 0, False),
        ("sdk", [OTHER], 1, True),
        ("sdk", [OTHER], 0, False),
        ("", [PLAIN], 0, False),
        ("", ["fine"], 1, False),
        ("", [], 1, False),
        ("aider", [OTHER], 0, True),
        ("codex", ["ERROR: exceeded retry limit, last status: 429 Too Many Requests"], 1, True),
        ("opencode", ["\x1b[91m\x1b[1mError: \x1b[0mToo Many Requests"], 1, True),
    ],
)
def test_an_end_by_a_refusal_is_parked(
    name: str, lines: list[str], exit_code: int, parked: object
) -> None:
    """With failure, or with 0 where an event (or a profile) says that it is not true."""
    watch = agent_watch(name)
    for number, line in enumerate(lines):
        watch.feed(line, Ms(1_000 + number * 200), WALL)
    verdict = watch.outcome(exit_code, 0)
    assert bool(verdict) is parked
    if verdict:
        assert (verdict.code, verdict.park) == ("rate_limited", True)


@pytest.mark.parametrize(
    "name, line",
    [
        ("claude", PLAIN),
        ("claude", RETRY),
        ("claude", REFUSED),
        ("codex", "ERROR: exceeded retry limit, last status: 429 Too Many Requests"),
        ("codex", '{"type":"error","message":"Quota exceeded."}'),
        ("gemini", ATTEMPT),
        ("opencode", "Error: Too Many Requests"),
        ("aider", OTHER),
    ],
)
def test_in_a_run_that_writes_text_a_refusal_is_suspected(name: str, line: str) -> None:
    """It closes nothing, ends nothing, and counts only with an exit that is known and a failure."""
    for end, parked in (((1, 0), True), ((None, 0), False), ((0, 0), False), ((0, 9), False)):
        watch = agent_watch(name, events=False)
        assert watch.feed(line, Ms(1_000), WALL) is None
        assert watch.feed(line, Ms(200_000), WALL) is None
        assert watch.due(Ms(200_000)) is None
        assert watch.verdict(Ms(10**9)) is None
        lies = name == "aider" and end == (0, 0)
        assert bool(watch.outcome(*end)) is (parked or lies)
        assert bool(watch.confirmed) is (parked or lies)


def test_an_event_in_an_answer_is_nobodys() -> None:
    """In a run that writes text it names no session, calls no tool and ends no text's suspicion."""
    watch = agent_watch(events=False, terms=RunLimits(same_tool_calls=3, max_tool_calls=3))
    for line in (INIT, *[call("ls")] * 9, PLAIN, WORK):
        watch.feed(line, Ms(1), WALL)
    assert (watch.session, watch.tool_calls, watch.verdict(Ms(2))) == ("", 0, None)
    assert watch.outcome(1, 0)
    watch = agent_watch("opencode", events=False)
    watch.feed("the log says session.id=ses_1, so I resumed it", Ms(1), WALL)
    assert not watch.session


def test_many_lines_after_a_suspicion_are_an_answer() -> None:
    """An error has a hint below it, or a stack trace; what goes on for longer was content."""
    for count, parked in ((5, True), (50, False)):
        watch = agent_watch(events=False)
        watch.feed(PLAIN, Ms(1_000), WALL)
        for _ in range(count):
            watch.feed("and so on", Ms(1_001), WALL)
        assert bool(watch.outcome(1, 0)) is parked


def test_text_beside_events_counts_where_the_profile_says_so() -> None:
    """The log of opencode and the stderr of gemini are their own; text beside others' is not."""
    log = 'timestamp=2026-11-16T01:35:42Z level=ERROR run=6 message="stream error" x error="'
    assert agent_watch("opencode").feed(f'{log}AI_APICallError: Overloaded"', Ms(1), WALL)
    assert agent_watch("gemini").feed(ATTEMPT, Ms(1), WALL)
    assert agent_watch("gemini", events=False).feed(ATTEMPT, Ms(1), WALL, stderr=True)
    assert not agent_watch("codex", events=False).feed(
        "ERROR: Quota exceeded. Check your plan", Ms(1), WALL, stderr=True
    )
    assert not agent_watch("claude").feed(PLAIN, Ms(1), WALL)


@pytest.mark.parametrize(
    "name, lines, failure",
    [
        (
            "claude",
            ['{"type":"result","is_error":true,"api_error_status":401,"result":"x"}'],
            "401",
        ),
        ("claude", ["Invalid API key · Please run /login"], "login"),
        ("claude", ['API Error: 404 {"error":{"type":"not_found_error"}}'], "no such model"),
        ("claude", [PLAIN, "API Error: 400 your prompt is too long"], "(400)"),
        (
            "claude",
            [RETRY, '{"type":"result","is_error":true,"api_error_status":404,"result":"x"}'],
            "404",
        ),
        ("claude", ["There's an issue with the selected model (opis)."], "no such model"),
        ("codex", ["ERROR: unexpected status 401 Unauthorized: Missing bearer"], "login (401)"),
        (
            "codex",
            ['{"type":"turn.failed","error":{"message":"unexpected status 404 Not Found: x"}}'],
            "(404)",
        ),
        ("gemini", ["[API Error: API key not valid. Please pass a valid API key.]"], "login"),
        ("gemini", ['[API Error: [{"error": {"code": 404, "message": "models/x"}}]]'], "(404)"),
        ("opencode", ["Error: Model not found: anthropic/opis."], "no such model"),
        (
            "opencode",
            [
                '{"type":"error","error":{"name":"APIError","data":{"statusCode":401,"message":"k"}}}'
            ],
            "login (401)",
        ),
        ("aider", ["litellm.AuthenticationError: x"], "login"),
        ("sdk", ["openai.NotFoundError: Error code: 404 - {'error': 1}"], "no such model"),
        ("", ["API Error: 401 x", "litellm.AuthenticationError: x"], ""),
        ("claude", ["API Error: 401 x", *["fine"] * 3], "401"),
        (
            "claude",
            ['{"type":"result","is_error":true,"api_error_status":401,"result":"x"}', DONE],
            "",
        ),
    ],
)
def test_another_failure_is_remembered(name: str, lines: list[str], failure: str) -> None:
    """A wrong key or model is what its end is blamed on, and no refusal, whatever came before."""
    watch = agent_watch(name, events=lines[0].startswith("{"))
    for line in lines:
        watch.feed(line, Ms(1_000), WALL)
    assert failure in watch.failure
    assert bool(failure) == bool(watch.failure)
    assert watch.outcome(1, 0) is None


def test_without_parking_only_a_lie_is_corrected() -> None:
    """A failure is one by its code; an exit 0 after a refusal is none, but is not parked."""
    watch = agent_watch(terms=RunLimits(park=False))
    watch.feed(REFUSED, Ms(2_000), WALL)
    assert watch.outcome(1, 0) is None
    verdict = watch.outcome(0, 0)
    assert verdict
    assert (verdict.code, verdict.park) == ("rate_limited", False)


@pytest.mark.parametrize("exit_code, signal", [(0, 0), (143, 0), (0, 15)])
def test_an_agent_that_was_ended_is_judged_by_the_verdict(exit_code: int, signal: int) -> None:
    """Some exit with 0 when they are terminated."""
    watch = agent_watch("gemini")
    watch.feed(ATTEMPT, Ms(0), WALL)
    verdict = watch.verdict(Ms(360_000))
    assert verdict
    assert watch.outcome(exit_code, signal) == verdict


def test_an_agent_that_makes_it_after_all_is_judged_by_its_code() -> None:
    """Progress between the verdict and the end is progress."""
    watch = agent_watch()
    watch.feed(RETRY, Ms(0), WALL)
    assert watch.verdict(Ms(90_000))
    watch.feed(DONE, Ms(90_100), WALL)
    assert watch.outcome(0, 0) is None


# Stalls and budgets.


def test_by_default_nothing_but_a_refusal_or_a_loop_ends_an_agent() -> None:
    """A healthy agent may be silent and run for days."""
    watch = agent_watch()
    for number in range(5_000):
        watch.feed(call(f"step {number}"), Ms(number), WALL)
    assert watch.tool_calls == 5_000
    assert watch.verdict(Ms(10 * 86_400_000)) is None
    assert watch.due(Ms(5_000)) is None


def test_an_agent_that_writes_nothing_is_stale() -> None:
    """Any output counts, and the clock starts with the agent."""
    watch = agent_watch(terms=RunLimits(stale_after=Ms(10 * MINUTE)))
    assert watch.due(Ms(1_000)) == 1_000 + 10 * MINUTE
    watch.feed("", Ms(5 * MINUTE), WALL)
    assert watch.verdict(Ms(15 * MINUTE - 1)) is None
    verdict = watch.verdict(Ms(15 * MINUTE))
    assert verdict == WatchVerdict(
        "stale", "it wrote nothing for 10m; stale_after is 10m", resumes=True
    )
    assert watch.outcome(143, 15) == verdict


def test_silence_after_a_refusal_is_a_matter_of_the_refusal() -> None:
    """A stale agent that was refused is parked, not failed."""
    watch = agent_watch(terms=RunLimits(patience=Ms(30 * MINUTE), stale_after=Ms(10 * MINUTE)))
    watch.feed(RETRY, Ms(0), WALL)
    assert watch.due(Ms(0)) == 10 * MINUTE
    assert code(watch.verdict(Ms(10 * MINUTE))) == "rate_limited"


def test_an_agent_may_run_for_a_given_time() -> None:
    """From its start, whatever it writes."""
    watch = agent_watch(terms=RunLimits(max_runtime=MINUTE))
    watch.feed(WORK, Ms(60_500), WALL)
    assert watch.verdict(Ms(60_999)) is None
    assert watch.due(Ms(60_999)) == 61_000
    assert watch.verdict(Ms(61_000)) == WatchVerdict(
        "max_runtime", "it ran for 1m; max_runtime is 1m", resumes=True
    )


def test_an_agent_may_make_a_given_number_of_tool_calls() -> None:
    """The one after the last ends it."""
    watch = agent_watch(terms=RunLimits(max_tool_calls=2))
    for number in range(2):
        watch.feed(call(str(number)), Ms(number), WALL)
    assert watch.verdict(Ms(3)) is None
    watch.feed(call("3"), Ms(4), WALL)
    assert watch.verdict(Ms(5)) == WatchVerdict(
        "tool_calls", "it made 3 tool calls; max_tool_calls is 2", resumes=True
    )


def test_the_same_tool_call_again_and_again_is_a_loop() -> None:
    """Only in a row: another call in between starts the count anew."""
    watch = agent_watch(terms=RunLimits(same_tool_calls=3))
    for command in ("ls", "ls", "pwd", "ls", "ls"):
        watch.feed(call(command), Ms(1), WALL)
    assert watch.verdict(Ms(2)) is None
    watch.feed(call("ls"), Ms(3), WALL)
    assert watch.verdict(Ms(4)) == WatchVerdict(
        "tool_loop", "it made the same call of Bash 3 times in a row; same_tool_calls is 3"
    )


def test_a_tool_that_polls_makes_no_loop() -> None:
    """To ask for the output of a long command again and again is what it is for."""
    watch = agent_watch(terms=RunLimits(same_tool_calls=3))
    for _ in range(10):
        watch.feed(call("id 1", "TaskOutput"), Ms(1), WALL)
    assert watch.verdict(Ms(2)) is None
    assert watch.tool_calls == 10


def test_loops_can_be_left_alone() -> None:
    """Off is off."""
    watch = agent_watch(terms=RunLimits(same_tool_calls=None))
    for _ in range(200):
        watch.feed(call("ls"), Ms(1), WALL)
    assert watch.verdict(Ms(2)) is None


# What is remembered.


def test_the_first_session_is_kept() -> None:
    """What a tool prints later does not change it."""
    watch = agent_watch()
    for line in ("no session here", INIT, INIT.replace("s-1", "s-2")):
        watch.feed(line, Ms(1), WALL)
    assert watch.session == "s-1"


@pytest.mark.parametrize(
    "lines, shown",
    [
        ([], ""),
        (["one", "two"], "two"),
        (["one", "", "  ", "\x1b[0m", "\x00"], "one"),
        (["  \x1b[31mred\x1b[0m\ttext\r"], "red text"),
        (["\x1b]0;title\x07x\x1b(By"], "xy"),
        (["a" * 10_000], "a" * 200),
        (["\udc80bad \u202eevil"], "bad  evil"),
        (["key sk-ant-api03-abcdefgh is bad"], "key (hidden) is bad"),
        (["https://me:secret@host/"], "https://(hidden)@host/"),
        (["Authorization: Bearer abc.def"], "Authorization: Bearer (hidden)"),
    ],
)
def test_the_last_line_is_fit_to_be_shown(lines: list[str], shown: str) -> None:
    """Short, on one line, without what a terminal obeys and without keys."""
    watch = agent_watch("")
    for line in lines:
        watch.feed(line, Ms(1), WALL)
    assert watch.last_line == shown


def test_no_input_of_a_tool_is_kept() -> None:
    """Neither for budgets nor in a verdict."""
    watch = agent_watch(terms=RunLimits(same_tool_calls=2))
    watch.feed(call("echo hunter2"), Ms(1), WALL)
    watch.feed(call("echo hunter2"), Ms(1), WALL)
    watch.feed("later", Ms(1), WALL)
    assert "hunter2" not in repr((vars(watch), watch.verdict(Ms(2))))


@given(
    name=st.sampled_from(["", *BUILTIN]),
    lines=st.lists(
        st.text(max_size=100)
        | st.sampled_from(
            [RETRY, WORK, REFUSED, PLAIN, ATTEMPT, OTHER, call("x"), "{" * 9_000, "\x1b[" * 500]
        ),
        max_size=20,
    ),
    steps=st.integers(-1_000, 200_000),
    wall=st.sampled_from([0.0, WALL, -1.0, math.inf, math.nan]),
    terms=st.builds(
        RunLimits,
        patience=st.integers(1, 100_000),
        stale_after=st.none() | st.integers(1, 100_000),
        max_runtime=st.none() | st.integers(1, 100_000),
        max_tool_calls=st.none() | st.integers(1, 3),
        same_tool_calls=st.none() | st.integers(2, 3),
        park=st.booleans(),
        message_stale_after=st.none() | st.integers(1, 100_000),
    ),
)
def test_whatever_is_fed_the_watch_keeps_its_word(
    name: str, lines: list[str], steps: int, wall: float, terms: RunLimits
) -> None:
    """It never raises, parks nothing against the terms, and no verdict comes before its time."""
    watch = agent_watch(name, terms)
    now = 1_000
    for line in lines:
        now += steps
        watch.feed(line, Ms(now), Seconds(wall))
        due = watch.due(Ms(now))
        verdict = watch.verdict(Ms(now))
        if verdict:
            assert due == now
            assert terms.park or not verdict.park
        elif due is None:
            assert watch.verdict(Ms(now + 10**12)) is None
        else:
            assert watch.verdict(Ms(due - 1)) is None
            assert watch.verdict(due)
        assert len(watch.last_line) <= 200
        assert watch.last_line.isprintable()
    watch.outcome(0, 0)
    watch.outcome(1, 9)


# RunLimits that would end healthy agents.


@pytest.mark.parametrize(
    "terms, warning",
    [
        (RunLimits(), ""),
        (RunLimits(patience=Ms(29_999)), "patience: refusals often ask for a longer wait than 30s"),
        (
            RunLimits(stale_after=Ms(300_000)),
            "stale_after: a working agent may be silent for longer than 5m",
        ),
        (RunLimits(stale_after=Ms(600_000)), ""),
        (
            RunLimits(max_runtime=Ms(300_000)),
            "max_runtime: agents run for hours, and are ended after 5m",
        ),
        (RunLimits(max_runtime=Ms(1_800_000)), "max_runtime: agents run for hours"),
        (RunLimits(max_runtime=Ms(1_860_000)), ""),
        (RunLimits(max_tool_calls=200), "max_tool_calls: 200 tool calls are about 9m of work"),
        (RunLimits(max_tool_calls=1_000), ""),
        (RunLimits(same_tool_calls=2), "same_tool_calls: 2 tool calls are soon made"),
        (RunLimits(same_tool_calls=10), ""),
        (RunLimits(same_tool_calls=None), ""),
    ],
)
def test_terms_that_would_end_healthy_agents_are_judged(terms: RunLimits, warning: str) -> None:
    """A sentence for each, that says what would happen; the same for a job's terms."""
    found = warnings(terms)
    assert warnings(JobPolicy(terms)) == found
    assert [line.startswith(warning) for line in found] == ([True] if warning else [])


# The end of its work.

STEP = '{"type":"step_finish","sessionID":"ses_1","part":{"type":"step-finish","reason":"%s"}}'


@pytest.mark.parametrize(
    "name, lines, finished",
    [
        ("claude", [INIT, WORK], False),
        ("claude", [INIT, WORK, DONE], True),
        ("claude", [INIT, WORK, DONE, "a line of text"], True),
        ("claude", [INIT, WORK, DONE, WORK], False),
        ("claude", [INIT, WORK, DONE, RETRY], False),
        ("claude", [INIT, REFUSED], False),
        ("claude", ["I am done.", '{"no":"event"}'], False),
        ("codex", ['{"type":"turn.completed","usage":{}}'], True),
        ("codex", ['{"type":"turn.failed","error":{"message":"x"}}'], False),
        ("gemini", ['{"type":"result","status":"success"}'], True),
        ("gemini", ['{"type":"result","status":"error"}'], False),
        ("opencode", [STEP % "stop"], True),
        ("opencode", [STEP % "tool-calls"], False),
        (
            "opencode",
            [STEP % "stop", '{"type":"step_start","part":{}}', STEP % "tool-calls"],
            False,
        ),
    ],
)
def test_the_last_event_tells_that_the_work_is_done(
    name: str, lines: list[str], *, finished: bool
) -> None:
    """Whatever was said before; text, and an event after it that goes on, do not."""
    watch = agent_watch(name)
    for line in lines:
        watch.feed(line, Ms(2_000), WALL)
    assert watch.finished is finished


# Agents that wait as they are told, and do not tell.

HEAD = "timestamp=2026-11-18T09:50:43.585Z level="
TAIL = "providerID=anthropic modelID=m session.id=ses_{} small=false agent=build mode=primary"
TOO_MANY = 'error.error="AI_APICallError: Too Many Requests"'
STEP = '{"type":"text","sessionID":"ses_1","part":{"type":"text","text":"x"}}'


def asks(session: int = 1) -> str:
    return f"{HEAD}INFO run=1 message=stream {TAIL.format(session)}"


def refuses(session: int = 1) -> str:
    return f'{HEAD}ERROR run=1 message="stream error" {TAIL.format(session)} {TOO_MANY}'


def test_it_waits_until_it_asks_again() -> None:
    """Opencode says that it was refused and then that it tries again; in between it waits."""
    watch = agent_watch("opencode")
    assert watch.feed(asks(), Ms(2_000), WALL) is None
    assert watch.waiting is None
    signal = watch.feed(refuses(), Ms(2_100), WALL)
    assert signal
    assert (signal.waits, signal.retry_after) == (True, None)
    assert watch.waiting == signal
    watch.feed(asks(), Ms(9_100), WALL)
    assert watch.waiting is None
    assert watch.refused_at == 2_100


def test_each_request_is_waited_for_by_itself() -> None:
    """That a sub-agent asks says nothing of its parent, which still waits."""
    watch = agent_watch("opencode")
    for line in (asks(1), asks(2), refuses(1), refuses(2), asks(2)):
        watch.feed(line, Ms(2_000), WALL)
    assert watch.waiting
    watch.feed(asks(1), Ms(2_000), WALL)
    assert not watch.waiting


@pytest.mark.parametrize(
    "lines",
    [
        (refuses(),),
        (asks(2), refuses(1)),
        (asks(), refuses(), STEP),
        (asks(), refuses(), '{"type":"error","error":{"data":{"statusCode":429}}}'),
    ],
    ids=["no request was seen", "another request was seen", "an answer", "the end"],
)
def test_it_is_not_said_to_wait(lines: tuple[str, ...]) -> None:
    """Unless its next try would be seen, and while nothing else has followed."""
    watch = agent_watch("opencode")
    for line in lines:
        signal = watch.feed(line, Ms(2_000), WALL)
    assert watch.waiting is None
    assert not (signal and signal.waits)
