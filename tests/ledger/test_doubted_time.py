"""A clock that is wrong at boot: nothing ends by time that nobody has seen pass."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core import wall_clock
from headgate.core.times import Ms
from headgate.ledger import job_timers, limits_by_hand
from headgate.ledger.jobs import by_hand
from headgate.ledger.transaction.ledger import Ledger
from headgate.store import Store, sqlite
from headgate.store import wall_clock as store_wall_clock
from headgate.store.sqlite import SqliteStore
from tests.ledger.yard import Yard

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEARS = 5 * 365 * DAY
LATE = 5 * MINUTE
"""By how much steps of a clock that are too small to be looked at may add up."""


class Machine:
    """A machine whose clocks are ours: what time it is in truth, and what its clock shows."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.true = 1_800_000_000_000
        self.boot = 0
        self.booted = self.true
        self.error = 0
        self.synchronised = True
        for module in (sqlite, store_wall_clock):
            patch.setattr(module, "machine_id", lambda: f"boot-{self.boot}")
            patch.setattr(module, "uptime_ms", lambda: Ms(self.true - self.booted))
            patch.setattr(module, "wall_ms", lambda: Ms(self.true + self.error))
        patch.setattr(store_wall_clock, "synchronised", lambda: self.synchronised)

    def restart(self, off: int, error: int, *, synchronised: bool = False) -> None:
        """Be off for a while, and have a clock that is wrong by so much."""
        self.true += off
        self.boot += 1
        self.booted = self.true
        self.true += 20_000
        self.error = error
        self.synchronised = synchronised


class Office(Yard):
    """A world on such a machine: its store is opened anew with each boot."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.path = folder / "s.db"
        super().__init__(lambda _: self.open())
        self.pools({"a": 1})
        self.ended()
        self.began = self.now

    @property
    def now(self) -> int:
        return self.store.now()

    @now.setter
    def now(self, _: int) -> None:
        """The machine says what time it is."""

    def open(self) -> Store:
        return SqliteStore(self.path, synchronous="OFF")

    def restart(self, off: int, error: int, *, synchronised: bool = False) -> None:
        latest = max(row.at for row in self.read(lambda ledger: ledger.tx.events(-1, 1, 0)))
        self.store.close()
        self.machine.restart(off, error, synchronised=synchronised)
        self.store = self.open()
        assert self.now >= max(latest, self.began)
        self.began = self.now

    def pass_by(self, ms: int, keep: int = 7 * DAY) -> None:
        """Time passes, and a worker sees to what it does."""
        self.machine.true += ms

        def tick(ledger: Ledger) -> None:
            job_timers.tick(ledger)
            job_timers.put_back(ledger)
            job_timers.age_out(ledger, ledger.now - Ms(keep))

        self.run(tick)

    def synchronise(self) -> None:
        self.machine.error = 0
        self.machine.synchronised = True

    def ended(self) -> int:
        """A job that has ended now."""
        id = self.submit(hold=True)
        self.run(lambda ledger: by_hand.cancel(ledger, id, "by hand"))
        return id

    def there(self, id: int) -> bool:
        return self.read(lambda ledger: ledger.tx.job(id)) is not None

    def pause(self, ms: int) -> None:
        self.run(lambda ledger: limits_by_hand.pause(ledger, "a", Ms(ms), ""))

    def paused(self) -> bool:
        return self.pool("a").paused

    def kinds(self) -> list[str]:
        events = self.read(lambda ledger: ledger.tx.events(-1, 1_000, 0))
        return [row.kind for row in events if row.kind.startswith("clock_")]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with pytest.MonkeyPatch.context() as patch:
        it = Office(tmp_path, Machine(patch))
        yield it
        it.store.close()


@pytest.mark.parametrize("error", [HOUR, DAY, YEARS])
def test_a_clock_in_the_future_at_boot(office: Office, error: int) -> None:
    """Nothing expires, nothing is forgotten, pauses hold; jobs are started and finished."""
    waits, old = office.submit(expires=HOUR), office.ended()
    office.pause(30 * MINUTE)
    office.restart(MINUTE, error)
    office.pass_by(0, keep=HOUR)
    assert (office.state(waits), office.there(old), office.paused()) == ("queued", True, True)
    assert office.kinds() == ["clock_doubted"]
    office.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    office.worker()
    office.work(waits)
    assert office.state(waits) == "done"


@pytest.mark.parametrize("error", [HOUR, DAY, YEARS])
def test_the_clock_is_put_right_while_it_is_doubted(office: Office, error: int) -> None:
    """Everything ends when it would have ended, had the clock been right all the time."""
    waits, old = office.submit(expires=2 * HOUR), office.ended()
    office.pause(HOUR)
    office.restart(MINUTE, error)
    newer = office.submit(expires=2 * HOUR)
    office.pass_by(20 * MINUTE, keep=2 * HOUR)
    office.synchronise()
    office.pass_by(5 * MINUTE, keep=2 * HOUR)
    assert office.kinds() == ["clock_doubted", "clock_corrected"]
    office.pass_by(30 * MINUTE, keep=2 * HOUR)
    assert office.paused()
    office.pass_by(10 * MINUTE, keep=2 * HOUR)
    assert not office.paused()
    office.pass_by(45 * MINUTE, keep=2 * HOUR)
    assert (office.state(waits, newer), office.there(old)) == ("queued queued", True)
    office.pass_by(9 * MINUTE, keep=2 * HOUR)
    assert (office.state(waits, newer), office.there(old)) == ("expired queued", False)
    office.pass_by(MINUTE)
    assert office.state(newer) == "expired"


def test_the_machine_was_off_for_as_long_as_its_clock_says(office: Office) -> None:
    """An hour later the clock is believed: what its time has come for ends."""
    waits, old = office.submit(expires=HOUR), office.ended()
    office.pause(HOUR)
    office.restart(3 * DAY, 0)
    office.pass_by(50 * MINUTE, keep=DAY)
    assert (office.state(waits), office.there(old), office.paused()) == ("queued", True, True)
    for _ in range(2):
        office.pass_by(11 * MINUTE, keep=DAY)
    assert (office.state(waits), office.there(old), office.paused()) == ("expired", False, False)
    assert office.kinds() == ["clock_doubted"]


def test_a_clock_that_is_synchronised_is_believed(office: Office) -> None:
    """At boot or some minutes later: nothing waits any longer."""
    one, other = office.submit(expires=HOUR), office.submit(expires=4 * DAY)
    office.restart(3 * DAY, 0, synchronised=True)
    office.pass_by(0)
    assert office.state(one, other) == "expired queued"
    office.restart(3 * DAY, 0)
    office.pass_by(0)
    assert office.state(other) == "queued"
    office.synchronise()
    office.pass_by(11 * MINUTE)
    assert office.state(other) == "expired"


def test_a_short_time_off_is_believed(office: Office) -> None:
    """A restart of some minutes is nothing to be doubted."""
    waits = office.submit(expires=6 * MINUTE)
    office.restart(7 * MINUTE, 0)
    office.pass_by(0)
    assert (office.state(waits), office.kinds()) == ("expired", [])


def test_a_clock_that_was_believed_is_put_right(office: Office) -> None:
    """Jobs that had expired by it are back in the line, and end when their time has really come."""
    waits, later = office.submit(expires=DAY), office.submit(expires=2 * YEARS)
    office.restart(MINUTE, YEARS)
    for _ in range(8):
        office.pass_by(10 * MINUTE)
    assert office.state(waits, later) == "expired queued"
    office.restart(MINUTE, YEARS)  # it is wrong for some boots
    office.restart(MINUTE, 0)
    assert office.state(waits, later) == "expired queued"
    office.synchronise()
    office.pass_by(MINUTE)
    assert office.state(waits, later) == "queued queued"
    assert office.told(waits)[-2:] == ["expired", "retried"]
    office.restart(YEARS, 0, synchronised=True)
    office.pass_by(0)
    assert office.state(waits, later) == "expired queued"
    office.restart(YEARS, 0, synchronised=True)
    office.pass_by(0)
    assert office.state(later) == "expired"


def test_after_a_correction_time_off_counts_as_before(office: Office) -> None:
    """The store's clock stays ahead of the wall clock: a lead, which is no time that has passed."""
    office.submit()
    office.restart(MINUTE, YEARS)
    for _ in range(8):
        office.pass_by(10 * MINUTE)
    office.synchronise()
    office.pass_by(MINUTE)
    waits = office.submit(expires=DAY)
    office.restart(DAY - HOUR, 0, synchronised=True)
    office.pass_by(0)
    assert office.state(waits) == "queued"
    office.restart(HOUR, 0, synchronised=True)
    office.pass_by(0)
    assert office.state(waits) == "expired"


@pytest.mark.parametrize("error", [-YEARS, -DAY, DAY, YEARS])
def test_the_clock_is_set_while_the_machine_runs(office: Office, error: int) -> None:
    """The uptime tells how much time has passed: no step of the clock changes anything."""
    waits, old = office.submit(expires=DAY), office.ended()
    office.pause(DAY)
    office.machine.synchronised = False
    for step in (error, 0, error):
        office.machine.error = step
        for _ in range(7):
            office.pass_by(HOUR, keep=DAY)
    assert (office.state(waits), office.there(old), office.paused()) == ("queued", True, True)
    for _ in range(4):
        office.pass_by(HOUR, keep=DAY)
    assert (office.state(waits), office.there(old), office.paused()) == ("expired", False, False)
    assert office.kinds() == []


def test_a_clock_that_was_never_set(office: Office) -> None:
    """A machine without a battery begins long ago: time goes on from where it was."""
    waits = office.submit(expires=DAY)
    office.restart(HOUR, -10 * YEARS)
    office.pass_by(0)
    assert office.state(waits) == "queued"
    office.synchronise()
    office.pass_by(23 * HOUR)
    assert office.state(waits) == "queued"
    office.pass_by(2 * HOUR)
    assert office.state(waits) == "expired"


def test_a_text_that_cannot_be_read_is_doubted(office: Office) -> None:
    """Nobody knows what the clock said: nothing expires until it is believed again."""
    waits = office.submit(expires=HOUR)
    office.run(lambda ledger: ledger.tx.set_note(wall_clock.NOTE, "[damaged"))
    office.pass_by(2 * HOUR)
    assert office.state(waits) == "queued"
    office.machine.synchronised = False
    office.store.close()
    office.store = office.open()
    office.pass_by(11 * MINUTE)
    assert office.state(waits) == "queued"
    office.synchronise()
    office.pass_by(11 * MINUTE)
    assert office.state(waits) == "expired"


ERRORS = st.sampled_from([0, HOUR, DAY, YEARS, -HOUR, -YEARS])
STEPS = st.one_of(
    st.tuples(st.just("run"), st.integers(1, 40), st.just(0)),
    st.tuples(st.just("off"), st.sampled_from([1, 30, 600]), ERRORS),
    st.tuples(st.just("set"), st.just(0), ERRORS),
    st.tuples(st.just("right"), st.just(0), st.just(0)),
)
LIMIT = 5 * HOUR


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=12))
def test_nothing_ends_before_its_time(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is off, wrong and put right, as long as a clock is put right within an hour."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch)
        office = Office(Path(folder), machine)
        begun, wrong = machine.true, 0
        waits, old = office.submit(expires=LIMIT), office.ended()
        office.pause(LIMIT)
        for what, amount, error in [*steps, ("right", 0, 0)]:
            if what == "run":
                wrong += amount
                if wrong >= 55:
                    office.synchronise()
                office.pass_by(amount * MINUTE, keep=LIMIT)
            elif what == "off":
                office.restart(amount * MINUTE, error)
                wrong = 0
            elif what == "set":
                machine.error, machine.synchronised = error, False
            else:
                office.synchronise()
            office.pass_by(0, keep=LIMIT)
            if machine.true - begun < LIMIT - LATE:
                found = (office.state(waits), office.there(old), office.paused())
                assert found == ("queued", True, True)
        for _ in range(60):
            office.pass_by(6 * MINUTE, keep=LIMIT)
        assert not office.there(waits) or office.state(waits) == "expired"
        assert (office.there(old), office.paused()) == (False, False)
        office.store.close()
