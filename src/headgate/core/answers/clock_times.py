"""When a limit ends, if it is told as people tell the time: `resets 4:21am (UTC)`, `Mon 9am`.

    resets | reset at | try again at | available again at     what comes before it
    4:21am · 4 PM · 16:21                                     the clock, 12 or 24 hours
    today · tomorrow · Mon · Nov 20 · Nov 20th, 2026 · 2026-11-20      the day, if there is one
    (Europe/Paris) · UTC · +02:00                             the zone, else that of the machine

What is meant is the next moment at which the clocks of that zone show it: a time that a change to
summer time leaves out is not shown on that day, and one that is shown twice comes twice. What
cannot be read is no time. Whatever comes in, nothing here raises.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds

JUST_NOW = Seconds(120)
"""A time that was shown so shortly ago is over, but clocks differ and seconds are not told."""
_A_MOMENT = Seconds(60)
"""How long to wait then."""
_PAST = timedelta(days=180)
"""A day without a year that is further ahead than this is one that was."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TOLD = re.compile(
    rf"""
    \b(?:resets?|try\ again|retry|available(?:\ again)?)(?:[ ]at|[ ]on|[ ]after|:)?[ ]
    (?:
        (?P<iso>\d{{4}}-\d\d-\d\d)[ T]
      | (?P<month>{"|".join(_MONTHS)})[a-z]{{0,6}}\.?[ ](?P<day>\d{{1,2}})(?:st|nd|rd|th)?
        (?:,?[ ](?P<year>\d{{4}}))?(?:[ ]at|,|,[ ]at)?[ ]
      | (?P<weekday>{"|".join(_WEEKDAYS)})[a-z]{{0,6}}\.?(?:[ ]at|,)?[ ]
      | (?P<word>today|tomorrow)(?:[ ]at|,)?[ ]
    )?
    (?P<hour>\d{{1,2}})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d{{1,9}})?)?)?
    (?:[ ]?(?P<half>[ap])\.?m\b\.?)?
    (?:
        [ ]?(?P<offset>Z\b|[+-]\d\d:?\d\d)
      | [ ](?:\((?P<zone>[^()\n]{{1,60}})\)|(?P<bare>UTC|GMT)\b)
    )?
    (?![\d:])
    """,
    re.IGNORECASE | re.VERBOSE,
)


class _Clock(NamedTuple):
    """What a clock shows."""

    hour: int
    minute: int
    second: int


def told_moment(words: str, now: Seconds, zone: str = "") -> Seconds | None:
    """The moment that these words tell as a clock time, at or after `now`; None if they do not.

    `zone` is the zone of whoever wrote them, for times that name none; empty is the machine's own.
    One of `JUST_NOW` is a minute from now.
    """
    for told in _TOLD.finditer(words):
        try:
            at = _moment(told, now, zone)
        except (ValueError, OverflowError, OSError):
            continue
        if at is not None:
            return at
    return None


def _moment(told: re.Match[str], now: Seconds, zone: str) -> Seconds | None:
    clock = _clock(told)
    if clock is None:
        return None
    where = _zone(told, zone)
    today = datetime.fromtimestamp(now, where).date()
    since = datetime.fromtimestamp(now - JUST_NOW, where).date()
    for day in _days(told, today if told["word"] else since):
        for at in _shown(day, clock, where):
            if at >= now:
                return at
            if now - at <= JUST_NOW:
                return Seconds(now + _A_MOMENT)
    return None


def _clock(told: re.Match[str]) -> _Clock | None:
    hour, minute, second = (int(told[part] or 0) for part in ("hour", "minute", "second"))
    half = (told["half"] or "").lower()
    if not half and not told["minute"]:
        return None  # a number, and no time
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return _Clock(hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def _days(told: re.Match[str], today: date) -> Iterator[date]:
    """The days on which it may be, the nearest first."""
    if told["iso"]:
        yield date.fromisoformat(told["iso"])
    elif told["month"]:
        month, day = _MONTHS.index(told["month"].lower()[:3]) + 1, int(told["day"])
        for year in (int(told["year"]),) if told["year"] else (today.year, today.year + 1):
            with suppress(ValueError):  # Feb 29 is not in every year
                found = date(year, month, day)
                if told["year"] or today <= found <= today + _PAST:
                    yield found
    elif told["weekday"]:
        ahead = (_WEEKDAYS.index(told["weekday"].lower()[:3]) - today.weekday()) % 7
        for weeks in range(3):
            yield today + timedelta(days=ahead + 7 * weeks)
    elif told["word"]:
        yield today + timedelta(days=1 if told["word"].lower() == "tomorrow" else 0)
    else:
        for days in range(4):  # a time that summer time leaves out is shown on the next day
            yield today + timedelta(days=days)


def _shown(day: date, clock: _Clock, where: tzinfo | None) -> list[Seconds]:
    """When the clocks of a zone show this on that day: once, twice, or never."""
    found = []
    for fold in (0, 1):
        plain = datetime(day.year, day.month, day.day, *clock, fold=fold)  # noqa: DTZ001
        at = plain.replace(tzinfo=where).timestamp()
        if datetime.fromtimestamp(at, where).replace(tzinfo=None, fold=0) == plain.replace(fold=0):
            found.append(at)
    return [Seconds(at) for at in sorted(set(found))]


def _zone(told: re.Match[str], zone: str) -> tzinfo | None:
    """The zone that is named, or that of the writer; None is the machine's own."""
    offset = told["offset"]
    if offset and offset.upper() != "Z":
        length = timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:]))
        return timezone(-length if offset[0] == "-" else length)
    name = "UTC" if offset else (told["zone"] or told["bare"] or zone).strip()
    if name.upper() in {"UTC", "GMT", "Z"}:
        return UTC
    if not name:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        if told["zone"]:
            raise ValueError(f"no such zone: {name[:60]}") from error
        return None  # a TZ of the writer's that is no name, as in EST5EDT
