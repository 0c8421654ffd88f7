"""What people do to jobs: hold, release, move, cancel, retry; and how old ones are forgotten."""

from itertools import product

import pytest

from headgate.core.admission.lease_events import EndCause, EndRequest, relief
from headgate.core.jobs.job import AttemptOutcome, End
from headgate.core.jobs.states import ENDED
from headgate.core.times import Ms
from headgate.errors import UsageError
from headgate.gate.liveness import max_hold
from headgate.ledger import dead_members, job_timers, release
from headgate.ledger.jobs import by_hand
from headgate.ledger.jobs.lifecycle import MAX_HOLD
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.yard import BADLY, GONE, REFUSED, WELL, Yard

DAY = 86_400_000


BY_HAND = EndRequest(EndCause.CANCEL, "by hand")
HELD_TOO_LONG = EndRequest(EndCause.MAX_HOLD, "held longer than its pool's max_hold of 1s")


def _ask_to_end(yard: Yard, id: int, asked: EndRequest = BY_HAND) -> None:
    """What `cancel` does to a lease, the machine when it has no room, or a pool's bound."""

    def do(ledger: Ledger) -> None:
        lease = ledger.tx.lease(id)
        assert lease is not None
        ledger.tx.change_lease(lease._replace(cancel=asked))

    yard.run(do)


def test_a_held_job_waits_for_a_person(yard: Yard) -> None:
    """It takes no seat and holds nobody up, and says what it waits for; then it goes in."""
    yard.worker()
    held = yard.submit(hold=True)
    behind = yard.submit()
    assert yard.held() == [behind]
    it = yard.why(held)
    assert (it.state, it.code, it.position) == ("held", "held", None)
    yard.work(behind)
    assert yard.held() == []
    yard.do(by_hand.release_job, held)
    assert yard.held() == [held]
    assert yard.told(held) == ["held", "let_go"]


def test_a_job_keeps_its_place_while_it_is_held(yard: Yard) -> None:
    """Held and let go, it stands where it stood; meanwhile those behind it move up."""
    yard.worker()
    yard.ask()
    first, second, third = (yard.submit() for _ in range(3))
    yard.do(by_hand.hold, first)
    assert [yard.spot(id)[0] for id in (second, third)] == [1, 2]
    assert yard.waiting() == [second, third]
    yard.do(by_hand.hold, first)
    yard.now += 5_000
    yard.do(by_hand.release_job, first)
    assert yard.waiting() == [first, second, third]
    assert yard.told(first) == ["held", "let_go"]


def test_taking_out_the_head_lets_the_next_in(yard: Yard) -> None:
    """A heavy head that is held, cancelled or expired holds nobody up any longer."""
    yard.pools({"a": 3})
    yard.worker()
    ids = []
    for number in range(3):
        yard.ask()
        ids.append(yard.submit(weight=3, expires=1_000 if number == 2 else None))
        ids.append(yard.submit())
        if number == 0:
            yard.do(by_hand.hold, ids[-2])
        elif number == 1:
            yard.do(by_hand.cancel, ids[-2], why="by hand")
        else:
            yard.wait(1_000)
        assert ids[-1] in yard.held()
        for id in yard.held():
            yard.release(id)
        yard.do(by_hand.cancel, ids[-1], why="by hand")


def test_only_what_is_held_can_be_let_go(yard: Yard) -> None:
    """Each verb says what the job does instead, and changes nothing."""
    yard.worker()
    first, second = yard.submit(), yard.submit()
    with pytest.raises(UsageError, match=f"job {second} is not held: it is queued"):
        yard.do(by_hand.release_job, second)
    for verb in (by_hand.hold, by_hand.release_job):
        with pytest.raises(UsageError, match="runs already; to end it: headgate cancel"):
            yard.do(verb, first)
        with pytest.raises(UsageError, match="there is no job 99"):
            yard.do(verb, 99)
    with pytest.raises(UsageError, match="has not ended: it is running"):
        yard.do(by_hand.retry, first)
    yard.work(first)
    with pytest.raises(UsageError, match=f"has ended, as done; .* headgate retry {first}"):
        yard.do(by_hand.hold, first)
    with pytest.raises(UsageError, match="has ended already, as done"):
        yard.do(by_hand.cancel, first, why="")


def test_a_job_can_be_moved(yard: Yard) -> None:
    """To the front of its priority, or to another priority; persons in line are passed alike."""
    yard.worker()
    yard.ask()
    person = yard.ask(member="q")
    first, second, third = (yard.submit() for _ in range(3))
    yard.do(by_hand.move, third, urgency=None, first=True)
    assert yard.waiting() == [third, person, first, second]
    yard.do(by_hand.move, second, urgency=None, first=True)
    assert yard.waiting() == [second, third, person, first]
    yard.do(by_hand.move, first, urgency=-10, first=False)
    assert yard.waiting() == [first, second, third, person]
    yard.do(by_hand.move, third, urgency=-10, first=True)
    assert yard.waiting() == [third, first, second, person]
    yard.do(by_hand.move, first, urgency=10, first=False)
    assert yard.waiting() == [third, second, person, first]
    assert yard.row(first).urgency == 10
    assert len(yard.in_line()) == 4


def test_the_front_of_a_priority_is_before_all_of_it(yard: Yard) -> None:
    """Also where somebody more urgent stands at the head of their lane."""
    yard.worker()
    yard.ask()
    urgent = yard.ask(member="q", urgency=-3)
    old = yard.ask(member="q", since=5)
    late = yard.submit()
    yard.do(by_hand.move, late, urgency=None, first=True)
    assert yard.waiting() == [urgent, late, old]


def test_a_held_job_is_moved_where_it_will_stand(yard: Yard) -> None:
    """It stays held; once it is let go it stands where it was moved to."""
    yard.worker()
    yard.ask()
    first, second = yard.submit(), yard.submit(hold=True)
    yard.do(by_hand.move, second, urgency=None, first=True)
    assert (yard.state(second), yard.in_line()) == ("held", [first])
    yard.do(by_hand.release_job, second)
    assert yard.waiting() == [second, first]


def test_a_move_takes_nothing_from_a_job(yard: Yard) -> None:
    """When it expires, since when it waits and what it is stay as they were."""
    yard.worker()
    yard.ask()
    id = yard.submit(expires=10_000, models=("a/x", "b/y"), fallback_after=4_000)
    yard.now += 3_000
    before = yard.row(id)
    yard.do(by_hand.move, id, urgency=-1, first=False)
    assert yard.row(id) == before._replace(urgency=-1)
    yard.do(by_hand.move, id, urgency=None, first=True)
    assert yard.row(id)._replace(since=Ms(0), urgency=0) == before._replace(since=Ms(0))
    assert yard.queue()[0].waited == 3.0


def test_what_waits_is_cancelled_at_once(yard: Yard) -> None:
    """In line, held, after another, parked, or between two tries: it ends, with the reason."""
    yard.worker()
    parked, retried = yard.submit("b/y"), yard.submit("b/y", retries=1)
    yard.work(parked, REFUSED)
    yard.work(retried, BADLY)
    first, in_line = yard.submit(), yard.submit()
    held, after = yard.submit(hold=True), yard.submit(after=(first,))
    assert yard.state(parked, retried, in_line, held, after) == "parked queued queued held queued"
    for id in (parked, retried, in_line, held, after):
        assert yard.do(by_hand.cancel, id, why="by hand") is True
        row = yard.row(id)
        assert (row.state.word, row.code, row.text) == ("cancelled", "cancelled", "by hand")
        assert yard.told(id)[-1] == "cancelled"
    assert (yard.held(), yard.in_line()) == ([first], [])
    yard.wait(DAY)
    assert {yard.state(id) for id in (parked, retried, in_line, held, after)} == {"cancelled"}


def test_what_is_being_started_is_cancelled_at_once(yard: Yard) -> None:
    """Nothing runs yet: its seat is free, and the runner that comes for it finds nothing."""
    yard.worker()
    first, second = yard.submit(), yard.submit()
    assert yard.row(first).code == "starting"
    assert yard.do(by_hand.cancel, first, why="by hand") is True
    assert yard.state(first, second) == "cancelled running"
    assert yard.begin(first) is None
    assert yard.attempts(first) == []
    assert yard.told(first) == ["cancelled"]


def test_what_runs_is_cancelled_by_its_runner(yard: Yard) -> None:
    """It is asked to end; when it has, it was cancelled, whatever its runner makes of it."""
    yard.worker()
    for end in (WELL, BADLY, REFUSED, GONE):
        id = yard.submit(retries=5)
        yard.begin(id)
        assert yard.do(by_hand.cancel, id, why="by hand") is False
        _ask_to_end(yard, id)
        assert (yard.state(id), yard.why(id).code) == ("running", "cancelling")
        yard.finish(id, end)
        assert (yard.state(id), yard.row(id).text) == ("cancelled", "by hand")
        assert yard.told(id) == ["started", "cancelled"]
        assert yard.attempts(id)[0].ended == yard.now


def test_one_that_held_its_seats_too_long_has_failed(yard: Yard) -> None:
    """Its pool's bound ended it, nobody cancelled it; it may be tried again like any failure."""
    yard.worker()
    id = yard.submit(retries=1)
    yard.begin(id)
    _ask_to_end(yard, id)
    yard.finish(id, End(AttemptOutcome.OVERDUE, MAX_HOLD, "held too long", "0:15"))
    assert (yard.state(id), yard.row(id).code) == ("queued", MAX_HOLD)
    yard.wait(DAY)
    yard.begin(id)
    _ask_to_end(yard, id)
    yard.finish(id, End(AttemptOutcome.OVERDUE, MAX_HOLD, "held too long", "0:15"))
    assert (yard.state(id), yard.row(id).text) == ("failed", "held too long")


def test_one_that_held_its_seats_too_long_has_failed_whoever_tells(yard: Yard) -> None:
    """Also if its runner was killed, or took it over from another: nobody cancelled it."""
    yard.worker()
    for end in (None, GONE, End(AttemptOutcome.CANCELLED, "cancelled", "somebody asked for it")):
        id = yard.submit()
        yard.begin(id)
        _ask_to_end(yard, id, HELD_TOO_LONG)
        if end is None:
            yard.die(f"r{id}")
        else:
            yard.finish(id, end)
        row = yard.row(id)
        assert (row.state.word, row.code, row.text) == ("failed", MAX_HOLD, HELD_TOO_LONG.text)


def test_a_bound_does_not_undo_a_cancel(yard: Yard) -> None:
    """Who asked for an end first is remembered: a cancelled job is not tried again."""
    yard.worker()
    id = yard.submit(retries=1)
    yard.begin(id)
    _ask_to_end(yard, id)
    yard.do(max_hold.record_end, id, text=HELD_TOO_LONG.text)
    yard.die(f"r{id}")
    assert (yard.state(id), yard.row(id).text) == ("cancelled", "by hand")


def test_what_had_ended_by_itself_was_not_ended_by_a_bound(yard: Yard) -> None:
    """A bound or the machine's need that comes too late changes nothing; a cancel does."""
    yard.worker()
    for asked, end in product((HELD_TOO_LONG, relief("no memory")), (WELL, BADLY, REFUSED)):
        id = yard.submit()
        yard.begin(id)
        _ask_to_end(yard, id, asked)
        yard.finish(id, end)
        assert yard.state(id) == {WELL: "done", BADLY: "failed", REFUSED: "parked"}[end]


@pytest.mark.parametrize("dies", [True, False])
def test_one_that_makes_room_before_it_begins_is_parked(yard: Yard, *, dies: bool) -> None:
    """It comes back like one that ran; with no tries left it has failed."""
    yard.worker()
    ids = [yard.submit("b/y"), yard.submit("b/y", attempts=1)]
    for id in ids:
        _ask_to_end(yard, id, relief("no memory"))
    if dies:
        yard.die("w")
    else:
        assert [yard.begin(id) for id in ids] == [None, None]
    assert yard.state(*ids) == "parked failed"
    assert yard.row(ids[0]).code == "relieved"
    assert (yard.held(), [yard.attempts(id) for id in ids]) == ([], [[], []])


def test_one_whose_end_nobody_told_is_cancelled_in_the_same_transaction(yard: Yard) -> None:
    """A job that is found dead and cancelled at once goes back to the line first, and ends once."""
    yard.worker()
    id = yard.submit()
    yard.begin(id)
    yard.liveness.end(f"r{id}")

    def both(ledger: Ledger) -> bool:
        dead_members.remove_dead_members(ledger)
        return by_hand.cancel(ledger, id, "by hand")

    assert yard.run(both)
    assert (yard.state(id), yard.held(), yard.in_line()) == ("cancelled", [], [])
    assert yard.told(id) == ["started", "requeued", "cancelled"]


def test_a_cancelled_job_whose_runner_dies_is_not_tried_again(yard: Yard) -> None:
    """Whoever finds it gone ends it: started or not, nobody wants it any more."""
    yard.worker()
    first = yard.submit()
    yard.begin(first)
    _ask_to_end(yard, first)
    yard.die(f"r{first}")
    assert yard.state(first) == "cancelled"
    (run,) = yard.attempts(first)
    assert (run.code, run.ended) == ("cancelled", yard.now)
    second = yard.submit()
    _ask_to_end(yard, second)
    yard.die("w")
    assert yard.state(second) == "cancelled"
    assert yard.told(second) == ["cancelled"]


def test_one_that_is_cancelled_before_it_begins_never_does(yard: Yard) -> None:
    """A runner that comes for a job which was asked to end ends it unstarted."""
    yard.worker()
    id = yard.submit()
    _ask_to_end(yard, id)
    assert yard.begin(id) is None
    assert (yard.state(id), yard.held()) == ("cancelled", [])


def test_a_job_can_be_had_again(yard: Yard) -> None:
    """It goes to the end of the line, all tries before it, and its attempts are numbered on."""
    yard.worker()
    id = yard.submit(attempts=2, expires=1_000)
    for _ in range(2):
        yard.begin(id)
        yard.finish(id, REFUSED._replace(session="s-1"))
        yard.wait(DAY)
    assert (yard.state(id), yard.row(id).parks) == ("failed", 1)
    other = yard.submit()
    yard.do(by_hand.retry, id)
    row = yard.row(id)
    assert (row.state.word, row.exit, row.ended, row.started) == ("queued", "", 0, 0)
    assert (row.parks, row.session) == (0, ""), "it begins from the start"
    assert (yard.held(), yard.in_line()) == ([other], [id])
    yard.work(other)
    taken = yard.begin(id)
    assert taken is not None
    assert (taken.attempts, taken.started) == (3, yard.now)
    yard.finish(id, REFUSED)
    assert yard.state(id) == "parked", "it has all its attempts again"
    assert [run.number for run in yard.attempts(id)] == [1, 2, 3]


@pytest.mark.parametrize("end", ENDED)
def test_whatever_way_it_ended_it_can_be_had_again(yard: Yard, end: str) -> None:
    """Done, failed, cancelled, expired and lost ones run again, and expire again."""
    id = yard.submit(expires=1_000, attempts=1)
    match end:
        case "expired":
            yard.wait(1_000)
        case "cancelled":
            yard.do(by_hand.cancel, id, why="by hand")
        case _:
            yard.worker()
            yard.work(id, {"done": WELL, "failed": BADLY, "lost": GONE}[end])
            yard.die("w")
    assert yard.state(id) == end
    yard.do(by_hand.retry, id)
    assert yard.state(id) == "queued"
    yard.wait(999)
    assert yard.state(id) == "queued"
    yard.wait(1)
    assert yard.state(id) == "expired"
    yard.do(by_hand.retry, id)
    yard.worker("v")
    yard.work(id, worker="v")
    assert yard.state(id) == "done"


def test_old_jobs_are_forgotten(yard: Yard) -> None:
    """Those that ended before a time, with their attempts; never what waits or runs."""
    yard.worker()
    first, second = yard.submit(), yard.submit()
    yard.work(first)
    yard.now += DAY
    yard.work(second)
    running, waiting = yard.submit(), yard.submit(after=(second,))
    assert yard.run(lambda ledger: job_timers.age_out(ledger, ledger.now)) == [first]
    assert yard.read(lambda ledger: ledger.tx.job(first)) is None
    assert yard.attempts(first) == []
    assert yard.run(lambda ledger: job_timers.age_out(ledger, Ms(ledger.now + 1))) == [second]
    assert yard.run(lambda ledger: job_timers.age_out(ledger, Ms(ledger.now + 1))) == []
    assert yard.state(running, waiting) == "running queued"
    assert yard.submit() > waiting, "an id is never used again"


def test_a_lease_that_is_taken_away_loses_no_job(yard: Yard) -> None:
    """Whoever frees a job's seats without knowing of jobs: it is seen to in that transaction."""
    yard.worker()
    id = yard.submit()
    yard.begin(id)
    yard.run(lambda ledger: release.release(ledger, id))
    assert yard.state(id) == "running"
    assert yard.row(id).code == "starting"
    assert [run.code for run in yard.attempts(id)] == ["lost"]
