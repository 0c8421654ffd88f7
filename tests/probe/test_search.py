"""What the rounds of a probe say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.host.pressure import GIB
from headgate.core.times import Seconds
from headgate.probe.search import Copy, Round, Search, fault, needs, worse

MIB = 2**20


def ran(count: int, seconds: float = 1.0, memory: int = 100 * MIB, **how: object) -> Round:
    copy = Copy(seconds, memory, 0.5, 0)._replace(**how)  # type: ignore[arg-type]
    good = Copy(Seconds(seconds), memory, Seconds(0.5), 0)
    return Round((copy, *[good] * (count - 1)), Seconds(seconds), memory * count)


def searched(most: int, bearable: int) -> tuple[int, list[int]]:
    search, tried = Search(most), []
    while (count := search.next()) is not None:
        tried.append(count)
        search.record(count, bad=count > bearable)
    return search.good, tried


def test_numbers_double_and_then_close_in() -> None:
    """From the last good and the first bad number to the exact one."""
    assert searched(16, 16) == (16, [1, 2, 4, 8, 16])
    assert searched(12, 99) == (12, [1, 2, 4, 8, 12])
    assert searched(16, 5) == (5, [1, 2, 4, 8, 6, 5])
    assert searched(16, 0) == (0, [1])


@given(st.integers(1, 256), st.integers(0, 300))
def test_the_search_ends_at_the_number_that_is_bearable(most: int, bearable: int) -> None:
    """Whatever that is, and never above the most that may be tried; no number is tried twice."""
    good, tried = searched(most, bearable)
    assert good == min(most, bearable)
    assert len(set(tried)) == len(tried) <= 18
    assert max(tried) <= most


@pytest.mark.parametrize(
    "round_,said",
    [
        (ran(4), ""),
        (ran(4, code=3), "1 of 4 failed (exit code 3)"),
        (ran(1, code=-9), "it failed (ended by signal 9)"),
        (ran(2, code=None), "1 of 2 failed (1 took too long)"),
        (ran(2, refused="rate-limited"), "1 of 2 failed (upstream said rate-limited)"),
        (ran(2)._replace(stopped="it was broken off"), "it was broken off"),
    ],
)
def test_what_went_wrong_is_said(round_: Round, said: str) -> None:
    """Exit codes, signals, time and refusals, each in words."""
    assert fault(round_) == said


def test_slower_is_bearable_while_more_gets_done() -> None:
    """Twice the time for four times the work is worth it; for the same work it is not."""
    alone = ran(1)
    assert worse(ran(4, 2.0), alone, alone) == ""
    assert worse(ran(4, 1.4), alone, ran(2)) == ""
    assert worse(ran(4, 2.0), alone, ran(2)).startswith("each took 2.0 times as long")
    assert worse(ran(2, code=1), alone, alone).startswith("1 of 2 failed")


def test_memory_is_estimated_from_what_was_seen() -> None:
    """By the largest copy so far; nothing is tried that would go below what has to stay free."""
    rounds = [ran(1, memory=300 * MIB), ran(2, memory=200 * MIB)]
    assert needs(4, rounds, 3 * GIB, GIB) == ""
    assert needs(8, rounds, 3 * GIB, GIB) == (
        "8 would take 2.3 GiB, at 300 MiB each: 3 GiB are free, and 1 GiB have to stay so"
    )
    assert needs(1, [], GIB // 2, GIB).startswith("there is no memory to try it in")
    assert needs(1, [], GIB, GIB) == ""
