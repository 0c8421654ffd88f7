"""What pools learn, told to real ledgers: small histories, each with one thing to show."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.core.admission.pools import Declared, UsageSource
from headgate.core.answers.signals import (
    ACCEPTED,
    CONCURRENCY,
    LONGEST_PAUSE,
    OVERLOADED,
    QUOTA,
    RATE,
    USAGE,
    Reading,
    Signal,
)
from headgate.core.learning.control_law import USUAL, Learned
from headgate.core.times import Ms
from headgate.errors import UsageError
from headgate.ledger import limits_by_hand, release, watch_duty
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals, rate_charges, upstream_state
from headgate.ledger.transaction import outside_use
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import LeaseRow, Member
from headgate.store import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore
from tests.ledger.test_cases import World

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
SOURCE = UsageSource("json", url="http://127.0.0.1/usage", used="n", every=Ms(2_000))


class Lab(World):
    """A world whose pools learn, that can be shut down and opened again."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._path = folder / "s.db"
        super().__init__(self._open)

    def _open(self, clock: Callable[[], int]) -> Store:
        if self._kind == "memory":
            return MemoryStore(clock=clock)
        return SqliteStore(self._path, synchronous="OFF", clock=clock)

    def declare(self, **pools: Declared) -> None:
        self.declared = {"host": Declared(limit=999), **pools}
        self.resolver.declare(self.declared)

    def restart(self) -> None:
        """Every process ends and others begin; only the rows are left."""
        if self._kind == "sqlite":
            self.store.close()
            self.store = self._open(lambda: self.now)
        self.resolver = PoolResolver(self.declared)

    def tell(
        self,
        kind: str,
        lease: int = 0,
        *,
        pool: str = "",
        retry_after: Ms | None = None,
        account: bool = False,
    ) -> str:
        signal = Signal(kind, retry_after, account=account)
        return self.run(lambda ledger: apply_signals.report(ledger, signal, lease=lease, pool=pool))

    def read_usage(
        self,
        in_use: float | None,
        limit: int | None = None,
        *,
        pool: str = "a",
        ago: int = 0,
        closed_for: int | None = None,
    ) -> None:
        """A reading arrives that was asked for so long ago; None for a failed one."""
        reading = None if in_use is None else Reading(in_use, limit, closed_for=closed_for)

        def record(ledger: Ledger) -> None:
            asked = ledger.now - ago
            upstream_state.record(
                ledger, pool, reading, asked=Ms(asked), problem="" if reading else "timeout"
            )

        self.run(record)

    def learned(self, pool: str = "a") -> Learned:
        found = self.read(lambda ledger: ledger.pool_set.pools[pool].learned)
        assert found is not None
        return found

    def limit(self, pool: str = "a") -> int | None:
        return self.pool(pool).limit

    def paused(self, pool: str = "a") -> int:
        """For how many milliseconds more a pool is paused."""
        until = self.read(lambda ledger: ledger.pool_set.pools[pool].paused_until)
        return max(0, (until or 0) - self.now)

    def lease(self, id: int) -> LeaseRow:
        found = self.read(lambda ledger: ledger.tx.lease(id))
        assert found is not None
        return found

    def wait(self, ms: int) -> None:
        self.now += ms
        self.tidy()

    def bury(self, member: str) -> None:
        """A process and all of its programs end, and another one takes its name."""
        self.liveness.end(member)
        self.tidy()
        self.liveness.join(member)
        self.run(lambda ledger: ledger.tx.add_member(Member(member, "m", 1, "", Ms(0))))

    def kinds(self) -> list[str]:
        return self.read(lambda ledger: [row.kind for row in ledger.tx.events(-1, 999, 0)])

    def codes(self) -> dict[int, str]:
        return {row.id: row.code for row in self.queue()}

    def fill(self, count: int, key: str = "a/x", **more: Any) -> list[int]:  # noqa: ANN401
        """So many get in, and are accepted one by one."""
        ids = []
        for _ in range(count):
            ids.append(self.ask(key, **more))
            assert ids[-1] in self.held()
            self.tell(ACCEPTED, ids[-1])
        return ids


def test_one_incident_is_one_cut(lab: Lab) -> None:
    """Four at once are refused together: the limit falls once, three of them are echoes."""
    ids = [lab.ask() for _ in range(4)]
    for id in reversed(ids):
        lab.tell(CONCURRENCY, id)
    it = lab.learned()
    assert (it.limit, it.epoch, it.refusals) == (3, 1, 4)
    assert lab.kinds().count("limit_reduced") == 1


@pytest.mark.parametrize("first", [0, 1, 2])
def test_which_of_a_burst_is_refused_does_not_matter(lab: Lab, first: int) -> None:
    """Four are sent in one moment and one is too many: three may be had, whichever it hits."""
    ids = [lab.ask() for _ in range(4)]
    lab.now += 100
    lab.tell(CONCURRENCY, ids[first])
    assert lab.limit() == 3


def test_one_request_refused_twice_is_one_incident(lab: Lab) -> None:
    """The client tries again by itself, and tells it again."""
    id = lab.ask()
    for _ in range(5):
        lab.tell(CONCURRENCY, id, retry_after=Ms(0))
        lab.now += 500
    assert lab.learned().epoch == 1


def test_what_was_sent_under_another_configured_limit_is_one_incident_at_most(lab: Lab) -> None:
    """Requests of two epochs are in flight when the configuration changes, and all are refused."""
    before = [lab.ask() for _ in range(3)]
    lab.tell(CONCURRENCY, before[2], retry_after=Ms(0))
    for id in before[1:]:
        lab.release(id)
    after = lab.ask()
    assert lab.lease(after)
    lab.declare(a=Declared(limit=8, cooldown=Ms(0)))
    begun = lab.learned()
    lab.tell(CONCURRENCY, before[0], retry_after=Ms(0))
    lab.tell(CONCURRENCY, after, retry_after=Ms(0))
    assert lab.learned().epoch <= begun.epoch + 1


def test_a_refusal_much_later_is_another_incident(lab: Lab) -> None:
    """An agent that was let in long ago goes on sending, under what is so now."""
    ids = lab.fill(4)
    lab.tell(CONCURRENCY, ids[0], retry_after=Ms(0))
    lab.now += 4_999
    lab.tell(CONCURRENCY, ids[1], retry_after=Ms(0))
    assert lab.limit() == 3
    lab.now += 1
    lab.tell(CONCURRENCY, ids[1], retry_after=Ms(0))
    assert lab.limit() == 3, "four are running where three may be: it is the same incident"
    lab.release(ids[3])
    lab.now += 5_000
    lab.tell(CONCURRENCY, ids[1], retry_after=Ms(0))
    assert (lab.limit(), lab.learned().epoch) == (1, 2)


@pytest.mark.parametrize("retry_after", [None, 0, LONGEST_PAUSE, 400 * DAY])
def test_no_header_keeps_a_cut_away(lab: Lab, retry_after: Ms | None) -> None:
    """Each refusal of something sent after the last cut is a cut, whatever it asks for."""
    limits: list[int | None] = []
    for _ in range(3):
        ids = [lab.ask() for _ in range(4)]
        if not limits:
            lab.tell(ACCEPTED, ids[0])
        last = lab.held()[-1]
        lab.tell(CONCURRENCY, last, retry_after=retry_after)
        limits.append(lab.limit())
        for id in ids:
            lab.run(lambda ledger, id=id: release.withdraw(ledger, id))  # type: ignore[misc]
        lab.wait(DAY)
    assert limits == [3, 1, 1]
    assert lab.learned().epoch == 3


@pytest.mark.parametrize(
    "kind, retry_after, pause",
    [
        (CONCURRENCY, None, 30_000),
        (CONCURRENCY, 0, 0),
        (RATE, None, 30_000),
        (RATE, 1, 1),
        (QUOTA, HOUR, HOUR),
        (QUOTA, 5 * DAY, 5 * DAY),
        (QUOTA, 400 * DAY, 8 * DAY),
        (RATE, 400 * DAY, DAY),
        (OVERLOADED, None, 30_000),
        (OVERLOADED, -5, 0),
    ],
)
def test_how_long_a_refusal_pauses(lab: Lab, kind: str, retry_after: Ms | None, pause: int) -> None:
    """As long as it says, thirty seconds if not, never longer than a day (of a quota: eight)."""
    lab.tell(kind, lab.ask(), retry_after=retry_after)
    assert lab.paused() == pause


@pytest.mark.parametrize("kind", [RATE, QUOTA, OVERLOADED])
def test_other_refusals_never_touch_the_limit(lab: Lab, kind: str) -> None:
    """They pause, whoever tells them and however often."""
    before = lab.learned()
    ids = [lab.ask() for _ in range(4)]
    for id in (*ids, *ids):
        lab.tell(kind, id, retry_after=Ms(5_000))
        lab.tell(kind, pool="a", retry_after=Ms(5_000))
    assert lab.learned() == before
    assert lab.paused() == 5_000


def test_a_pause_only_moves_forward(lab: Lab) -> None:
    """A shorter one changes nothing, a longer one does, a person ends it."""
    lab.tell(RATE, pool="a", retry_after=Ms(HOUR))
    lab.tell(RATE, pool="a", retry_after=Ms(MINUTE))
    lab.tell(CONCURRENCY, lab.ask(), retry_after=Ms(1))
    assert lab.paused() == HOUR
    lab.tell(QUOTA, pool="a", retry_after=Ms(2 * HOUR))
    assert lab.paused() == 2 * HOUR
    assert lab.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    assert lab.paused() == 0
    lab.tell(RATE, pool="a", retry_after=Ms(MINUTE))
    assert lab.paused() == MINUTE


def test_a_persons_pause_is_not_shortened(lab: Lab) -> None:
    """Until resumed means until resumed."""
    lab.run(lambda ledger: limits_by_hand.pause(ledger, "a", None, "mine"))
    lab.tell(RATE, pool="a", retry_after=Ms(1))
    lab.wait(2 * DAY)
    assert lab.pool("a").paused
    assert lab.pool("a").notice == "mine"


def test_those_who_wait_know_until_when(lab: Lab) -> None:
    """The reason names the pool, what upstream said, and how much longer."""
    lab.tell(QUOTA, pool="a", retry_after=Ms(2 * HOUR))
    lab.ask()
    (row,) = lab.queue()
    assert row.code == "pool_paused"
    assert "for 2h" in row.reason
    assert "quota-gone" in row.reason
    lab.wait(2 * HOUR)
    assert not lab.queue()


def test_a_signal_of_a_lease_that_is_gone_says_nothing(lab: Lab) -> None:
    """Neither what was released nor what never was changes anything."""
    gone = lab.ask()
    lab.release(gone)
    before = lab.learned(), lab.paused(), lab.kinds()
    for kind in (ACCEPTED, CONCURRENCY, RATE, QUOTA, OVERLOADED):
        for id in (gone, 999):
            assert lab.tell(kind, id) == ""
    assert (lab.learned(), lab.paused(), lab.kinds()) == before


def test_an_acceptance_without_a_lease_says_nothing(lab: Lab) -> None:
    """Somebody was let in somewhere; the pool learns from its own only."""
    lab.tell(CONCURRENCY, lab.ask(), retry_after=Ms(0))
    before = lab.learned()
    lab.tell(ACCEPTED, pool="a")
    assert lab.learned() == before


def test_a_usage_signal_needs_a_reading(lab: Lab) -> None:
    """One without is refused, and changes nothing."""
    with pytest.raises(UsageError):
        lab.tell(USAGE, pool="a")


def cut(lab: Lab, to: int) -> list[int]:
    """Bring pool a to a limit that was confirmed and is in full use, with a bar above it."""
    while (lab.limit() or 0) > to:
        for id in lab.held():
            lab.release(id)
        ids = lab.fill(min(to, lab.limit() or 0))
        extra = lab.ask()
        lab.tell(CONCURRENCY, extra, retry_after=Ms(0))
        lab.release(extra)
    assert lab.limit() == to
    return ids


def test_one_probe_is_out(lab: Lab) -> None:
    """When the bar is over, one of those who wait tries; the next only after its answer."""
    cut(lab, 2)
    first, second = lab.ask(), lab.ask()
    assert set(lab.codes().values()) == {"pool_full"}
    lab.wait(DAY)
    assert lab.learned().probe == first
    assert lab.waiting() == [second]
    assert lab.use("a") == 3
    lab.tell(ACCEPTED, first)
    assert (lab.limit(), lab.learned().probe) == (3, second)
    lab.tell(ACCEPTED, second)
    assert lab.limit() == 4
    assert lab.pool("a").auto_reduced is False


def test_nobody_probes_above_the_limit_that_was_given(lab: Lab) -> None:
    """Four is four, whatever is accepted."""
    lab.fill(4)
    late = lab.ask()
    lab.wait(2 * DAY)
    assert lab.waiting() == [late]
    assert lab.limit() == 4


def test_a_refused_probe_changes_its_level_only(lab: Lab) -> None:
    """The limit stays, nothing pauses, and the level is left alone for longer."""
    cut(lab, 2)
    probe = lab.ask()
    lab.wait(DAY)
    assert lab.learned().probe == probe
    lab.tell(CONCURRENCY, probe)
    lab.release(probe)
    assert (lab.limit(), lab.learned().probe, lab.paused()) == (2, 0, 0)
    again = lab.ask()
    assert lab.waiting() == [again]
    lab.wait(MINUTE)
    assert lab.waiting() == [again]


@pytest.mark.parametrize("kind", [RATE, QUOTA, OVERLOADED])
def test_a_probe_that_hit_something_else_is_forgotten(lab: Lab, kind: str) -> None:
    """It found nothing out: neither up nor down, and another one may try."""
    cut(lab, 2)
    probe = lab.ask()
    lab.wait(DAY)
    before = lab.learned()
    assert before.probe == probe
    lab.tell(kind, probe, retry_after=Ms(SECOND))
    assert lab.learned() == before._replace(probe=0)
    lab.release(probe)
    other = lab.ask()
    lab.wait(SECOND)
    assert lab.learned().probe == other


@pytest.mark.parametrize("kind", [RATE, OVERLOADED])
def test_a_probe_that_gets_in_at_the_second_try_proves_nothing(lab: Lab, kind: str) -> None:
    """By then it is no probe any more, and others may have left."""
    cut(lab, 2)
    probe = lab.ask()
    lab.wait(DAY)
    assert lab.learned().probe == probe
    lab.tell(kind, probe, retry_after=Ms(0))
    lab.tell(ACCEPTED, probe)
    assert lab.limit() == 2


@pytest.mark.parametrize("end", ["release", "withdraw", "bury"])
def test_a_probe_that_ended_unheard_is_forgotten(lab: Lab, end: str) -> None:
    """Its end says nothing about the limit, however it came."""
    cut(lab, 2)
    probe = lab.ask(member="r")
    lab.wait(DAY)
    before = lab.learned()
    assert before.probe == probe
    if end == "release":
        lab.release(probe)
    elif end == "withdraw":
        lab.run(lambda ledger: release.withdraw(ledger, probe))
    else:
        lab.bury("r")
    assert lab.learned() == before._replace(probe=0)
    other = lab.ask()
    assert lab.learned().probe == other


def test_a_killed_probe_of_a_store_that_was_shut(lab: Lab) -> None:
    """Everything is opened anew with its process gone: forgotten, and nothing is wider."""
    cut(lab, 2)
    probe = lab.ask(member="r")
    lab.wait(DAY)
    before = lab.learned()
    lab.restart()
    assert lab.learned() == before
    assert lab.learned().probe == probe
    late = lab.ask(member="q")
    assert lab.waiting() == [late]
    lab.bury("r")
    after = lab.learned()
    assert after == before._replace(probe=late)
    assert lab.use("a") == 3


def test_a_restart_in_the_middle_of_a_penalty(lab: Lab) -> None:
    """The pause, the limit and who waits come back as they were."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(CONCURRENCY, ids[0], retry_after=Ms(5 * HOUR))
    waits = lab.ask(member="q")
    before = lab.learned(), lab.paused(), lab.pool("a")
    lab.restart()
    assert (lab.learned(), lab.paused(), lab.pool("a")) == before
    for id in ids:
        lab.release(id)
    lab.wait(5 * HOUR - 1)
    assert lab.waiting() == [waits]
    lab.restart()
    lab.wait(1)
    assert lab.held() == [waits]


def test_a_stale_refusal_after_a_restart(lab: Lab) -> None:
    """Which epoch a request was sent in is kept with it."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(CONCURRENCY, ids[0], retry_after=Ms(0))
    lab.restart()
    before = lab.learned()
    for id in ids[1:]:
        lab.tell(CONCURRENCY, id, retry_after=Ms(0))
    assert lab.learned() == before._replace(refusals=4)


def test_after_a_cut_levels_are_entered_one_by_one(lab: Lab) -> None:
    """The next waits for the answer of the one before, or for half a minute of silence."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(ACCEPTED, ids[0])
    lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
    for id in ids:
        lab.release(id)
    first, second, third = (lab.ask() for _ in range(3))
    assert lab.held() == [first]
    assert lab.codes() == {second: "confirming", third: "confirming"}
    lab.tell(ACCEPTED, first)
    assert lab.held() == [first, second]
    lab.wait(30_000 - 1)
    assert lab.waiting() == [third]
    lab.wait(1)
    assert lab.held() == [first, second, third]


def test_nobody_waits_for_answers_that_are_never_told(lab: Lab) -> None:
    """Where only refusals are reported, a cut leaves as many seats as it says."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
    for id in ids:
        lab.release(id)
    later = [lab.ask() for _ in range(3)]
    assert lab.held() == later


def test_what_ran_for_long_was_accepted(lab: Lab) -> None:
    """Silence counts at the end of a lease too, where somebody reports; a short one is none."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
    for id in ids:
        lab.release(id)
    for held, best in ((29_999, 0), (30_000, 1)):
        id = lab.ask()
        lab.now += held
        lab.release(id)
        assert lab.learned().best == best


def test_a_hook_knows_no_level(lab: Lab) -> None:
    """One seat of four is in use: a refusal that names no request takes one off, not three."""
    lab.ask()
    lab.run(lambda ledger: apply_signals.report(ledger, Signal(CONCURRENCY, Ms(0)), pool="a"))
    assert lab.limit() == 3


def test_what_was_sent_before_a_hand_set_limit_is_an_echo(lab: Lab) -> None:
    """Nothing had been learned so far: the person's word counts all the same."""
    ids = [lab.ask() for _ in range(4)]
    lab.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 3))
    lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
    assert lab.limit() == 3


def test_silence_is_consent_only_where_somebody_reports(lab: Lab) -> None:
    """A probe that was not refused for half a minute raises the limit, if one would have heard."""
    cut(lab, 2)
    probe = lab.ask()
    lab.wait(DAY)
    assert lab.learned().probe == probe
    lab.wait(30_000 - 1)
    assert lab.limit() == 2
    lab.wait(1)
    assert lab.limit() == 3


def test_silence_says_nothing_where_nobody_reports(lab: Lab) -> None:
    """A pool that finds its own limit stays where it began, with one probe out."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0)))
    lab.ask()
    for _ in range(9):
        lab.ask()
        lab.wait(HOUR)
    assert lab.limit() == 2
    assert lab.use("a") == 3


def test_a_limit_that_is_found(lab: Lab) -> None:
    """Nothing is said: one by one upwards, until one is refused."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0)))
    ids = lab.fill(7)
    assert lab.limit() == 7
    refused = lab.ask()
    lab.tell(CONCURRENCY, refused)
    assert (lab.limit(), lab.paused()) == (7, 0)
    lab.release(refused)
    assert lab.ask() in lab.waiting()
    assert lab.held() == ids


def test_resting_seats_make_three_answers_of_one(lab: Lab) -> None:
    """While seats rest, upstream may still count them: a probe's acceptance proves less."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(2_000)))
    for _ in range(2):
        lab.fill(1)
    lab.release(lab.held()[0])
    for tally in (1, 2):
        probe = lab.ask()
        assert (lab.use("a"), lab.pool("a").cooling) == (2, 1)
        assert lab.learned().probe == probe
        for _ in range(3):  # told again, it is still one answer
            lab.tell(ACCEPTED, probe)
            assert (lab.limit(), lab.learned().tally) == (2, tally)
        lab.release(probe)
        lab.now += 2_000
        lab.release(lab.held()[0])
        lab.fill(1)
    lab.tell(ACCEPTED, lab.ask())
    assert (lab.limit(), lab.learned().tally) == (3, 0)


def test_a_refused_request_leaves_no_rest(lab: Lab) -> None:
    """Upstream never counted it; what was served rests."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(2_000)))
    first, second, third = (lab.ask() for _ in range(3))
    lab.tell(CONCURRENCY, first, retry_after=Ms(0))
    lab.tell(ACCEPTED, second)
    for id in (first, second, third):
        lab.release(id)
    assert lab.pool("a").cooling == 2


def test_a_seat_is_freed_once(lab: Lab) -> None:
    """Whoever releases again, after a kill or a restart, changes nothing."""
    lab.declare(a=Declared(limit=2, cooldown=Ms(2_000)))
    id = lab.ask(member="r")
    assert lab.release(id)
    lab.restart()
    assert not lab.release(id)
    lab.bury("r")
    assert lab.pool("a").cooling == 1


def test_what_is_heavier_than_the_limit_enters_alone(lab: Lab) -> None:
    """Work of weight three under a learned limit of one waits for an empty pool, and tries."""
    cut(lab, 1)
    (only,) = lab.held()
    heavy = lab.ask(weight=3)
    lab.wait(DAY)
    assert lab.waiting() == [heavy]
    lab.release(only)
    assert lab.held() == [heavy]
    assert lab.learned().probe == heavy
    lab.tell(ACCEPTED, heavy)
    assert lab.limit() == 3


@pytest.mark.parametrize("key", ["a/x", "a/y"], ids=["its own lane", "another lane"])
def test_nobody_is_held_up_by_what_is_too_heavy_for_now(lab: Lab, key: str) -> None:
    """While a bar keeps heavy work out, the seats there are go to the light."""
    cut(lab, 1)
    (only,) = lab.held()
    heavy = lab.ask("a/x", weight=3)
    lights = [lab.ask(key, member="q") for _ in range(3)]
    lab.release(only)
    for id in lights:
        assert lab.held() == [id], "the pool stands empty for the sake of work that may not enter"
        lab.tell(ACCEPTED, id)
        lab.release(id)
    assert lab.waiting() == [heavy]
    lab.wait(DAY)
    assert lab.held() == [heavy]


def test_one_transaction_sees_its_own_answers(lab: Lab) -> None:
    """A report and a newcomer in one commit: the free seat is not left to the next one."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0)))
    lab.fill(2)
    probe = lab.ask()
    assert lab.learned().probe == probe

    def both(ledger: Ledger) -> int:
        id = admit.ask(ledger, Request("a/x", "q", "m", since=ledger.now))
        apply_signals.report(ledger, Signal(ACCEPTED), lease=probe)
        return id

    late = lab.run(both)
    assert late in lab.held()


def test_one_transaction_sees_its_own_cut(lab: Lab) -> None:
    """After a cut in the same commit, newcomers wait for those who have no answer yet."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(ACCEPTED, ids[0])

    def all_at_once(ledger: Ledger) -> int:
        _ = ledger.use
        apply_signals.report(ledger, Signal(CONCURRENCY, Ms(0)), lease=ids[3])
        release.release(ledger, ids[3])
        release.release(ledger, ids[2])
        return admit.ask(ledger, Request("a/x", "q", "m", since=ledger.now))

    late = lab.run(all_at_once)
    assert lab.codes() == {late: "confirming"}


def test_a_probe_that_a_person_overtook(lab: Lab) -> None:
    """Somebody sets a lower limit while a probe is out: its success does not undo that."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0)))
    lab.fill(2)
    probe = lab.ask()
    lab.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 1))
    lab.tell(ACCEPTED, probe)
    assert lab.limit() == 1


def test_an_echo_that_a_person_overtook(lab: Lab) -> None:
    """Somebody restores the limit after a cut: the other refusals of that incident are echoes."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
    lab.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 4))
    for id in ids[:3]:
        lab.tell(CONCURRENCY, id, retry_after=Ms(0))
    assert lab.limit() == 4


def test_the_pool_that_is_concerned(lab: Lab) -> None:
    """The most specific pool that learns; the whole account if the answer says so."""
    lab.declare(
        a=Declared(limit=4, cooldown=Ms(0)),
        **{"a/x": Declared(limit=3, cooldown=Ms(0)), "a/*": Declared(limit=9, adapt="off")},
    )
    ids = [lab.ask(key) for key in ("a/x", "a/x", "a/x", "a/y")]
    assert lab.tell(CONCURRENCY, ids[2], retry_after=Ms(0)) == "a/x"
    assert lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0)) == "a"
    assert lab.tell(QUOTA, ids[0], account=True) == "a"
    assert (lab.limit("a/x"), lab.limit("a"), lab.limit("a/*")) == (2, 3, 9)
    assert (lab.paused("a/x"), lab.paused("a")) == (0, 30_000)


def test_adapt_off_pauses_only(lab: Lab) -> None:
    """Nothing is learned, the pause is kept."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(0), adapt="off"))
    for id in [lab.ask() for _ in range(4)]:
        lab.tell(CONCURRENCY, id)
    assert (lab.limit(), lab.paused()) == (4, 30_000)
    assert lab.read(lambda ledger: ledger.pool_set.pools["a"].learned) is None


def test_a_changed_limit_is_learned_anew(lab: Lab) -> None:
    """What was learned under another limit is not applied to the new one."""
    cut(lab, 2)
    lab.declare(a=Declared(limit=6, cooldown=Ms(0)))
    assert lab.limit() == 6
    lab.declare(a=Declared(limit=4, cooldown=Ms(0)))
    assert lab.limit() == 2


USAGE_POOL = Declared(limit=4, cooldown=Ms(0), usage=SOURCE)


def test_a_limit_that_was_cut_climbs_again_though_upstream_is_read(lab: Lab) -> None:
    """Readings say what is in use; they do not keep a cut limit down for ever."""
    lab.declare(a=USAGE_POOL)
    lab.read_usage(0, 8)
    cut(lab, 3)
    waits = lab.ask()
    for _ in range(40):
        lab.now += HOUR
        lab.read_usage(float(lab.use("a")), 8)
    assert waits in lab.held()
    lab.tell(ACCEPTED, waits)
    assert lab.limit() == 4


def test_upstreams_own_limit_is_not_probed(lab: Lab) -> None:
    """Where a reading names the limit, nobody tries what lies above it."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0), usage=SOURCE))
    lab.read_usage(0, 3)
    lab.fill(3)
    late = lab.ask()
    for _ in range(40):
        lab.now += HOUR
        lab.read_usage(3, 3)
    assert lab.waiting() == [late]


def test_upstream_may_close(lab: Lab) -> None:
    """A reading that says nothing is served pauses the pool for as long."""
    lab.declare(a=USAGE_POOL)
    lab.read_usage(0, closed_for=2 * HOUR)
    assert lab.paused() == 2 * HOUR
    lab.read_usage(0, closed_for=5)
    assert lab.paused() == 2 * HOUR


def test_what_is_read_and_what_is_ours(lab: Lab) -> None:
    """Others' use is inside the reading; ours since then is added; their end is seen."""
    lab.declare(a=USAGE_POOL)
    lab.read_usage(2)
    first, second, third = (lab.ask() for _ in range(3))
    assert lab.held() == [first, second]
    assert lab.codes() == {third: "upstream_full"}
    lab.now += SECOND
    lab.read_usage(4)
    assert lab.waiting() == [third]
    for _ in range(2):  # where others share the account, room has to last for a moment
        lab.now += SECOND
        lab.read_usage(3)
    assert lab.waiting() == []


def test_a_stale_reading_lets_in_one_less(lab: Lab) -> None:
    """Last good minus one, never none; with no reading at all, the limit and the cooldown."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(2_000), usage=SOURCE))
    ids = [lab.ask() for _ in range(4)]
    assert lab.held() == []
    assert set(lab.codes().values()) == {"no_reading"}
    lab.read_usage(None)
    assert lab.held() == ids
    lab.read_usage(5)
    for id in ids:
        lab.release(id)
    lab.now += 7 * SECOND
    lab.read_usage(None)
    held = [lab.ask() for _ in range(4)]
    assert len(lab.held()) == 2, "others used one of four"
    assert set(lab.codes().values()) == {"pool_full"}
    lab.read_usage(99)
    for id in held:
        lab.run(lambda ledger, id=id: release.withdraw(ledger, id))  # type: ignore[misc]
    lab.now += 7 * SECOND
    lab.read_usage(None)
    lab.ask()
    assert len(lab.held()) == 1, "never none"


def test_an_answer_that_overtook_an_older_one(lab: Lab) -> None:
    """What was asked for earlier and arrives later lets nobody in."""
    lab.declare(a=USAGE_POOL)
    lab.now += 10 * SECOND
    lab.read_usage(4)
    waits = lab.ask()
    lab.read_usage(0, ago=3 * SECOND)
    assert lab.waiting() == [waits]


def claim(lab: Lab, member: str) -> bool:
    return lab.run(lambda ledger: upstream_state.claim(ledger, "a", member, Ms(7_000)))


def test_one_asks_at_a_time(lab: Lab) -> None:
    """A claim keeps the others away, across a restart too, and runs out with its poller."""
    lab.declare(a=USAGE_POOL)
    assert claim(lab, "p")
    assert claim(lab, "p")
    assert not claim(lab, "q")
    lab.restart()
    lab.now += 6_999
    assert not claim(lab, "q")
    lab.now += 1
    assert claim(lab, "q")
    assert not claim(lab, "p")
    lab.read_usage(0)
    assert claim(lab, "p")


def test_nobody_gets_in_because_the_poller_died(lab: Lab) -> None:
    """Upstream was full, its reading grows old, and no other is to be had until the claim ends."""
    lab.declare(a=USAGE_POOL)
    waits = lab.ask()
    lab.read_usage(4, ago=500)
    assert claim(lab, "r")
    for _ in range(140):
        lab.wait(50)
        assert lab.waiting() == [waits]
    assert claim(lab, "q")


def test_a_claim_is_ended_by_its_own_answer_only(lab: Lab) -> None:
    """What a person reports meanwhile does not let a second one ask."""
    lab.declare(a=USAGE_POOL)
    assert claim(lab, "p")
    told = Signal(USAGE, reading=Reading(1))
    lab.run(lambda ledger: apply_signals.report(ledger, told, pool="a"))
    assert not claim(lab, "q")


def test_who_waits_has_readings_made(lab: Lab) -> None:
    """Polls are planned while somebody waits for the pool, and after a claim has run out."""
    lab.declare(a=USAGE_POOL, b=Declared(limit=1))

    def polls() -> dict[str, Ms]:
        return lab.read(watch_duty.polls)

    assert polls() == {}
    lab.ask("b/x")
    lab.ask("b/x")
    assert polls() == {}
    lab.ask()
    assert polls() == {"a": 0}
    assert claim(lab, "p")
    assert polls() == {"a": 7_000}
    lab.read_usage(4)
    assert polls() == {"a": 2_000}
    lab.now += 2_500
    lab.read_usage(0)
    assert polls() == {}


def test_a_refusal_in_spite_of_a_reading_makes_doubt(lab: Lab) -> None:
    """What was learned of upstream's lag is learned anew, with more caution."""
    lab.declare(a=USAGE_POOL)
    lab.read_usage(0)
    id = lab.ask()
    lab.tell(CONCURRENCY, id, retry_after=Ms(0))
    seen = lab.read(lambda ledger: outside_use.sight(ledger, "a"))
    assert seen.settled == 800
    lab.tell(CONCURRENCY, id, retry_after=Ms(0))
    assert lab.read(lambda ledger: outside_use.sight(ledger, "a")).settled == 800


def test_rates_across_a_restart(lab: Lab) -> None:
    """What the last minute was charged is kept; what was never used is given back at once."""
    lab.declare(a=Declared(rpm=2, tpm=1_000))
    first = lab.ask(tokens=700)
    waits = lab.ask(tokens=400)
    assert lab.queue()[0].code == "rate"
    lab.restart()
    assert lab.waiting() == [waits]
    lab.run(lambda ledger: rate_charges.spend(ledger, first, 600))
    assert lab.held() == [first, waits]
    third = lab.ask(tokens=0)
    assert lab.waiting() == [third]

    def swap(ledger: Ledger) -> int:
        id = admit.ask(ledger, Request("a/x", "q", "m", since=ledger.now))
        release.withdraw(ledger, waits)
        return id

    fourth = lab.run(swap)
    assert third in lab.held()
    assert lab.waiting() == [fourth]
    lab.wait(61_000)
    assert lab.waiting() == []


def test_starts_keep_their_distance(lab: Lab) -> None:
    """One start per spacing, in the order of the line."""
    lab.declare(a=Declared(spacing=Ms(500)))
    ids = [lab.ask() for _ in range(4)]
    for count in range(1, 5):
        assert lab.held() == ids[:count]
        lab.wait(499)
        assert lab.held() == ids[:count]
        lab.wait(1)


def test_foreign_programs_take_seats(lab: Lab) -> None:
    """What was seen on each machine counts, until it is seen no more; a restart keeps it."""
    lab.declare(a=Declared(limit=3, cooldown=Ms(0), observe=("x",)))
    lab.run(lambda ledger: upstream_state.record_foreign(ledger, "s", {"a": 2}))
    first, second = lab.ask(), lab.ask()
    lab.restart()
    assert lab.pool("a").foreign == 2
    assert lab.waiting() == [second]
    lab.run(lambda ledger: upstream_state.record_foreign(ledger, "s", {"a": 0}))
    assert lab.held() == [first, second]


def test_why_and_status_say_what_was_learned(lab: Lab) -> None:
    """The notice names both limits; when the next level is tried is told."""
    ids = [lab.ask() for _ in range(4)]
    lab.tell(CONCURRENCY, ids[3], retry_after=Ms(0))
    status = lab.pool("a")
    assert (status.limit, status.configured_limit) == (3, 4)
    assert (status.auto_reduced, status.auto_reduced_from, status.adapt) == (True, 4, "learn")
    assert status.notice == "limit reduced from 4 to 3 after a 429; it is tried again by itself"
    assert status.next_probe == USUAL.promised / SECOND


def test_a_probe_that_is_told_to_wait_closes_nothing(lab: Lab) -> None:
    """Its level is left alone for as long as upstream asks; all below it goes on."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0)))
    lab.fill(2)
    probe = lab.ask("a/x")
    assert (lab.limit(), lab.learned().probe) == (2, probe)
    lab.tell(CONCURRENCY, probe, retry_after=Ms(9 * HOUR))
    assert (lab.limit(), lab.paused()) == (2, 0)
    assert lab.learned().bars[0].until == lab.now + 9 * HOUR
