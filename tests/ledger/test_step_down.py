"""`adapt = "step-down"`, as in the program whose users asked for it: its tests in our words.

One less per incident, persisted, restored by hand; seats that rest; upstream's own count asked
before anybody is let in. Where that program's comments and code differed, the comments count.
"""

import pytest

from headgate.core.admission.pools import Declared
from headgate.core.answers.signals import ACCEPTED, CONCURRENCY, RATE
from headgate.core.times import Ms
from headgate.ledger import limits_by_hand, release, watch_duty
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.test_learning import DAY, HOUR, SECOND, SOURCE, Lab

UMANS = Declared(limit=4, cooldown=Ms(0), adapt="step-down")
GATED = UMANS._replace(usage=SOURCE._replace(every=Ms(1_000)))


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.declare(umans=UMANS)
    return lab


def ask(lab: Lab, since: int = 0, **more: str) -> int:
    return lab.ask("umans/m", since=since or lab.now, **more)


def incident(lab: Lab) -> None:
    """A 429 that nobody ties to a request, long after any other."""
    lab.now += HOUR
    lab.tell(CONCURRENCY, pool="umans", retry_after=Ms(0))


def read_usage(lab: Lab, in_use: float | None) -> None:
    lab.read_usage(in_use, pool="umans")


class TestCooldown:
    """A freed seat rests while upstream's own count catches up."""

    def test_a_changed_cooldown_counts_for_seats_freed_afterwards(self, lab: Lab) -> None:
        """From 200 ms to 500 ms: after 200 the seat still rests."""
        lab.declare(umans=UMANS._replace(limit=1, cooldown=Ms(200)))
        first = ask(lab)
        assert lab.pool("umans").cooldown_ms == 200
        lab.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "umans", Ms(500)))
        assert lab.pool("umans").cooldown_ms == 500
        second = ask(lab)
        lab.release(first)
        lab.wait(200)
        assert lab.codes() == {second: "cooling"}
        lab.wait(299)
        assert lab.waiting() == [second]
        lab.wait(1)
        assert lab.held() == [second]

    def test_cooldowns_are_told_and_kept(self, lab: Lab) -> None:
        """Each pool's own, after a restart too."""
        lab.declare(umans=UMANS._replace(cooldown=Ms(350)))
        lab.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "openai", Ms(100)))
        lab.restart()
        assert lab.pool("umans").cooldown_ms == 350
        assert lab.pool("openai").cooldown_ms == 100

    def test_a_cooldown_imposes_no_limit(self, lab: Lab) -> None:
        """Set before any limit, it holds nobody up; it counts once there is a limit."""
        lab.declare()
        lab.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "umans", Ms(500)))
        ids = [ask(lab) for _ in range(9)]
        assert lab.held() == ids
        assert lab.limit("umans") is None
        lab.run(lambda ledger: limits_by_hand.set_limit(ledger, "umans", 4))
        assert lab.pool("umans").cooldown_ms == 500


class TestOneLess:
    """The limit falls by one per incident and stays there."""

    def test_a_refusal_takes_one_and_says_so(self, lab: Lab) -> None:
        """The limit, what it was, a sentence for people, and an event."""
        lab.tell(CONCURRENCY, pool="umans")
        status = lab.pool("umans")
        assert (status.limit, status.configured_limit) == (3, 4)
        assert (status.auto_reduced, status.auto_reduced_from) == (True, 4)
        assert status.notice is not None
        assert "limit reduced from 4 to 3 after a 429" in status.notice
        assert "headgate limits restore 'umans'" in status.notice
        assert status.adapt == "step-down"
        assert lab.kinds().count("limit_reduced") == 1
        assert lab.paused("umans") == 30 * SECOND

    def test_incidents_add_up_to_one(self, lab: Lab) -> None:
        """4, 3, 2, 1, and there it stays; what it was first is remembered."""
        for limit in (3, 2, 1, 1):
            incident(lab)
            assert lab.limit("umans") == limit
            assert lab.pool("umans").auto_reduced_from == 4

    def test_it_is_kept_at_once(self, lab: Lab) -> None:
        """Whoever opens the store next finds it so."""
        for limit in (3, 2):
            incident(lab)
            before = lab.pool("umans")
            lab.restart()
            assert lab.pool("umans") == before
            assert lab.limit("umans") == limit

    def test_it_never_rises_by_itself(self, lab: Lab) -> None:
        """No acceptance, no silence and no time brings it back."""
        incident(lab)
        ids = [ask(lab) for _ in range(3)]
        waits = ask(lab)
        for _ in range(9):
            for id in ids:
                lab.tell(ACCEPTED, id)
            lab.wait(DAY)
        assert lab.limit("umans") == 3
        assert lab.waiting() == [waits]

    @pytest.mark.parametrize("limit", [4, 2, 9])
    def test_a_limit_set_by_hand_ends_it(self, lab: Lab, limit: int) -> None:
        """The notice is gone, the limit is what was set."""
        incident(lab)
        lab.run(lambda ledger: limits_by_hand.set_limit(ledger, "umans", limit))
        status = lab.pool("umans")
        assert (status.limit, status.auto_reduced, status.auto_reduced_from) == (limit, False, None)
        assert status.notice is None

    def test_lifting_the_limit_ends_it(self, lab: Lab) -> None:
        """Everyone who waits is let in, and nothing is left of it."""
        incident(lab)
        ids = [ask(lab) for _ in range(9)]
        lab.run(lambda ledger: limits_by_hand.unset_limit(ledger, "umans"))
        assert lab.held() == ids
        status = lab.pool("umans")
        assert (status.limit, status.auto_reduced, status.notice) == (None, False, None)

    def test_restoring_ends_it(self, lab: Lab) -> None:
        """Back to the configuration, and those who waited for the fourth seat get it."""
        incident(lab)
        ids = [ask(lab) for _ in range(4)]
        assert lab.held() == ids[:3]
        lab.run(lambda ledger: limits_by_hand.restore(ledger, "umans"))
        status = lab.pool("umans")
        assert (status.limit, status.auto_reduced, status.notice) == (4, False, None)
        assert lab.held() == ids

    def test_nothing_that_runs_is_ended(self, lab: Lab) -> None:
        """A lower limit drains."""
        ids = [ask(lab) for _ in range(4)]
        waits = ask(lab)
        lab.tell(CONCURRENCY, ids[0], retry_after=Ms(0))
        assert lab.held() == ids
        lab.release(ids[0])
        assert lab.waiting() == [waits]
        lab.release(ids[1])
        assert lab.held() == [*ids[2:], waits]

    def test_other_refusals_only_pause(self, lab: Lab) -> None:
        """A rate limit is no matter of how many at once."""
        lab.tell(RATE, pool="umans", retry_after=Ms(5 * SECOND))
        assert lab.limit("umans") == 4
        assert lab.pool("umans").auto_reduced is False
        assert lab.paused("umans") == 5 * SECOND

    def test_the_pause_is_over_by_itself(self, lab: Lab) -> None:
        """Whoever waits gets in when it is, up to the lower limit."""
        lab.tell(CONCURRENCY, pool="umans", retry_after=Ms(2 * SECOND))
        ids = [ask(lab) for _ in range(4)]
        lab.wait(2 * SECOND - 1)
        assert lab.held() == []
        lab.wait(1)
        assert lab.held() == ids[:3]


class TestUsageGate:
    """Upstream's own count is asked before somebody is let in."""

    @pytest.fixture(autouse=True)
    def gated(self, lab: Lab) -> None:
        lab.declare(umans=GATED)

    def full(self, lab: Lab) -> list[int]:
        """Four hold, by a reading of none, and upstream knows."""
        read_usage(lab, 0)
        ids = [ask(lab) for _ in range(4)]
        assert lab.held() == ids
        lab.now += SECOND
        read_usage(lab, 4)
        return ids

    @pytest.mark.parametrize("cooldown", [0, 2_000])
    def test_blocks_while_upstream_is_full(self, lab: Lab, cooldown: int) -> None:
        """A seat is free here and not there: the fifth waits, reading after reading."""
        lab.declare(umans=GATED._replace(cooldown=Ms(cooldown)))
        ids = self.full(lab)
        fifth = ask(lab)
        lab.now += SECOND
        lab.release(ids[0])
        for _ in range(9):
            assert lab.codes() == {fifth: "upstream_full"}
            lab.now += SECOND
            read_usage(lab, 4)

    def test_admits_once_upstream_has_room(self, lab: Lab) -> None:
        """As soon as a reading shows it."""
        ids = self.full(lab)
        fifth = ask(lab)
        lab.now += SECOND
        lab.release(ids[0])
        lab.now += SECOND
        read_usage(lab, 3)
        assert fifth in lab.held()

    @pytest.mark.parametrize("seconds", [1, 60])
    def test_falls_back_without_a_reading(self, lab: Lab, seconds: int) -> None:
        """None can be had: the limit and the cooldown count, as if there were no gate."""
        lab.declare(umans=GATED._replace(limit=1, cooldown=Ms(500)))
        read_usage(lab, None)
        first = ask(lab)
        assert lab.held() == [first]
        second = ask(lab)
        lab.now += seconds * SECOND
        lab.release(first)
        read_usage(lab, None)
        assert lab.codes() == {second: "cooling"}
        lab.wait(500)
        assert lab.held() == [second]

    def test_admits_one_per_reading_at_the_edge(self, lab: Lab) -> None:
        """Two seats are free here, upstream has room for one: one gets in, and one per reading."""
        lab.declare(umans=GATED._replace(cooldown=Ms(2_000)))
        ids = self.full(lab)
        fifth, sixth = ask(lab), ask(lab)
        lab.now += SECOND
        lab.release(ids[0])
        lab.release(ids[1])
        lab.now += 2 * SECOND
        read_usage(lab, 3)
        assert lab.held() == [*ids[2:], fifth]
        lab.now += SECOND
        read_usage(lab, 4)
        assert lab.codes() == {sixth: "upstream_full"}
        lab.now += SECOND
        read_usage(lab, 3)
        assert lab.held() == [*ids[2:], fifth, sixth]

    def test_many_per_reading(self, lab: Lab) -> None:
        """Where the seed let in all there was room for here, each one takes its part of it."""
        read_usage(lab, 3)
        ids = [ask(lab) for _ in range(4)]
        assert lab.held() == ids[:1]
        lab.wait(100)
        assert lab.held() == ids[:1], "the same reading lets nobody else in"
        lab.now += SECOND
        read_usage(lab, 3)
        assert lab.held() == ids[:2]

    def test_the_immediate_path_is_checked_too(self, lab: Lab) -> None:
        """Nobody waits, a seat is free, and upstream is full: the newcomer waits."""
        read_usage(lab, 4)
        first = ask(lab)
        assert lab.codes() == {first: "upstream_full"}
        assert lab.use("umans") == 0

    def test_the_immediate_path_needs_a_reading(self, lab: Lab) -> None:
        """With none, or one that is too old, the newcomer waits for one."""
        first = ask(lab)
        assert lab.codes() == {first: "no_reading"}
        read_usage(lab, 0)
        assert lab.held() == [first]
        lab.now += HOUR
        second = ask(lab)
        assert lab.codes() == {second: "no_reading"}

    def test_a_newcomer_passes_nobody(self, lab: Lab) -> None:
        """Whose prompt began first gets the seat, though another asked at the right moment."""
        ids = self.full(lab)
        late = ask(lab, since=lab.now + 20)
        early = ask(lab, since=lab.now + 10)
        lab.now += SECOND
        lab.release(ids[0])
        lab.now += SECOND
        read_usage(lab, 3)
        newcomer = ask(lab, since=lab.now + 30)
        assert early in lab.held()
        assert lab.waiting() == [late, newcomer]

    def test_nothing_is_left_armed_when_the_line_is_empty(self, lab: Lab) -> None:
        """Upstream is asked while somebody waits, and not a moment longer."""

        def plan(ledger: Ledger) -> watch_duty.WatchList:
            return watch_duty.keep_watch(ledger, "p", waiting=bool(ledger.lanes()))

        lab.declare(umans=GATED._replace(limit=1))
        first = ask(lab)
        assert lab.run(plan).polls == {"umans": 0}
        read_usage(lab, 0)
        assert lab.held() == [first]
        second = ask(lab)
        assert lab.run(plan).polls
        lab.now += SECOND
        lab.release(first)
        lab.now += SECOND
        read_usage(lab, 0)
        assert lab.held() == [second]
        assert lab.run(plan) == watch_duty.NOTHING
        lab.release(second)
        lab.wait(HOUR)
        assert lab.run(plan) == watch_duty.NOTHING

    def test_a_reading_lowers_and_a_refusal_takes_one(self, lab: Lab) -> None:
        """Both at once: the gate goes on with the lower limit."""
        ids = self.full(lab)
        lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
        waits = ask(lab)
        lab.now += SECOND
        lab.release(ids[3])
        lab.now += SECOND
        read_usage(lab, 3)
        assert lab.waiting() == [waits]
        lab.now += SECOND
        read_usage(lab, 2)
        assert lab.held() == ids[:3], "three of ours are still in flight, whatever it counts"
        lab.release(ids[0])
        lab.now += SECOND
        read_usage(lab, 2)
        assert waits in lab.held()


def test_four_at_once_are_one_incident(lab: Lab) -> None:
    """Where the seed fell from four to one in a second, this falls to three."""
    ids = [ask(lab) for _ in range(4)]
    for id in ids:
        lab.tell(CONCURRENCY, id)
    for _ in range(4):
        lab.tell(CONCURRENCY, pool="umans")
    assert lab.limit("umans") == 3
    assert lab.learned("umans").refusals == 8


def test_a_seat_is_kept_while_its_stream_runs(lab: Lab) -> None:
    """Where the seed freed a seat after five minutes, it is held for as long as it is used."""
    ids = [ask(lab, member="r") for _ in range(4)]
    waits = ask(lab, member="q")
    for _ in range(20):
        lab.wait(HOUR)
    assert lab.held() == ids
    assert lab.waiting() == [waits]
    lab.bury("r")
    assert lab.held() == [waits]


def test_a_seat_given_back_twice_is_one_seat(lab: Lab) -> None:
    """Whoever releases again frees nobody else's seat."""
    ids = [ask(lab) for _ in range(4)]
    waiting = [ask(lab) for _ in range(3)]
    for _ in range(5):
        lab.run(lambda ledger: release.release(ledger, ids[0]))
    assert lab.held() == [*ids[1:], waiting[0]]


@pytest.mark.parametrize("key", ["umans/m", "umans/n"], ids=["its own lane", "another lane"])
def test_nobody_is_held_up_by_what_has_become_too_heavy(lab: Lab, key: str) -> None:
    """Work heavier than what the pool has become stands aside until the limit is raised."""
    for _ in range(3):
        incident(lab)
    assert lab.limit("umans") == 1
    only = ask(lab)
    heavy = lab.ask("umans/m", weight=3)
    lights = [lab.ask(key, member="q") for _ in range(3)]
    lab.release(only)
    for id in lights:
        assert lab.held() == [id], "the pool stands empty for the sake of work that may not enter"
        lab.release(id)
    assert lab.codes() == {heavy: "outgrown"}
    lab.run(lambda ledger: limits_by_hand.restore(ledger, "umans"))
    assert lab.held() == [heavy]
