"""What upstream says is in use, brought up to now: never less than ours, never too much trust."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.answers.signals import Reading
from headgate.core.learning import usage_readings
from headgate.core.learning.usage_readings import (
    FAILED,
    FRESH,
    LAGS,
    SETTLED,
    SETTLES,
    WANTED,
    Guess,
    Own,
    Sight,
)
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import SIGHT, careful_sight

NOW = 1_000_000
SECOND = 1_000
EVERY = 2_000

owns = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(-20_000, 0),
        st.none() | st.integers(-15_000, 0),
        st.booleans(),
    ).map(
        lambda t: Own(
            t[0], NOW + t[1], None if t[2] is None else NOW + max(t[1], t[2]), completed=t[3]
        )
    ),
    max_size=8,
)
used = st.floats(0, 20) | st.integers(0, 20).map(float)
taken = st.builds(
    Reading, used, limit=st.none() | st.integers(1, 20), hard_cap=st.none() | st.integers(1, 20)
)


def held(own: list[Own]) -> int:
    return sum(item.seats for item in own if item.ended is None)


def take(sight: Sight, reading: Reading, own: list[Own], asked: int, now: int) -> Sight:
    return usage_readings.take(sight, reading, own, usage_readings.Question(asked, 99), now)


def guess(values: tuple[int, ...], best: int) -> Guess:
    jumps = tuple(0.5 if value == best else 1.0 for value in values)
    return Guess((0.0,) * len(values), jumps)


def learned(lag: int) -> Sight:
    """A sight that has learned this lag, and that what was sent 400 ms before is in a reading."""
    below = LAGS[LAGS.index(lag) - 1]
    found = Sight(samples=50, lags=guess(LAGS, below), settles=guess(SETTLES, 300))
    assert (found.lag, found.settled) == (lag, 400)
    return found


@given(taken, owns, st.integers(-5_000, 0), st.sampled_from([None, *LAGS[1:]]))
def test_never_less_than_ours(reading: Reading, own: list[Own], age: int, lag: int | None) -> None:
    """The estimate counts all that is in flight here, and follows each further request."""
    sight = Sight() if lag is None else learned(lag)
    sight = sight._replace(at=NOW + age, tried=NOW, reading=reading)
    found = usage_readings.estimate(sight, own, 2_000, NOW)
    assert found >= held(own)
    more = [*own, Own(2, NOW)]
    assert found <= usage_readings.estimate(sight, more, 2_000, NOW) <= found + 2
    assert usage_readings.estimate(sight, more, 2_000, NOW) >= held(own) + 2
    assert usage_readings.estimate(Sight(), own, 2_000, NOW) >= held(own)


@given(taken, owns, st.integers(-5_000, 0), st.integers(0, 4_000))
def test_caution_never_lets_in_more(
    reading: Reading, own: list[Own], age: int, cooldown: int
) -> None:
    """A longer rest, a refusal or an unfinished request never makes the estimate smaller."""
    sight = Sight(at=NOW + age, tried=NOW, reading=reading)
    found = usage_readings.estimate(sight, own, cooldown, NOW)
    assert usage_readings.estimate(sight, own, cooldown + 500, NOW) >= found
    doubtful = [item._replace(completed=False) for item in own]
    assert usage_readings.estimate(sight, doubtful, cooldown, NOW) >= found
    for careful in (1, 2, 3):
        more = usage_readings.estimate(sight._replace(careful=careful), own, cooldown, NOW)
        assert more >= found
        found = more


@pytest.mark.parametrize(
    "item, unknown, known",
    [
        (Own(1, NOW - 9_000), 5, 5),
        (Own(1, NOW - 1_000 - SETTLED), 5, 5),
        (Own(1, NOW - 999 - SETTLED), 6, 6),
        (Own(1, NOW), 6, 6),
        (Own(1, NOW - 9_000, NOW - 999), 5, 4),
        (Own(1, NOW - 9_000, NOW - 500), 5, 4),
        (Own(1, NOW - 9_000, NOW - 499), 5, 5),
        (Own(1, NOW - 9_000, NOW - 600, completed=False), 5, 5),
        (Own(1, NOW - 9_000, NOW - 1_000), 5, 5),
        (Own(1, NOW - 900, NOW - 600), 5, 5),
        (Own(1, NOW - 900, NOW - 300), 6, 6),
        (Own(3, NOW - 9_000, NOW - 600), 5, 2),
        (Own(1, NOW - 60_000, NOW - 600), 5, 5),
        (Own(7, NOW - 9_000), 7, 7),
        (Own(7, NOW - 9_000, NOW - 499), 7, 7),
    ],
)
def test_what_one_request_adds(item: Own, unknown: int, known: int) -> None:
    """Sent just before and since: added. Ended since, short and surely noticed: taken off."""
    last = Sight(at=NOW - 1_000, tried=NOW, reading=Reading(5))
    assert usage_readings.estimate(last, [item], 500, NOW) == unknown
    sight = learned(500)._replace(at=last.at, tried=NOW, reading=last.reading)
    assert usage_readings.estimate(sight, [item], 0, NOW) == known


def test_fractions_are_rounded_up() -> None:
    """Cost units come as fractions: what is begun is counted whole."""
    sight = Sight(at=NOW, tried=NOW, reading=Reading(2.25))
    assert usage_readings.estimate(sight, [], 0, NOW) == 3
    assert usage_readings.estimate(sight._replace(reading=Reading(2.0)), [], 0, NOW) == 2


@given(taken, st.integers(1, 20), st.integers(0, 30), st.integers(0, 30))
def test_no_margin_closes_a_pool(reading: Reading, limit: int, margin: int, others: int) -> None:
    """What may be in flight is at least one, at most the limit, and less where there is doubt."""
    cap = usage_readings.cap(reading, limit, margin)
    assert 1 <= cap <= limit
    sight = Sight(NOW, NOW, reading, others=others)
    allowed = usage_readings.allowance(sight, limit, margin)
    assert 1 <= allowed <= cap
    assert allowed < cap or cap == 1
    assert usage_readings.allowance(sight._replace(others=others + 1), limit, margin) <= allowed


def test_what_may_be_in_flight() -> None:
    """The lower of ours and theirs, less the margin; in doubt less one, and less others."""
    assert usage_readings.cap(Reading(0, limit=4), 8, 1) == 3
    assert usage_readings.cap(Reading(0, limit=9), 8, 1) == 7
    assert usage_readings.cap(Reading(0), 8, 0) == 8
    sight = Sight(NOW, NOW, Reading(3, limit=6), others=2)
    assert usage_readings.allowance(sight, 8, 0) == 3
    assert usage_readings.allowance(sight, 8, 1) == 2
    assert usage_readings.allowance(Sight(), 8, 0) == 7


@pytest.mark.parametrize(
    "at, tried, every, expected",
    [
        (0, 0, 2_000, FRESH),
        (-6_000, 0, 2_000, FRESH),
        (-6_001, 0, 2_000, FAILED),
        (-6_001, -6_000, 2_000, FAILED),
        (-6_001, -6_001, 2_000, WANTED),
        (-6_000, -6_000, 2_000, FRESH),
        (-5_000, -5_000, 250, FRESH),
        (-5_001, -5_001, 250, WANTED),
        (-5_001, -5_000, 250, FAILED),
    ],
)
def test_how_far_a_reading_is_trusted(at: int, tried: int, every: int, expected: str) -> None:
    """For a few polls, five seconds at the least; then a new one has to be had, or none can."""
    sight = Sight(NOW + at, NOW + tried, Reading(1), problem="timeout")
    assert usage_readings.stance(sight, every, NOW) == expected
    untroubled = WANTED if expected == FAILED else expected
    assert usage_readings.stance(sight._replace(problem=""), every, NOW) == untroubled


def test_without_any_reading() -> None:
    """One has to be tried first; if that fails, there is none for a while."""
    assert usage_readings.stance(Sight(), EVERY, NOW) == WANTED
    failed = usage_readings.miss(Sight(), "no route", NOW)
    assert (failed.problem, failed.tried, failed.reading) == ("no route", NOW, None)
    assert usage_readings.stance(failed, EVERY, NOW + 6_000) == FAILED
    assert usage_readings.stance(failed, EVERY, NOW + 6_001) == WANTED


def test_a_failed_poll_keeps_the_last_reading() -> None:
    """It is no zero: the last good reading goes on counting until it is too old."""
    good = take(Sight(), Reading(7), [], NOW, NOW)
    failed = usage_readings.miss(good, "timeout", NOW + 2_000)
    assert (failed.reading, failed.at) == (Reading(7), NOW)
    assert usage_readings.stance(failed, EVERY, NOW + 6_000) == FRESH
    assert usage_readings.stance(failed, EVERY, NOW + 6_001) == FAILED
    again = take(failed, Reading(1), [], NOW + 6_500, NOW + 6_600)
    assert (again.problem, again.tried, again.at) == ("", NOW + 6_600, NOW + 6_500)


def test_a_slow_answer_never_replaces_a_newer_one() -> None:
    """What was asked for earlier and arrives later is dropped."""
    newer = take(Sight(), Reading(7), [], NOW, NOW + 50)
    assert take(newer, Reading(1), [], NOW - 1, NOW + 900) == newer
    assert take(newer, Reading(1), [], NOW, NOW + 900).reading == Reading(1)


def test_what_others_use() -> None:
    """What is left of a reading when ours is taken off; never less than nothing."""
    own = [Own(1, NOW - 9), Own(2, NOW), Own(1, NOW + 1), Own(1, NOW - 9, NOW - 1)]
    assert take(Sight(), Reading(5.5), own, NOW, NOW).others == 3
    assert take(Sight(), Reading(1), own, NOW, NOW).others == 0


@pytest.mark.parametrize(
    "sight, ends, expected",
    [
        (Sight(tried=NOW, at=NOW), [], NOW + EVERY),
        (Sight(tried=NOW - 9_000), [], NOW),
        (Sight(tried=NOW, at=NOW), [NOW + 100], NOW + 350),
        (Sight(tried=NOW, at=NOW), [NOW - 100], NOW + EVERY),
        (Sight(tried=NOW - 200, at=NOW - 200), [NOW - 190], NOW + 60),
        (learned(500)._replace(tried=NOW, at=NOW), [NOW - 100], NOW + 400),
        (learned(500)._replace(tried=NOW, at=NOW), [NOW - 100, NOW - 20], NOW + 400),
        (learned(500)._replace(tried=NOW, at=NOW), [NOW - 500], NOW + EVERY),
        (learned(500)._replace(tried=NOW, at=NOW), [NOW - 440], NOW + 250),
        (learned(5_000)._replace(tried=NOW, at=NOW), [NOW], NOW + EVERY),
    ],
)
def test_when_to_ask(sight: Sight, ends: list[int], expected: int) -> None:
    """Every so often, and as soon as an end must have been noticed; never twice in 250 ms."""
    assert usage_readings.due(sight, EVERY, ends, NOW) == expected


@given(st.integers(0, 10_000), st.lists(st.integers(-9_000, 0)), st.sampled_from([None, *LAGS[1:]]))
def test_asking_is_never_hasty_nor_forgotten(ago: int, ends: list[int], lag: int | None) -> None:
    """Never within 250 ms of the last try, never later than the usual time."""
    sight = (Sight() if lag is None else learned(lag))._replace(tried=NOW - ago, at=NOW - ago)
    at = usage_readings.due(sight, EVERY, [NOW + end for end in ends], NOW)
    assert at >= max(NOW, sight.tried + 250)
    assert at <= max(NOW, sight.tried + EVERY)


def test_doubt() -> None:
    """A refusal in spite of a reading: a new one is needed, and what was learned is not used."""
    sight = learned(500)._replace(at=NOW, tried=NOW, reading=Reading(3), polling="p")
    assert not usage_readings.suspicious(sight, NOW + 1)
    once = usage_readings.doubt(sight, NOW + 1)
    assert (once.lag, once.settled, once.reading, once.polling) == (None, 800, Reading(3), "p")
    assert usage_readings.stance(once, EVERY, NOW + 2) == WANTED
    again = take(once, Reading(3), [], NOW + 2, NOW + 3)
    assert usage_readings.stance(again, EVERY, NOW + 3) == FRESH
    assert (again.lag, again.settled) == (None, 800)
    assert usage_readings.suspicious(again, NOW + 600_000)
    assert not usage_readings.suspicious(again, NOW + 600_001)
    for settled in (1_600, 3_200, 3_200):
        once = usage_readings.doubt(once, NOW + 2)
        assert once.settled == settled
    late = take(again, Reading(3), [], NOW + 600_001, NOW + 600_001)
    assert (late.lag, late.settled) == (500, 400)
    assert usage_readings.doubt(late, NOW + 700_000).careful == 1


def test_a_reading_that_never_moves_is_not_believed() -> None:
    """Our own count went up and down under it, and it says the same: it says nothing."""
    sight = Sight(samples=50)
    own = [[Own(1, NOW - 9_000)] * count for count in (1, 3, 1, 3)]
    stances = []
    for index, mine in enumerate(own):
        now = NOW + index * 100
        sight = take(sight, Reading(2), mine, now, now)
        stances.append(usage_readings.stance(sight, EVERY, now))
    assert stances == [FRESH, FRESH, FAILED, FAILED]
    moved = take(sight, Reading(3), own[0], NOW + 900, NOW + 900)
    assert usage_readings.stance(moved, EVERY, NOW + 900) == FRESH


def noise(seed: int) -> int:
    """A number that looks like chance."""
    return (seed * 2_654_435_761 + 12_345) % 2**32 >> 7


@dataclass
class Account:
    """An account that counts what has ended for a while longer, and others on it."""

    lag: int
    foreign: int = 0
    busy: int = 6
    now: int = NOW
    own: list[Own] = field(default_factory=list)
    sight: Sight = field(default_factory=Sight)
    seed: int = 1

    def chance(self, most: int) -> int:
        self.seed += 1
        return noise(self.seed) % most

    def count(self, at: int) -> int:
        """What upstream counts as ours at a moment."""
        return sum(
            item.seats
            for item in self.own
            if item.sent + 50 <= at and (item.ended is None or item.ended + self.lag > at)
        )

    def run(self, seconds: int) -> Sight:
        """Requests of some seconds, a reading every second or so, others who come and go."""
        until = self.now + seconds * SECOND
        others = self.foreign // 2
        poll = self.now
        while self.now < until:
            self.now += 50
            for index, item in enumerate(self.own):
                if item.ended is None and self.now - item.sent > 1_500 + noise(item.sent) % 6_000:
                    self.own[index] = item._replace(ended=self.now)
            if held(self.own) < self.busy and self.chance(4) == 0:
                self.own.append(Own(1, self.now))
            self.own = [
                item for item in self.own if item.ended is None or item.ended > self.now - 15_000
            ]
            if self.now >= poll:
                if self.foreign and self.chance(6) == 0:
                    others = max(0, min(self.foreign, others + self.chance(3) - 1))
                asked, poll = self.now, self.now + 700 + self.chance(900)
                reading = Reading(float(self.count(asked) + others))
                self.sight = take(self.sight, reading, self.own, asked, self.now)
        return self.sight


def right(account: Account) -> float:
    """How often what is learned is at or above the truth, in four minutes."""
    above = [candidate for candidate in LAGS if candidate >= account.lag]
    found = [account.run(4).lag or 0 for _ in range(60)]
    assert sorted(found)[30] <= max(3_000, above[:4][-1])
    return sum(lag >= account.lag for lag in found) / len(found)


@pytest.mark.parametrize("foreign", [0, 4])
@pytest.mark.parametrize("lag", [0, 600, 2_000])
def test_the_lag_is_found(lag: int, foreign: int) -> None:
    """What is learned is at or above the truth, whoever else uses the account."""
    account = Account(lag, foreign)
    account.run(120)
    assert right(account) > 0.95


@pytest.mark.parametrize("foreign", [0, 4])
def test_a_lag_that_grows_is_found_again(foreign: int) -> None:
    """From .2 s to 2 s, without being told."""
    account = Account(200, foreign)
    before = account.run(240).lag
    assert before is not None
    assert before <= 3_000
    account.lag = 2_000
    account.run(120)
    assert right(account) > 0.9


def test_nothing_is_learned_from_few_or_from_nothing() -> None:
    """Many readings that tell lags apart are needed; an idle account tells nothing."""
    assert Account(200).run(5).lag is None
    assert Account(200, foreign=4, busy=0).run(120).lag is None
    enough = usage_readings._SAMPLES
    few = learned(500)._replace(samples=enough - 1)
    assert (few.lag, few.settled) == (None, SETTLED)
    assert few._replace(samples=enough).lag == 500
    last = few._replace(samples=99, lags=guess(LAGS, LAGS[-1]), settles=guess(SETTLES, 2_000))
    assert (last.lag, last.settled) == (LAGS[-1], SETTLES[-1])


def test_lags_are_in_order() -> None:
    """So that one above the best is the next one."""
    assert all(low < high for values in (LAGS, SETTLES) for low, high in pairwise(values))


@given(taken, owns, st.sampled_from([None, 500]), st.text(max_size=8))
@settings(max_examples=50)
def test_a_sight_can_be_kept(
    reading: Reading, own: list[Own], lag: int | None, problem: str
) -> None:
    """What is written comes back the same."""
    sight = Sight() if lag is None else learned(lag)
    for asked in (NOW, NOW + 700):
        sight = take(sight, reading, own, asked, asked + 5)
        assert SIGHT._read(SIGHT.write(sight)) == sight
    sight = usage_readings.miss(sight, problem, NOW)._replace(polling="p", polling_until=NOW + 7)
    assert SIGHT._read(SIGHT.write(sight)) == sight
    assert SIGHT._read(SIGHT.write(Sight())) == Sight()


def spoiled(**changes: Any) -> str:  # noqa: ANN401 - anything at all
    import json

    return json.dumps(learned(500)._replace(reading=Reading(1))._replace(**changes))


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "null",
        '{"at": 1}',
        '["a"]',
        "[1, 1, []]",
        "[1, 1, 5]",
        "[1, 1, [1], 5, 5, 5, 5, 5]",
        "[" * 100_000,
        spoiled(at="now"),
        spoiled(tried=None),
        spoiled(samples="many"),
        spoiled(lags=Guess((1.0,), (1.0,))),
        spoiled(settles=Guess((1.0,), (1.0,))),
        spoiled(lags=7),
        spoiled(reading=["3"]),
    ],
)
def test_garbage_is_no_sight(text: str) -> None:
    """What is no sight is unreadable, and then a reading has to be had first."""
    assert SIGHT.read(text) == Unreadable(text)
    assert usage_readings.stance(careful_sight(NOW, 0), 2_000, NOW) == WANTED
