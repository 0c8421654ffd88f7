"""Small histories of jobs: their place in the line, who starts them, and who may end them."""

from headgate.core.jobs.job import AttemptOutcome, End
from headgate.ledger import idle_leases, limits_by_hand
from headgate.ledger.jobs import lifecycle
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Member
from tests.ledger.yard import BADLY, GONE, REFUSED, WELL, Yard


def test_jobs_and_others_share_one_line(yard: Yard) -> None:
    """Jobs and those who wait in person are let in in the order in which they came."""
    yard.worker()
    held = yard.ask()
    first = yard.submit()
    second = yard.ask(member="q")
    third = yard.submit()
    assert [yard.spot(first), yard.spot(third)] == [(1, "pool_full"), (3, "pool_full")]
    yard.release(held)
    assert yard.held() == [first]
    yard.work(first)
    assert yard.held() == [second]
    yard.release(second)
    assert yard.held() == [third]


def test_a_priority_goes_before_age(yard: Yard) -> None:
    """An urgent job passes those that wait, whoever they are; an old prompt passes a new one."""
    yard.worker()
    held = yard.ask()
    late = yard.submit()
    person = yard.ask(member="q")
    urgent = yard.submit(urgency=-10)
    old = yard.submit(since=5)
    order = [urgent, old, late, person]
    assert yard.waiting() == order
    yard.release(held)
    for id in order:
        assert yard.held() == [id]
        if id == person:
            yard.release(id)
        else:
            yard.work(id)


def test_without_a_worker_jobs_hold_nobody_up(yard: Yard) -> None:
    """Jobs that nobody starts take no seat, and whoever comes later goes in; capacity is open."""
    yard.pools({"a": 10})
    ids = [yard.submit() for _ in range(3)]
    assert [yard.spot(id) for id in ids] == [(n, "no_worker") for n in (1, 2, 3)]
    found = yard.read(lambda ledger: status_and_queue.capacity(ledger, "a/x"))
    assert (found.state, found.queued, found.free) == ("open", 0, 10)
    person = yard.ask(member="q")
    assert yard.held() == [person]
    yard.worker()
    assert yard.held() == [*ids, person]
    assert yard.state(*ids) == "running running running"


def test_a_worker_that_is_gone_is_none(yard: Yard) -> None:
    """A worker whose process has ended, or that was discharged, is given nothing."""
    yard.worker()
    yard.liveness.orphan("w")
    id = yard.submit()
    assert yard.spot(id) == (1, "no_worker")
    yard.worker("v")
    assert yard.state(id) == "running"
    assert yard.begin(id, worker="w") is None
    assert yard.begin(id, worker="v") is not None


def test_nobody_is_held_up_by_a_job_for_a_full_pool(yard: Yard) -> None:
    """A job that waits for its model delays none that use another."""
    yard.worker()
    first, second, other = yard.submit(), yard.submit(), yard.submit("b/y")
    assert yard.held() == [first, other]
    assert yard.in_line() == [second]


def test_a_job_has_one_id_and_a_task(yard: Yard) -> None:
    """Its ticket and its lease have its id; without a task it is called after its program."""
    yard.worker()
    first = yard.submit()
    second = yard.submit(task="mine", name="for people")
    assert second == first + 1
    assert (yard.row(first).task, yard.row(second).task) == (f"agent-{first}", "mine")
    assert (yard.held(), yard.in_line()) == ([first], [second])
    lease = yard.read(lambda ledger: ledger.tx.lease(first))
    assert lease is not None
    assert (lease.task, lease.label, lease.job, lease.marked) == (f"agent-{first}", "agent", 1, 1)


def test_an_attempt_is_written_down(yard: Yard) -> None:
    """When it began, with what, how it ended; the job says the same, and all is told once."""
    yard.worker()
    id = yard.submit()
    yard.now += 500
    yard.begin(id)
    assert yard.why(id).attempts == 1
    yard.now += 2_000
    yard.finish(id, BADLY._replace(session="s-1"))
    (run,) = yard.attempts(id)
    assert (run.key, run.started, run.ended) == ("a/x", yard.now - 2_000, yard.now)
    assert (run.code, run.text, run.exit) == ("exit", "exit 1", "1:0")
    row = yard.row(id)
    assert (row.state.word, row.code, row.text, row.exit) == ("failed", "exit", "exit 1", "1:0")
    assert (row.started, row.ended, row.due, row.expires) == (run.started, run.ended, 0, 0)
    assert yard.told(id) == ["started", "failed"]
    assert (yard.held(), yard.in_line()) == ([], [])


def test_a_job_begins_once(yard: Yard) -> None:
    """Two runners that were started for one job: the first has it, the second has nothing."""
    yard.worker()
    id = yard.submit()
    assert yard.begin(id, "r1") is not None
    assert yard.begin(id, "r2") is None
    assert yard.begin(id, "r2", worker="r1") is None
    assert len(yard.attempts(id)) == 1
    assert yard.finish(id, runner="r1")
    assert yard.begin(id, "r2") is None


def test_a_stranger_ends_nothing(yard: Yard) -> None:
    """A runner that does not hold a job, or holds it no longer, changes nothing by its word."""
    yard.worker()
    id = yard.submit()
    assert not yard.finish(id, BADLY, runner="somebody")
    yard.begin(id)
    assert not yard.finish(id, BADLY, runner="w")
    assert yard.state(id) == "running"
    assert yard.finish(id)
    assert not yard.finish(id, BADLY)
    assert yard.state(id) == "done"
    assert yard.told(id) == ["started", "done"]


def test_a_runner_goes_on_with_the_next(yard: Yard) -> None:
    """Whoever has just finished a job is given the next one, and only one."""
    yard.worker()
    first, second, third = (yard.submit() for _ in range(3))
    yard.begin(first)

    def swap(ledger: Ledger) -> None:
        lifecycle.finish(ledger, first, f"r{first}", WELL)
        limits_by_hand.set_limit(ledger, "a", 2)
        ledger.next_runner = f"r{first}"

    yard.run(swap)
    leases = yard.read(lambda ledger: ledger.tx.job_leases())
    assert {row.id: row.member for row in leases} == {second: f"r{first}", third: "w"}


def test_many_jobs_are_shared_among_workers(yard: Yard) -> None:
    """What is let in at once goes to each worker in turn."""
    yard.pools({"a": 4})
    for _ in range(4):
        yard.submit()

    def join(ledger: Ledger) -> None:
        for name in ("v", "w"):
            yard.liveness.join(name)
            ledger.tx.add_member(Member(name, "m", 1, "", ledger.now, works=1))
        ledger.reconsider()

    yard.run(join)
    leases = yard.read(lambda ledger: ledger.tx.job_leases())
    assert sorted(row.member for row in leases) == ["v", "v", "w", "w"]


def test_a_job_whose_runner_was_killed_can_be_adopted(yard: Yard) -> None:
    """While its program lives, one other runner takes it over; its end is told by that one."""
    yard.worker()
    id = yard.submit()
    assert yard.do(lifecycle.adopt, id, me="v") is None, "it is not even started"
    yard.begin(id)
    assert yard.do(lifecycle.adopt, id, me="v") is None, "its runner lives"
    yard.liveness.orphan(f"r{id}")
    yard.liveness.join("v")
    yard.tidy()
    assert yard.state(id) == "running"
    without_runner = yard.read(lifecycle.without_runner)
    assert [lease.id for lease in without_runner] == [id]
    assert yard.do(lifecycle.adopt, id, me="v") is not None
    assert yard.do(lifecycle.adopt, id, me="w") is None
    assert not yard.finish(id, WELL)
    assert yard.finish(id, REFUSED, runner="v")
    assert yard.state(id) == "parked"
    assert yard.told(id) == ["started", "adopted", "parked"]
    assert len(yard.attempts(id)) == 1


def test_a_job_is_started_by_another_if_its_worker_dies_first(yard: Yard) -> None:
    """It goes back to its place, and that it was given away counts for nothing."""
    yard.worker()
    first, second = yard.submit(attempts=1), yard.submit()
    yard.die("w")
    assert yard.state(first, second) == "queued queued"
    assert yard.spot(first) == (1, "no_worker")
    yard.worker("v")
    assert yard.held() == [first]
    row = yard.row(first)
    assert (row.attempts, row.parks, yard.attempts(first)) == (0, 0, [])
    yard.work(first, worker="v")
    assert yard.state(first) == "done"


def test_a_job_is_started_by_another_if_its_worker_is_stopped_first(yard: Yard) -> None:
    """It is taken back after a few seconds, and given to a worker that goes on."""
    yard.worker()
    id = yard.submit()
    yard.liveness.stopped_members.add("w")
    yard.worker("v")

    def take_back(ledger: Ledger) -> None:
        idle_leases.take_back(ledger, [id])

    yard.run(take_back)
    assert yard.begin(id, worker="v") is None  # it may still be on its way
    yard.wait(5_000)
    yard.run(take_back)
    assert yard.begin(id, worker="w") is None
    assert yard.begin(id, worker="v") is not None
    yard.liveness.stopped_members.add("v")
    yard.wait(60_000)
    yard.run(take_back)  # a runner has it
    assert yard.finish(id)
    assert yard.state(id) == "done"


def test_a_job_whose_runner_is_lost_is_tried_again(yard: Yard) -> None:
    """The attempt is lost, the job back at its place at once; after the last one it is lost."""
    yard.worker()
    id = yard.submit(attempts=3)
    behind = yard.submit()
    for number in (1, 2):
        yard.begin(id, f"r{number}")
        yard.die(f"r{number}")
        assert yard.state(id, behind) == "running queued"
        assert [run.code for run in yard.attempts(id)] == ["lost"] * number
    yard.begin(id, "r3")
    yard.die("r3")
    row = yard.row(id)
    assert (row.state.word, row.code, row.attempts) == ("lost", "lost", 3)
    assert "attempt 3 of 3" in row.text
    assert yard.held() == [behind]
    assert yard.told(id) == ["started", "requeued", "readmitted", "requeued", "readmitted", "lost"]


def test_a_runner_that_is_stopped_gives_its_job_back(yard: Yard) -> None:
    """It says so itself, and the job is tried again like one whose runner was killed."""
    yard.worker()
    id = yard.submit()
    yard.work(id, GONE)
    assert yard.state(id) == "running"
    assert yard.row(id).code == "starting"
    yard.work(id, End(AttemptOutcome.DONE, "exit", "exit 0"))
    assert yard.state(id) == "done"


def test_a_limit_holds_for_jobs_and_others_together(yard: Yard) -> None:
    """Seats of jobs that are being started, run or were orphaned count like any others."""
    yard.pools({"a": 3})
    yard.worker()
    starting, running = yard.submit(), yard.submit()
    yard.begin(running)
    yard.liveness.orphan(f"r{running}")
    person = yard.ask(member="q")
    late = yard.ask(member="q")
    assert yard.use("a") == 3
    assert yard.held() == [starting, running, person]
    assert yard.waiting() == [late]


def test_a_heavy_job_waits_for_all_its_seats(yard: Yard) -> None:
    """All or nothing; one that a lowered limit can never hold stands aside, and says why."""
    yard.pools({"a": 3})
    yard.worker()
    small, heavy, behind = yard.submit(), yard.submit(weight=3), yard.submit()
    assert yard.held() == [small]
    yard.work(small)
    assert yard.held() == [heavy]
    yard.work(heavy, GONE)
    assert yard.held() == [heavy]
    yard.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 2))
    yard.work(heavy, GONE)
    assert yard.spot(heavy)[1] == "too_heavy"
    assert yard.held() == [behind]


def test_a_view_travels_with_its_job(yard: Yard) -> None:
    """The limits of whoever submitted a job hold for it, whoever lets it in."""
    yard.worker()
    first = yard.submit()
    wide = yard.submit(view="a=2")
    assert yard.held() == [first, wide]
