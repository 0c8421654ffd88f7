"""A lease whose program waits for a job lends its seats to that job."""

from collections.abc import Iterator
from functools import partial

import pytest

from headgate.core.times import Ms
from headgate.ledger import job_timers, limits_by_hand
from headgate.ledger.admission import count_apart
from headgate.ledger.jobs import by_hand, waits
from headgate.ledger.queries import deadlocks
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow, Member
from tests.ledger.yard import BADLY, GONE, REFUSED, Yard


class Waits(Yard):
    """A yard in which programs under leases wait for jobs; time passes with every transaction."""

    _number = 0

    def wait_for(self, lease: int, *jobs: int, member: str = "q") -> int:
        """A program under a lease begins to wait; returns the number of that."""
        self.now += 1
        self._number += 1
        number = self._number
        self.run(lambda ledger: waits.begin(ledger, member, number, lease, jobs))
        return number

    def stop_waiting(self, number: int, member: str = "q") -> None:
        """It waits no longer."""
        self.now += 1

        def end(ledger: Ledger) -> None:
            waits.end(ledger, member, number)
            count_apart.count_apart(ledger)

        self.run(end)

    def child(self, lease: int, key: str = "a/x", **more: object) -> int:
        """A job that a lease waits for."""
        id = self.submit(key, **more)
        self.wait_for(lease, id)
        return id

    def job_that_runs(self, key: str = "a/x", **more: object) -> int:
        """A job that has been started."""
        self.now += 1
        id = self.submit(key, **more)
        assert self.begin(id) is not None
        return id

    def lease(self, id: int) -> LeaseRow:
        row = self.read(lambda ledger: ledger.tx.lease(id))
        assert row is not None, f"{id} has no seats"
        return row

    def lenders(self, *ids: int) -> list[int]:
        """Whose seats these leases have borrowed."""
        return [self.lease(id).lender for id in ids]

    def deadlocks(self) -> list[str]:
        """All circles, in words."""
        return [one.words for one in self.read(deadlocks.find)]

    def told_deadlocks(self) -> list[str]:
        self.run(deadlocks.tell)
        rows = self.read(lambda ledger: ledger.tx.events(-1, 1_000, 0))
        return [row.text for row in rows if row.kind == "deadlock"]


@pytest.fixture
def yard(open_it: object) -> Iterator[Waits]:
    """Pool `a` has one seat, and a worker is there."""
    it = Waits(open_it)  # type: ignore[arg-type]
    it.pools({"a": 1})
    it.worker()
    yield it
    it.store.close()


def test_a_job_borrows_from_the_lease_that_waits_for_it(yard: Waits) -> None:
    """It starts though the pool is full, and the two count once."""
    lead = yard.ask()
    job = yard.submit()
    assert yard.state(job) == "queued"
    yard.wait_for(lead, job)
    assert yard.state(job) == "running"
    assert yard.lenders(job) == [lead]
    assert yard.use("a") == 1
    yard.work(job)
    assert yard.held() == [lead]
    assert yard.use("a") == 1


def test_a_job_that_nobody_waits_for_does_not_borrow(yard: Waits) -> None:
    """A job next to the one that is waited for, in the same pool, goes on waiting."""
    lead = yard.ask()
    other = yard.submit()
    job = yard.child(lead)
    assert (yard.state(other), yard.state(job)) == ("queued", "running")


def test_several_jobs_take_turns_with_the_seats_that_are_lent(yard: Waits) -> None:
    """A lease lends to one at a time; the others take seats of their own, if there are any."""
    lead = yard.ask()
    jobs = [yard.submit() for _ in range(3)]
    yard.wait_for(lead, *jobs)
    for n, job in enumerate(jobs):
        assert yard.state(*jobs[n:]).split() == ["running"] + ["queued"] * (2 - n)
        assert yard.use("a") == 1
        yard.work(job)
    more = [yard.submit() for _ in range(3)]
    yard.wait_for(lead, *more)
    yard.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 2))
    assert yard.state(*more) == "running running queued"
    assert yard.lenders(*more[:2]) == [lead, 0]
    assert yard.use("a") == 2


def test_a_child_that_waits_for_a_grandchild(yard: Waits) -> None:
    """Each lends on what it has borrowed, and all of them count once."""
    lead = yard.ask()
    child = yard.child(lead)
    yard.now += 1
    yard.begin(child)
    grandchild = yard.child(child)
    assert yard.lenders(child, grandchild) == [lead, child]
    assert yard.use("a") == 1
    yard.work(grandchild)
    yard.finish(child)
    assert (yard.held(), yard.use("a")) == ([lead], 1)


def test_only_shared_pools_are_lent(yard: Waits) -> None:
    """A job of another key borrows the machine's seat, and needs one of its own elsewhere."""
    yard.pools({"host": 2, "a": 1, "b": 1})
    lead, other = yard.ask("a/x"), yard.ask("b/y")
    job = yard.child(lead, "b/y")
    assert yard.spot(job) == (1, "pool_full")
    yard.release(other)
    assert yard.lenders(job) == [lead]
    assert [yard.use(pool) for pool in ("host", "a", "b")] == [1, 1, 1]


def test_a_heavier_job_needs_the_difference(yard: Waits) -> None:
    """What the lease has is lent, the rest has to be free."""
    yard.pools({"a": 3})
    lead, other = yard.ask(), yard.ask()
    job = yard.child(lead, weight=3)
    assert yard.state(job) == "queued"
    yard.release(other)
    assert yard.state(job) == "running"
    assert yard.use("a") == 3


def test_a_job_that_runs_already_has_its_own_seats(yard: Waits) -> None:
    """Nothing is lent to it before it is back in the line."""
    yard.pools({"a": 2})
    lead, job = yard.ask(), yard.job_that_runs()
    yard.wait_for(lead, job)
    assert yard.use("a") == 2
    third = yard.submit()
    yard.finish(job, REFUSED)
    assert yard.state(job, third) == "parked running"
    yard.wait(60_000)
    assert yard.lenders(job) == [lead]
    assert yard.use("a") == 2


@pytest.mark.parametrize("end", [REFUSED, BADLY, GONE])
def test_a_job_that_comes_back_borrows_again(yard: Waits, end: object) -> None:
    """Parked, tried again or requeued: it is waited for as before."""
    lead = yard.ask()
    job = yard.child(lead, retries=3)
    yard.work(job, end)  # type: ignore[arg-type]
    yard.wait(700_000)
    assert yard.lenders(job) == [lead]
    assert yard.use("a") == 1


def test_a_job_that_is_moved_held_or_falls_back_borrows_again(yard: Waits) -> None:
    """Whatever puts it into the line anew."""
    yard.pools({"host": 1, "b": 1})
    lead, busy = yard.ask("a/x"), yard.child
    job = busy(lead, "b/y", hold=True, models=("b/y", "a/x"), fallback_after=Ms(5_000))
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "b", None))
    yard.do(by_hand.release_job, job)
    yard.do(by_hand.move, job, urgency=-10, first=False)
    assert yard.state(job) == "queued"
    yard.wait(6_000)
    yard.wait(6_000)
    assert (yard.row(job).key, yard.lenders(job)) == ("a/x", [lead])


def test_a_lead_that_is_killed_leaves_its_seats_to_the_job(yard: Waits) -> None:
    """The job goes on, counts once, and nobody else is let in before it ends."""
    lead = yard.ask()
    job = yard.child(lead)
    yard.now += 1
    yard.begin(job)
    third = yard.ask(member="r")
    yard.die("p", "q")
    assert (yard.held(), yard.waiting(), yard.use("a")) == ([job], [third], 1)
    yard.finish(job)
    assert yard.held() == [third]


def test_a_wait_that_is_over_lends_nothing(yard: Waits) -> None:
    """A job that has not started by then waits for seats of its own."""
    lead = yard.ask()
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "a", None))
    job = yard.submit()
    number = yard.wait_for(lead, job)
    yard.stop_waiting(number)
    yard.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    assert yard.spot(job) == (1, "pool_full")
    yard.release(lead)
    assert yard.lenders(job) == [0]


def test_a_waiter_that_is_killed_lends_nothing(yard: Waits) -> None:
    """The same, though nobody could write down that the wait is over."""
    lead = yard.ask()
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "a", None))
    job = yard.child(lead)
    yard.die("q")
    yard.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    assert yard.spot(job) == (1, "pool_full")


@pytest.mark.parametrize("killed", [False, True])
def test_a_wait_that_is_broken_off_where_there_is_room(yard: Waits, *, killed: bool) -> None:
    """The job finds seats of its own at once."""
    yard.pools({"a": 2})
    lead, other = yard.ask(), yard.ask(member="r")
    job = yard.submit()
    number = yard.wait_for(lead, job)
    assert yard.lenders(job) == [lead]
    yard.release(other)
    third = yard.ask(member="r") if killed else 0
    assert yard.use("a") == 1 + killed
    yard.die("q") if killed else yard.stop_waiting(number)
    if killed:
        assert yard.lenders(job) == [lead]
        yard.release(third)
        yard.tidy()
        yard.ask(member="r")
    assert yard.lenders(job) == [0]
    assert yard.use("a") == 2


def test_a_wait_that_is_broken_off_where_there_is_none(yard: Waits) -> None:
    """The two share their seats until there is room for both, which comes before the line."""
    yard.pools({"a": 2})
    lead, other = yard.ask(), yard.ask(member="r")
    job = yard.submit()
    number = yard.wait_for(lead, job)
    first, second = yard.ask(member="r"), yard.ask(member="r")
    yard.stop_waiting(number)
    assert (yard.lenders(job), yard.use("a")) == ([lead], 2)
    yard.release(other)
    assert (yard.lenders(job), yard.use("a")) == ([0], 2)
    assert yard.waiting() == [first, second]
    yard.release(lead)
    assert yard.waiting() == [second]


def test_a_job_that_counts_apart_takes_its_own_child_along(yard: Waits) -> None:
    """The job and what it has lent to stay together, and the lead lends again."""
    lead = yard.ask()
    child = yard.submit()
    number = yard.wait_for(lead, child)
    yard.now += 1
    yard.begin(child)
    grandchild = yard.child(child)
    yard.stop_waiting(number)
    assert yard.use("a") == 1
    yard.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 2))
    second = yard.child(lead)
    assert yard.lenders(child, grandchild, second) == [0, child, lead]
    assert yard.use("a") == 2


def test_two_leases_wait_for_one_job(yard: Waits) -> None:
    """One of them lends, and it goes on so when the wait of that one is broken off."""
    yard.pools({"a": 2})
    first, second = yard.ask(), yard.ask(member="r")
    busy = yard.child(first)
    assert yard.lenders(busy) == [first]
    job = yard.submit()
    number = yard.wait_for(first, job)
    assert yard.state(job) == "queued"
    yard.wait_for(second, job)
    assert yard.lenders(job) == [second]
    yard.stop_waiting(number)
    assert yard.use("a") == 2


def test_jobs_that_come_before_it_borrow_too(yard: Waits) -> None:
    """Who waits for a job waits for all that it comes after."""
    lead = yard.ask()
    first = yard.submit()
    second = yard.submit(after=(first,))
    third = yard.child(lead, after=(second,))
    for job in (first, second, third):
        assert yard.lenders(job) == [lead]
        assert yard.use("a") == 1
        yard.work(job)


def test_a_job_that_is_older_than_the_lease(yard: Waits) -> None:
    """It borrows, and the lease lends to nobody else meanwhile."""
    yard.run(_all_know_the_order)
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "a", None))
    job = yard.submit("a/y", urgency=10)
    yard.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    yard.now += 1
    assert yard.begin(job) is not None
    lead = yard.ask()
    yard.run(_all_know_the_order)
    yard.finish(job, REFUSED)
    assert yard.held() == [lead]
    yard.wait_for(lead, job)
    yard.wait(60_000)
    assert yard.lenders(job) == [lead]
    nested = yard.ask("a/y", lender=lead)
    assert yard.waiting() == [nested]
    assert yard.use("a") == 1
    yard.now += 1
    assert yard.begin(job) is not None
    yard.run(_all_know_the_order)
    grandchild = yard.child(job)
    assert yard.lenders(grandchild) == [job]


def test_an_older_job_does_not_borrow_beside_version_0_1_0(yard: Waits) -> None:
    """That version would not see that the lease has lent, and lend once more."""
    job = yard.submit(hold=True)
    lead = yard.ask()
    yard.wait_for(lead, job)
    yard.do(by_hand.release_job, job)
    assert yard.spot(job) == (1, "pool_full")


def test_a_job_that_was_started_again_has_a_new_family(yard: Waits) -> None:
    """A child of its last attempt goes on with its own seats, and lends them to nobody."""
    parent = yard.job_that_runs()
    old = yard.child(parent)
    assert (yard.lenders(old), yard.use("a")) == ([parent], 1)
    yard.pools({"a": 2})
    yard.now += 1
    yard.finish(parent, GONE)
    yard.now += 1
    assert yard.begin(parent) is not None
    assert yard.use("a") == 2
    new = yard.child(parent)
    assert yard.lenders(new) == [parent]
    assert yard.use("a") == 2


def test_a_note_that_cannot_be_read_lends_nothing(yard: Waits) -> None:
    """And is told."""
    lead = yard.ask()
    yard.run(lambda ledger: ledger.tx.set_note(waits.NOTE, "12 zwölf"))
    job = yard.submit()
    yard.do(by_hand.hold, job)
    yard.do(by_hand.release_job, job)
    assert yard.state(job) == "queued"
    yard.wait_for(lead, job)
    assert yard.lenders(job) == [lead]
    rows = yard.read(lambda ledger: ledger.tx.events(-1, 1_000, 0))
    assert [row.text for row in rows if row.kind == "unreadable"]


def test_a_lease_that_is_gone_lends_nothing(yard: Waits) -> None:
    """A mark that outlived its lease is no claim."""
    job = yard.submit()
    assert yard.run(lambda ledger: waits.begin(ledger, "q", 1, 999, [job])) is False


def test_two_leads_that_need_each_others_seats(yard: Waits) -> None:
    """Each waits for a child that needs the other's seat: it is found, named, and told once."""
    yard.pools({"a": 2})
    first, second = yard.ask(), yard.ask(member="r")
    assert yard.deadlocks() == []
    one, two = yard.child(first, weight=2), yard.submit(weight=2)
    assert yard.deadlocks() == []
    yard.wait_for(second, two)
    words = f"{first} waits for job {one}, which needs a, held by {first} and {second}; "
    words += f"{second} waits for job {two}, which needs a, held by {first} and {second}"
    assert yard.deadlocks() == [words]
    assert yard.told_deadlocks() == yard.told_deadlocks()
    assert len(yard.told_deadlocks()) == 1
    assert "headgate limits set 'a' N" in yard.told_deadlocks()[0]
    for id in (first, second, one, two):
        assert yard.read(partial(deadlocks.of, id=id)) is not None
    yard.do(lambda ledger, id: by_hand.cancel(ledger, id, "by hand"), two)
    assert yard.deadlocks() == []


def test_a_deadlock_that_comes_again_is_told_again(yard: Waits) -> None:
    """Once it was resolved."""
    yard.pools({"a": 2})
    first, second = yard.ask(), yard.ask(member="r")
    one, two = yard.child(first, weight=2), yard.submit(weight=2)
    for times in (1, 2):
        number = yard.wait_for(second, two)
        assert len(yard.told_deadlocks()) == times
        yard.stop_waiting(number)
        yard.run(deadlocks.forget_resolved)
        assert yard.deadlocks() == []
    assert yard.state(one) == "queued"


def test_a_job_that_waits_for_what_comes_after_it(yard: Waits) -> None:
    """It waits for a job that starts when it has ended; and another for itself."""
    yard.pools({"a": 5})
    parent = yard.job_that_runs()
    child = yard.child(parent, after=(parent,))
    words = f"{parent} waits for job {child}, which comes after job {parent}"
    assert yard.deadlocks() == [words]
    itself = yard.job_that_runs()
    yard.wait_for(itself, itself)
    assert yard.deadlocks() == [words, f"{itself} waits for job {itself}"]


def test_runs_inside_runs_that_need_each_others_seats(yard: Waits) -> None:
    """A circle of nested runs is found as well, and whoever waits for it belongs to it."""
    yard.pools({"a": 1, "b": 1})
    first, second = yard.ask("a/x"), yard.ask("b/y", member="r")
    one = yard.ask("b/y", lender=first)
    assert yard.deadlocks() == []
    two = yard.ask("a/x", member="r", lender=second)
    (words,) = yard.deadlocks()
    assert words == (
        f"{first} waits for {one}, which needs b, held by {second}; "
        f"{second} waits for {two}, which needs a, held by {first}"
    )
    third = yard.submit("a/z")
    found = yard.read(lambda ledger: deadlocks.of(ledger, third))
    assert found is not None
    assert found.words == words


def test_what_is_no_deadlock(yard: Waits) -> None:
    """A person, a pause, a worker, time or somebody who is not stuck can still help."""
    yard.pools({"a": 2})
    first, second = yard.ask(), yard.ask(member="r")
    held = yard.child(first, hold=True)
    heavy = yard.child(second, weight=2)
    assert yard.deadlocks() == []
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "a", None))
    yard.do(by_hand.release_job, held)
    yard.do(lambda ledger, id: by_hand.cancel(ledger, id, "by hand"), heavy)
    assert yard.deadlocks() == []
    yard.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    yard.run(job_timers.tick)
    assert yard.deadlocks() == []
    third = yard.child(first, weight=2)
    assert yard.deadlocks() == []
    fourth = yard.child(second, weight=2)
    assert yard.state(third, fourth) == "queued queued"
    assert len(yard.deadlocks()) == 1
    yard.die("w")
    assert yard.deadlocks() == []


def _all_know_the_order(ledger: Ledger) -> None:
    """Every process is of a version that knows to whom a lease has lent by when it did."""
    for row in ledger.tx.members():
        ledger.tx.add_member(Member(*row)._replace(version="0.2.0", schema=5))
