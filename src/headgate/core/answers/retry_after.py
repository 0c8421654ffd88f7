"""When to come back, and what is left of the rates: headers, fields and words, as milliseconds.

Odd values are no values: whatever comes in, nothing here raises.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from headgate.core.answers.signals import LONGEST_QUOTA
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_duration
from headgate.core.times import Ms, Seconds, ms_up
from headgate.errors import UsageError

_LONGEST_WAIT = 366 * 86_400_000
_UNIT = r"(?:ms|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?)(?![a-z])"
_LENGTH = rf"(?:[0-9]{{1,9}}(?:\.[0-9]{{1,9}})? ?{_UNIT}[ ,]{{0,2}}){{1,4}}"
_AGAIN = re.compile(rf"(?:try again|retry|resets?) (?:in|after) ({_LENGTH})", re.IGNORECASE)
_CLOCK = re.compile(r"(?:reset|again|retry|available)[^\n]{1,40}?\d", re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HTTP_DATE = re.compile(
    rf"[A-Z][a-z]{{2}}, (\d\d) ({'|'.join(_MONTHS)}) (\d{{4}}) (\d\d:\d\d:\d\d) GMT"
)


class RateHeader(NamedTuple):
    """What upstream says is left of one allowance; None where it does not say."""

    limit: int | None
    remaining: int | None
    reset_ms: Ms | None
    """Milliseconds until it is full again."""


class RateHeaders(NamedTuple):
    """The allowances that the headers of an answer speak of."""

    requests: RateHeader | None = None
    tokens: RateHeader | None = None
    input_tokens: RateHeader | None = None
    output_tokens: RateHeader | None = None


def rate_headers(headers: Mapping[str, str], now: Seconds) -> RateHeaders | None:
    """What the headers of an answer say is left; None if nothing."""
    found = allowances(lowered(headers), now)
    return found if any(found) else None


def retry_after(
    headers: Mapping[str, str],
    named: Sequence[tuple[str, str]],
    words: str,
    now: Seconds | None,
    *,
    until_reset: bool,
    zone: str = "",
) -> Ms | None:
    """For how many milliseconds upstream asks to be left alone: the plainest word on it counts.

    The headers come first, then what the body names, then its words; and then, for refusals that
    end with it, a clock time in its words (in the zone of whoever wrote them) and the reset of an
    allowance.
    """
    said = [_milliseconds(headers.get("retry-after-ms"))]
    said.append(time_until(headers.get("retry-after"), now))
    for key, value in named:
        said.append(_milliseconds(value) if key.endswith("_ms") else time_until(value, now))
    spoken = _AGAIN.search(words)
    if spoken:
        short = re.sub(r"(ms|[smhd])[a-z]*|[ ,]+", r"\1", spoken[1].lower())
        said.append(time_until(short, now))
    if until_reset:
        said += (_until_clock(words, now, zone), _reset(headers, now))
    return next((wait for wait in said if wait is not None), None)


def _until_clock(words: str, now: Seconds | None, zone: str) -> Ms | None:
    """Milliseconds until the clock time that words tell, at most `LONGEST_QUOTA`."""
    if now is None or not math.isfinite(now) or not _CLOCK.search(words):
        return None
    from headgate.core.answers.clock_times import told_moment

    at = told_moment(words, now, zone)
    return None if at is None else min(ms_up(at - now), LONGEST_QUOTA)


def _reset(headers: Mapping[str, str], now: Seconds | None) -> Ms | None:
    if headers.get("anthropic-ratelimit-unified-status", "").lower() == "rejected":
        return time_until(headers.get("anthropic-ratelimit-unified-reset"), now)
    left = [meter for meter in allowances(headers, now) if meter]
    empty = [m.reset_ms for m in left if m.remaining == 0 and m.reset_ms is not None]
    others = [m.reset_ms for m in left if m.reset_ms is not None]
    return max(empty) if empty else min(others, default=None)


def time_until(value: str | None, now: Seconds | None) -> Ms | None:
    """Milliseconds from a number of seconds, a duration, a date or an epoch; None if odd."""
    if value is None or len(value) > 64:
        return None
    word = value.strip()
    try:
        at = _moment(word)
        if at is None:
            return parse_duration(word)
        return None if now is None else _sensible(ms_up(at - now))
    except (UsageError, ValueError, OverflowError):
        return None


@lru_cache(maxsize=256)
def _moment(word: str) -> Seconds | None:
    """The seconds since the epoch at which something is, if this names a moment."""
    date = _HTTP_DATE.fullmatch(word)
    if date:
        day, month, year, clock = date.groups()
        word = f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}Z"
    if "T" in word:
        from datetime import datetime

        at = datetime.fromisoformat(word)
        return Seconds(at.timestamp() if at.tzinfo else math.nan)
    if re.fullmatch(r"[0-9]{10,13}(?:\.[0-9]{1,9})?", word):
        return Seconds(float(word) / (1_000 if float(word) >= 1e11 else 1))
    return None


def _milliseconds(value: str | None) -> Ms | None:
    if value is None or not re.fullmatch(r"\s*[0-9]{1,15}(?:\.[0-9]{0,9})?\s*", value):
        return None
    return _sensible(Ms(math.ceil(float(value))))


def _sensible(wait: Ms) -> Ms | None:
    return wait if 0 <= wait <= _LONGEST_WAIT else None


_ALLOWANCES = tuple(
    tuple(tuple(name.format(what) for what in ("limit", "remaining", "reset")) for name in names)
    for names in (
        ("anthropic-ratelimit-requests-{}", "x-ratelimit-{}-requests", "x-ratelimit-{}"),
        ("anthropic-ratelimit-tokens-{}", "x-ratelimit-{}-tokens"),
        ("anthropic-ratelimit-input-tokens-{}",),
        ("anthropic-ratelimit-output-tokens-{}",),
    )
)


def allowances(headers: Mapping[str, str], now: Seconds | None) -> RateHeaders:
    """What these headers (their names in lower case) say is left."""
    return RateHeaders._make(_meter(headers, names, now) for names in _ALLOWANCES)


def _meter(
    headers: Mapping[str, str], names: tuple[tuple[str, ...], ...], now: Seconds | None
) -> RateHeader | None:
    for limit, left, reset in names:
        if limit in headers or left in headers or reset in headers:
            found = RateHeader(
                _count(headers.get(limit)),
                _count(headers.get(left)),
                time_until(headers.get(reset), now),
            )
            if found != (None, None, None):
                return found
    return None


def _count(value: str | None) -> int | None:
    return int(value) if value and re.fullmatch(r"[0-9]{1,12}", value.strip()) else None


def lowered(headers: object) -> dict[str, str]:
    """Headers by their names in lower case; what is no text is left out."""
    if not isinstance(headers, Mapping):
        return {}
    return {
        str(name).lower(): str(value)
        for name, value in headers.items()
        if isinstance(value, (str, int, float))
    }
