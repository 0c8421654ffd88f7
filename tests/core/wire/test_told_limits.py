"""What the headers of an answer say of rates and quotas."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.answers.retry_after import RateHeader
from headgate.core.times import Ms, Seconds
from headgate.core.wire.told_limits import (
    NO_LIMITS,
    Quota,
    QuotaWindow,
    ToldLimits,
    limits_in_event,
    told_limits,
)
from headgate.sim.dialects.anthropic import Anthropic
from headgate.sim.dialects.dialect import Limits, Rate
from headgate.sim.dialects.openai import Chat

NOW = Seconds(1_790_000_000.0)  # 2026-09-21T14:13:20Z
UNIFIED = "anthropic-ratelimit-unified-"


def unified(**fields: str) -> dict[str, str]:
    """Headers of a Claude subscription, as they were seen."""
    usual = {
        "status": "allowed",
        "reset": "1790010000",
        "representative-claim": "five_hour",
        "5h-status": "allowed",
        "5h-reset": "1790010000",
        "5h-utilization": "0.42",
        "7d-status": "allowed",
        "7d-reset": "1790400000",
        "7d-utilization": "0.3",
        "fallback-percentage": "0.5",
        "overage-disabled-reason": "org_level_disabled",
    }
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return {UNIFIED + name: value for name, value in {**usual, **named}.items()}


WINDOWS = (
    QuotaWindow("5h", 0.42, Ms(10_000_000)),
    QuotaWindow("7d", 0.3, Ms(400_000_000)),
)


@pytest.mark.parametrize(
    "headers,expected",
    [
        ({}, NO_LIMITS),
        ({"content-type": "text/plain"}, NO_LIMITS),
        (
            unified(),
            ToldLimits(windows=WINDOWS, resets_in=Ms(10_000_000), window="5h", account=True),
        ),
        (
            unified(status="allowed_warning", representative_claim="seven_day_opus"),
            ToldLimits(
                windows=WINDOWS,
                quota=Quota.NEARLY_GONE,
                resets_in=Ms(10_000_000),
                window="seven_day_opus",
            ),
        ),
        (
            unified(status="rejected"),
            ToldLimits(
                windows=WINDOWS,
                quota=Quota.GONE,
                resets_in=Ms(10_000_000),
                window="5h",
                account=True,
            ),
        ),
        (
            unified(status="rejected", overage_status="allowed"),
            ToldLimits(
                windows=WINDOWS,
                quota=Quota.NEARLY_GONE,
                resets_in=Ms(10_000_000),
                window="5h",
                account=True,
            ),
        ),
        (
            {
                "X-Codex-Primary-Used-Percent": "97.5",
                "x-codex-primary-window-minutes": "300",
                "x-codex-primary-reset-at": "1790003600",
                "x-codex-secondary-used-percent": "12",
                "x-codex-secondary-window-minutes": "10080",
                "x-codex-secondary-reset-after-seconds": "7200",
            },
            ToldLimits(
                windows=(
                    QuotaWindow("5h", 0.975, Ms(3_600_000)),
                    QuotaWindow("7d", 0.12, Ms(7_200_000)),
                ),
                quota=Quota.NEARLY_GONE,
                resets_in=Ms(3_600_000),
                window="5h",
                account=True,
            ),
        ),
        (
            {"x-codex-bengalfox-primary-used-percent": "95"},
            ToldLimits(
                windows=(QuotaWindow("primary bengalfox", 0.95),),
                quota=Quota.NEARLY_GONE,
                window="primary bengalfox",
            ),
        ),
    ],
)
def test_quotas(headers: dict[str, str], expected: ToldLimits) -> None:
    """Each subscription's headers tell what is used, and whether that is nearly all."""
    assert told_limits(headers, NOW) == expected


def test_rates_are_told_beside_quotas() -> None:
    """Anthropic's rates of a minute are read as they are for signals."""
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-09-21T14:13:21Z",
        "anthropic-ratelimit-output-tokens-remaining": "8000",
    }
    found = told_limits({**headers, **unified()}, NOW)
    assert found.rates is not None
    assert found.rates.requests == RateHeader(50, 49, Ms(1_000))
    assert found.rates.output_tokens == RateHeader(None, 8_000, None)
    assert found.windows == WINDOWS


def test_what_the_simulator_tells() -> None:
    """The simulator's headers are understood, for both makers."""
    limits = Limits(Rate(60, 10, 5_000), Rate(1_000, 0, 20_000), "allowed_warning", 3_600_000)
    anthropic = told_limits(Anthropic().headers(1, limits, NOW), NOW)
    assert (anthropic.quota, anthropic.window) == (Quota.NEARLY_GONE, "5h")
    assert anthropic.resets_in == Ms(3_600_000)
    for told in (anthropic, told_limits(Chat().headers(1, limits, NOW), NOW)):
        assert told.rates is not None
        assert told.rates.requests == RateHeader(60, 10, Ms(5_000))
        assert told.rates.tokens == RateHeader(1_000, 0, Ms(20_000))


def test_limits_in_an_event() -> None:
    """The same windows may come in an event of a stream."""
    event = {
        "type": "codex.rate_limits",
        "plan_type": "pro",
        "rate_limits": {
            "primary": {"used_percent": 42.0, "window_minutes": 300, "reset_at": 1_790_000_060},
            "secondary": None,
        },
    }
    window = QuotaWindow("5h", 0.42, Ms(60_000))
    assert limits_in_event(event, NOW) == ToldLimits(windows=(window,))


NAMES = st.sampled_from(
    [
        *unified(),
        "x-codex-primary-used-percent",
        "x-codex-primary-window-minutes",
        "x-codex-primary-reset-at",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset",
    ]
)


@given(st.dictionaries(NAMES, st.text() | st.integers().map(str) | st.floats().map(str)))
def test_any_headers_are_read(headers: dict[str, str]) -> None:
    """Whatever headers say, they are read without an error, and no words of theirs come out."""
    found = told_limits(headers, NOW)
    assert all(0 <= window.used <= 1_000 for window in found.windows)
    assert found.window.isascii()


@given(
    st.recursive(
        st.none() | st.text() | st.floats(),
        lambda x: st.dictionaries(
            st.sampled_from(["rate_limits", "primary", "used_percent", "reset_at"]), x
        ),
    )
)
def test_any_event_is_read(event: object) -> None:
    """Whatever an event says, it is read without an error."""
    if isinstance(event, dict):
        limits_in_event(event, NOW)
        json.dumps(event)
