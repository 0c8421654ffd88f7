"""What answers say, and what is made of nonsense."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.answers.signals import LONGEST_PAUSE, PAUSE, Reading
from headgate.core.times import Seconds
from headgate.http_client import Trouble, Unusable
from headgate.usage.shapes import by_path, featherless, load, returned, umans

NOW = Seconds(1_800_000_000.0)


def answer(usage: dict[str, Any] | None = None, **priority: object) -> dict[str, Any]:
    """What Umans answers, seen in the wild, with changes."""
    return {
        "plan": {"display_name": "Code Max"},
        "limits": {
            "requests": {"limit": 200, "hard_cap": 400, "burst_pct": 1.0, "window_seconds": 18000},
            "concurrency": {"limit": 4, "hard_cap": 8, "burst_pct": 1.0},
        },
        "usage": {
            "requests_in_window": 48,
            "concurrent_sessions": 1,
            "weighted_concurrent_sessions": 0.5,
            "priority": {"low": False, "boxed_until": None, "reason": None, **priority},
            "service_mode": {"current": "interactive", "resets_at": None},
            **(usage or {}),
        },
    }


PLAIN = Reading(1.0, 4, 8, requests=48, request_limit=200, window=18_000_000)


def test_umans_in_full() -> None:
    """Every field that a reading has a place for."""
    assert umans(answer(), NOW) == PLAIN


@pytest.mark.parametrize(
    "concurrent, weighted, in_use",
    [(1, 0.5, 1), (2, 3.5, 3.5), (None, 2.25, 2.25), (3, None, 3), (0, 0, 0)],
)
def test_umans_sessions(concurrent: object, weighted: object, in_use: float) -> None:
    """The larger of the two counts; one alone will do."""
    usage = {"concurrent_sessions": concurrent, "weighted_concurrent_sessions": weighted}
    assert umans(answer(usage), NOW).in_use == in_use


BAD = ["three", True, False, -1, math.nan, math.inf, 10**30, [], {}, "3", 1_000_001]


@pytest.mark.parametrize("name", ["concurrent_sessions", "weighted_concurrent_sessions"])
def test_umans_with_a_bad_count(name: str) -> None:
    """A count that is there and wrong is no reading, whatever the other one says."""
    for bad in BAD:
        with pytest.raises(Trouble, match="does not say how many sessions run"):
            umans(answer({name: bad}), NOW)


@pytest.mark.parametrize("bad", ["three", True, -1, math.nan, 10**30, {}, 0, 0.5, None])
def test_umans_with_bad_limits(bad: object) -> None:
    """Limits that cannot be are left out, and the count stays."""
    said = answer()
    said["limits"]["concurrency"] = {"limit": bad, "hard_cap": bad}
    assert umans(said, NOW) == PLAIN._replace(limit=None, hard_cap=None)
    said["limits"] = bad
    assert umans(said, NOW) == Reading(1.0, requests=48)


@pytest.mark.parametrize(
    "until",
    [
        NOW + 90,
        int(NOW + 90),
        (NOW + 90) * 1_000,
        datetime.fromtimestamp(NOW + 90, UTC).isoformat(),
        datetime.fromtimestamp(NOW + 90, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        datetime.fromtimestamp(NOW + 90, UTC).strftime("%Y-%m-%d %H:%M:%S"),
    ],
)
def test_umans_boxed(until: object) -> None:
    """A box is closed until its time, told in any way; a rate limit's box still serves."""
    shut = umans(answer(low=True, boxed_until=until, reason="abuse"), NOW)
    assert shut == PLAIN._replace(closed_for=90_000, low_priority=True, note="closed: abuse")
    slow = umans(answer(low=True, boxed_until=until, reason="rate_limited"), NOW)
    assert slow == PLAIN._replace(low_priority=True, note="low priority: rate_limited")


def test_umans_boxed_without_more() -> None:
    """No reason, a far time, an unintelligible time, a time that is over."""
    assert umans(answer(boxed_until=NOW + 9), NOW).closed_for == 9_000
    assert umans(answer(boxed_until=NOW + 10**9), NOW).closed_for == LONGEST_PAUSE
    odd: object
    for odd in ("soon", -5, True, {}, math.nan, "9" * 400, 10**400):
        assert umans(answer(boxed_until=odd, reason="abuse"), NOW).closed_for in {
            PAUSE,
            LONGEST_PAUSE,
        }
    for over in (None, "", 0, NOW - 1, NOW, "2001-01-01T00:00:00Z"):
        assert umans(answer(boxed_until=over, reason="abuse"), NOW) == PLAIN
        limited = umans(answer(boxed_until=over, reason="rate_limited"), NOW)
        assert limited.low_priority is (over is None)
        assert limited.closed_for is None


@pytest.mark.parametrize(
    "mode, note",
    [
        ({"current": "interactive"}, ""),
        ({"current": "Normal", "resets_at": "2026-07-16T12:00:00Z"}, ""),
        ({"current": "batch", "resets_at": None}, "service mode batch"),
        (
            {"current": "degraded", "resets_at": "2026-07-16T12:00:00Z"},
            "service mode degraded until 2026-07-16T12:00:00Z",
        ),
        ({"current": "\x1b[31mred\n" + "x" * 500}, "service mode [31mred " + "x" * 51),
        ({"current": 7}, ""),
        ("batch", ""),
        (None, ""),
    ],
)
def test_umans_service_mode(mode: object, note: str) -> None:
    """A mode that is not the usual one is for people to know, in one clean line."""
    assert umans(answer({"service_mode": mode}), NOW) == PLAIN._replace(note=note)


def test_featherless_in_full() -> None:
    """Cost units in use and the plan's limit; null means no limit."""
    event = {"limit": 8, "used_cost": 4, "request_count": 1, "requests": [{"cost": 4}]}
    assert featherless(event) == Reading(4.0, 8)
    assert featherless({**event, "limit": None}) == Reading(4.0)
    with pytest.raises(Trouble):
        featherless({"limit": 8})


@pytest.mark.parametrize(
    "used, value",
    [
        ("in_flight", {"in_flight": 2}),
        ("data.in_flight", {"data": {"in_flight": 2}}),
        ("data.0.in_flight", {"data": [{"in_flight": 2}]}),
        ("data[0].in_flight", {"data": [{"in_flight": 2}]}),
        ("data[1][0]", {"data": [[], [2]]}),
        ("0.n", [{"n": 2}]),
        ("[0].n", [{"n": 2}]),
        ("data.0", {"data": {"0": 2}}),
    ],
)
def test_paths(used: str, value: object) -> None:
    """Names and indexes, in either spelling."""
    assert by_path(value, used, "") == Reading(2.0)
    assert by_path(value, used, used) == Reading(2.0, 2)
    assert by_path(value, used, "no.such[3].place") == Reading(2.0)


@pytest.mark.parametrize("used", ["data.2", "data.x", "data.-1", "data.0.n.m", "data.²", "x"])
def test_paths_to_nowhere(used: str) -> None:
    """What is not there is no number."""
    with pytest.raises(Trouble, match="has no number"):
        by_path({"data": [{"n": 2}, "5"]}, used, "")


@pytest.mark.parametrize("path", ["", "a..b", "a[", "a[b]", "a.[0]", "a[0]b"])
def test_paths_that_are_none(path: str) -> None:
    """A path that cannot be one is said to be wrong, rather than the answer."""
    with pytest.raises(Unusable, match="used is no path"):
        by_path({"a": 1}, path, "")
    if path:
        with pytest.raises(Unusable, match="limit is no path"):
            by_path({"a": 1}, "a", path)


@pytest.mark.parametrize(
    "data, said",
    [
        (b"\xff{}", "not UTF-8"),
        (b"", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1} {"a": 2}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_is_not_json(data: bytes, said: str) -> None:
    """Anything that cannot be read is said to be so."""
    with pytest.raises(Trouble, match=said):
        load(data)


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000, "1e999", "NaN", "-Infinity"])
def test_numbers_that_are_none(number: str) -> None:
    """They spoil a count, and nothing else."""
    value = load(f'\ufeff{{"a": {number}, "b": 2}}'.encode())
    assert by_path(value, "b", "a") == Reading(2.0)
    with pytest.raises(Trouble):
        by_path(value, "a", "")


FULL = Reading(1.5, 4, 8, 1_000, True, 3, 200, 18_000, "busy")


@pytest.mark.parametrize(
    "value, reading",
    [
        (3, Reading(3.0)),
        (2.5, Reading(2.5)),
        ((1, 4), Reading(1.0, 4)),
        ([1, 4], Reading(1.0, 4)),
        ((1, None), Reading(1.0)),
        ({"in_use": 1, "limit": 4}, Reading(1.0, 4)),
        ({"in_use": 1, "other": "thing"}, Reading(1.0)),
        (FULL, FULL),
        (FULL._asdict(), FULL),
        (FULL._replace(closed_for=10**12), FULL._replace(closed_for=LONGEST_PAUSE)),
        (
            Reading(1, 0, -1, -5, 1, -1, 0, math.nan, "a\nb"),  # type: ignore[arg-type]
            Reading(1.0, note="a b"),
        ),
        (None, None),
        (True, None),
        ("3", None),
        (math.nan, None),
        ((1, 2, 3), None),
        ((), None),
        ({}, None),
        ({"in_use": -1}, None),
        (Reading(math.inf), None),
    ],
)
def test_what_a_function_may_return(value: object, reading: Reading | None) -> None:
    """Numbers, pairs, readings and tables; anything else is none."""
    assert returned(value) == reading


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "usage",
                    "limits",
                    "concurrency",
                    "requests",
                    "priority",
                    "service_mode",
                    "concurrent_sessions",
                    "weighted_concurrent_sessions",
                    "boxed_until",
                    "reason",
                    "low",
                    "limit",
                    "used_cost",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(anything, st.floats(0, 4e9))
def test_any_answer_is_a_good_reading_or_none(value: object, now: float) -> None:
    """Whatever JSON comes in, numbers that go out are ones that the gate can use."""
    value = load(json.dumps(value).encode())
    shapes: list[Callable[[object], Reading | None]] = [
        lambda value: umans(value, Seconds(now)),
        featherless,
        returned,
    ]
    for shape in shapes:
        try:
            reading = shape(value)
        except Trouble:
            continue
        if reading is not None:
            assert 0 <= reading.in_use <= 1_000_000
            for number in (reading.limit, reading.hard_cap, reading.closed_for, reading.window):
                assert number is None or (type(number) is int and number >= 1)
            assert reading.closed_for is None or reading.closed_for <= LONGEST_PAUSE
            assert reading.note.isprintable()
