"""What an answer says, as a Reading. Pure: whoever asks brings the time.

The number in use must be right, or there is no reading. What is wrong about anything else is left
out: a reading without a limit is still worth having. Fractions are kept; the gate rounds up.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from headgate.core.answers.signals import LONGEST_PAUSE, PAUSE, Reading, parse_reading
from headgate.core.printable_text import printable
from headgate.core.times import Ms, Seconds, ms, ms_up
from headgate.http_client import Trouble, Unusable

_NORMAL = {"", "normal", "interactive", "standard", "default", "ok"}
_STILL_SERVED = "rate_limited"
_PATH = re.compile(r"([^.\[\]]+|\[\d+\])(\.[^.\[\]]+|\[\d+\])*")
_LATEST = Seconds(100_000_000_000)
"""Seconds since 1970 that no time reaches; beyond, a number counts milliseconds."""


def load(data: bytes) -> Any:  # noqa: ANN401 - whatever JSON can say
    """The value that an answer spells."""
    import json

    try:
        return json.loads(data.decode("utf-8-sig"), parse_int=_number)
    except UnicodeDecodeError:
        raise Trouble("sent text that is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Trouble("sent something that is not JSON") from None


def umans(value: object, now: Seconds) -> Reading:
    """A reading of Umans' `/v1/usage`; `now` is in seconds since 1970."""
    usage, limits = _table(value, "usage"), _table(value, "limits")
    sessions = [
        usage[name]
        for name in ("concurrent_sessions", "weighted_concurrent_sessions")
        if usage.get(name) is not None
    ]
    counted = [_count(number) for number in sessions]
    known = [number for number in counted if number is not None]
    if not known or len(known) < len(counted):
        raise Trouble("does not say how many sessions run")
    concurrency, requests = _table(limits, "concurrency"), _table(limits, "requests")
    window = _count(requests.get("window_seconds"))
    closed, low, box = _box(_table(usage, "priority"), now)
    mode = _mode(_table(usage, "service_mode"))
    return Reading(
        max(known),
        limit=_whole(concurrency.get("limit"), 1),
        hard_cap=_whole(concurrency.get("hard_cap"), 1),
        closed_for=closed,
        low_priority=low,
        requests=_whole(usage.get("requests_in_window"), 0),
        request_limit=_whole(requests.get("limit"), 1),
        window=ms(Seconds(window)) if window else None,
        note="; ".join(part for part in (box, mode) if part),
    )


def featherless(value: object) -> Reading:
    """A reading of one event of Featherless' concurrency stream, in cost units."""
    reading = parse_reading(_at(value, "used_cost"), _at(value, "limit"))
    if reading is None:
        raise Trouble("does not say how much is in use")
    return reading


def by_path(value: object, used: str, limit: str) -> Reading:
    """A reading of any JSON, by the places where its numbers stand."""
    for name, path in (("used", used), ("limit", limit)):
        if (path or name == "used") and not _PATH.fullmatch(path):
            raise Unusable(
                f"the usage source's {name} is no path; expected one such as data.0.in_flight"
            )
    reading = parse_reading(_at(value, used), _at(value, limit) if limit else None)
    if reading is None:
        raise Trouble(f"has no number from 0 to 1000000 at {used[:80]}")
    return reading


def returned(value: object) -> Reading | None:
    """A reading of what a function returned; None if it cannot be one."""
    if isinstance(value, Reading):
        value = value._asdict()
    if isinstance(value, Mapping):
        return _from_fields(value)
    if isinstance(value, (tuple, list)):
        return parse_reading(*value) if len(value) == 2 else None
    return parse_reading(value)


def _from_fields(fields: Mapping[Any, Any]) -> Reading | None:
    reading = parse_reading(fields.get("in_use"), fields.get("limit"))
    if reading is None:
        return None
    closed, window = _duration(fields.get("closed_for")), _duration(fields.get("window"))
    return reading._replace(
        hard_cap=_whole(fields.get("hard_cap"), 1),
        closed_for=min(closed, LONGEST_PAUSE) if closed else None,
        low_priority=fields.get("low_priority") is True,
        requests=_whole(fields.get("requests"), 0),
        request_limit=_whole(fields.get("request_limit"), 1),
        window=window or None,
        note=_words(fields.get("note"), 200),
    )


def _box(priority: Mapping[str, Any], now: Seconds) -> tuple[Ms | None, bool, str]:
    """For how long nothing is served, whether it is served slowly, and why."""
    reason = _words(priority.get("reason"))
    until = priority.get("boxed_until")
    left = _milliseconds_until(until, now)
    boxed = until not in (None, "", False) and (left is None or left > 0)
    served = reason.lower() == _STILL_SERVED
    low = priority.get("low") is True or (served and (boxed or until is None))
    if boxed and not served:
        note = f"closed: {reason or 'no reason given'}"
        return min(PAUSE if left is None else left, LONGEST_PAUSE), low, note
    return None, low, f"low priority: {reason or 'no reason given'}" if low else ""


def _mode(mode: Mapping[str, Any]) -> str:
    current = _words(mode.get("current"))
    if current.lower() in _NORMAL:
        return ""
    until = _words(mode.get("resets_at"))
    return f"service mode {current} until {until}" if until else f"service mode {current}"


def _milliseconds_until(when: object, now: Seconds) -> Ms | None:
    """How long until a time, as ISO text or seconds since 1970; None if it is no time."""
    from datetime import UTC, datetime

    if isinstance(when, str):
        try:
            moment = datetime.fromisoformat(when.strip())
            when = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(when, bool) or not isinstance(when, (int, float)):
        return None
    try:
        at = Seconds(when)
    except OverflowError:
        return None
    if not math.isfinite(at) or at < 0:
        return None
    if at > _LATEST:
        at = Seconds(at / 1_000)
    return ms_up(at - now)


def _at(value: object, path: str) -> object:
    """What stands at a path such as `data.0.in_flight` or `data[0].in_flight`; None if nothing."""
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 7:
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value


def _table(value: object, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, dict) else {}


def _count(value: object) -> float | None:
    reading = parse_reading(value)
    return None if reading is None else reading.in_use


def _whole(value: object, least: int) -> int | None:
    number = _count(value)
    return None if number is None or number < least else int(number)


def _duration(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 < value < 2**53 else None


def _words(value: object, most: int = 60) -> str:
    """A text from outside, fit to be shown; empty if it is none."""
    if not isinstance(value, str):
        return ""
    return printable(value)[:most].strip()


def _number(digits: str) -> float:
    """A whole number of any length; those that are too long are no use to anyone."""
    return int(digits) if len(digits) <= 18 else math.inf
