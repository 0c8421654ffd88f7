"""Durations, priorities, limits, weights and tasks, as people write them."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.quantities import (
    CLASSES,
    FOREVER,
    parse_duration,
    parse_limit,
    parse_priority,
    parse_task,
    parse_weight,
    priority_class,
    show_duration,
)
from headgate.core.times import Ms
from headgate.errors import UsageError

DAY = 86_400_000
LONGEST = 366 * DAY


@pytest.mark.parametrize(
    "value, ms",
    [
        ("2s", 2_000),
        ("1m30s", 90_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("1.5h", 5_400_000),
        (" 2 s ", 2_000),
        ("1H 30M", 5_400_000),
        ("30", 30_000),
        ("0.25", 250),
        (30, 30_000),
        (0.25, 250),
        (0, 0),
        ("1.4ms", 1),
        ("1.6ms", 2),
        (0.0004, 0),
        ("366d", LONGEST),
    ],
)
def test_a_duration_is_read_in_milliseconds(value: object, ms: int) -> None:
    """A duration is units in a row, or seconds; it becomes whole milliseconds, rounded."""
    parsed = parse_duration(value)
    assert parsed == ms
    assert type(parsed) is int


@pytest.mark.parametrize(
    "value",
    [
        *("", "1x", "s", "1s2", "1..5s", "1,5s", "½s"),
        *("-1", "-1s", "nan", "0x10", "1s\0"),
        *(-0.0001, math.nan, -math.inf, True, None, b"1s"),
    ],
)
def test_junk_is_no_duration(value: object) -> None:
    """What is no time, or less than none, is refused with an example of what is allowed."""
    with pytest.raises(UsageError, match=r"bad cooldown .* expected a time such as 2s") as caught:
        parse_duration(value, "cooldown")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", ["367d", "inf", "1e300", "9" * 400, math.inf, 10**30])
def test_a_duration_ends_at_a_leap_year(value: object) -> None:
    """More than 366 days is refused, however much more it is."""
    with pytest.raises(UsageError, match="at most 366d"):
        parse_duration(value)


@given(
    st.text(max_size=20)
    | st.floats()
    | st.integers()
    | st.text("0123456789.smhd -+e", max_size=12)
    | st.none()
)
def test_any_value_is_a_duration_or_a_usage_error(value: object) -> None:
    """Whatever is given, the answer is a bounded whole number or a UsageError."""
    try:
        ms = parse_duration(value)
    except UsageError:
        return
    assert type(ms) is int
    assert 0 <= ms <= LONGEST


@pytest.mark.parametrize(
    "ms, text",
    [
        (-5, "0s"),
        (0, "0ms"),
        (850, "850ms"),
        (1_000, "1s"),
        (4_200, "4.2s"),
        (9_990, "10s"),
        (59_400, "59s"),
        (59_600, "1m"),
        (90_000, "1m30s"),
        (61_000, "1m01s"),
        (3_599_600, "1h"),
        (7_500_000, "2h05m"),
        (47 * 3_600_000, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * 3_600_000, "3d4h"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(ms: int, text: str) -> None:
    """A duration is shown in the two units that matter at its size."""
    assert show_duration(Ms(ms)) == text


@given(st.integers(0, LONGEST))
def test_a_shown_duration_can_be_read_back(ms: int) -> None:
    """What is shown can be typed in again, and means the same to within five percent."""
    assert parse_duration(show_duration(Ms(ms))) == pytest.approx(ms, rel=0.05)


@given(st.integers(0, 999) | st.integers(0, 59).map(lambda s: s * 1_000))
def test_short_round_durations_come_back_exactly(ms: int) -> None:
    """Milliseconds below a second and whole seconds below a minute lose nothing when shown."""
    assert parse_duration(show_duration(Ms(ms))) == ms


@pytest.mark.parametrize(
    "value, number",
    [
        (None, 0),
        ("interactive", 10),
        (" Normal ", 0),
        ("BACKGROUND", -10),
        (7, 7),
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        (1_000_000, 1_000_000),
        ("-1000000", -1_000_000),
    ],
)
def test_a_priority_is_a_name_or_a_number(value: object, number: int) -> None:
    """A priority is a class by name or a whole number; none given is normal."""
    assert parse_priority(value) == number


@pytest.mark.parametrize(
    "value",
    [
        *("", "high", "1.0", "1000001", "9" * 5_000),
        *(1.0, True, 1_000_001, -1_000_001, 10**400, b"1"),
    ],
)
def test_a_bad_priority_is_refused(value: object) -> None:
    """Anything else is refused with the names and the range."""
    with pytest.raises(UsageError, match=r"bad priority .* interactive, normal, background"):
        parse_priority(value)


@pytest.mark.parametrize(
    "number, cls",
    [(10, "interactive"), (9, "normal"), (-9, "normal"), (-10, "background")],
)
def test_a_number_belongs_to_a_class(number: int, cls: str) -> None:
    """Ten and above is interactive, minus ten and below background, the rest normal."""
    assert priority_class(number) == cls


@pytest.mark.parametrize("cls", CLASSES)
def test_a_class_by_name_is_of_that_class(cls: str) -> None:
    """The number a class's name stands for belongs to that class."""
    assert priority_class(parse_priority(cls)) == cls


@given(st.integers(-1_000_000, 1_000_000), st.integers(-1_000_000, 1_000_000))
def test_a_higher_number_is_never_of_a_lower_class(one: int, other: int) -> None:
    """Classes follow the order of the numbers."""
    low, high = sorted((one, other))
    assert CLASSES.index(priority_class(high)) <= CLASSES.index(priority_class(low))


@pytest.mark.parametrize(
    "value, number",
    [(1, 1), ("4", 4), (" 4 ", 4), ("+4", 4), ("007", 7), (1_000_000, 1_000_000)],
)
def test_limits_and_weights_are_whole_numbers(value: object, number: int) -> None:
    """A limit and a weight are whole numbers from one, as a number or as text."""
    assert parse_limit(value) == number
    assert parse_weight(value) == number


@pytest.mark.parametrize(
    "value",
    [
        *(0, "0", "", "four", "4.0", "-1", "9" * 13, "9" * 5_000),
        *(-1, 4.0, True, None, 1_000_001, 10**400),
    ],
)
def test_a_bad_limit_is_refused(value: object) -> None:
    """What is no whole number of seats is refused, with the word the caller has for it."""
    with pytest.raises(UsageError, match=r"bad reserve .* from 1 to 1000000"):
        parse_limit(value, "reserve")


@pytest.mark.parametrize("value", [0, "four", 4.0, 1_000_001])
def test_a_bad_weight_is_refused(value: object) -> None:
    """Work weighs at least one seat, in whole seats."""
    with pytest.raises(UsageError, match=r"bad weight .* from 1 to 1000000"):
        parse_weight(value)


@pytest.mark.parametrize("value", [0, "0"])
def test_a_limit_of_nothing_points_to_pause(value: object) -> None:
    """Whoever asks for a limit of 0 is told about pause; other bad limits are not."""
    with pytest.raises(UsageError, match="headgate pause"):
        parse_limit(value)
    with pytest.raises(UsageError) as caught:
        parse_limit(-1)
    assert "pause" not in str(caught.value)


def test_a_duration_beyond_every_float_is_a_usage_error() -> None:
    """A whole number of seconds that no float can hold is refused like any other bad value."""
    with pytest.raises(UsageError, match="at most 366d"):
        parse_duration(10**400)


@pytest.mark.parametrize("parse", [parse_duration, parse_priority, parse_limit, parse_weight])
def test_an_absurdly_long_number_is_a_usage_error(parse: Callable[[object], int]) -> None:
    """A number too long to be shown is refused like any other bad value."""
    with pytest.raises(UsageError):
        parse(10**5_000)


@pytest.mark.parametrize(
    "value, task",
    [
        (None, ""),
        ("", ""),
        ("  fix #12\n", "fix #12"),
        ("größe 模型 🚀", "größe 模型 🚀"),
        ("'; DROP TABLE lease; --", "'; DROP TABLE lease; --"),
        ("x" * 200, "x" * 200),
    ],
)
def test_a_task_is_one_printable_line(value: object, task: str) -> None:
    """A task is any printable line, trimmed; none given is empty."""
    assert parse_task(value) == task


@pytest.mark.parametrize(
    "value",
    [
        *("a\nb", "a\0b", "a\x1b[2Jb", "a\x7fb", "a\u202eb"),
        *("a\u200bb", "a\ud800b", "x" * 201, "x" * 10_000, 5, b"x"),
    ],
)
def test_a_hostile_task_is_refused(value: object) -> None:
    """A task cannot move the cursor, break the line, hide text or be endless; nor can the error."""
    with pytest.raises(UsageError, match=r"bad task .* one printable line") as caught:
        parse_task(value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@given(st.text(max_size=300))
def test_any_text_is_a_task_or_a_usage_error(text: str) -> None:
    """Any text either is a stable, printable task or raises a UsageError."""
    try:
        task = parse_task(text)
    except UsageError:
        return
    assert parse_task(task) == task
    assert task.isprintable()
    assert len(task) <= 200


def test_forever_outlasts_every_duration() -> None:
    """The time that never comes lies beyond now plus the longest duration there is."""
    assert 10**13 + LONGEST < FOREVER
