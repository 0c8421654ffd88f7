"""What an answer of upstream says about capacity, and when it says to come back."""

import json
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.answers.answer_rules import NONE, Rule
from headgate.core.answers.builtin_rules import ANSWERS, BUILTIN
from headgate.core.answers.classify import Response, classify, classify_line
from headgate.core.answers.retry_after import RateHeader, RateHeaders, rate_headers
from headgate.core.answers.signals import (
    ACCEPTED,
    CONCURRENCY,
    KINDS,
    OVERLOADED,
    QUOTA,
    RATE,
    REFUSALS,
    Signal,
)
from headgate.core.times import Ms, Seconds
from headgate.errors import ConfigError
from tests.core.own_rules import own_rules

NOW = Seconds(1_790_000_000.0)  # 2026-09-21T14:13:20Z
UNIFIED = "anthropic-ratelimit-unified-"


class Case(NamedTuple):
    name: str
    signal: Signal | None
    status: int
    body: object = ""
    headers: Mapping[str, str] = {}
    provider: str = ""


def anthropic(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_01"}


def openai(message: str, kind: str | None = None, code: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def gemini(*details: object, code: int = 429, status: str = "RESOURCE_EXHAUSTED") -> object:
    message = (
        "You exceeded your current quota, please check your plan and billing details. "
        "For more information on this error, head to: https://ai.google.dev/gemini-api/docs"
    )
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def violation(quota: str) -> object:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {"@type": kind, "violations": [{"quotaMetric": metric, "quotaId": quota}]}


def delay(text: str) -> object:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": text}


def events(*data: object) -> str:
    return "".join(f"event: x\ndata: {json.dumps(d)}\n\n" for d in data)


PER_MINUTE = (
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute. "
    "For details, refer to: https://docs.claude.com/en/api/rate-limits."
)
TPM = (
    "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, "
    "Used 28039, Requested 3906. Please try again in 3.89s. Visit https://platform.openai.com"
)
CONNECTIONS = "Number of concurrent connections has exceeded your rate limit. Please try again"
REJECTED = {f"{UNIFIED}status": "rejected", f"{UNIFIED}reset": "1790003600"}
FREE_DAY = "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 requests"
AZURE = (
    "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded call "
    "rate limit of your current OpenAI S0 pricing tier. Please retry after 20 seconds."
)
MOONSHOT = "Your account org-e664<ak-f3t8> request reached "

CASES = [
    # Anthropic
    Case(
        "anthropic, tokens per minute",
        Signal(RATE, Ms(12_000)),
        429,
        anthropic("rate_limit_error", PER_MINUTE),
        {
            "Retry-After": "12",
            "anthropic-ratelimit-input-tokens-limit": "40000",
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": "2026-09-21T14:13:30Z",
        },
        "anthropic",
    ),
    Case(
        "anthropic, an unnamed limit",
        Signal(RATE),
        429,
        anthropic("rate_limit_error", "Rate limited"),
        {},
        "anthropic",
    ),
    Case(
        "anthropic's meters, provider unknown",
        Signal(RATE, Ms(10_000)),
        429,
        anthropic("rate_limit_error", "This request would exceed your account's rate limit."),
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2026-09-21T14:13:30Z",
            "anthropic-ratelimit-tokens-remaining": "80000",
            "anthropic-ratelimit-tokens-reset": "2026-09-21T14:14:20Z",
        },
    ),
    Case(
        "anthropic, at once",
        Signal(CONCURRENCY),
        429,
        anthropic("rate_limit_error", CONNECTIONS),
        {},
        "anthropic",
    ),
    Case(
        "subscription, five hours",
        Signal(QUOTA, Ms(3_600_000), account=True),
        429,
        anthropic("rate_limit_error", "This request would exceed your account's rate limit."),
        {**REJECTED, f"{UNIFIED}representative-claim": "five_hour"},
        "anthropic",
    ),
    Case(
        "subscription, seven days, with Retry-After",
        Signal(QUOTA, Ms(7_999_000), account=True),
        429,
        "",
        {**REJECTED, f"{UNIFIED}representative-claim": "seven_day", "retry-after": "7999"},
    ),
    Case(
        "subscription, one model's seven days",
        Signal(QUOTA, Ms(3_600_000)),
        429,
        "",
        {**REJECTED, f"{UNIFIED}representative-claim": "seven_day_opus"},
        "anthropic",
    ),
    Case(
        "subscription, a claim nobody knows",
        Signal(QUOTA, Ms(3_600_000)),
        429,
        "",
        REJECTED,
        "anthropic",
    ),
    Case(
        "subscription, a burst while the window is open",
        Signal(RATE),
        429,
        anthropic("rate_limit_error", "Rate limited"),
        {f"{UNIFIED}status": "allowed", f"{UNIFIED}reset": "1790003600"},
        "anthropic",
    ),
    Case(
        "anthropic, overloaded",
        Signal(OVERLOADED),
        529,
        anthropic("overloaded_error", "Overloaded"),
    ),
    Case(
        "anthropic, overloaded as a 500",
        Signal(OVERLOADED),
        500,
        anthropic("api_error", "Overloaded"),
    ),
    Case("anthropic, a 500", None, 500, anthropic("api_error", "Internal server error")),
    Case(
        "anthropic, no credit",
        Signal(QUOTA, account=True),
        400,
        anthropic("invalid_request_error", "Your credit balance is too low to access the API."),
        {"retry-after": "5"},
    ),
    Case(
        "anthropic, a request that only speaks of it",
        None,
        400,
        anthropic(
            "invalid_request_error", "messages.0: 'Your credit balance is too low' concurrency"
        ),
    ),
    Case("anthropic, not allowed", None, 403, anthropic("permission_error", CONNECTIONS), REJECTED),
    Case(
        "anthropic, unknown key", None, 401, anthropic("authentication_error", "invalid x-api-key")
    ),
    Case(
        "anthropic, overloaded inside a stream",
        Signal(OVERLOADED),
        200,
        events({"type": "message_start"}, anthropic("overloaded_error", "Overloaded")),
    ),
    Case(
        "a limit inside a stream, provider unknown",
        Signal(CONCURRENCY),
        200,
        events(anthropic("rate_limit_error", "Too many requests")),
    ),
    Case(
        "an authentication error inside a stream",
        None,
        200,
        events(anthropic("authentication_error", CONNECTIONS)),
    ),
    Case(
        "text about limits inside a stream",
        Signal(ACCEPTED),
        200,
        events(
            {"type": "content_block_delta", "delta": {"text": '"error": 429 concurrency limit'}},
            {"type": "content_block_delta", "delta": {"text": '{"error":{"code":429}}'}},
        ),
    ),
    Case(
        "an ordinary answer",
        Signal(ACCEPTED),
        200,
        {"type": "message", "content": [{"type": "text", "text": "HTTP 429: overloaded_error"}]},
        {f"{UNIFIED}status": "allowed_warning"},
        "anthropic",
    ),
    Case("an empty answer", Signal(ACCEPTED), 204),
    # OpenAI and Azure
    Case(
        "openai, tokens per minute",
        Signal(RATE, Ms(3_890)),
        429,
        openai(TPM, "tokens", "rate_limit_exceeded"),
        {"x-ratelimit-remaining-tokens": "1961", "x-ratelimit-reset-tokens": "56.078s"},
        "openai",
    ),
    Case(
        "openai, a code alone",
        Signal(RATE, Ms(90_000)),
        429,
        openai("Rate limit reached", "requests", "rate_limit_exceeded"),
        {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "1m30s",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-tokens": "6ms",
        },
    ),
    Case(
        "openai, unpaid",
        Signal(QUOTA, account=True),
        429,
        openai(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        {"retry-after": "1"},
        "openai",
    ),
    Case(
        "openai, hard limit",
        Signal(QUOTA, account=True),
        400,
        openai(
            "Billing hard limit has been reached",
            "invalid_request_error",
            "billing_hard_limit_reached",
        ),
    ),
    Case(
        "a cap worded as a quota",
        Signal(CONCURRENCY),
        429,
        openai("Insufficient quota: 4 concurrent requests allowed", None, "insufficient_quota"),
    ),
    Case(
        "openai, too large for any minute",
        None,
        429,
        openai(
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): "
            "Limit 30000, Requested 31538.",
            "tokens",
            "rate_limit_exceeded",
        ),
    ),
    Case(
        "openai, slow down", Signal(RATE), 503, openai("Slow down", None, "slow_down"), {}, "openai"
    ),
    Case("openai, slow down as a 429", Signal(RATE), 429, openai("Slow down", None, "slow_down")),
    Case(
        "openai, overloaded",
        Signal(OVERLOADED),
        503,
        openai("The engine is currently overloaded, please try again later", "server_error"),
    ),
    Case(
        "openai, overloaded as a 429",
        Signal(OVERLOADED),
        429,
        openai("That model is currently overloaded with other requests.", "server_error"),
    ),
    Case(
        "openai responses, a limit inside a stream",
        Signal(RATE, Ms(4_200)),
        200,
        events(
            {"type": "response.created", "response": {"error": None}},
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {
                        "code": "rate_limit_exceeded",
                        "message": "Rate limit reached. Please try again in 4.2s.",
                    },
                },
            },
        ),
    ),
    Case(
        "openai responses, overloaded inside a stream",
        Signal(OVERLOADED),
        200,
        events(
            {"type": "error", "error": {"code": "server_is_overloaded", "message": "Overloaded"}}
        ),
    ),
    Case(
        "openai responses, nothing wrong",
        Signal(ACCEPTED),
        200,
        {"object": "response", "status": "completed", "error": None, "output": []},
    ),
    Case(
        "chatgpt, usage limit",
        Signal(QUOTA, Ms(13_872_000), account=True),
        429,
        {
            "error": {
                "type": "usage_limit_reached",
                "message": "The limit has been hit",
                "plan_type": "plus",
                "resets_in_seconds": 13872,
            }
        },
    ),
    Case(
        "chatgpt, usage limit until a moment",
        Signal(QUOTA, Ms(600_000), account=True),
        429,
        {"error": {"type": "usage_limit_reached", "resets_at": 1790000600}},
    ),
    Case(
        "azure, calls",
        Signal(RATE, Ms(1_250)),
        429,
        openai(AZURE, None, "429"),
        {"retry-after-ms": "1250", "retry-after": "2", "x-ratelimit-remaining-requests": "-1"},
        "azure",
    ),
    Case(
        "azure, only words",
        Signal(RATE, Ms(20_000)),
        429,
        openai(AZURE, None, "429"),
        {},
        "azure-eu",
    ),
    Case(
        "azure, high demand",
        Signal(OVERLOADED, Ms(20_000)),
        429,
        openai("The system is currently experiencing high demand. Please retry after 20 seconds."),
        {},
        "azure",
    ),
    # Gemini and Vertex
    Case(
        "gemini, per minute",
        Signal(RATE, Ms(17_000)),
        429,
        gemini(violation("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), delay("17s")),
        {},
        "gemini",
    ),
    Case(
        "gemini, per day, with a delay that is not the day's",
        Signal(QUOTA),
        429,
        gemini(violation("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), delay("38s")),
        {},
        "gemini",
    ),
    Case(
        "gemini, in a list, with no details",
        Signal(RATE),
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "Resource has been exhausted (e.g. check quota).",
                    "status": "RESOURCE_EXHAUSTED",
                }
            }
        ],
    ),
    Case(
        "gemini, at the end of a streamed list",
        Signal(RATE),
        200,
        [{"candidates": []}, gemini()],
    ),
    Case(
        "gemini code assist, quota",
        Signal(QUOTA, Ms(68_710_000)),
        429,
        {
            "error": {
                "code": 429,
                "message": "You have exhausted your capacity on this model. "
                "Your quota will reset after 19h5m10s.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"reason": "QUOTA_EXHAUSTED", "domain": "cloudcode-pa.googleapis.com"}],
            }
        },
    ),
    Case(
        "gemini code assist, no capacity",
        Signal(OVERLOADED),
        429,
        {
            "error": {
                "code": 429,
                "message": "No capacity available for model gemini-3-pro on the server",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"reason": "MODEL_CAPACITY_EXHAUSTED"}],
            }
        },
    ),
    Case(
        "gemini, unavailable",
        Signal(OVERLOADED),
        503,
        {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
    ),
    Case(
        "gemini, wrong key",
        None,
        403,
        {"error": {"code": 403, "message": "quota project not set", "status": "PERMISSION_DENIED"}},
    ),
    # Bedrock
    Case(
        "bedrock, tokens",
        Signal(RATE),
        429,
        {"message": "Too many tokens, please wait before trying again."},
        {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"},
        "bedrock",
    ),
    Case(
        "bedrock, tokens of the day",
        Signal(QUOTA),
        429,
        {"message": "Too many tokens per day, please wait before trying again."},
        {"x-amzn-ErrorType": "ThrottlingException"},
        "bedrock",
    ),
    Case(
        "bedrock, model not ready",
        Signal(OVERLOADED),
        429,
        {"__type": "ModelNotReadyException", "message": "Model is not ready."},
        {},
        "bedrock",
    ),
    Case(
        "bedrock, unavailable",
        Signal(OVERLOADED),
        503,
        {"message": "Bedrock is unable to process your request."},
        {"x-amzn-errortype": "ServiceUnavailableException"},
        "bedrock",
    ),
    # OpenRouter
    Case(
        "openrouter, free per day",
        Signal(QUOTA, Ms(6_000_000)),
        429,
        {
            "error": {
                "message": FREE_DAY,
                "code": 429,
                "metadata": {
                    "headers": {
                        "X-RateLimit-Limit": "50",
                        "X-RateLimit-Remaining": "0",
                        "X-RateLimit-Reset": "1790006000000",
                    }
                },
            }
        },
        {},
        "openrouter",
    ),
    Case(
        "openrouter, free per minute, in a 200",
        Signal(RATE, Ms(30_000)),
        200,
        {"error": {"message": "Rate limit exceeded: free-models-per-min. ", "code": 429}},
        {
            "X-RateLimit-Limit": "20",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": "1790000030000",
        },
        "openrouter",
    ),
    Case(
        "openrouter, the upstream's limit, inside a stream",
        Signal(OVERLOADED),
        200,
        ": OPENROUTER PROCESSING\n\n"
        + events(
            {"choices": [{"delta": {"content": "a"}}]},
            {
                "error": {
                    "code": 429,
                    "message": "Provider returned error",
                    "metadata": {
                        "raw": "z-ai/glm-5 is temporarily rate-limited upstream. Retry shortly",
                        "error_type": "rate_limit_exceeded",
                    },
                },
                "choices": [{"finish_reason": "error"}],
            },
        ),
        {},
        "openrouter",
    ),
    Case(
        "openrouter, what the upstream said",
        Signal(CONCURRENCY),
        429,
        {
            "error": {
                "code": 429,
                "message": "Provider returned error",
                "metadata": {"raw": '{"error":{"code":"1302","message":"Rate limit reached"}}'},
            }
        },
        {},
        "openrouter",
    ),
    Case(
        "openrouter, no credits",
        Signal(QUOTA, account=True),
        402,
        {"error": {"code": 402, "message": "Insufficient credits. Add more using https://x"}},
    ),
    Case(
        "openrouter, no credits, in a 200",
        Signal(QUOTA, account=True),
        200,
        {"error": {"code": 402, "message": "Insufficient credits"}},
    ),
    Case(
        "openrouter, a request too large for the credits",
        None,
        402,
        {
            "error": {
                "code": 402,
                "message": "This request requires more credits, or fewer max_tokens.",
            }
        },
    ),
    Case(
        "openrouter, moderation inside a 200",
        None,
        200,
        {"error": {"code": 403, "message": "flagged; concurrency 429"}},
    ),
    # Umans, Z.ai, Moonshot, DeepSeek and others that count at once
    Case(
        "umans",
        Signal(CONCURRENCY, Ms(5_000)),
        429,
        anthropic("rate_limit_error", "Too many requests"),
        {"retry-after": "5", "x-ratelimit-remaining-requests": "0"},
        "umans",
    ),
    Case(
        "umans, its window of requests",
        Signal(RATE),
        429,
        openai("200 requests per hour exceeded", "rate_limit_error"),
        {},
        "umans",
    ),
    Case(
        "z.ai, yours",
        Signal(CONCURRENCY),
        429,
        {"error": {"code": "1302", "message": "Rate limit reached for requests"}},
        {},
        "zai",
    ),
    Case(
        "z.ai, yours, on the other surface",
        Signal(CONCURRENCY),
        429,
        {
            "type": "error",
            "error": {"type": "rate_limit_error", "code": "1302", "message": "[1302][Rate limit]"},
        },
        {},
        "anthropic",
    ),
    Case(
        "z.ai, the platform's",
        Signal(OVERLOADED),
        429,
        {"error": {"code": "1305", "message": "The service may be busy, please try again later"}},
    ),
    Case(
        "z.ai, the platform's, in words",
        Signal(OVERLOADED),
        429,
        "该模型当前访问量过大,请您稍后再试",
    ),
    Case("z.ai, too often", Signal(RATE), 429, {"error": {"code": "1303", "message": "Too often"}}),
    Case(
        "z.ai, the day", Signal(QUOTA), 429, {"error": {"code": "1304", "message": "Limit reached"}}
    ),
    Case(
        "z.ai, five hours",
        Signal(QUOTA, account=True),
        429,
        {
            "error": {
                "code": "1308",
                "message": "已达到 5 小时的使用上限。您的限额将在 2026-08-25 07:41:44 重置。",
            }
        },
    ),
    Case(
        "z.ai, week, in words",
        Signal(QUOTA, Ms(504_641_000), account=True),
        429,
        "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-07-14 07:49:08",
        {"retry-after-ms": "504641000"},
    ),
    Case(
        "z.ai, in arrears",
        Signal(QUOTA, account=True),
        429,
        {"error": {"code": "1113", "message": "Insufficient balance or no resource package."}},
    ),
    Case(
        "moonshot, at once",
        Signal(CONCURRENCY, Ms(1_000)),
        429,
        openai(
            MOONSHOT + "max organization concurrency: 1, please try again after 1 seconds",
            "rate_limit_reached_error",
        ),
        {},
        "moonshot",
    ),
    Case(
        "moonshot, per minute",
        Signal(RATE, Ms(1_000)),
        429,
        openai(
            MOONSHOT + "organization max RPM: 3, please try again after 1 seconds",
            "rate_limit_reached_error",
        ),
        {},
        "moonshot",
    ),
    Case(
        "moonshot, per day",
        Signal(QUOTA, account=True),
        429,
        openai(MOONSHOT + "TPD rate limit, current: 1, limit: 1", "rate_limit_reached_error"),
    ),
    Case(
        "moonshot, an unnamed rate",
        Signal(RATE, Ms(1_000)),
        429,
        openai(
            "Organization Rate limit exceeded, please try again after 1 seconds",
            "rate_limit_reached_error",
        ),
    ),
    Case(
        "moonshot, unpaid",
        Signal(QUOTA, account=True),
        429,
        openai("Your account is suspended, please check your plan", "exceeded_current_quota_error"),
    ),
    Case(
        "moonshot, overloaded",
        Signal(OVERLOADED),
        429,
        openai("The engine is busy", "engine_overloaded_error"),
    ),
    Case(
        "deepseek, at once",
        Signal(CONCURRENCY),
        429,
        openai("Rate limit reached", "rate_limit", "rate_limit_exceeded"),
        {},
        "deepseek",
    ),
    Case("deepseek, no balance", Signal(QUOTA, account=True), 402, openai("Insufficient Balance")),
    Case("deepseek, overloaded", Signal(OVERLOADED), 503, "", {}, "deepseek"),
    Case(
        "no balance as a 429",
        Signal(QUOTA, account=True),
        429,
        openai("insufficient balance (1008)"),
    ),
    Case(
        "ollama, usage limit",
        Signal(QUOTA, account=True),
        429,
        {"error": "you (x) have reached your session usage limit, please wait or upgrade"},
    ),
    Case(
        "cerebras, per minute",
        Signal(RATE),
        429,
        "Tokens per minute limit exceeded - too many tokens processed.",
    ),
    Case("cloudflare", Signal(RATE), 429, "<html>error code: 1015</html>"),
    # Nobody knows
    Case("429 and nothing else", Signal(CONCURRENCY), 429),
    Case("429 and Retry-After", Signal(CONCURRENCY, Ms(7_000)), 429, "slow", {"RETRY-AFTER": "7"}),
    Case(
        "429 and a full meter",
        Signal(CONCURRENCY),
        429,
        "",
        {"x-ratelimit-remaining-requests": "7"},
    ),
    Case(
        "429 and a meter of -1",
        Signal(CONCURRENCY),
        429,
        "",
        {"x-ratelimit-remaining-tokens": "-1"},
    ),
    Case("429 and an empty meter", Signal(RATE), 429, "", {"x-ratelimit-remaining-requests": "0"}),
    Case("429 and a reset", Signal(RATE, Ms(6)), 429, "", {"x-ratelimit-reset-tokens": "6ms"}),
    Case(
        "a body cut short",
        Signal(QUOTA, account=True),
        429,
        '{"error": {"code": "insufficient_quota", "m',
    ),
    Case("529 and nothing else", Signal(OVERLOADED), 529),
    Case(
        "a bad request",
        None,
        400,
        openai("max_tokens is too large: concurrency", "invalid_request"),
    ),
    Case(
        "not found",
        None,
        404,
        openai("rate_limit_exceeded model not found", None, "model_not_found"),
    ),
    Case("a 500", None, 500),
    Case("a gateway's 502", None, 502, "<html>Bad gateway</html>"),
    Case("a redirect", None, 302),
]


def answer(case: Case) -> Response:
    body = case.body if isinstance(case.body, str) else json.dumps(case.body)
    return Response(case.status, case.headers, body, case.provider)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_answers(case: Case) -> None:
    """Each provider's way to say something is understood, as text and as bytes."""
    response = answer(case)
    found = classify(response, NOW)
    assert (found and found._replace(note="")) == case.signal
    assert classify(response._replace(body=str(response.body).encode()), NOW) == found


def test_every_rule_is_needed() -> None:
    """Without any one rule some answer is read differently."""
    answers = [(answer(case), _plain(classify(answer(case), NOW))) for case in CASES]
    for rule in ANSWERS:
        others = [other for other in BUILTIN if other is not rule]
        assert any(
            _plain(classify(response, NOW, others)) != signal for response, signal in answers
        ), rule.name


def _plain(signal: Signal | None) -> Signal | None:
    return signal and signal._replace(note="")


def test_names_are_unique() -> None:
    """A rule's name says which one it is."""
    assert len({rule.name for rule in BUILTIN}) == len(BUILTIN)


def test_a_note_says_what_decided() -> None:
    """A note names the rule, the status and the code."""
    found = classify(Response(429, {}, '{"error": {"code": "1302"}}'), NOW)
    assert found is not None
    assert found.note == "zai-concurrency (429, 1302)"


def test_a_note_says_what_was_undecidable() -> None:
    """A 429 that nothing explains names the codes there were, for a rule to be written."""
    body = '{"error": {"type": "over_the_top", "message": "sk-ant-1234"}}'
    found = classify(Response(429, {}, body), NOW)
    assert found is not None
    assert found.note.startswith("undecided: 429 with only over_the_top and no meter at 0")


def test_no_words_get_into_a_signal() -> None:
    """Names of accounts and parts of keys stay where they are."""
    for case in CASES:
        found = classify(answer(case), NOW)
        assert not found or not any(word in found.note for word in ("org-", "ak-", "req_", "http"))


def test_the_end_of_a_long_stream_is_seen() -> None:
    """An error comes last, however much came before."""
    much = events({"type": "content_block_delta", "delta": {"text": "x" * 1_000}}) * 100
    body = much + events(anthropic("overloaded_error", "Overloaded"))
    assert _plain(classify(Response(200, {}, body), NOW)) == Signal(OVERLOADED)


@pytest.mark.parametrize(
    "headers, wait",
    [
        ({"retry-after": "5"}, 5_000),
        ({"retry-after": " 0.25 "}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1m30s"}, 90_000),
        ({"retry-after": "Mon, 21 Sep 2026 14:14:20 GMT"}, 60_000),
        ({"retry-after": "2026-09-21T14:14:20Z"}, 60_000),
        ({"retry-after": "2026-09-21T16:14:20.5+02:00"}, 60_500),
        ({"retry-after": "1790000060"}, 60_000),
        ({"retry-after": "1790000060000"}, 60_000),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1_500),
        ({"retry-after-ms": "1500.2"}, 1_501),
        ({"retry-after-ms": "-1", "retry-after": "9"}, 9_000),
        ({"retry-after-ms": "NaN"}, None),
        ({"retry-after-ms": "99999999999999"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "NaN"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 21 Sep 2026 14:12:20 GMT"}, None),
        ({"retry-after": "Mon, 99 Sep 2026 14:12:20 GMT"}, None),
        ({"retry-after": "2026-09-21T14:14:20"}, None),
        ({"retry-after": "0001-01-01T00:00:00+14:00"}, None),
        ({"retry-after": "9999-12-31T23:59:59-14:00"}, None),
        ({"retry-after": "1780000000"}, None),
        ({"retry-after": "99999999"}, None),
        ({"retry-after": "1" * 5_000}, None),
    ],
)
def test_when_to_come_back(headers: dict[str, str], wait: int | None) -> None:
    """Every form of a wait is read; what is odd or over is none."""
    found = classify(Response(429, headers), NOW)
    assert found is not None
    assert found.retry_after == wait


@pytest.mark.parametrize(
    "message, wait",
    [
        ("Please try again in 4.2s.", 4_200),
        ("Please try again in 174ms. Visit", 174),
        ("Please retry in 12.5s", 12_500),
        ("Please retry after 86400 seconds", 86_400_000),
        ("Try again in 30 secs", 30_000),
        ("try again in 5 days 22 hours 11 minutes.", 511_860_000),
        ("Please try again in 1h2m3.5s", 3_723_500),
        ("Your quota will reset after 2 minutes, 5 seconds", 125_000),
        ("Your limit resets at 3pm", None),
        ("try again in a moment", None),
        ("try again in 5 moons", None),
        ("try again in 99999999 days", None),
        ("Retrying in 5 seconds", None),
    ],
)
def test_words_on_when_to_come_back(message: str, wait: int | None) -> None:
    """A length of time in the message counts if it is certain."""
    found = classify(Response(429, {}, json.dumps({"error": {"message": message}})), NOW)
    assert found is not None
    assert found.retry_after == wait


def test_the_longest_reset_of_an_empty_meter_counts() -> None:
    """All empty meters must fill; those that are not empty do not matter."""
    headers = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-09-21T14:13:25Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-09-21T14:13:40Z",
        "anthropic-ratelimit-output-tokens-remaining": "9",
        "anthropic-ratelimit-output-tokens-reset": "2026-09-21T14:14:00Z",
    }
    found = classify(Response(429, headers), NOW)
    assert found is not None
    assert (found.kind, found.retry_after) == (RATE, 20_000)


@pytest.mark.parametrize(
    "headers, found",
    [
        ({}, None),
        ({"content-type": "text/plain"}, None),
        (
            {
                "Anthropic-Ratelimit-Requests-Limit": "50",
                "Anthropic-Ratelimit-Requests-Remaining": "49",
                "Anthropic-Ratelimit-Requests-Reset": "2026-09-21T14:13:21Z",
                "Anthropic-Ratelimit-Tokens-Limit": "40000",
                "Anthropic-Ratelimit-Input-Tokens-Remaining": "30000",
                "Anthropic-Ratelimit-Output-Tokens-Reset": "2026-09-21T14:14:20Z",
            },
            RateHeaders(
                RateHeader(50, 49, Ms(1_000)),
                RateHeader(40_000, None, None),
                RateHeader(None, 30_000, None),
                RateHeader(None, None, Ms(60_000)),
            ),
        ),
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            RateHeaders(RateHeader(60, 59, Ms(1_000)), RateHeader(150_000, 149_984, Ms(360_000))),
        ),
        (
            {
                "X-RateLimit-Limit": "20",
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": "1790000001000",
            },
            RateHeaders(RateHeader(20, 0, Ms(1_000))),
        ),
        ({"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "-1"}, None),
        ({"x-ratelimit-limit-tokens": "9" * 5_000, "x-ratelimit-remaining-tokens": "many"}, None),
    ],
)
def test_meters(headers: dict[str, str], found: RateHeaders | None) -> None:
    """What is left is read from either family of headers; odd values are dropped."""
    assert rate_headers(headers, NOW) == found


# Rules of one's own.


def test_own_rules_come_first() -> None:
    """A rule of the configuration overrides the table, and may silence it."""
    own = own_rules(
        [
            {
                "name": "mine",
                "provider": "Corp*",
                "code": 1302,
                "signal": "overloaded",
                "account": True,
            },
            {"status": "500-599", "header": {"X-Why": "^seats$"}, "signal": "concurrency-limited"},
            {
                "status": [403, "404-405"],
                "body": "usage limit",
                "signal": "quota-gone",
                "retry": False,
            },
            {"status": 529, "signal": "none"},
        ]
    )
    rules = (*own, *BUILTIN)
    seats = '{"error": {"code": "1302"}}'
    corp = classify(Response(429, {}, seats, "corp-eu"), NOW, rules)
    assert corp == Signal(OVERLOADED, account=True, note="mine (429, 1302)")
    assert _plain(classify(Response(429, {}, seats, "zai"), NOW, rules)) == Signal(CONCURRENCY)
    assert _plain(classify(Response(502, {"x-why": "seats"}), NOW, rules)) == Signal(CONCURRENCY)
    assert classify(Response(502, {"x-why": "none"}), NOW, rules) is None
    limit = Response(403, {"retry-after": "5"}, "Usage Limit reached")
    assert _plain(classify(limit, NOW, rules)) == Signal(QUOTA)
    assert classify(Response(529, {}), NOW, rules) is None


def test_a_rule_without_a_status_is_for_refusals_only() -> None:
    """Neither what was let in nor who one is matches a rule that names no status."""
    rules = own_rules([{"header": {"x-a": "b"}, "signal": "rate-limited"}])
    for status in (200, 302, 401, 403):
        found = classify(Response(status, {"x-a": "b"}), NOW, rules)
        assert found is None or found.kind == ACCEPTED
    assert _plain(classify(Response(418, {"x-a": "b"}), NOW, rules)) == Signal(RATE)


def test_a_rule_may_name_a_2xx() -> None:
    """A provider that throttles with a 200 can be described."""
    rules = own_rules([{"status": 200, "header": {"x-a": "."}, "signal": "rate-limited"}])
    assert _plain(classify(Response(200, {"x-a": "b"}), NOW, rules)) == Signal(RATE)


@pytest.mark.parametrize(
    "value, said",
    [
        ({}, ["here: classify: found a table, expected a list of tables; write [[classify]]"]),
        ([3], ["here: classify: entry 1: found 3, expected a table"]),
        (
            [{"status": 429}],
            ["classify: entry 1: signal: missing, expected one of accepted, "],
        ),
        (
            [{"signal": "none"}],
            ["classify: entry 1: says not when it applies; name a status"],
        ),
        (
            [{"status": 429, "signal": "none"}, {"status": 42, "signal": "usage", "hedder": 1}],
            [
                "classify: entry 2: status: found 42, expected a status from 100 to 599, a range",
                'classify: entry 2: signal: found "usage", expected one of accepted, concurrency-',
                "classify: entry 2: hedder: unknown; allowed here: name, signal, provider, status",
            ],
        ),
        ([{"status": ["599-500"], "signal": "none"}], ["status: found a list, expected"]),
        ([{"status": [], "signal": "none"}], ["status: found a list, expected"]),
        ([{"status": True, "signal": "none"}], ["status: found true, expected"]),
        ([{"status": "4xx", "signal": "none"}], ['status: found "4xx", expected']),
        (
            [{"body": "(", "signal": "none"}],
            ['body: found "(" (missing ): (), expected'],
        ),
        ([{"body": "", "signal": "none"}], ['body: found "", expected']),
        ([{"body": "x" * 1_001, "signal": "none"}], ['body: found "xxx']),
        ([{"line": "[", "signal": "none"}], ['line: found "[" (missing ]: [']),
        (
            [{"header": {"x": "*"}, "signal": "none"}],
            ["header: found a bad pattern for 'x' (no argument for repetition operator: *"],
        ),
        ([{"header": "x", "signal": "none"}], ['header: found "x", expected a table of regular']),
        ([{"code": 1.5, "signal": "none"}], ["code: found 1.5, expected a code or a list of them"]),
        ([{"code": "a", "provider": "a/b", "signal": "none"}], ['provider: found "a/b", expected']),
        (
            [{"code": "a", "provider": "host", "signal": "none"}],
            ['provider: found "host", expected'],
        ),
        (
            [{"code": "a", "account": 1, "signal": "none"}],
            ["account: found 1, expected true or false"],
        ),
        ([{"code": "a", "retry": "no", "signal": "none"}], ['retry: found "no", expected true or']),
        (
            [{"code": "a", "name": "a\nb", "signal": "none"}],
            ['name: found "a\\nb", expected one line'],
        ),
        ([{"code": "a", "profile": "x", "signal": "none"}], ["profile: only beside line"]),
        ([{"code": "a", "signal": "quoted"}], ['signal: "quoted" is only for a line']),
        ([{"line": "a", "status": 429, "signal": "none"}], ["status: not beside line"]),
        ([{"line": "a", "signal": ["none"]}], ["signal: found a list, expected one of"]),
        ([{} for _ in range(30)], ["here: and 40 more like these"]),
    ],
)
def test_what_is_wrong_with_rules(value: object, said: list[str]) -> None:
    """Every mistake is named with its entry, its key, what was found and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        own_rules(value)
    for text in said:
        assert text in str(caught.value)


# Whatever comes in.

texts = st.text(max_size=200) | st.sampled_from(
    ["rate_limit_error", "1302", "429", "-1", "NaN", "rejected", "1790003600", "5s", "PerDay"]
)
names = st.sampled_from(
    [
        "retry-after",
        "Retry-After-MS",
        "x-ratelimit-reset",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-requests-reset",
        f"{UNIFIED}status",
        f"{UNIFIED}reset",
        f"{UNIFIED}representative-claim",
        "x-amzn-errortype",
    ]
)
keys = st.sampled_from(
    ["error", "type", "code", "message", "status", "details", "response", "retryDelay", "resets_at"]
)
documents = st.recursive(
    texts | st.integers() | st.floats() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)
bodies: st.SearchStrategy[str | bytes] = (
    st.text()
    | st.binary()
    | documents.map(json.dumps)
    | documents.map(lambda found: f"data: {json.dumps(found)}\n\n")
    | st.sampled_from([str(case.body) for case in CASES])
)
responses = st.builds(
    Response,
    st.integers(-10, 700) | st.sampled_from([200, 400, 401, 402, 403, 429, 500, 503, 529]),
    st.dictionaries(names | st.text(max_size=20), texts),
    bodies,
    st.sampled_from(["", "anthropic", "umans", "azure", "zai", "/", "*"]) | st.text(max_size=20),
)
moments = st.floats() | st.just(NOW)


@given(responses, moments)
def test_nothing_raises(response: Response, now: float) -> None:
    """Any answer at any time gives a known signal with a wait that is not negative, or none."""
    found = classify(response, Seconds(now))
    rate_headers(response.headers, Seconds(now))
    if found is not None:
        assert found.kind in KINDS
        assert found.retry_after is None or found.retry_after >= 0
        assert len(found.note) < 300


@given(responses, st.sampled_from([401, 403]), moments)
def test_who_one_is_is_no_limit(response: Response, status: int, now: float) -> None:
    """An authentication error never is a signal, whatever it says."""
    assert classify(response._replace(status=status), Seconds(now)) is None


@given(responses)
def test_only_what_was_let_in_is_accepted(response: Response) -> None:
    """No answer but a 2xx widens a gate, and no 2xx without an error closes one."""
    found = classify(response, NOW)
    if found is not None:
        assert 200 <= response.status < 300 or found.kind in REFUSALS


@given(documents)
def test_work_is_not_searched(work: object) -> None:
    """What a model wrote is never taken for an error."""
    body = json.dumps({"type": "message", "content": [work], "usage": work})
    assert classify(Response(200, {}, body), NOW) == Signal(ACCEPTED)


entries = st.dictionaries(
    st.sampled_from([*Rule._fields, "other"]),
    documents
    | st.sampled_from(["none", "quoted", "rate-limited", 429, "500-599", "a|b", {"x": "y"}]),
    max_size=6,
)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(documents | st.lists(entries), responses, st.text(max_size=50))
def test_own_rules_never_raise_but_when_read(value: object, response: Response, line: str) -> None:
    """Whatever the configuration says, a mistake is named when it is read, and only then."""
    try:
        rules = own_rules(value)
    except ConfigError:
        return
    classify(response, NOW, rules)
    classify_line(line, "", rules)


@pytest.mark.parametrize(
    "body",
    [
        "[" * 200_000,
        '{"error":' * 100_000,
        '{"error":' * 5_000 + "1" + "}" * 5_000,
        '{"error": {"code": ' + "9" * 60_000 + "}}",
        '{"error": {"code": ' + "9" * 4_000 + ', "resets_at": ' + "9" * 4_000 + "}}",
        '{"error": {"message": ' + json.dumps(json.dumps({"error": "{" * 20_000})) + "}}",
        "[ " * 40_000,
        "reached your " + "a" * 60_000,
        "reached your " + "usage " * 12_000,
        "too many " * 8_000,
        "1" * 64_000 + "rp",
        "try again in " + "1" * 60_000,
        "try again in " * 5_000,
        "try again in " + "1s " * 20_000,
        "'code': " * 9_000,
        "\x00" * 70_000,
        b"\xff\xfe" * 40_000,
        "data: " * 12_000,
        'data: {"error"\n' * 5_000,
        "data: [[[[[[{" + '"error"' * 9_000,
    ],
    ids=range(20),
)
def test_hostile_bodies_come_to_an_end(body: str | bytes) -> None:
    """However long, deep or broken a body is, it is judged at once, whatever its status."""
    for status in (200, 429, 503):
        found = classify(Response(status, {"retry-after": str(body)[:70_000]}, body), NOW)
        assert found is None or found.kind in KINDS


def test_none_is_no_kind() -> None:
    """The word for nothing cannot be mistaken for a signal."""
    assert NONE not in KINDS


@pytest.mark.parametrize("before", ["{", '{"content":"', "data: {"])
def test_what_is_left_of_a_long_answer_is_no_error(before: str) -> None:
    """Of a 2xx only the end is looked at; a line that was cut there may quote an error."""
    quoted = '{"error":{"type":"rate_limit_error","message":"x"}}'
    for cut in ("", "data: "):
        tail = f"{cut}{quoted}"
        body = before + "x" * 70_000 + tail + "y" * (65_536 - len(tail))
        assert classify(Response(200, {}, body), NOW) == Signal(ACCEPTED)
        assert classify(Response(200, {}, body.encode()), NOW) == Signal(ACCEPTED)
    stream = f"data: {{}}\n{'data: ' + 'x' * 70_000}\n\ndata: {quoted}\n"
    found = classify(Response(200, {}, stream), NOW)
    assert found is not None
    assert found.kind != ACCEPTED


def test_no_built_in_rule_is_about_what_was_accepted() -> None:
    """No rule of ours names a status below 400, so accepted answers need not look through them."""
    named = [status for rule in ANSWERS for status in rule.status]
    assert all((one if isinstance(one, int) else one.start) >= 400 for one in named)
    assert BUILTIN[: len(ANSWERS)] == ANSWERS
