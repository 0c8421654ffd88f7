"""Jobs that come after others: they wait for all of them, and fail with any of them."""

import pytest

from headgate.core.jobs.states import ENDED
from headgate.errors import UsageError
from headgate.ledger.jobs import by_hand
from tests.ledger.yard import BADLY, REFUSED, WELL, Yard

DAY = 86_400_000


def _ends(yard: Yard, *ids: int) -> list[int]:
    """How many times each was told to have ended."""
    return [sum(kind in ENDED for kind in yard.told(id)) for id in ids]


def test_a_chain_goes_link_by_link(yard: Yard) -> None:
    """Each waits for the one before it, with that as its reason, and enters the line then."""
    yard.worker()
    first = yard.submit()
    second = yard.submit(after=(first,))
    third = yard.submit(after=(second,))
    assert (yard.held(), yard.in_line()) == ([first], [])
    it = yard.why(third)
    assert (it.state, it.code, it.reason) == ("queued", "after", f"comes after job {second}")
    yard.work(first)
    assert (yard.held(), yard.in_line()) == ([second], [])
    assert yard.state(first, second, third) == "done running queued"
    yard.work(second)
    yard.work(third)
    assert yard.state(first, second, third) == "done done done"


def test_a_diamond_waits_for_both_sides(yard: Yard) -> None:
    """The last one is let in when all that it comes after are done, in whatever order."""
    yard.pools({"a": 9})
    yard.worker()
    top = yard.submit()
    left, right = yard.submit(after=(top,)), yard.submit(after=(top,))
    last = yard.submit(after=(left, right, top))
    yard.work(top)
    assert yard.held() == [left, right]
    yard.work(right)
    assert yard.why(last).reason == f"comes after job {left}"
    yard.work(left)
    assert yard.held() == [last]


def test_who_comes_after_a_failure_fails_too(yard: Yard) -> None:
    """All down the diamond and once each, with the reason; those on the side go on."""
    yard.pools({"a": 9})
    yard.worker()
    top, other = yard.submit(), yard.submit()
    left, right = yard.submit(after=(top,)), yard.submit(after=(top, other))
    held = yard.submit(after=(left,), hold=True)
    last = yard.submit(after=(left, right, held))
    beside = yard.submit(after=(other,))
    yard.work(top, BADLY)
    assert yard.state(left, right, held, last) == "failed failed failed failed"
    assert _ends(yard, top, left, right, held, last) == [1, 1, 1, 1, 1]
    row = yard.row(right)
    text = f"job {top}, which it comes after, ended as failed"
    assert (row.code, row.text, row.attempts) == ("dependency", text, 0)
    assert yard.row(last).code == "dependency"
    yard.work(other)
    assert yard.state(right, beside) == "failed running"


@pytest.mark.parametrize("end", ["cancelled", "expired", "lost"])
def test_any_end_but_done_fails_who_comes_after(yard: Yard, end: str) -> None:
    """Cancelled, expired and lost ones were not done either."""
    first = yard.submit(expires=1_000, attempts=1)
    second = yard.submit(after=(first,))
    if end == "cancelled":
        yard.do(by_hand.cancel, first, why="by hand")
    elif end == "expired":
        yard.wait(1_000)
    else:
        yard.worker()
        yard.begin(first)
        yard.die(f"r{first}")
    assert yard.state(first, second) == f"{end} failed"
    assert yard.row(second).text.endswith(f"ended as {end}")


def test_after_one_that_has_ended_already(yard: Yard) -> None:
    """After one that is done it waits for nothing; after one that has failed it fails at once."""
    yard.worker()
    good, bad = yard.submit(), yard.submit()
    yard.work(good)
    yard.work(bad, BADLY)
    first = yard.submit(after=(good,))
    second = yard.submit(after=(good, bad))
    assert yard.state(first, second) == "running failed"
    assert yard.told(second) == ["failed"]


def test_after_one_that_never_was(yard: Yard) -> None:
    """A job cannot come after one that is not there."""
    with pytest.raises(UsageError, match="bad --after 99: there is no such job"):
        yard.submit(after=(99,))


def test_one_that_is_only_parked_or_retried_keeps_them_waiting(yard: Yard) -> None:
    """Until it has ended for good, whoever comes after it waits."""
    yard.worker()
    first = yard.submit(retries=1)
    second = yard.submit(after=(first,))
    yard.work(first, REFUSED)
    assert yard.state(first, second) == "parked queued"
    yard.wait(60_000)
    yard.work(first, BADLY)
    assert yard.state(first, second) == "queued queued"
    yard.wait(60_000)
    yard.work(first)
    assert yard.state(first, second) == "done running"


def test_a_failed_branch_can_be_had_again(yard: Yard) -> None:
    """A retry begins with what failed first; then with what came after it."""
    yard.worker()
    first = yard.submit()
    second = yard.submit(after=(first,))
    third = yard.submit(after=(second,))
    yard.work(first, BADLY)
    with pytest.raises(UsageError, match=f"retry that first: headgate retry {first}"):
        yard.do(by_hand.retry, second)
    assert yard.state(second) == "failed"
    yard.do(by_hand.retry, first)
    yard.do(by_hand.retry, second)
    assert yard.why(second).code == "after"
    yard.work(first)
    assert yard.held() == [second]
    yard.work(second)
    assert yard.state(first, second, third) == "done done failed"
    yard.do(by_hand.retry, third)
    yard.work(third)
    assert yard.state(third) == "done"


def test_a_dependent_that_waits_can_be_cancelled_held_and_moved(yard: Yard) -> None:
    """It keeps on waiting for the other, whatever is done to it, until it is let go."""
    yard.worker()
    first = yard.submit()
    second, third = yard.submit(after=(first,)), yard.submit(after=(first,))
    yard.do(by_hand.cancel, third, why="by hand")
    yard.do(by_hand.move, second, urgency=-10, first=False)
    yard.do(by_hand.hold, second)
    yard.work(first)
    assert yard.state(second, third) == "held cancelled"
    assert yard.in_line() == []
    yard.do(by_hand.release_job, second)
    assert yard.held() == [second]


def test_one_that_is_let_go_too_early_goes_on_waiting(yard: Yard) -> None:
    """A held job that comes after another waits for a person first, and for that one then."""
    yard.worker()
    first = yard.submit()
    second = yard.submit(after=(first,), hold=True)
    yard.do(by_hand.release_job, second)
    assert (yard.state(second), yard.row(second).code) == ("queued", "after")
    yard.work(first)
    assert yard.held() == [second]


def test_waiting_for_others_does_not_expire(yard: Yard) -> None:
    """The time in which a job must be started counts from when it can be."""
    yard.worker()
    first = yard.submit(expires=1_000)
    yard.begin(first)
    second = yard.submit(after=(first,), expires=1_000)
    yard.wait(DAY)
    assert yard.state(second) == "queued"
    yard.liveness.orphan("w")
    yard.finish(first)
    yard.wait(999)
    assert yard.state(second) == "queued"
    yard.wait(1)
    assert yard.state(second) == "expired"


def test_two_that_expire_together_end_once_each(yard: Yard) -> None:
    """One that comes after another and is due at the same moment has failed, and is not expired."""
    first = yard.submit(expires=1_000)
    second = yard.submit(after=(first,), expires=1_000, hold=True)
    yard.wait(1_000)
    assert yard.state(first, second) == "expired failed"
    assert _ends(yard, first, second) == [1, 1]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_a_long_chain_breaks_nothing(yard: Yard, end: str) -> None:
    """Five thousand links: the end of the first one is dealt with, however deep it goes."""
    ids = [yard.submit()]
    for _ in range(5_000):
        ids.append(yard.submit(after=(ids[-1],)))
    if end == "cancelled":
        yard.do(by_hand.cancel, ids[0], why="by hand")
    else:
        yard.worker()
        yard.work(ids[0], BADLY if end == "failed" else WELL)
    if end == "done":
        assert yard.state(ids[1], ids[2], ids[-1]) == "running queued queued"
    else:
        assert {yard.state(id) for id in ids[1:]} == {"failed"}
        assert _ends(yard, *ids[-3:]) == [1, 1, 1]
        assert yard.held() == []
