"""What a line of an agent's output says about upstream."""

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.builtin_rules import BUILTIN, LINES
from headgate.core.answers.classify import classify_line, judge_line
from headgate.core.answers.signals import (
    CONCURRENCY,
    KINDS,
    LONGEST_QUOTA,
    OVERLOADED,
    QUOTA,
    RATE,
    REFUSALS,
    Signal,
)
from headgate.core.times import Ms, Seconds
from tests.core.own_rules import own_rules

NOW = Seconds(1_790_000_000.0)


class Case(NamedTuple):
    profile: str
    line: str | dict[str, object]
    signal: Signal
    provider: str = ""


def rate_limit(status: str, **info: object) -> dict[str, object]:
    return {"type": "rate_limit_event", "rate_limit_info": {"status": status, **info}}


def retry(status: object, error: str, delay: object) -> dict[str, object]:
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 1,
        "max_retries": 10,
        "retry_delay_ms": delay,
        "error_status": status,
        "error": error,
        "session_id": "s",
    }


def result(text: str, status: object) -> dict[str, object]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "api_error_status": status,
        "result": text,
    }


def opencode(status: int, message: str, **data: object) -> dict[str, object]:
    failed = {"message": message, "statusCode": status, "isRetryable": True, **data}
    error = {"name": "APIError", "data": failed}
    return {"type": "error", "timestamp": 1, "sessionID": "ses_1", "error": error}


def failed(message: str) -> dict[str, object]:
    return {"type": "result", "status": "error", "error": {"type": "unknown", "message": message}}


GONE = Signal(QUOTA, account=True)


def gone(seconds: int) -> Signal:
    """The quota of an account, gone for so long."""
    return GONE._replace(retry_after=Ms(seconds * 1_000))


CONCURRENT = '{"error":{"code":"1302","message":"High concurrency usage of this API"}}'
GEMINI = json.dumps(
    {
        "error": {
            "message": json.dumps(
                {
                    "error": {
                        "code": 429,
                        "message": "You exceeded your current quota. Please retry in 17.5s.",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}],
                    }
                }
            ),
            "code": 429,
            "status": "Too Many Requests",
        }
    }
)

GEMINI_DAY = "You have exhausted your daily quota on this model."
ADVICE = (
    "\nPlease wait and try again later. To increase your limits, request a quota increase "
    "through AI Studio, or switch to another /auth method"
)
OPENCODE_LOG = (
    'timestamp=2026-11-16T01:35:42.330Z level=ERROR run=63fbf3ba message="stream error" '
    "providerID=anthropic modelID=claude-sonnet-4-5 session.id=ses_1 small=false agent=build"
)

CASES = [
    # claude, text
    Case("claude", "API Error: Request rejected (429)", Signal(CONCURRENCY)),
    Case(
        "claude",
        "API Error: Request rejected (429) · [1302][Rate limit reached][2026]",
        Signal(CONCURRENCY),
    ),
    Case("claude", "API Error: Request rejected (429) · [1310][Weekly limit][2026]", GONE),
    Case("claude", "API Error: Repeated 529 Overloaded errors", Signal(OVERLOADED)),
    Case("claude", f"API Error: 429 {CONCURRENT}", Signal(CONCURRENCY)),
    Case(
        "claude",
        '  ⎿  API Error (529 {"type":"error","error":{"type":"overloaded_error","message":'
        '"Overloaded"}}) · Retrying in 4 seconds… (attempt 4/10)',
        Signal(OVERLOADED),
    ),
    Case(
        "claude",
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary",
        Signal(OVERLOADED),
    ),
    Case(
        "claude",
        "API Error: 429 Too many tokens, please wait before trying again.",
        Signal(RATE),
    ),
    Case(
        "claude",
        'API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"No"}}',
        Signal(RATE),
        "anthropic",
    ),
    Case(
        "claude",
        "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited",
        Signal(RATE),
    ),
    Case("claude", "Credit balance is too low", GONE),
    Case("claude", "You've hit your 5-hour limit · resets 3pm (Europe/Paris)", gone(82_000)),
    Case(
        "claude",
        "You\u2019ve hit your session limit · resets 12:50am (America/Los_Angeles)",
        gone(63_400),
    ),
    Case("claude", "You've hit your limit · resets 2pm (Asia/Shanghai)", gone(56_800)),
    Case("claude", "You've hit your org's monthly usage limit", GONE),
    Case(
        "claude", "Weekly limit reached ∙ resets 10am (Asia/Seoul) · /upgrade to Max", gone(38_800)
    ),
    Case(
        "claude", "Claude AI usage limit reached|1790000600", GONE._replace(retry_after=Ms(600_000))
    ),
    Case(
        "claude", "You've hit your Opus limit · resets Sep 28, 5pm", Signal(QUOTA, Ms(614_800_000))
    ),
    Case("claude", "Opus weekly limit reached ∙ resets Oct 6, 1pm", Signal(QUOTA, LONGEST_QUOTA)),
    Case("claude", "You've hit your limit · resets 4:21am (UTC)", gone(50_860)),
    Case("claude", "You've hit your limit · resets Mon 9am", gone(7 * 86_400 - 18_800)),
    Case("claude", "You've hit your weekly limit · resets Sep 25 at 3pm", gone(4 * 86_400 + 2_800)),
    Case("claude", "You've hit your limit · resets 99:99am", GONE),
    Case("claude", "You've hit your limit · resets 4pm (Nowhere/Atall)", GONE),
    Case("claude", "Claude usage limit reached. Your limit will reset at 12am.", gone(35_200)),
    # claude, stream-json
    Case("claude", retry(429, "rate_limit", 5_000), Signal(CONCURRENCY, Ms(5_000))),
    Case("claude", retry(429, "rate_limit", 5_000), Signal(RATE, Ms(5_000)), "anthropic"),
    Case("claude", retry(429, "rate_limit", 537.2), Signal(CONCURRENCY), "umans"),
    Case("claude", retry(429, "rate_limit", 572), Signal(RATE), "anthropic"),  # its own wait
    Case("claude", retry(529, "overloaded", -3), Signal(OVERLOADED)),
    Case("claude", result("API Error: Request rejected (429)", 429), Signal(CONCURRENCY)),
    Case("claude", result("Something new", 429), Signal(CONCURRENCY)),
    Case("claude", result("API Error: Repeated 529 Overloaded errors", 529), Signal(OVERLOADED)),
    Case("claude", result("You've hit your limit · resets 2pm (Asia/Shanghai)", 429), gone(56_800)),
    Case(
        "claude", result("You've hit your limit · resets 2pm (Asia/Shanghai)", None), gone(56_800)
    ),
    Case(
        "claude",
        rate_limit("rejected", resetsAt=1_790_000_600, rateLimitType="five_hour"),
        GONE._replace(retry_after=Ms(600_000)),
    ),
    Case(
        "claude",
        rate_limit("rejected", resetsAt=1_790_000_600, rateLimitType="seven_day_opus"),
        Signal(QUOTA, Ms(600_000)),
    ),
    Case("claude", rate_limit("rejected"), Signal(QUOTA)),
    # codex
    Case(
        "codex",
        "ERROR: exceeded retry limit, last status: 429 Too Many Requests, request id: 1",
        Signal(CONCURRENCY),
    ),
    Case(
        "codex",
        "ERROR: unexpected status 503 Service Unavailable: busy, url: http://x",
        Signal(OVERLOADED),
    ),
    Case(
        "codex",
        {
            "type": "error",
            "message": "Reconnecting... 2/5 (unexpected status 529 <unknown status code>: "
            "The server is currently overloaded., url: http://x, request id: req_1)",
        },
        Signal(OVERLOADED),
    ),
    Case(
        "codex",
        "ERROR: Reconnecting... 1/5 (unexpected status 429 Too Many Requests: 3 RPM)",
        Signal(RATE),
    ),
    Case(
        "codex",
        "⚠️ stream error: stream disconnected before completion: Rate limit is exceeded. "
        "Try again in 4 seconds.; retrying 1/5 in 209ms…",
        Signal(RATE, Ms(4_000)),
    ),
    Case("codex", "ERROR: Quota exceeded. Check your plan and billing details.", GONE),
    Case("codex", "Quota exceeded.", GONE),
    Case(
        "codex",
        "■ You\u2019ve hit your usage limit. Upgrade to Pro or try again in 2 hours 5 minutes.",
        GONE._replace(retry_after=Ms(7_500_000)),
    ),
    Case(
        "codex",
        "ERROR: You've hit your usage limit. Upgrade to Pro, or try again at 4:24 AM.",
        gone(51_040),
    ),
    Case(
        "codex",
        "ERROR: You've hit your usage limit. Upgrade, or try again at Sep 24th, 2026 8:19 PM.",
        gone(3 * 86_400 + 21_940),
    ),
    Case(
        "codex",
        "ERROR: You've hit your usage limit for GPT-5.3-Codex-Spark. Switch to another model now",
        Signal(QUOTA),
    ),
    Case(
        "codex",
        "ERROR: Selected model is at capacity. Please try a different model.",
        Signal(OVERLOADED),
    ),
    Case(
        "codex",
        {
            "type": "error",
            "message": "Selected model is at capacity. Please try a different model.",
        },
        Signal(OVERLOADED),
    ),
    Case(
        "codex",
        {"type": "turn.failed", "error": {"message": "Quota exceeded. Check your plan."}},
        GONE,
    ),
    # gemini
    Case(
        "gemini", "Attempt 1 failed with status 429. Retrying with backoff...", Signal(CONCURRENCY)
    ),
    Case(
        "gemini",
        f"Attempt 2 failed with status 429. Retrying with backoff... ApiError: {GEMINI}",
        Signal(RATE, Ms(17_500)),
    ),
    Case(
        "gemini", "Attempt 1 failed with status 503. Retrying with backoff...", Signal(OVERLOADED)
    ),
    Case(
        "gemini",
        "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset "
        "after 5s.. Retrying after 5000ms...",
        Signal(RATE, Ms(5_000)),
    ),
    Case(
        "gemini",
        "✕ [API Error: You have exhausted your capacity on this model. Your quota will reset "
        "after 19h5m10s.]",
        Signal(QUOTA, Ms(68_710_000)),
    ),
    Case(
        "gemini",
        '[API Error: [{"error": {"code": 429, "message": "Resource exhausted. Please try again '
        'later.", "status": "RESOURCE_EXHAUSTED"}}]]',
        Signal(RATE),
    ),
    Case(
        "gemini",
        {
            "type": "result",
            "status": "error",
            "error": {
                "type": "Error",
                "message": "[API Error: You have exhausted your daily quota on this model.]",
            },
        },
        Signal(QUOTA),
    ),
    Case(
        "gemini",
        failed(f"[API Error: Number of concurrent connections]{ADVICE}"),
        Signal(CONCURRENCY),
    ),
    Case(
        "gemini", "Suggested retry after 20s.. Retrying after 21729ms...", Signal(RATE, Ms(20_000))
    ),
    Case("gemini", failed(f"[API Error: Quota: 5 requests per minute]{ADVICE}"), Signal(RATE)),
    Case("gemini", failed(f"[API Error: {GEMINI_DAY}]{ADVICE}"), Signal(QUOTA)),
    Case("gemini", failed("[API Error: The model is overloaded. Try later.]"), Signal(OVERLOADED)),
    # opencode
    Case("opencode", "\x1b[91m\x1b[1mError: \x1b[0mToo Many Requests", Signal(CONCURRENCY)),
    Case("opencode", f"\x1b[91mError: \x1b[0mToo Many Requests: {CONCURRENT}", Signal(CONCURRENCY)),
    Case(
        "opencode",
        "Error: Rate limit reached for gpt-4o on tokens per min (TPM). Please try again in 4.2s.",
        Signal(RATE, Ms(4_200)),
    ),
    Case("opencode", "Error: Overloaded", Signal(OVERLOADED)),
    Case(
        "opencode",
        f'{OPENCODE_LOG} error.error="AI_APICallError: Number of concurrent connections has '
        'exceeded your rate limit. Please try again later."',
        Signal(CONCURRENCY),
    ),
    Case(
        "opencode",
        f'{OPENCODE_LOG} error.error="AI_APICallError: Overloaded"',
        Signal(OVERLOADED),
    ),
    Case(
        "opencode",
        opencode(429, "Rate limited", responseHeaders={"Retry-After": "5", "x": None}),
        Signal(CONCURRENCY, Ms(5_000)),
    ),
    Case(
        "opencode", opencode(429, "Too Many Requests", responseBody=CONCURRENT), Signal(CONCURRENCY)
    ),
    Case(
        "opencode",
        opencode(429, "x", responseBody='{"error":{"code":"insufficient_quota"}}'),
        GONE,
    ),
    Case(
        "opencode",
        'ERROR 2026-02-07T14:03:34 +6ms service=session.processor error=x stack="AI_APICallError: '
        'Too Many Requests\\n    at <anonymous>"',
        Signal(CONCURRENCY),
    ),
    # what all may say
    Case(
        "",
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        Signal(OVERLOADED),
    ),
    Case(
        "aider",
        'litellm.RateLimitError: AnthropicException - {"type":"error","error":{"type":'
        '"rate_limit_error","message":"Number of concurrent connections has exceeded your limit"}}',
        Signal(CONCURRENCY),
    ),
    Case(
        "sdk",
        "litellm.ServiceUnavailableError: AnthropicException - Overloaded",
        Signal(OVERLOADED),
    ),
    Case(
        "aider",
        "litellm.RateLimitError: OpenAIException - Rate limit reached on tokens per min.",
        Signal(RATE),
    ),
    Case(
        "sdk",
        "01:57:01 - openhands:ERROR: retry_mixin.py:47 - litellm.RateLimitError: OpenAIException - "
        "Rate limit reached on tokens per min. Please try again in 6ms.",
        Signal(RATE, Ms(6)),
    ),
    Case(
        "aider",
        "litellm.InternalServerError: AnthropicException - "
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        Signal(OVERLOADED),
    ),
    Case(
        "aider",
        "The API provider has rate limited you. Try again later or check your quotas.",
        Signal(CONCURRENCY),
    ),
    Case(
        "sdk",
        "openai.RateLimitError: Error code: 429 - {'error': {'message': 'You exceeded your current "
        "quota', 'type': 'insufficient_quota', 'param': None, 'code': 'insufficient_quota'}}",
        GONE,
    ),
]


def text(line: str | dict[str, object]) -> str:
    return line if isinstance(line, str) else json.dumps(line)


def read(case: Case, profile: str, rules: tuple[Rule, ...] = BUILTIN) -> Signal | None:
    said = judge_line(text(case.line), profile, rules, provider=case.provider, now=NOW, zone="UTC")
    return said.signal and said.signal._replace(note="")


@pytest.mark.parametrize("case", CASES, ids=[text(case.line)[:60] for case in CASES])
def test_lines(case: Case) -> None:
    """Each agent's way to say something is understood, whether or not its kind is known."""
    assert read(case, case.profile) == case.signal
    assert read(case, "") == case.signal


def test_every_rule_is_needed() -> None:
    """Without any one rule some line is read differently."""
    for rule in LINES:
        others = tuple(other for other in BUILTIN if other is not rule)
        assert any(read(case, case.profile, others) != case.signal for case in CASES), rule.name


NOTHING = [
    "",
    "{",
    "I'll add a test for HTTP 429.",
    "if status == 429:",
    "    raise RateLimitError('429 Too Many Requests')",
    "The API returned 429 Too Many Requests, so I added a retry.",
    "You've hit your rate limit handling on the head.",
    "You've hit your limit of patience.",
    "You've reached your usage limit example in the docs",
    "Error: rate limiting is not implemented",
    "Error: Cannot find module 'rate-limit'",
    "Error: Overloaded function signatures are not supported",
    "API Error: 429 should be retried with backoff",
    "API Error: Request rejected (401)",
    'API Error: 403 {"error":{"type":"permission_error","message":"concurrent"}}',
    'API Error: 500 {"type":"error","error":{"type":"api_error","message":"Oops"}}',
    "- `API Error: Request rejected (429)` is what claude prints",
    "> Selected model is at capacity.",
    "Quota exceeded. This is what the test expects",
    "ERROR: Reconnecting... 1/5",
    "ERROR: exceeded retry limit, last status: 401 Unauthorized",
    "ERROR: unexpected status 404 Not Found: no such model, rate limit",
    "Attempt 1 failed with status 401. Retrying with backoff...",
    "Attempt 3 failed: connection refused",
    f'{OPENCODE_LOG} error.error="AI_APICallError: Internal server error"',
    f'{OPENCODE_LOG.replace("ERROR", "INFO")} error.error="AI_APICallError: Overloaded"',
    "HTTP/1.1 429 Too Many Requests",
    "overloaded_error",
    '"error": {"type": "rate_limit_error"}',
    'self.raise_(429, {"type": "rate_limit_error"})',
    "Weekly limit reached the goal",
    "class Overloaded(Exception):",
    "litellm.AuthenticationError: invalid key, overloaded",
]

EVENTS: list[dict[str, object]] = [
    failed("[API Error: Internal server error]"),
    rate_limit("allowed", resetsAt=1_790_000_600, rateLimitType="five_hour"),
    rate_limit("allowed_warning", rateLimitType="seven_day", utilization=0.8),
    {"type": "rate_limit_event"},
    retry(401, "authentication_failed", 500),
    retry(500, "server_error", 500),
    retry(None, "unknown", 500),
    retry(200, "odd", 500),
    result("I fixed the 429.", None),
    result("I fixed the 429.", 200),
    result("Prompt is too long", 400),
    {"type": "result", "is_error": False, "result": "API Error: Request rejected (429)"},
    {"type": "result", "subtype": "success", "result": "Quota exceeded."},
    {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": "API Error: Request rejected (429)"}]},
    },
    {"type": "user", "message": {"content": "You've hit your limit · resets 2pm"}},
    {"type": "text", "part": {"text": "Quota exceeded."}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "Quota exceeded."}},
    {
        "type": "item.completed",
        "item": {"aggregated_output": "openai.RateLimitError: Error code: 429"},
    },
    {"error": {"code": 429, "message": "a fixture that a tool prints"}},
    {"type": "error", "message": "Reconnecting... 1/5"},
    {"type": "error", "error": {"name": "UnknownError", "data": {"message": "overloaded 429"}}},
    opencode(401, "Unauthorized", responseBody='{"error":{"code":"insufficient_quota"}}'),
    opencode(200, "AI_JSONParseError", responseBody="concurrency"),
    {"type": "error", "error": {"type": "authentication_error", "message": "concurrency"}},
    {"type": "turn.failed", "error": {"message": "stream disconnected before completion: reset"}},
]


@pytest.mark.parametrize("line", [*NOTHING, *map(json.dumps, EVENTS)])
def test_talk_about_limits_is_nothing(line: str) -> None:
    """Prose, code and the work itself may speak of limits without meeting one."""
    for profile in ("", "claude", "codex", "gemini", "opencode", "aider"):
        assert classify_line(line, profile, now=NOW) is None


def test_another_agents_lines_are_not_read() -> None:
    """With a kind of agent given, only its own rules and those for all count."""
    assert classify_line("Quota exceeded.", "claude") is None
    assert classify_line("Quota exceeded.", "codex") is not None


def test_without_a_clock_a_moment_is_left_out() -> None:
    """A limit that ends at a moment has no length if nobody knows what time it is."""
    found = classify_line(json.dumps(rate_limit("rejected", resetsAt=1_790_000_600)))
    assert found is not None
    assert (found.kind, found.retry_after) == (QUOTA, None)


def test_own_lines_come_first() -> None:
    """A rule of the configuration may add an agent's lines, quote an answer, or silence a rule."""
    own = own_rules(
        [
            {
                "line": "FATAL: seats gone, retry in",
                "signal": "concurrency-limited",
                "profile": "me",
            },
            {"line": r"HTTP (?P<status>\d{3}) (?P<body>.*)", "signal": "quoted"},
            {"line": "Quota exceeded", "signal": "none", "name": "hush"},
        ]
    )
    rules = (*own, *BUILTIN)
    found = classify_line("FATAL: seats gone, retry in 5s", "me", rules)
    assert found == Signal(CONCURRENCY, Ms(5_000), note="entry 1")
    assert classify_line("FATAL: seats gone, retry in 5s", "you", rules) is None
    quoted = classify_line(f"HTTP 429 {CONCURRENT}", "you", rules)
    assert quoted is not None
    assert quoted.kind == CONCURRENCY
    assert classify_line("HTTP 200 fine", "", rules) is None
    assert classify_line("HTTP 403 concurrency", "", rules) is None
    assert classify_line("Quota exceeded.", "codex", rules) is None


pieces = st.sampled_from(
    [text(case.line) for case in CASES] + NOTHING + list(map(json.dumps, EVENTS))
)
cut = st.builds(
    lambda line, low, high: line[low:high], pieces, st.integers(0, 40), st.integers(0, 300)
)
profiles = st.sampled_from(["", "claude", "codex", "other"])


@given(st.text() | pieces | st.builds(str.__add__, cut, cut | st.text()), profiles, st.floats())
def test_nothing_raises(line: str, profile: str, now: float) -> None:
    """Any line gives a refusal with a wait that is not negative, or none."""
    found = classify_line(line, profile, now=Seconds(now))
    if found is not None:
        assert found.kind in REFUSALS
        assert found.retry_after is None or found.retry_after >= 0


@given(pieces)
def test_what_an_agent_writes_is_nothing(line: str) -> None:
    """A line inside the text of an assistant, a tool or a user is not the agent's own."""
    said = {"content": [{"type": "text", "text": line}]}
    for event in (
        {"type": "assistant", "message": said},
        {"type": "user", "message": said, "tool_use_result": line},
        {"type": "result", "is_error": False, "result": line},
        {"type": "stream_event", "event": {"delta": {"text": line}}},
    ):
        assert classify_line(json.dumps(event), now=NOW) is None


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[" * 100_000,
        "\x1b]" + "0" * 100_000,
        "{" * 100_000,
        '{"type":' * 50_000,
        "ERROR: " * 50_000,
        "ERROR: Error: stream error: " * 20_000,
        "Reconnecting... 1/5 (" * 20_000,
        "You've hit your " + "usage " * 50_000,
        "You've hit your " + "Opus " * 50_000,
        "a - " * 50_000 + "litellm.",
        "litellm.InternalServerError: " + "Overloade" * 20_000,
        "ERROR 2026-02-07T14:03:34 " + "AI_APICallError" * 10_000,
        "ERROR " + "1:" * 50_000,
        "[API Error: {" + '"code": ' * 20_000,
        "API Error: 429 " + "{" * 100_000,
        "Error: Number of " + "a " * 50_000,
        "│" * 200_000,
    ],
    ids=range(17),
)
def test_hostile_lines_come_to_an_end(line: str) -> None:
    """However long or broken a line is, it is judged at once."""
    found = classify_line(line, now=NOW)
    assert found is None or found.kind in KINDS
