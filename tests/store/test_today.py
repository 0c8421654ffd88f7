"""A store that version 0.1.0 left behind (see `make_today.py`): all is understood and works."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from headgate.core.admission.lease_events import ACCEPTED, PENDING, EndCause, refused
from headgate.core.jobs.job import End, Job
from headgate.core.jobs.states import State, Word
from headgate.core.times import Ms, Seconds
from headgate.errors import UsageError
from headgate.ledger import job_timers
from headgate.ledger.cancel import ask_to_end
from headgate.ledger.jobs import by_hand
from headgate.ledger.queries import job_queries
from headgate.ledger.transaction.rows import LeaseRow
from headgate.store.sqlite import SqliteStore
from tests.ledger.yard import BADLY, GONE, REFUSED, WELL, Yard
from tests.store import make_today

WRITTEN_AT = 1_010_000
"""What the store's clock said when the file was done."""
STATES = {
    "held": State.HELD,
    "after": State.AFTER,
    "queued": State.QUEUED,
    "parked, in line": State.QUEUED,
    "parked": State.PARKED,
    "backoff": State.BACKOFF,
    "starting": State.STARTING,
    "running": State.RUNNING,
    "adopted": State.RUNNING,
    "relieving": State.RUNNING,
    "cancelling": State.RUNNING,
    "overdue": State.RUNNING,
    "done": State.DONE,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
    "expired": State.EXPIRED,
    "lost": State.LOST,
}


class Today(Yard):
    """The jobs of that store, by their names."""

    def __init__(self, open_it: Callable[[Callable[[], int]], SqliteStore]) -> None:
        super().__init__(open_it)
        self.now = WRITTEN_AT
        self.pools({"a": 1, "b": 1})
        for member in self.read(lambda ledger: ledger.tx.members()):
            self.liveness.join(member.id)
        self.named = {
            row.name: row.id
            for row in self.read(
                lambda ledger: [row for word in Word for row in ledger.tx.jobs(word, 0, 99)]
            )
        }

    def of(self, name: str) -> Job:
        return self.row(self.named[name])

    def lease(self, name: str) -> LeaseRow:
        found = self.read(lambda ledger: ledger.tx.lease(self.named[name]))
        assert found is not None
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(Path(__file__).with_name("data") / "today.db", tmp_path / "s.db"))


@pytest.fixture
def today(path: Path) -> Iterator[Today]:
    it = Today(lambda clock: SqliteStore(path, synchronous="OFF", clock=clock))
    it.liveness.orphan(f"r{it.named['adopted']}")
    yield it
    it.store.close()


def _columns(path: Path, id: int) -> tuple[object, ...]:
    db = apsw.Connection(str(path))
    found = db.execute("SELECT state, code FROM job WHERE id = ?", (id,)).fetchone()
    db.close()
    assert found is not None
    return tuple(found)


def test_every_job_is_in_its_state(today: Today) -> None:
    """Also one that is parked by its row and stands in line; each is listed once, and counted."""
    assert {name: today.of(name).state for name in today.named} == STATES
    assert set(STATES.values()) == set(State) - {State.ASKED}  # which that version did not know
    counts = today.read(job_queries.counts)
    words = [state.word for state in STATES.values()]
    assert counts == {word.value: words.count(word) for word in Word}
    assert today.of("adopted").adopted
    assert not today.of("running").adopted


def test_what_is_shown_is_what_was(today: Today) -> None:
    """Codes and sentences are those that were written; one in line says where it stands."""
    for name in ("parked", "backoff", "held", "after", "done", "failed", "adopted", "starting"):
        row, shown = today.of(name), today.why(today.named[name])
        assert (shown.state, shown.code, shown.reason) == (row.state.word, row.code, row.text)
    back = today.why(today.named["parked, in line"])
    assert (back.state, back.code, back.position) == ("queued", "pool_full", 1)
    assert today.why(today.named["relieving"]).reason == "to relieve the machine: 12 MiB are free"
    aside = today.read(lambda ledger: job_queries.aside(ledger, Seconds(0.0), 99))
    assert {job.name for job in aside} == {"held", "after", "parked", "backoff"}


def test_what_leases_were_told_is_typed(today: Today) -> None:
    """Upstream's answers, and who asked for an end."""
    leases = today.read(lambda ledger: {row.task: row.answer for row in ledger.tx.leases(0, 99)})
    assert leases["pending"] == PENDING
    assert leases["accepted"] == ACCEPTED
    assert leases["refused"] == refused(Ms(WRITTEN_AT))
    causes = {}
    for name in ("relieving", "cancelling", "overdue", "running"):
        request = today.lease(name).cancel
        causes[name] = request and request.cause
    assert causes == {
        "relieving": EndCause.RELIEVE,
        "cancelling": EndCause.CANCEL,
        "overdue": EndCause.MAX_HOLD,
        "running": None,
    }


@pytest.mark.parametrize(
    "name, state",
    [
        ("relieving", State.PARKED),
        ("cancelling", State.CANCELLED),
        ("overdue", State.FAILED),
        ("running", State.STARTING),
    ],
)
def test_who_asked_for_an_end_decides_it(today: Today, name: str, state: State) -> None:
    """A runner that was stopped: its job is parked, cancelled, failed, or tried again at once."""
    assert today.finish(today.named[name], GONE)
    assert today.of(name).state is state


@pytest.mark.parametrize("end, word", [(WELL, "done"), (BADLY, "failed"), (REFUSED, "parked")])
def test_what_runs_can_end(today: Today, end: End, word: str) -> None:
    """Each way, also what another runner has taken over."""
    for name, runner in (("running", None), ("adopted", "v")):
        assert today.finish(today.named[name], end, runner=runner)
        assert today.state(today.named[name]) == word


def test_what_is_being_started_begins(today: Today) -> None:
    """Its worker's runner takes it over."""
    assert today.begin(today.named["starting"]) is not None
    assert today.of("starting").state is State.RUNNING


@pytest.mark.parametrize("name", [name for name, state in STATES.items() if not state.ended])
def test_whatever_has_not_ended_can_be_cancelled(today: Today, name: str) -> None:
    """At once if nothing of it runs, else by its runner."""
    id = today.named[name]
    today.run(lambda ledger: ask_to_end(ledger, id))
    if today.of(name).state is State.RUNNING:
        assert today.lease(name).cancel is not None
    else:
        assert today.of(name).state is State.CANCELLED


@pytest.mark.parametrize("name", [name for name, state in STATES.items() if state.ended])
def test_whatever_has_ended_can_be_had_again(today: Today, name: str) -> None:
    """It stands in line as if it were new, and can neither be held nor cancelled before."""
    id = today.named[name]
    for verb in (by_hand.hold, by_hand.release_job):
        with pytest.raises(UsageError):
            today.do(verb, id)
    today.do(by_hand.retry, id)
    assert today.of(name).state in {State.QUEUED, State.STARTING}


@pytest.mark.parametrize("name", ["after", "queued", "parked, in line", "parked", "backoff"])
def test_what_waits_can_be_held_moved_and_let_go(today: Today, name: str) -> None:
    """It keeps its place meanwhile, and goes on from there."""
    id, before = today.named[name], today.of(name)
    today.do(by_hand.move, id, urgency=-1, first=False)
    assert today.of(name) == before._replace(urgency=-1)
    today.do(by_hand.hold, id)
    assert today.of(name).state is State.HELD
    today.do(by_hand.release_job, id)
    assert today.of(name).state in {State.AFTER, State.QUEUED, State.STARTING}


def test_time_does_its_part(today: Today) -> None:
    """What was put aside comes back, when its time has come and not before."""
    today.run(job_timers.tick)
    assert {today.of(name).state.word for name in ("parked", "backoff")} == {"parked", "queued"}
    today.wait(10_000)
    assert {today.of(name).state for name in ("parked", "backoff")} == {State.STARTING}


def test_one_back_in_line_is_not_called_parked_any_more(today: Today, path: Path) -> None:
    """Its row is read as it was, and written as `queued` when it next changes."""
    id = today.named["parked, in line"]
    assert _columns(path, id) == ("parked", "")
    today.do(by_hand.move, id, urgency=None, first=True)
    assert _columns(path, id) == ("queued", "")
    assert today.in_line() == sorted([id, today.named["queued"]])


def test_the_same_histories_are_still_written_alike(path: Path, tmp_path: Path) -> None:
    """Row by row what 0.1.0 wrote, so that it can go on with it; but one in line is `queued`."""
    make_today.main(tmp_path / "new.db")
    old, new = _tables(path), _tables(tmp_path / "new.db")
    changed = {(name, row) for name in old for row in old[name] ^ new[name] if name != "note"}
    assert {(name, *row[:3]) for name, row in changed} == {
        ("job", 2, "parked", ""),
        ("job", 2, "queued", ""),
    }
    assert len({row[3:] for _, row in changed}) == 1


def _tables(path: Path) -> dict[str, set[tuple[object, ...]]]:
    db = apsw.Connection(str(path))
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: {tuple(row) for row in db.execute(f"SELECT * FROM {name}")} for name in names}  # noqa: S608
    db.close()
    return found
