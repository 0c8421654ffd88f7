"""When a limit ends, told as people tell the time."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.answers.clock_times import JUST_NOW, told_moment
from headgate.core.answers.retry_after import retry_after
from headgate.core.answers.signals import LONGEST_QUOTA
from headgate.core.times import Seconds

NOW = datetime(2026, 11, 18, 6, 55, tzinfo=UTC)
"""A Wednesday."""
ZONES = (
    *("UTC", "America/New_York", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kolkata"),
    *("Pacific/Chatham", "America/Sao_Paulo", "Africa/Casablanca", "Pacific/Kiritimati"),
    *("America/St_Johns", "Asia/Tehran", "Antarctica/Troll"),
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def read(words: str, now: datetime = NOW, zone: str = "UTC") -> datetime | None:
    """The moment that words tell, in UTC."""
    found = told_moment(words, Seconds(now.timestamp()), zone)
    return None if found is None else datetime.fromtimestamp(found, UTC)


@pytest.mark.parametrize(
    "words, moment",
    [
        ("You've hit your limit · resets 4:21am (UTC)", "11-19 04:21"),
        ("ERROR: upgrade to Pro or try again at 4:24 AM.", "11-19 04:24"),
        ("limit · resets 7am", "11-18 07:00"),
        ("resets 7 a.m.", "11-18 07:00"),
        ("resets at 16:20", "11-18 16:20"),
        ("resets 0:00", "11-19 00:00"),
        ("will reset at 12am.", "11-19 00:00"),
        ("resets 12pm", "11-18 12:00"),
        ("resets 12:30pm (Asia/Kolkata)", "11-18 07:00"),
        ("resets 3pm (America/New_York) · /upgrade", "11-18 20:00"),
        ("resets 4:21am UTC", "11-19 04:21"),
        ("resets 4:21am +02:00", "11-19 02:21"),
        ("resets 4:21am -0930", "11-18 13:51"),
        ("limit ∙ resets Mon 9am", "11-23 09:00"),
        ("resets Monday at 9:00 AM (Europe/Paris)", "11-23 08:00"),
        ("resets Wed 9am", "11-18 09:00"),
        ("resets Wed 5am", "11-25 05:00"),
        ("resets on Thu, 1am", "11-19 01:00"),
        ("resets Nov 20 at 3pm", "11-20 15:00"),
        ("resets Nov 20, 3pm (America/New_York)", "11-20 20:00"),
        ("try again at Nov 20th, 2026 8:19 PM.", "11-20 20:19"),
        ("try again at Nov 20, 2026, 7:38 AM", "11-20 07:38"),
        ("resets November 20 at 15:00", "11-20 15:00"),
        ("resets at 2026-11-20T03:00:30Z", "11-20 03:00"),
        ("resets at 2026-11-20 03:00 (Asia/Kolkata)", "11-19 21:30"),
        ("resets tomorrow at 9am", "11-19 09:00"),
        ("resets today at 9am", "11-18 09:00"),
        ("resets 6:54am", "11-18 06:56"),
        ("resets Wed 6:54am", "11-18 06:56"),
        ("RESETS 4:21AM (utc)", "11-19 04:21"),
        ("no limit resets; but it resets 9am", "11-18 09:00"),
    ],
)
def test_a_clock_time_is_the_next_of_its_kind(words: str, moment: str) -> None:
    """With and without a day and a zone, however it is written."""
    found = read(words)
    assert found is not None
    assert f"{found:%m-%d %H:%M}" == moment


@pytest.mark.parametrize(
    "words",
    [
        *("", "resets", "resets 4", "resets 99:99am", "resets 13pm", "resets 0am", "resets 24:00"),
        *("resets 4:60pm", "resets 4:5pm", "resets 4:211am", "resets 12345", "4:21am", "at 4pm"),
        *("resets 3pm (Mars/Base)", "resets 3pm (../../etc/passwd)", "resets 3pm (/etc/passwd)"),
        *("resets Nov 31 at 1pm", "resets Nov 0 at 1pm", "resets Feb 30 at 1pm"),
        *("resets Nov 17 at 3pm", "resets May 31 at 3pm", "try again at Jul 5th, 2025 8:19 PM"),
        *("resets 2026-13-45 12:00", "resets 0000-01-01 12:00", "resets 9999-99-99 1pm"),
        *("resets Yesterday 4pm", "resets today at 4am", "resets 4pm (\0)", "resets 4pm (America)"),
        "resets in 5 minutes",
    ],
)
def test_what_is_no_time_is_none(words: str) -> None:
    """What cannot be, is over, or names a zone that is none, is not guessed at."""
    assert read(words) is None


@pytest.mark.parametrize(
    "words, now, moment",
    [
        # In New York clocks go from 2:00 to 3:00 on March 8, and from 2:00 to 1:00 on November 1.
        ("resets 2:30am (America/New_York)", "2026-03-08 06:00", "2026-03-09 06:30"),
        ("resets 3:30am (America/New_York)", "2026-03-08 06:00", "2026-03-08 07:30"),
        ("resets 1:30am (America/New_York)", "2026-11-01 05:00", "2026-11-01 05:30"),
        ("resets 1:30am (America/New_York)", "2026-11-01 05:40", "2026-11-01 06:30"),
        ("resets 1:30am (America/New_York)", "2026-11-01 06:40", "2026-11-02 06:30"),
        ("resets Mon 9am (America/New_York)", "2026-10-28 00:00", "2026-11-02 14:00"),
        ("resets Jan 2 at 1am", "2026-12-30 00:00", "2027-01-02 01:00"),
        ("resets Feb 29 at 1pm", "2028-02-27 00:00", "2028-02-29 13:00"),
        ("resets 12:01am", "2026-12-31 23:59", "2027-01-01 00:01"),
        ("resets 11:59pm", "2026-12-31 23:58", "2026-12-31 23:59"),
        ("resets 11:59pm", "2027-01-01 00:00", "2027-01-01 00:01"),
        ("resets tomorrow at 9am", "2027-01-01 00:01", "2027-01-02 09:00"),
    ],
)
def test_across_midnight_and_summer_time(words: str, now: str, moment: str) -> None:
    """A time that is left out comes a day later, one that is shown twice comes twice."""
    found = read(words, datetime.fromisoformat(f"{now}+00:00"))
    assert found is not None
    assert f"{found:%Y-%m-%d %H:%M}" == moment


def spelled(hour: int, minute: int, style: int) -> str:
    """A clock time as people write it."""
    half, twelve = ("am" if hour < 12 else "pm"), hour % 12 or 12
    short = f"{twelve}{half}" if minute == 0 else f"{twelve}:{minute:02}{half}"
    return (short, f"{twelve}:{minute:02} {half.upper()}", f"{hour:02}:{minute:02}")[style]


clocks = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 2))
moments = st.integers(1_500_000_000, 2_000_000_000)


@given(now=moments, clock=clocks, zone=st.sampled_from(ZONES), named=st.booleans())
@example(now=1_772_953_200, clock=(2, 30, 0), zone="America/New_York", named=True)
@example(now=1_793_511_600, clock=(1, 30, 2), zone="America/New_York", named=False)
@example(now=1_500_000_000, clock=(0, 8, 0), zone="America/St_Johns", named=False)
def test_it_is_the_next_moment_with_that_clock(
    now: int, clock: tuple[int, int, int], zone: str, *, named: bool
) -> None:
    """In any zone: it shows that time, and no minute from now until then does."""
    words = f"limit · resets {spelled(*clock)}{f' ({zone})' if named else ''}"
    found = told_moment(words, Seconds(now), zone)
    assert found is not None

    def shows(at: float) -> bool:
        there = datetime.fromtimestamp(at, ZoneInfo(zone))
        return (there.hour, there.minute) == clock[:2]

    if any(shows(now - gone) for gone in range(0, int(JUST_NOW) + 1, 60)) and found == now + 60:
        return  # it was just now
    assert shows(found)
    first = now - now % 60 + 60
    assert not any(shows(at) for at in range(first, int(found), 60))
    assert found - now <= 86_400 * 2 + 7_200


@given(
    now=moments,
    clock=clocks,
    zone=st.sampled_from(ZONES),
    ahead=st.integers(1, 6),
    style=st.integers(0, 3),
)
def test_a_day_is_the_next_of_its_name(
    now: int, clock: tuple[int, int, int], zone: str, ahead: int, style: int
) -> None:
    """By its weekday or its date, with and without a year; unless summer time leaves it out."""
    there = datetime.fromtimestamp(now, ZoneInfo(zone))
    day = there.date() + timedelta(days=ahead)
    meant = datetime(day.year, day.month, day.day, clock[0], clock[1], tzinfo=there.tzinfo)
    names = (
        DAYS[day.weekday()],
        f"{MONTHS[day.month - 1]} {day.day} at",
        f"{MONTHS[day.month - 1]} {day.day}th, {day.year}",
        f"{day:%Y-%m-%d}",
    )
    found = told_moment(f"resets {names[style]} {spelled(*clock)} ({zone})", Seconds(now))
    exists = datetime.fromtimestamp(meant.timestamp(), there.tzinfo) == meant
    if exists and datetime.fromtimestamp(meant.timestamp(), there.tzinfo).hour == clock[0]:
        assert found == meant.timestamp()
    elif found is not None:
        assert found > now


@given(
    st.text() | st.from_regex(r"(?:resets|try again at) [\w ,:()/+-]{0,40}", fullmatch=True),
    st.floats(-1e12, 1e12) | st.sampled_from([float("nan"), float("inf"), -1e300, 253402300799.0]),
    st.sampled_from(["", "UTC", "EST5EDT", ":/etc/localtime", "Nowhere", "\0", "x" * 500]),
)
def test_whatever_comes_nothing_raises(words: str, now: float, zone: str) -> None:
    """Hostile words, odd clocks and odd zones give a time that is not over, or none."""
    wait = retry_after({}, (), words, Seconds(now), until_reset=True, zone=zone)
    assert wait is None or 0 <= wait <= 366 * 86_400_000


@pytest.mark.parametrize(
    "words", ["resets " * 50_000, "resets Nov " * 20_000, "resets 4" + ":21" * 50_000, "(" * 90_000]
)
def test_hostile_words_come_to_an_end(words: str) -> None:
    """However long they are."""
    read(words)


def test_a_time_too_far_away_is_bounded() -> None:
    """More than eight days are eight days: whoever meant a year is asked again before."""
    now = Seconds(NOW.timestamp())
    for words in ("resets Mar 20 at 3pm", "try again at Jul 5th, 2030 8:19 PM"):
        assert retry_after({}, (), words, now, until_reset=True) == LONGEST_QUOTA


@pytest.fixture
def in_paris() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Paris"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


@pytest.mark.usefixtures("in_paris")
def test_without_a_zone_the_machines_own_counts() -> None:
    """Summer time and all, and also where a zone that was given is no name."""
    summer = datetime(2026, 10, 24, 12, 0, tzinfo=UTC)
    for zone in ("", "EST5EDT,M3.2.0,M11.1.0"):
        assert read("resets 4:21am", NOW, zone) == datetime(2026, 11, 19, 3, 21, tzinfo=UTC)
        assert read("resets 1:30am", summer, zone) == datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
        assert read("resets Sun 9am", summer, zone) == datetime(2026, 10, 25, 8, 0, tzinfo=UTC)
