"""The law that finds a limit: what it promises, whatever upstream answers."""

import json
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.learning import control_law
from headgate.core.learning.control_law import (
    CONFIRM,
    DEAR,
    FREE,
    OPEN,
    PROBE,
    SHUT,
    UNKNOWN,
    USUAL,
    Bar,
    Learned,
    Pace,
    Sent,
    Step,
)
from headgate.core.stored_text import stored_values
from headgate.core.stored_text.formats import Unreadable

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_000 * HOUR
NO_PACE = Pace()


@dataclass
class Account:
    """A pool that follows the law, and what it has in flight: lease, what it was sent as, seats."""

    it: Learned
    now: int = NOW
    pace: Pace = NO_PACE
    flying: dict[int, tuple[Sent, int]] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)
    last: int = 0

    def level(self) -> int:
        return sum(seats for _, seats in self.flying.values())

    def ask(self, seats: int = 1, *, cooling: bool = False) -> str:
        """Send one if the law lets it."""
        level = self.level() + seats
        found = control_law.opening(
            self.it, Step(level, seats, len(self.pending)), self.pace, self.now
        )
        if found in {OPEN, PROBE}:
            self.last += 1
            sent = control_law.send(self.it, level, cooling=cooling, now=self.now)
            assert sent.probe == (found == PROBE)
            if sent.probe:
                assert not self.it.probe, "two probes at once"
                self.it = self.it._replace(probe=self.last)
            self.flying[self.last] = sent, seats
            self.pending.add(self.last)
        return found

    def _recall(self, id: int) -> Learned:
        return self.it._replace(probe=0) if self.it.probe == id else self.it

    def accept(self, id: int) -> None:
        self.pending.discard(id)
        self.it = control_law.accept(self._recall(id), self.flying[id][0], self.now)

    def refuse(self, id: int) -> int | None:
        self.pending.discard(id)
        self.it, wait = control_law.refuse(
            self._recall(id), self.flying[id][0], self.pace, self.now
        )
        return wait

    def end(self, id: int) -> None:
        self.pending.discard(id)
        self.it = self._recall(id)
        sent, _ = self.flying.pop(id)
        self.pace = control_law.keep_pace(self.pace, 30_000, after=sent.after)


moves = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "accept", "accept", "refuse", "end", "wait"]),
        st.integers(0, 30),
    ),
    max_size=60,
)
bases = st.none() | st.integers(1, 12)
WAITS = (1, SECOND, 30 * SECOND, MINUTE, HOUR, 2 * HOUR, 25 * HOUR)


def play(it: Learned, history: list[tuple[str, int]]) -> Account:
    """A history; the promises are checked at every step of it."""
    account = Account(it)
    explored = it.limit
    for move, pick in history:
        before = account.it
        ids = sorted(account.flying)
        if move == "ask":
            seats = 3 if pick == 0 else 2 if pick == 1 else 1
            empty = not account.flying
            found = account.ask(seats, cooling=pick % 5 == 0)
            if found in {OPEN, PROBE}:
                explored = max(explored, account.level())
                assert account.level() <= before.limit + 1 or empty
                if before.base:
                    assert account.level() <= before.base
        elif move == "wait":
            account.now += WAITS[pick % len(WAITS)]
        elif ids:
            id = ids[pick % len(ids)]
            sent = account.flying[id][0]
            getattr(account, move)(id)
            check(move, before, account.it, sent, id)
        assert 1 <= account.it.limit <= (account.it.base or explored)
        assert account.it.best <= explored
        assert 0 <= account.it.streak <= 6
        assert list(account.it.bars) == sorted(account.it.bars)
        assert len({bar.level for bar in account.it.bars}) == len(account.it.bars) <= 32
    return account


def check(move: str, before: Learned, after: Learned, sent: Sent, id: int) -> None:
    """What one answer may change."""
    stale = sent.epoch != before.epoch
    before = before._replace(probe=0) if before.probe == id else before
    if move == "refuse":
        assert after.limit <= before.limit
        assert after.epoch - before.epoch == (not stale)
        assert after.refusals == before.refusals + 1
        if stale:
            assert after == before._replace(refusals=before.refusals + 1, heard=True)
        elif sent.probe:
            assert (after.limit, after.sure) == (before.limit, before.sure)
        else:
            assert after.limit < before.limit or before.limit == 1
    elif move == "accept":
        assert after.epoch == before.epoch
        assert after.refusals == before.refusals
        assert after.limit in {before.limit, sent.level}
        assert after.limit >= before.limit
        if stale:
            assert after == before._replace(heard=True)
        if not sent.probe:
            assert after.limit == before.limit
    else:
        assert after == before


@given(bases, moves)
@settings(max_examples=300)
def test_whatever_upstream_answers(base: int | None, history: list[tuple[str, int]]) -> None:
    """Limits stay in bounds, one probe is out, stale answers change nothing but the count."""
    play(control_law.begin(base), history)


@given(bases, moves)
def test_what_was_learned_can_be_kept(base: int | None, history: list[tuple[str, int]]) -> None:
    """What is written comes back the same."""
    account = play(control_law.begin(base), history)
    assert stored_values.LEARNED._read(stored_values.LEARNED.write(account.it)) == account.it
    for sent, _ in account.flying.values():
        assert stored_values.read_sent(stored_values.write_sent([("a/*", sent)])) == (
            ("a/*", sent),
        )
    pace = stored_values.PACE.read(stored_values.PACE.write(account.pace))
    assert pace == pytest.approx(account.pace, rel=1e-8), "it has nine digits"
    assert isinstance(pace, control_law.Pace)
    assert stored_values.PACE.read(stored_values.PACE.write(pace)) == pace


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "null",
        "[]",
        "[4]",
        '{"limit": 4, "base": 4}',
        "[null, 4]",
        "[0, 4]",
        "[4, 4, 0, 4, 0, 0, 0, 5]",
        "[4, 4, 0, 4, 0, 0, 0, [5]]",
        "[4, 4, 0, 4, 0, 0, 0, [[1, 2]]]",
        json.dumps([*control_law.begin(4), "one more"]),
        "[" * 100_000,
    ],
)
def test_garbage_is_unreadable(text: str) -> None:
    """What cannot have been written by this version is not taken for something learned."""
    assert stored_values.LEARNED.read(text) == Unreadable(text)


def test_the_beginning() -> None:
    """A limit that somebody gave is trusted; where none is known, two to begin with."""
    assert control_law.begin(4) == Learned(4, 4)
    found = control_law.begin(None)
    assert (found.limit, found.base) == (2, 0)
    assert control_law.opening(found, Step(2, 1, 1), NO_PACE, NOW) == OPEN
    found = found._replace(sure=0, answered=True)
    assert control_law.opening(control_law.begin(4), Step(4, 1, 3), NO_PACE, NOW) == OPEN
    assert control_law.opening(found, Step(1), NO_PACE, NOW) == OPEN
    assert control_law.opening(found, Step(2, 1, 1), NO_PACE, NOW) == CONFIRM
    assert control_law.opening(found, Step(2, 1, 0), NO_PACE, NOW) == OPEN


LEARNED = Learned(4, 8, best=6, sure=4, epoch=3, answered=True)


@pytest.mark.parametrize(
    "it, step, expected",
    [
        (LEARNED, Step(4, 1, 3), OPEN),
        (LEARNED, Step(5), PROBE),
        (LEARNED, Step(5, 1, 1), CONFIRM),
        (LEARNED, Step(6), SHUT),
        (LEARNED._replace(probe=7), Step(5), SHUT),
        (LEARNED._replace(probe=7), Step(4), OPEN),
        (LEARNED._replace(sure=2), Step(3, 1, 1), CONFIRM),
        (LEARNED._replace(sure=2), Step(3), OPEN),
        (LEARNED, Step(7, 7), PROBE),
        (LEARNED, Step(7, 6), SHUT),
        (LEARNED, Step(9, 9), SHUT),
        (LEARNED._replace(base=4), Step(5), SHUT),
        (LEARNED._replace(base=0), Step(9, 9), PROBE),
        (LEARNED._replace(base=5), Step(5), PROBE),
    ],
)
def test_who_may_enter(it: Learned, step: Step, expected: str) -> None:
    """Up to the limit everybody, one above it a single probe, never above what somebody said."""
    assert control_law.opening(it, step, NO_PACE, NOW) == expected


def test_a_bar_holds_to_the_moment() -> None:
    """A level that failed, and all above it, are shut until the time is over."""
    it = LEARNED._replace(bars=(Bar(5, 1.0, NOW, NOW + HOUR),))
    assert control_law.opening(it, Step(5), NO_PACE, NOW + HOUR - 1) == SHUT
    assert control_law.opening(it, Step(7, 7), NO_PACE, NOW + HOUR - 1) == SHUT
    assert control_law.opening(it, Step(5), NO_PACE, NOW + HOUR) == PROBE
    assert control_law.reopens(it, NOW) == NOW + HOUR
    assert control_law.reopens(it, NOW + HOUR) is None
    above = LEARNED._replace(bars=(Bar(6, 1.0, NOW, NOW + HOUR),))
    assert control_law.opening(above, Step(5), NO_PACE, NOW) == PROBE
    assert control_law.reopens(above, NOW) is None
    two = LEARNED._replace(bars=(Bar(4, 1.0, NOW, NOW + 9), Bar(5, 1.0, NOW, NOW + 5)))
    assert control_law.reopens(two, NOW) == NOW + 9


def paces(clean: float, after: float, count: int = 50, served: int = 0) -> Pace:
    """A pace after so many requests of each kind that took about so many seconds."""
    pace = Pace()
    for index in range(count):
        for seconds, late in ((clean, False), (after, True)):
            took = round(seconds * (900 + index * 7 % 11 * 20))
            pace = control_law.keep_pace(pace, took, after=late)
    return pace._replace(served=served or pace.served)


@pytest.mark.parametrize(
    "clean, after, count, expected",
    [
        (30, 30, 50, FREE),
        (30, 20, 50, FREE),
        (30, 34, 50, FREE),
        (30, 60, 50, DEAR),
        (30, 40, 50, DEAR),
        (30, 30, 7, UNKNOWN),
        (30, 60, 7, UNKNOWN),
        (30, 30, 8, FREE),
    ],
)
def test_the_price_of_a_refusal(clean: float, after: float, count: int, expected: str) -> None:
    """Refusals are dear where the requests that follow them are slower, if enough were seen."""
    assert control_law.price(paces(clean, after, count)) == expected


def test_few_and_scattered_requests_tell_no_price() -> None:
    """Where times differ widely, a small difference between their means says nothing."""
    pace = Pace(20, 10, 10.0, 1.0, 10, 10.2, 1.0)
    assert control_law.price(pace) == UNKNOWN
    assert control_law.price(pace._replace(clean_spread=0.0001, after_spread=0.0001)) == FREE


def test_the_pace_follows() -> None:
    """Means are those of the logarithms; beyond some hundreds the old ones are forgotten."""
    pace = control_law.keep_pace(
        control_law.keep_pace(Pace(), 100, after=False), 10_000, after=False
    )
    assert pace.served == pace.clean == 2
    assert pace.clean_mean == pytest.approx(6.9078, abs=1e-3)
    assert pace.clean_spread == pytest.approx(5.3019, abs=1e-3)
    assert pace.after == 0
    for _ in range(4_000):
        pace = control_law.keep_pace(pace, 10, after=False)
    assert pace.clean_mean == pytest.approx(2.3026, abs=1e-2)
    assert (pace.served, pace.clean) == (4_002, 400)
    assert control_law.keep_pace(Pace(), 0, after=True).after_mean == 0


BOUGHT = LEARNED._replace(
    best=4, refused_at=NOW, served_then=100, bars=(Bar(5, 9.0, NOW, NOW + 24 * HOUR),)
)


@pytest.mark.parametrize(
    "it, served, later, expected",
    [
        (BOUGHT, 100 + USUAL.manners, USUAL.rest, PROBE),
        (BOUGHT, 99 + USUAL.manners, USUAL.rest, SHUT),
        (BOUGHT, 100 + USUAL.manners, USUAL.rest - 1, SHUT),
        (BOUGHT._replace(best=5), 100 + USUAL.manners, USUAL.rest, SHUT),
    ],
)
def test_good_manners_buy_a_try(it: Learned, served: int, later: int, expected: str) -> None:
    """Where refusals cost nothing, many served requests open an unknown level before its time."""
    pace = paces(30, 30, served=served)
    assert control_law.opening(it, Step(5), pace, NOW + later) == expected
    dear = paces(30, 60, served=served)
    assert control_law.opening(it, Step(5), dear, NOW + later) == SHUT


def test_what_follows_a_refusal() -> None:
    """Requests of the time after a refusal are told from the others."""
    it = LEARNED._replace(refused_at=NOW, refusals=1)
    assert control_law.send(it, 4, cooling=False, now=NOW + USUAL.echo - 1).after
    assert not control_law.send(it, 4, cooling=False, now=NOW + USUAL.echo).after
    assert not control_law.send(it._replace(refusals=0), 4, cooling=False, now=NOW).after


def test_what_a_lease_remembers() -> None:
    """The epoch, the level, and whether it is above the limit."""
    assert control_law.send(LEARNED, 4, cooling=False, now=NOW) == Sent(3, 4)
    assert control_law.send(LEARNED, 5, cooling=True, now=NOW) == Sent(
        3, 5, probe=True, cooling=True
    )


def test_an_accepted_probe_raises_the_limit() -> None:
    """One is enough if no seat was resting, three are needed if some were."""
    found = control_law.accept(LEARNED, Sent(3, 5, probe=True), NOW)
    assert (found.limit, found.best, found.sure, found.heard) == (5, 6, 5, True)
    it = LEARNED
    for limit in (4, 4, 5):
        it = control_law.accept(it, Sent(3, 5, probe=True, cooling=True), NOW)
        assert it.limit == limit
    assert it.tally == 0
    once = control_law.accept(LEARNED, Sent(3, 5, probe=True, cooling=True), NOW)
    assert control_law.refuse(once, Sent(3, 5, probe=True), NO_PACE, NOW)[0].tally == 0


def test_nothing_is_raised_above_what_somebody_said() -> None:
    """A probe that was sent before somebody set a lower limit does not undo that."""
    for it in (control_law.begin(1), Learned(1, 2, epoch=0)):
        found = control_law.accept(it, Sent(0, 5, probe=True), NOW)
        assert found.limit <= it.base


def test_acceptance_confirms() -> None:
    """Levels count as sure once accepted, the streak ends, the best level is remembered."""
    it = Learned(4, 8, sure=0, epoch=3, streak=2)
    found = control_law.accept(it, Sent(3, 3), NOW)
    assert (found.sure, found.streak, found.best, found.limit) == (3, 0, 3, 4)
    assert control_law.accept(found, Sent(3, 2), NOW).sure == 3
    assert control_law.accept(it, Sent(3, 7), NOW).best == 4
    assert control_law.accept(it._replace(best=6), Sent(3, 2), NOW).best == 6


def test_reaching_the_given_limit_ends_the_notice() -> None:
    """`reduced from` is over as soon as the limit is what somebody said again."""
    it = Learned(3, 5, epoch=1, reduced_from=5)
    it = control_law.accept(it, Sent(1, 4, probe=True), NOW)
    assert it.reduced_from == 5
    it = control_law.accept(it, Sent(1, 5, probe=True), NOW)
    assert it.reduced_from == 0
    free = control_law.accept(Learned(3, 0, epoch=1, reduced_from=5), Sent(1, 4, probe=True), NOW)
    assert free.reduced_from == 5


def test_a_bar_that_fell_is_half_forgiven() -> None:
    """A success takes half the strikes off its level, and frees what little stands above it."""
    bars = (
        Bar(5, 4.0, NOW, NOW),
        Bar(6, USUAL.old - 0.1, NOW, NOW + HOUR),
        Bar(7, USUAL.old + 0.1, NOW, NOW + HOUR),
        Bar(8, 1.0, NOW, NOW + HOUR),
    )
    it = Learned(4, 9, best=7, sure=4, epoch=3, bars=bars)
    found = control_law.accept(it, Sent(3, 5, probe=True), NOW)
    assert found.bars == (
        Bar(5, 4.0 * (1 - USUAL.forgiven), NOW, 0),
        bars[1]._replace(until=0),
        bars[2],
        bars[3],
    )
    weak = it._replace(bars=(Bar(5, 0.19, NOW, NOW), Bar(6, 0.05, NOW, 0)))
    assert control_law.accept(weak, Sent(3, 5, probe=True), NOW).bars == ()
    untouched = it._replace(bars=bars[1:])
    assert control_law.accept(untouched, Sent(3, 5, probe=True), NOW).bars == bars[1:]


def test_cuts_grow_while_nothing_is_accepted() -> None:
    """By one, two, four, eight; an acceptance begins anew; never below one."""
    account = Account(control_law.begin(40))
    limits = []
    for _ in range(6):
        level = account.it.limit
        account.it, wait = control_law.refuse(
            account.it, Sent(account.it.epoch, level), NO_PACE, NOW
        )
        assert wait is None
        limits.append(account.it.limit)
    assert limits == [39, 37, 33, 25, 9, 1]
    fresh = control_law.accept(account.it._replace(limit=20), Sent(6, 1), NOW)
    assert control_law.refuse(fresh, Sent(6, 20), NO_PACE, NOW)[0].limit == 19


def test_a_cut_goes_below_what_failed() -> None:
    """Refused at three of ten: two may be had at most."""
    found, _ = control_law.refuse(control_law.begin(10), Sent(0, 3), NO_PACE, NOW)
    assert (found.limit, found.sure, found.epoch, found.reduced_from) == (2, 0, 1, 10)
    assert [bar.level for bar in found.bars] == [3]
    again, _ = control_law.refuse(found, Sent(1, 2), NO_PACE, NOW)
    assert (again.limit, again.reduced_from) == (1, 10)
    assert (again.refused_at, again.refusals) == (NOW, 2)


def test_alone_and_still_refused() -> None:
    """At one there is nothing to cut: pauses that double up to a minute, and a bar at two."""
    it = Learned(1, 4)
    waits = []
    for _ in range(7):
        it, wait = control_law.refuse(it, Sent(it.epoch, 1), NO_PACE, NOW)
        waits.append(wait)
        assert it.limit == 1
        assert [bar.level for bar in it.bars] == [2]
    assert waits == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000]
    assert control_law.refuse(Learned(1, 4), Sent(0, 0), NO_PACE, NOW)[0].limit == 1


def test_a_refused_probe_costs_nothing_but_its_level() -> None:
    """The limit stays, nobody pauses, and the level above is barred."""
    found, wait = control_law.refuse(LEARNED, Sent(3, 5, probe=True), paces(9, 9, served=77), NOW)
    assert wait == 0
    assert (found.limit, found.sure, found.streak, found.epoch) == (4, 4, 0, 4)
    assert (found.reduced_from, found.served_then) == (0, 77)
    assert [bar.level for bar in found.bars] == [5]
    assert control_law.opening(found, Step(5), NO_PACE, NOW) == SHUT


def test_a_lower_bar_replaces_those_above_it() -> None:
    """What stands above a new bar is shut by it, and opens with it unless it stands for longer."""
    bars = (
        Bar(3, 1.0, NOW, NOW + 9),
        Bar(6, 1.0, NOW, NOW + 1),
        Bar(7, 1.0, NOW, NOW + 99 * HOUR),
    )
    it = Learned(4, 0, best=0, epoch=3, bars=bars)
    found, _ = control_law.refuse(it, Sent(3, 5, probe=True), NO_PACE, NOW)
    assert found.bars == (
        bars[0],
        Bar(5, 1.0, NOW, NOW + USUAL.unknown),
        bars[1]._replace(until=0),
        bars[2],
    )


def wait(limit: int, best: int, strikes: float = 1.0, pace: Pace = NO_PACE, base: int = 60) -> int:
    """For how long the level above a limit is barred when it fails."""
    earlier = (Bar(limit + 1, strikes - 1, NOW, 0),) if strikes > 1 else ()
    it = Learned(limit, base, best=best, bars=earlier)
    found, _ = control_law.refuse(it, Sent(0, limit + 1, probe=True), pace, NOW)
    (bar,) = found.bars
    assert bar.strikes == strikes
    return bar.until - NOW


@pytest.mark.parametrize(
    "base, first", [(0, USUAL.unknown), (4, USUAL.unknown), (5, USUAL.promised)]
)
def test_how_long_the_unknown_is_left_alone(base: int, first: int) -> None:
    """What never worked: doubled each time, never more than a day, sooner if it was promised."""
    for strikes in (1, 2, 3, 4, 5, 50):
        assert wait(4, 4, strikes, base=base) == min(24 * HOUR, first * 2 ** (strikes - 1))
    assert USUAL.promised < USUAL.unknown


def test_how_long_a_lost_level_is_left_alone() -> None:
    """The further below the best, the sooner: a minute at the least, squared with the share."""
    assert wait(2, 10) == MINUTE
    assert wait(5, 10) == MINUTE
    assert wait(6, 10) == round(MINUTE * 1.5**2)
    assert wait(9, 10) == MINUTE * 81
    assert wait(2, 10, 3) == round(MINUTE * USUAL.growth**2)
    assert wait(9, 10, 3) == round(MINUTE * 81 * USUAL.caution**2)
    assert wait(9, 10, 40) == 24 * HOUR
    cheap = paces(30, 30)
    assert wait(2, 10, pace=cheap) == MINUTE // 2
    assert wait(9, 10, pace=cheap) == 9 * MINUTE
    assert wait(9, 10, 3, pace=cheap) == round(9 * MINUTE * USUAL.growth**2)
    dear = paces(30, 60)
    assert wait(9, 10, pace=dear) >= wait(9, 10)


@given(st.integers(1, 40), st.integers(1, 40), st.floats(1, 30), st.sampled_from([1, 2]))
def test_waits_are_in_order(limit: int, missing: int, strikes: float, slow: int) -> None:
    """Never shorter after more strikes, nor nearer to the best, nor where refusals cost more."""
    best, pace = limit + missing, paces(30, 30 * slow)
    it = control_law.USUAL
    found = wait(limit, best, strikes, pace)
    assert it.soonest / 2 <= found <= it.latest
    assert found <= wait(limit, best, strikes + 1, pace)
    assert found >= wait(limit, best + 1, strikes, pace)
    assert wait(limit, best, strikes, paces(30, 30)) <= found


def test_strikes_are_forgotten() -> None:
    """Half of them in so many hours."""
    it = LEARNED._replace(bars=(Bar(5, 2.0, NOW - USUAL.memory, 0),))
    found, _ = control_law.refuse(it, Sent(3, 5, probe=True), NO_PACE, NOW)
    assert found.bars[0].strikes == pytest.approx(2.0)
    future = LEARNED._replace(bars=(Bar(5, 2.0, NOW + HOUR, 0),))
    found, _ = control_law.refuse(future, Sent(3, 5, probe=True), NO_PACE, NOW)
    assert found.bars[0].strikes == pytest.approx(3.0)


def test_step_down() -> None:
    """One less per incident, never below one; what it was is remembered; echoes are counted."""
    it = control_law.begin(4)
    for limit in (3, 2, 1, 1):
        before = it
        it = control_law.step_down(it, Sent(it.epoch, 4), NOW)
        assert (it.limit, it.reduced_from, it.refused_at) == (limit, 4, NOW)
        assert it.epoch == before.epoch + 1
        echo = control_law.step_down(it, Sent(before.epoch, 4), NOW + 1)
        assert echo == it._replace(refusals=it.refusals + 1)
        it = echo
    assert (it.refusals, it.heard) == (8, True)
    one = control_law.step_down(control_law.begin(1), Sent(0, 1), NOW)
    assert (one.limit, one.reduced_from) == (1, 0)


def serve(account: Account, cap: int, until: int) -> int:
    """Full demand of requests of thirty seconds against a hidden cap: how many were refused."""
    refused = 0
    while account.now < until:
        for id in [id for id, at in account.ends.items() if at <= account.now]:
            account.end(id)
            del account.ends[id]
        while account.ask() in {OPEN, PROBE}:
            if account.level() > cap:
                refused += 1
                account.refuse(account.last)
                account.end(account.last)
                break
            account.accept(account.last)
            account.ends[account.last] = account.now + 30 * SECOND
        account.now += SECOND
    return refused


@pytest.mark.parametrize("base", [None, 8, 50])
@pytest.mark.parametrize("cap", [1, 2, 3, 8])
def test_a_hidden_cap_is_found(cap: int, base: int | None) -> None:
    """Under full demand the limit becomes the cap, at the price of few refusals."""
    account = Account(control_law.begin(base))
    refused = serve(account, cap, NOW + 2 * HOUR)
    assert account.it.limit == min(cap, base or cap)
    assert refused <= 8


def test_a_cap_that_moves_is_followed() -> None:
    """From eight to three and back: found again each time, with few refusals in between."""
    account = Account(control_law.begin(8))
    assert serve(account, 8, NOW + HOUR) == 0
    low = serve(account, 3, NOW + 3 * HOUR)
    assert account.it.limit == 3
    assert low <= 30
    serve(account, 8, NOW + 12 * HOUR)
    assert account.it.limit == 8
    assert not account.it.reduced_from


def test_bars_are_few() -> None:
    """However many levels fail, no more than thirty-two are remembered."""
    it = Learned(60, 0)
    for level in range(60, 2, -1):
        it, _ = control_law.refuse(it, Sent(it.epoch, level), NO_PACE, NOW)
    assert len(it.bars) == 32
    assert all(low.level < high.level for low, high in pairwise(it.bars))
