"""What time does to jobs: they expire, come back, are tried again, go to another model."""

import pytest

from headgate.core.admission.pools import Declared
from headgate.core.jobs.job import Spec, backoff
from headgate.core.times import Ms
from headgate.ledger import dead_members, job_timers, limits_by_hand
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.jobs import by_hand
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.yard import BADLY, GONE, REFUSED, Yard

DAY = 86_400_000
TWO = ("a/x", "b/y")


def test_a_job_that_waits_too_long_expires(yard: Yard) -> None:
    """At the moment that was said, in line or held; it is told, and leaves nothing behind."""
    for hold in (False, True):
        id = yard.submit(expires=1_000, hold=hold)
        yard.wait(999)
        assert yard.state(id) == ("held" if hold else "queued")
        yard.wait(1)
        row = yard.row(id)
        assert (row.state.word, row.code, row.text) == (
            "expired",
            "expired",
            "not started within 1s",
        )
        assert yard.told(id)[-1] == "expired"
        assert yard.in_line() == []
        yard.wait(DAY)
        assert yard.told(id).count("expired") == 1


def test_a_job_that_is_put_aside_by_hand_expires_too(yard: Yard) -> None:
    """Holding a job does not stop its time; letting it go gives it all of it again."""
    first, second = yard.submit(expires=1_000), yard.submit(expires=1_000)
    yard.wait(500)
    yard.do(by_hand.hold, first)
    yard.do(by_hand.hold, second)
    yard.wait(400)
    yard.do(by_hand.release_job, second)
    yard.wait(100)
    assert yard.state(first, second) == "expired queued"
    yard.wait(900)
    assert yard.state(second) == "expired"
    assert yard.row(second).text == "not started within 1s"


def test_what_never_expires(yard: Yard) -> None:
    """A job without a time waits for as long as it takes."""
    id, held = yard.submit(), yard.submit(hold=True)
    yard.wait(10_000 * DAY)
    assert yard.state(id, held) == "queued held"


def test_what_was_started_never_expires(yard: Yard) -> None:
    """Being started, running, parked, held while parked, tried again: its time is over."""
    yard.worker()
    starting = yard.submit("c/z", expires=1_000)
    first = yard.submit(expires=1_000, retries=3)
    yard.wait(2_000)
    assert yard.state(starting, first) == "running running"
    yard.begin(first)
    yard.wait(DAY)
    assert yard.state(first) == "running"
    yard.finish(first, REFUSED)
    yard.do(by_hand.hold, first)
    yard.wait(DAY)
    assert yard.state(first) == "held"
    yard.liveness.orphan("w")
    yard.do(by_hand.release_job, first)
    yard.wait(DAY)
    assert yard.state(first) == "queued"
    yard.worker("v")
    yard.begin(first, worker="v")
    yard.finish(first, BADLY)
    yard.liveness.orphan("v")
    yard.wait(DAY)
    yard.wait(DAY)
    assert yard.state(first) == "queued"


def test_one_that_its_worker_did_not_start_expires(yard: Yard) -> None:
    """Given back unstarted, it has waited all the time, and expires when it would have."""
    yard.worker()
    id = yard.submit(expires=10_000)
    yard.wait(5_000)
    yard.die("w")
    yard.wait(5_000)
    assert yard.state(id) == "expired"


def test_many_expire_a_thousand_at_a_time(yard: Yard) -> None:
    """However many are due, all are seen to, a bounded number in each transaction."""
    ids = [yard.submit(expires=1) for _ in range(1_500)]
    yard.wait(10)
    assert sum(yard.state(id) == "expired" for id in ids) == 1_000
    assert yard.read(job_timers.due)
    yard.wait(0)
    assert {yard.state(id) for id in ids} == {"expired"}
    assert not yard.read(job_timers.due)


def test_a_parked_job_comes_back(yard: Yard) -> None:
    """Its seat is free meanwhile, its place is kept, and it comes back after its backoff."""
    yard.worker()
    first = yard.submit(backoff=1_000)
    second, third = yard.submit(), yard.submit()
    yard.work(first, REFUSED._replace(session="s-1"))
    row = yard.row(first)
    assert (row.state.word, row.code, row.text) == ("parked", "rate_limited", "upstream refused it")
    assert (row.session, row.parks, row.exit) == ("s-1", 1, "1:0")
    assert yard.held() == [second]
    wait = row.due - yard.now
    assert 1_000 <= wait <= 1_250
    yard.wait(wait - 1)
    assert yard.in_line() == [third]
    yard.wait(1)
    assert yard.in_line() == [first, third]
    assert yard.waiting() == [first, third]
    assert yard.spot(first) == (1, "pool_full")
    assert yard.state(first) == "queued"
    yard.work(second)
    assert yard.held() == [first]
    taken = yard.begin(first)
    assert taken is not None
    assert (taken.session, taken.attempts) == ("s-1", 2)
    assert yard.told(first) == ["started", "parked", "readmitted"]


def test_a_backoff_grows_and_is_bounded() -> None:
    """It doubles up to the longest, and differs by job."""
    spec = Spec((), "", backoff=Ms(1_000), longest_backoff=Ms(60_000))
    waits = [backoff(spec, 251, parks) for parks in range(1, 60)]
    assert waits[:4] == [1_000, 2_000, 4_000, 8_000]
    assert waits == sorted(waits)
    assert set(waits[7:]) == {60_000}
    several = {backoff(spec, id, 1) for id in range(1, 100)}
    assert len(several) > 50
    assert all(1_000 <= wait <= 1_250 for wait in several)


def test_a_job_is_parked_only_so_often(yard: Yard) -> None:
    """After its last attempt in vain it has failed, with the reason and the count."""
    yard.worker()
    id = yard.submit(attempts=3)
    for _ in range(2):
        yard.work(id, REFUSED)
        assert yard.state(id) == "parked"
        yard.wait(DAY)
    yard.work(id, REFUSED)
    row = yard.row(id)
    assert (row.state.word, row.code, row.attempts) == ("failed", "rate_limited", 3)
    assert row.text == "upstream refused it; that was attempt 3 of 3"


def test_parked_and_lost_attempts_are_counted_together(yard: Yard) -> None:
    """Whatever an attempt came to nothing by, there are only so many."""
    yard.worker()
    id = yard.submit(attempts=3)
    yard.work(id, REFUSED)
    yard.wait(DAY)
    yard.work(id, GONE)
    yard.work(id, REFUSED)
    assert (yard.state(id), yard.row(id).attempts) == ("failed", 3)


def test_a_failure_is_tried_again_as_often_as_was_said(yard: Yard) -> None:
    """After a while each time, from the start, at its place; then it has failed."""
    yard.worker()
    id = yard.submit(retries=2, backoff=1_000)
    for _ in range(2):
        yard.work(id, BADLY._replace(session="s-1"))
        it = yard.why(id)
        assert (it.state, it.code, it.reason) == ("queued", "exit", "exit 1")
        assert yard.in_line() == []
        yard.wait(10_000)
        assert yard.held() == [id]
        assert yard.row(id).session == "", "a failed session is not gone on with"
    yard.work(id, BADLY)
    assert yard.state(id) == "failed"
    assert yard.told(id).count("retried") == 2
    assert yard.told(id).count("failed") == 1


def test_being_parked_or_lost_costs_no_retry(yard: Yard) -> None:
    """What is no failure of the job does not count as one."""
    yard.worker()
    id = yard.submit(retries=1)
    yard.work(id, REFUSED)
    yard.wait(DAY)
    yard.work(id, GONE)
    yard.work(id, BADLY)
    assert yard.state(id) == "queued"
    yard.wait(DAY)
    yard.work(id, BADLY)
    assert yard.state(id) == "failed"


def test_attempts_bound_retries_too(yard: Yard) -> None:
    """No job runs more often than was said, whatever it fails by."""
    yard.worker()
    id = yard.submit(retries=9, attempts=2)
    yard.work(id, BADLY)
    yard.wait(DAY)
    yard.work(id, BADLY)
    assert (yard.state(id), yard.row(id).attempts) == ("failed", 2)


def test_a_retry_takes_the_higher_tier(yard: Yard) -> None:
    """With escalation each retry takes the next model, and stays with the last."""
    yard.worker()
    models = ("a/small", "b/large", "c/huge")
    id = yard.submit("a/small", models=models, retries=3, escalate=True)
    used = []
    for _ in range(4):
        used.append(yard.row(id).key)
        yard.work(id, BADLY)
        yard.wait(DAY)
    assert used == ["a/small", "b/large", "c/huge", "c/huge"]
    assert [run.key for run in yard.attempts(id)] == used
    plain = yard.submit("a/small", models=models, retries=1)
    yard.work(plain, BADLY)
    yard.wait(DAY)
    assert yard.row(plain).key == "a/small"


def test_being_parked_takes_no_higher_tier(yard: Yard) -> None:
    """A refusal is no reason for a better model."""
    yard.worker()
    id = yard.submit("a/x", models=TWO, retries=3, escalate=True)
    yard.work(id, REFUSED)
    assert yard.row(id).key == "a/x"


def test_a_job_goes_to_its_next_model(yard: Yard) -> None:
    """When the first has been full for so long and another has room; not a moment before."""
    yard.pools({"a": 1, "b": 1})
    yard.worker()
    yard.ask()
    id = yard.submit(models=TWO, fallback_after=10_000, expires=60_000)
    expires = yard.row(id).expires
    yard.wait(9_999)
    assert yard.state(id) == "queued"
    yard.wait(1)
    assert (yard.state(id), yard.row(id).key) == ("running", "b/y")
    assert yard.told(id) == ["fallback"]
    assert yard.row(id).expires == expires
    taken = yard.begin(id)
    assert taken is not None
    assert yard.attempts(id)[0].key == "b/y"


def test_a_job_stays_where_no_other_has_room(yard: Yard) -> None:
    """With all models full it keeps its place, looks again, and takes what opens first."""
    yard.pools({"a": 1, "b": 1})
    yard.worker()
    mine, other = yard.ask(), yard.ask("b/y")
    first = yard.submit(models=TWO, fallback_after=10_000)
    second = yard.submit(models=TWO, fallback_after=10_000)
    yard.wait(20_000)
    assert yard.row(first).key == yard.row(second).key == "a/x"
    assert yard.waiting() == [first, second]
    yard.release(other)
    yard.wait(10_000)
    assert [yard.row(id).key for id in (first, second)] == ["b/y", "a/x"]
    assert yard.state(first, second) == "running queued"
    yard.release(mine)
    assert yard.state(second) == "running"


def test_a_job_does_not_push_in_where_others_wait(yard: Yard) -> None:
    """Another model for which somebody waits has no room, even if a seat is free."""
    yard.pools({"a": 1}, b=Declared(limit=3))
    yard.worker()
    yard.ask()
    yard.ask("b/y", weight=2)
    yard.ask("b/y", weight=2, member="q")
    id = yard.submit(models=TWO, fallback_after=10_000)
    yard.wait(10_000)
    assert yard.row(id).key == "a/x"


def test_a_paused_model_is_full_too(yard: Yard) -> None:
    """A pause of the first model sends the job to the next; of the next, nowhere."""
    yard.worker()
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "a", None))
    first = yard.submit(models=TWO, fallback_after=10_000)
    yard.run(lambda ledger: limits_by_hand.pause(ledger, "b", None))
    yard.wait(10_000)
    assert yard.row(first).key == "a/x"
    yard.run(lambda ledger: limits_by_hand.resume(ledger, "b"))
    yard.wait(10_000)
    assert (yard.row(first).key, yard.state(first)) == ("b/y", "running")


def test_without_a_worker_no_model_is_full(yard: Yard) -> None:
    """A job that nobody starts stays with its first choice."""
    id = yard.submit(models=TWO, fallback_after=10_000)
    yard.wait(DAY)
    assert yard.row(id).key == "a/x"
    yard.worker()
    assert (yard.state(id), yard.row(id).key) == ("running", "a/x")


def test_a_job_with_one_model_or_no_patience_set_falls_nowhere(yard: Yard) -> None:
    """Without another model, or told never to, a job waits for its first choice."""
    yard.worker()
    yard.ask()
    ids = [yard.submit(fallback_after=1), yard.submit(models=TWO, fallback_after=None)]
    yard.wait(DAY)
    assert [yard.row(id).key for id in ids] == ["a/x", "a/x"]


def test_a_job_expires_before_it_falls_back(yard: Yard) -> None:
    """Whichever comes first happens."""
    yard.worker()
    yard.ask()
    id = yard.submit(models=TWO, fallback_after=10_000, expires=10_000)
    yard.wait(10_000)
    assert yard.state(id) == "expired"


@pytest.mark.parametrize("held", [True, False])
def test_nobody_needs_to_be_there(yard: Yard, *, held: bool) -> None:
    """What came due while nobody looked is made up for by whoever asks next."""
    id = yard.submit(expires=1_000, hold=held)
    yard.now += DAY
    assert yard.read(job_timers.due)
    person = Request("a/x", "p", "m", since=Ms(yard.now))

    def catch_up(ledger: Ledger) -> None:
        dead_members.remove_dead_members(ledger)
        job_timers.tick(ledger)
        admit.ask(ledger, person)

    yard.run(catch_up)
    assert yard.state(id) == "expired"
    assert len(yard.held()) == 1
