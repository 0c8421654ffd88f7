"""Milliseconds and seconds: what mypy says to those who mix them up, and how one becomes the other.

A line that must be an error says so with an ignore: were it none, mypy would call that unused.
"""

from typing import assert_type

import pytest

from headgate.core.quantities import show_duration, show_seconds
from headgate.core.times import NO_TIME, Ms, Seconds, ms, ms_up, seconds

WAIT, SPAN = Ms(1_500), Seconds(2.5)


def takes_ms(wait: Ms) -> Ms:
    return wait


def takes_seconds(wait: Seconds) -> Seconds:
    return wait


def test_each_stays_what_it_is() -> None:
    """Sums, differences, multiples and the lesser of two are of the same unit."""
    assert assert_type(WAIT + WAIT, Ms) == 3_000
    assert assert_type(WAIT - WAIT, Ms) == NO_TIME
    assert assert_type(-WAIT, Ms) == -1_500
    assert assert_type(abs(-WAIT), Ms) == assert_type(WAIT // 2 * 2, Ms) == 1_500
    assert assert_type(min(WAIT, NO_TIME), Ms) == 0
    assert assert_type(max((it for it in (WAIT,) if it), default=NO_TIME), Ms) == WAIT
    assert assert_type(SPAN + SPAN, Seconds) == 5
    assert assert_type(SPAN - 1, Seconds) == 1.5
    assert assert_type(max(SPAN, Seconds(3)) / 2, Seconds) == 1.5
    assert WAIT < 2_000
    assert SPAN >= 2


def test_a_plain_number_is_neither() -> None:
    """Not even the sum of milliseconds and a plain number says what it is."""
    assert takes_ms(5) == 5  # type: ignore[arg-type]
    assert takes_seconds(0.5) == 0.5  # type: ignore[arg-type]
    assert takes_ms(WAIT + 1) == 1_501  # type: ignore[arg-type]
    assert assert_type(WAIT / 1_000, float) == 1.5


def test_they_do_not_mix() -> None:
    """Neither passes for the other, nor is added to it, nor compared with it."""
    assert takes_ms(SPAN) == 2.5  # type: ignore[arg-type]
    assert takes_seconds(WAIT) == 1_500  # type: ignore[arg-type]
    assert WAIT + SPAN > 0  # type: ignore[operator]
    assert SPAN + WAIT > 0  # type: ignore[operator]
    assert SPAN - WAIT < 0  # type: ignore[operator]
    assert WAIT > SPAN  # type: ignore[operator]
    assert SPAN < WAIT  # type: ignore[operator]
    assert WAIT != SPAN  # type: ignore[operator]
    assert show_duration(SPAN) == "2ms"  # type: ignore[arg-type]
    assert show_seconds(WAIT) == "25m"  # type: ignore[arg-type]


def test_they_cost_nothing() -> None:
    """At run time they are the plain numbers."""
    assert type(WAIT) is int
    assert type(SPAN) is float


@pytest.mark.parametrize(
    "said, nearest, up", [(0.0, 0, 0), (1.5, 1_500, 1_500), (0.0004, 0, 1), (-0.0006, -1, 0)]
)
def test_one_becomes_the_other(said: Seconds, nearest: int, up: int) -> None:
    """To the nearest millisecond, or to the next; and back without a loss."""
    assert ms(said) == nearest
    assert ms_up(said) == up
    assert ms(seconds(ms(said))) == ms(said)
