"""The rows of jobs, for every store: kept field by field, found in order, gone when dropped."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from headgate.core.admission.next_in_line import Order
from headgate.core.jobs.job import Job
from headgate.core.jobs.states import State, Word
from headgate.core.times import Ms
from headgate.ledger.transaction.job_rows import Attempt
from headgate.ledger.transaction.rows import Member, Tx
from headgate.store import Store, open_store
from tests.store.far import FarStore
from tests.store.rows import attempt, changed, job, lane, lease, ticket


class Crash(BaseException):
    """Something that no store expects."""


@pytest.fixture(params=["memory", "sqlite", "far"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "rows.db"
    it: Store
    match request.param:
        case "far":
            it = FarStore(path, eager=True)
        case "memory":
            it = open_store("memory://")
        case _:
            it = open_store(f"sqlite://{path}")
    yield it
    it.close()


def _fail(store: Store, *changes: partial[None]) -> None:
    """Change rows in a transaction that comes to nothing."""
    with pytest.raises(Crash), store.transaction(write=True) as tx:  # noqa: PT012 - the error comes last
        for change in changes:
            change(tx)
        raise Crash


def test_a_job_comes_back_as_it_went_in(store: Store) -> None:
    """Every field is kept, whatever is in it; one that is not there is None."""
    row = changed(job(7))._replace(
        task="täsk", name="n\0m", label="'\"", weight=2**40, spec='{"argv":["\\ud800"]}'
    )
    with store.transaction(write=True) as tx:
        tx.add_job(row)
        assert tx.job(7) == row
        assert tx.job(8) is None
    with store.transaction(write=False) as tx:
        assert tx.job(7) == row


def test_what_a_job_was_submitted_with_stays(store: Store) -> None:
    """A change keeps what may change, and leaves weight, names, time and command alone."""
    row = job(7)
    other = changed(row)
    meddled = other._replace(weight=99, task="x", name="x", label="x", submitted=Ms(99), spec="x")
    with store.transaction(write=True) as tx:
        tx.add_job(row)
        tx.change_job(meddled)
        assert tx.job(7) == other


def test_a_change_makes_no_job(store: Store) -> None:
    """Changing a job that is not there, or is gone, changes nothing."""
    with store.transaction(write=True) as tx:
        tx.change_job(job(7, due=1))
        assert tx.job(7) is None
        assert (tx.next_due(), tx.count_jobs(Word.QUEUED), tx.count_aside()) == (0, 0, 0)


def test_jobs_are_listed_by_state(store: Store) -> None:
    """By id from one on, or the latest first; as many as wanted, and counted."""
    with store.transaction(write=True) as tx:
        for id in (5, 3, 9, 7):
            tx.add_job(job(id))
        tx.add_job(job(4, State.HELD))
        assert [row.id for row in tx.jobs(Word.QUEUED, 0, 10)] == [3, 5, 7, 9]
        assert [row.id for row in tx.jobs(Word.QUEUED, 3, 2)] == [5, 7]
        assert [row.id for row in tx.jobs(Word.QUEUED, -1, 3)] == [9, 7, 5]
        assert tx.jobs(Word.QUEUED, 9, 10) == []
        tx.change_job(job(5, State.DONE, ended=1))
        assert [row.id for row in tx.jobs(Word.QUEUED, 0, 10)] == [3, 7, 9]
        words = (Word.QUEUED, Word.HELD, Word.DONE, Word.RUNNING)
        assert [tx.count_jobs(word) for word in words] == [3, 1, 1, 0]


def test_those_aside_wait_for_something_else(store: Store) -> None:
    """Those that wait for a person, others or their next try; not in line, running or ended."""
    with store.transaction(write=True) as tx:
        for row in (
            job(1),
            job(2, State.AFTER),
            job(3, State.RUNNING),
            job(4, State.PARKED),
            job(5, State.HELD),
            job(6, State.STARTING),
            job(7, State.DONE, ended=1),
            job(8, State.BACKOFF),
        ):
            tx.add_job(row)
        assert [row.id for row in tx.aside(10)] == [2, 4, 5, 8]
        assert [row.id for row in tx.aside(2)] == [2, 4]
        assert tx.count_aside() == 4
        tx.change_job(job(4))
        tx.change_job(job(1, State.AFTER))
        tx.drop_job(5)
        assert [row.id for row in tx.aside(10)] == [1, 2, 8]
        assert tx.count_aside() == 3


def test_jobs_are_due_in_order(store: Store) -> None:
    """Soonest first, equal ones by id, from the very moment on; those with no time never."""
    with store.transaction(write=True) as tx:
        assert tx.next_due() == 0
        for id, due in ((1, 30), (2, 10), (3, 0), (5, 20), (4, 20)):
            tx.add_job(job(id, due=due))
        assert tx.next_due() == 10
        assert tx.due_jobs(Ms(9), 10) == []
        assert [row.id for row in tx.due_jobs(Ms(10), 10)] == [2]
        assert [row.id for row in tx.due_jobs(Ms(10**6), 10)] == [2, 4, 5, 1]
        assert [row.id for row in tx.due_jobs(Ms(10**6), 2)] == [2, 4]
        tx.change_job(job(2, due=0))
        assert tx.next_due() == 20


def test_old_jobs_are_those_that_ended_long_ago(store: Store) -> None:
    """Ended before a time, not at it, oldest first and equal ones by id; never the living."""
    with store.transaction(write=True) as tx:
        for id, ended in ((9, 20), (2, 20), (3, 30), (4, 0), (5, 10)):
            tx.add_job(job(id, State.DONE if ended else State.RUNNING, ended=ended))
        tx.change_job(job(9, State.FAILED, ended=20))
        assert tx.old_jobs(Ms(10), 10) == []
        assert tx.old_jobs(Ms(11), 10) == [5]
        assert tx.old_jobs(Ms(10**6), 10) == [5, 2, 9, 3]
        assert tx.old_jobs(Ms(10**6), 2) == [5, 2]


def test_a_dropped_job_takes_its_attempts_along(store: Store) -> None:
    """Its attempts and what it waits for go with it; what waits for it is still known to."""
    with store.transaction(write=True) as tx:
        for id in (1, 2, 3):
            tx.add_job(job(id))
            tx.keep_attempt(attempt(id, 1))
        tx.add_after(2, 1)
        tx.add_after(3, 2)
        tx.drop_job(2)
        tx.drop_job(2)
        assert tx.job(2) is None
        assert (tx.attempts(2), tx.needs_of(2), tx.needed_by(1)) == ([], [], [])
        assert tx.needs_of(3) == [2]
        assert [tx.attempts(id) for id in (1, 3)] == [[attempt(1, 1)], [attempt(3, 1)]]


def test_who_waits_for_whom(store: Store) -> None:
    """Both ways round, by id, each pair once."""
    with store.transaction(write=True) as tx:
        for pair in ((9, 4), (9, 2), (9, 4), (7, 2), (8, 2)):
            tx.add_after(*pair)
        assert (tx.needs_of(9), tx.needs_of(7), tx.needs_of(2)) == ([2, 4], [2], [])
        assert (tx.needed_by(2), tx.needed_by(4), tx.needed_by(9)) == ([7, 8, 9], [9], [])
        tx.drop_after(9, 2)
        tx.drop_after(9, 3)
        assert (tx.needs_of(9), tx.needed_by(2)) == ([4], [7, 8])


def test_attempts_are_kept_in_order(store: Store) -> None:
    """Each by its job and number; kept again, it is the new one that counts."""
    rows = [
        Attempt(7, number, "ä/b", Ms(-number), Ms(2**52), "c", "t\n", "0:9")
        for number in (10, 9, 1)
    ]
    with store.transaction(write=True) as tx:
        for row in (*rows, attempt(70, 1)):
            tx.keep_attempt(row)
        assert tx.attempts(7) == sorted(rows)
        again = rows[1]._replace(ended=Ms(1), text="other")
        tx.keep_attempt(again)
        assert tx.attempts(7) == [rows[2], again, rows[0]]
        assert tx.attempts(8) == []


def test_leases_of_jobs(store: Store) -> None:
    """Only those, by id, whoever holds them; a change of hands changes neither job nor count."""
    with store.transaction(write=True) as tx:
        for id, is_job in ((5, 1), (3, 0), (2, 1)):
            tx.add_lease(lease(id)._replace(job=is_job))
        assert [row.id for row in tx.job_leases()] == [2, 5]
        held = sorted(tx.held())
        mine = lease(5, member="p9")._replace(job=1)
        tx.change_lease(mine)
        assert tx.job_leases()[1] == tx.lease(5) == mine
        assert sorted(tx.held()) == held
        assert [row.id for row in tx.leases_of("p9")] == [5]
        tx.drop_lease(2)
        assert tx.job_leases() == [mine]


def test_members_come_in_the_order_in_which_they_joined(store: Store) -> None:
    """Equal ones by name, also once one has changed or the end of one was undone."""
    rows = [
        Member("p3", "m", 1, "", Ms(10)),
        Member("p1", "m", 1, "", Ms(20)),
        Member("p2", "m", 1, "", Ms(20)),
    ]
    with store.transaction(write=True) as tx:
        for row in reversed(rows):
            tx.add_member(row)
        assert tx.members() == rows
        rows[1] = rows[1]._replace(works=1)
        tx.add_member(rows[1])
    _fail(store, partial(_drop_member, id="p3"))
    with store.transaction(write=False) as tx:
        assert tx.members() == rows


def _drop_member(tx: Tx, id: str) -> None:
    tx.drop_member(id)


def _drop_job(tx: Tx, id: int) -> None:
    tx.drop_job(id)


def _change_job(tx: Tx, row: Job) -> None:
    tx.change_job(row)


def test_lists_are_in_order_after_a_failed_transaction(store: Store) -> None:
    """What a failed transaction took away comes back to where it was."""
    with store.transaction(write=True) as tx:
        for id in (1, 2, 3):
            tx.add_job(job(id, State.DONE, ended=5, due=5))
            tx.add_after(9, id)
            tx.keep_attempt(attempt(1, id))
    _fail(store, partial(_drop_job, id=1), partial(_change_job, row=job(2)))
    with store.transaction(write=False) as tx:
        assert tx.old_jobs(Ms(6), 10) == [1, 2, 3]
        assert [row.id for row in tx.due_jobs(Ms(5), 10)] == [1, 2, 3]
        assert [row.id for row in tx.jobs(Word.DONE, 0, 10)] == [1, 2, 3]
        assert [row.number for row in tx.attempts(1)] == [1, 2, 3]
        assert tx.needs_of(9) == [1, 2, 3]


def test_marks_are_never_far_apart(store: Store) -> None:
    """Marks are in order, begin with no more than a thousand before them, and follow changes."""
    dice = random.Random(3)  # noqa: S311 - repeatable
    with store.transaction(write=True) as tx:
        line, other = tx.lane(lane()), tx.lane(lane("b/z"))
        tx.add_ticket(ticket(10**6, other))
        orders: set[Order] = set()

        def check() -> None:
            marks = tx.marks(line)
            ordered = sorted(orders)
            assert marks == sorted(marks)
            assert marks[0] <= ordered[0]
            bounds = [*marks, (2**40, 0, 0)]
            for start, end in pairwise(bounds):
                assert sum(start <= one < end for one in ordered) <= 1_000
            assert len(marks) <= 2 + len(ordered) // 200

        for id in range(1, 3_501):
            order = (dice.choice([0, 0, -10]), dice.randrange(40), id)
            tx.add_ticket(ticket(id, line, urgency=order[0], since=order[1]))
            orders.add(order)
        check()
        for order in dice.sample(sorted(orders), 200) + sorted(orders)[:600]:
            if order in orders:
                tx.drop_ticket(order[2])
                orders.remove(order)
        check()
        assert len(tx.marks(other)) == 1
