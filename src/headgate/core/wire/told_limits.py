"""What the headers of an answer say of limits: rates of a minute, and quotas of hours and days.

Rates are read by `core/answers/retry_after`, for every provider that tells them. Quotas:

    Claude's    anthropic-ratelimit-unified-status (allowed, allowed_warning, rejected), -reset,
                -representative-claim; of each window as 5h: -5h-utilization, -5h-reset
    ChatGPT's   x-codex-primary-used-percent, -window-minutes, -reset-at; -secondary-...

A quota that is nearly gone is worth knowing before it is gone. Where the provider does not say so
itself, it is nearly gone from `NEARLY` on. A quota is gone only if the provider says so: who has
used it up may still be served, from credits.
"""

import math
import re
from collections.abc import Mapping
from enum import StrEnum

from headgate.core.answers.retry_after import RateHeaders, allowances, lowered, time_until
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms, Seconds

NEARLY = 0.9
_UNIFIED = "anthropic-ratelimit-unified-"
_WINDOW = re.compile(rf"{_UNIFIED}([a-z0-9_]{{1,30}})-utilization")
_CODEX = re.compile(r"x-codex-((?:[a-z0-9]{1,30}-)?(?:primary|secondary))-used-percent")
_WHOLE_ACCOUNT = {"five_hour", "seven_day"}
_CLAIMS = {"five_hour": "5h", "seven_day": "7d"}
_MOST_WINDOWS = 16


class Quota(StrEnum):
    """How much of a quota is left, as far as it matters."""

    ENOUGH = "enough"
    NEARLY_GONE = "nearly-gone"
    GONE = "gone"


class QuotaWindow(NamedTuple):
    """What is used of a quota that comes back after hours or days."""

    name: str
    """Its length, as `5h` or `7d`, with the models it is for if not for all."""
    used: float
    """From 0 to 1; above, if more was used than there is."""
    resets_in: Ms | None = None


class ToldLimits(NamedTuple):
    """All that an answer says of limits."""

    rates: RateHeaders | None = None
    """What is left of the requests and tokens of a minute."""
    windows: tuple[QuotaWindow, ...] = ()
    quota: Quota = Quota.ENOUGH
    resets_in: Ms | None = None
    """When a quota that is gone, or nearly, is back."""
    window: str = ""
    """Which window that is about, if it is told."""
    account: bool = False
    """Whether it is about all models of the account."""


NO_LIMITS = ToldLimits()


def told_limits(headers: Mapping[str, str], now: Seconds) -> ToldLimits:
    """What the headers of an answer say of limits, at this many seconds since the epoch."""
    low = lowered(headers)
    if not any("ratelimit" in name or name.startswith("x-codex-") for name in low):
        return NO_LIMITS
    left = allowances(low, now)
    rates = left if any(left) else None
    if f"{_UNIFIED}status" in low:
        return _unified(low, now)._replace(rates=rates)
    return _codex(_codex_windows(low, now))._replace(rates=rates)


def limits_in_event(event: Mapping[str, object], now: Seconds) -> ToldLimits:
    """The same from an event `codex.rate_limits` within a stream."""
    told = event.get("rate_limits")
    headers: dict[str, str] = {}
    for side in ("primary", "secondary"):
        window = told.get(side) if isinstance(told, dict) else None
        for name, value in window.items() if isinstance(window, dict) else ():
            headers[f"x-codex-{side}-{str(name).replace('_', '-')}"] = str(value)
    return _codex(_codex_windows(headers, now))


def _unified(headers: Mapping[str, str], now: Seconds) -> ToldLimits:
    windows = []
    for name in headers:
        found = _WINDOW.fullmatch(name)
        used = _fraction(headers[name]) if found else None
        if found and used is not None:
            reset = headers.get(f"{_UNIFIED}{found[1]}-reset")
            windows.append(QuotaWindow(found[1], used, time_until(reset, now)))
    claim = headers.get(f"{_UNIFIED}representative-claim", "").strip().lower()
    return ToldLimits(
        windows=tuple(sorted(windows[:_MOST_WINDOWS])),
        quota=_unified_quota(headers),
        resets_in=time_until(headers.get(f"{_UNIFIED}reset"), now),
        window=_CLAIMS.get(claim, claim if re.fullmatch(r"[a-z0-9_]{1,30}", claim) else ""),
        account=claim in _WHOLE_ACCOUNT,
    )


def _unified_quota(headers: Mapping[str, str]) -> Quota:
    status = headers[f"{_UNIFIED}status"].strip().lower()
    if status == "rejected":
        # Who pays for what is above the quota is served on.
        over = headers.get(f"{_UNIFIED}overage-status", "").strip().lower()
        return Quota.NEARLY_GONE if over.startswith("allowed") else Quota.GONE
    return Quota.NEARLY_GONE if status == "allowed_warning" else Quota.ENOUGH


def _codex_windows(headers: Mapping[str, str], now: Seconds) -> tuple[QuotaWindow, ...]:
    windows = []
    for name in headers:
        found = _CODEX.fullmatch(name)
        percent = _fraction(headers[name]) if found else None
        if found and percent is not None:
            head = f"x-codex-{found[1]}"
            length = _minutes(headers.get(f"{head}-window-minutes", ""))
            reset = headers.get(f"{head}-reset-at") or headers.get(f"{head}-reset-after-seconds")
            family, _, side = found[1].rpartition("-")
            label = f"{length or side} {family}".strip()
            windows.append(QuotaWindow(label, percent / 100, time_until(reset, now)))
    return tuple(sorted(windows[:_MOST_WINDOWS]))


def _codex(windows: tuple[QuotaWindow, ...]) -> ToldLimits:
    """The fullest window counts; of two, the one that is back later."""
    full = [window for window in windows if window.used >= NEARLY]
    if not full:
        return ToldLimits(windows=windows)
    worst = max(full, key=lambda window: (window.used, window.resets_in or 0))
    return ToldLimits(
        windows=windows,
        quota=Quota.NEARLY_GONE,
        resets_in=worst.resets_in,
        window=worst.name,
        account=" " not in worst.name,
    )


def _fraction(value: str) -> float | None:
    """A number from 0 to 1000; None if it is none."""
    if len(value) > 32:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number <= 1_000 else None


def _minutes(value: str) -> str:
    """A window's length as people write it; empty if it is not told."""
    if not re.fullmatch(r"[0-9]{1,7}", value.strip()) or not int(value):
        return ""
    hours, odd = divmod(int(value), 60)
    if odd:
        return f"{int(value)}m"
    return f"{hours}h" if hours % 24 else f"{hours // 24}d"
