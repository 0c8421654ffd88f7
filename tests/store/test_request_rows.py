"""The rows of requests, for every store: bounded, summed, and gone with the job they belong to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.config.parsed_config import Retention
from headgate.core.times import Ms
from headgate.ledger.transaction.request_rows import MeteredRow, RequestSums
from headgate.ledger.transaction.rows import EventRow
from headgate.store import Store, open_store
from tests.store.far import FarStore
from tests.store.rows import job, lease, request

SLACK = 100
MOST_REQUESTS = MOST_METERED = 10_000


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


def test_a_request_comes_back_as_it_went_in(store: Store) -> None:
    """Every field is kept, what was not told as None, in the order in which they came."""
    told, untold = request("ä/x", refused=2), request(told=False)
    with store.transaction(write=True) as tx:
        tx.add_requests(7, [told, untold])
        tx.add_requests(8, [untold])
    with store.transaction(write=False) as tx:
        found = tx.requests_of(7, 10)
        assert [row._replace(seq=0, work=0) for row in found] == [told, untold]
        assert [row.work for row in found] == [7, 7]
        assert found[0].seq < found[1].seq
        assert [row.key for row in tx.requests_of(7, 1)] == [untold.key]
        assert tx.requests_of(9, 10) == []


def test_sums_grow_with_each_batch(store: Store) -> None:
    """What was not told counts as nothing; who never asked has no row."""
    with store.transaction(write=True) as tx:
        tx.keep_meter(7, "wire", "it says so", "")
        tx.add_requests(7, [request(refused=1)])
        tx.add_requests(7, [request(), request(told=False)])
        expected = RequestSums(3, 1, Ms(4_000), Ms(210), 2_000, 40, 1_800)
        assert tx.metered(7) == MeteredRow(7, "wire", "it says so", sums=expected)
        assert tx.metered(8) is None


def test_sums_may_be_told_without_requests(store: Store) -> None:
    """What others came to counts, though no row of theirs is kept."""
    with store.transaction(write=True) as tx:
        tx.add_requests(7, [request()], RequestSums(5, 2, Ms(3), Ms(4), 10, 20, 30))
        tx.add_requests(7, [], RequestSums(requests=1))
        found = tx.metered(7)
        assert found is not None
        assert found.sums == RequestSums(7, 2, Ms(3), Ms(74), 1_010, 40, 930)
        assert len(tx.requests_of(7, 10)) == 1


def test_a_new_attempt_keeps_the_sums(store: Store) -> None:
    """Its meter may be another; what was on its way is not any more."""
    with store.transaction(write=True) as tx:
        tx.keep_meter(7, "wire", "first", "")
        tx.add_requests(7, [request()])
        tx.set_in_flight(7, 2, Ms(5))
        assert [(row.work, row.in_flight, row.oldest) for row in tx.in_flight()] == [(7, 2, 5)]
        tx.keep_meter(7, "agent", "second", "a hint")
        assert tx.in_flight() == []
        found = tx.metered(7)
        assert found is not None
        assert (found.meter, found.why, found.hint) == ("agent", "second", "a hint")
        assert found.sums.requests == 1


def test_the_record_is_bounded_and_the_sums_are_not(store: Store) -> None:
    """The oldest requests are forgotten; what they came to is not."""
    with store.transaction(write=True) as tx:
        tx.add_requests(1, [request("a/first")])
    for _ in range((MOST_REQUESTS + SLACK) // 100):
        with store.transaction(write=True) as tx:
            tx.add_requests(2, [request()] * 100)
    with store.transaction(write=False) as tx:
        assert tx.requests_of(1, 10) == []
        assert MOST_REQUESTS - 1 <= len(tx.requests_of(2, 10**6)) <= MOST_REQUESTS + SLACK
        one, two = tx.metered(1), tx.metered(2)
        assert one is not None
        assert two is not None
        assert (one.sums.requests, two.sums.requests) == (1, MOST_REQUESTS + SLACK)


def test_sums_of_jobs_and_leases_stay(store: Store) -> None:
    """Of other work the sums of the latest ten thousand are kept; a job's go with the job."""
    with store.transaction(write=True) as tx:
        tx.add_job(job(1))
        tx.add_lease(lease(2))
        for work in range(1, MOST_METERED + 3 * SLACK):
            tx.keep_meter(work, "wire", "", "")
        assert [tx.metered(work) is not None for work in (1, 2, 3, 4)] == [True, True, False, False]
        assert tx.metered(3 * SLACK + 1) is not None
        tx.drop_job(1)
        assert tx.metered(1) is None


def test_as_much_is_kept_as_is_said(store: Store) -> None:
    """Of events, requests, sums and roles; what is kept follows with the next that are added."""
    kept = Retention(events=200, requests=300, history=400)
    with store.transaction(write=True) as tx:
        tx.add_lease(lease(2))
        tx.set_roles(2, "role:lead")
    for start in range(0, 1_000, 50):
        with store.transaction(write=True) as tx:
            tx.retain(kept)
            tx.add_requests(1, [request()] * 50)
            for work in range(3 + start, 53 + start):
                tx.keep_meter(work, "wire", "", "")
                tx.set_roles(work, "role:lead")
                tx.set_turn("a", "t", Ms(work))
                tx.add_event(EventRow(0, Ms(work), "told", *(work, "", "", "", "")))
    with store.transaction(write=False) as tx:
        assert 200 <= len(tx.events(-1, 10**6, 0)) <= 200 + SLACK
        assert 299 <= len(tx.requests_of(1, 10**6)) <= 300 + SLACK
        with_sums = [work for work in range(3, 1_003) if tx.metered(work) is not None]
        assert 400 <= len(with_sums) <= 400 + 2 * SLACK
        with_roles = [work for work in range(3, 1_003) if tx.roles(work)]
        assert 400 <= len(with_roles) <= 400 + 2 * SLACK
        assert tx.roles(2) == "role:lead"


def test_what_failed_leaves_no_trace(store: Store) -> None:
    """Neither a request, nor a sum, nor a meter."""
    with store.transaction(write=True) as tx:
        tx.add_requests(7, [request()])
    with pytest.raises(Crash), store.transaction(write=True) as tx:  # noqa: PT012 - the error comes last
        tx.keep_meter(7, "wire", "", "")
        tx.add_requests(7, [request()])
        tx.set_in_flight(8, 1, Ms(3))
        raise Crash
    with store.transaction(write=False) as tx:
        assert len(tx.requests_of(7, 10)) == 1
        assert tx.metered(7) == MeteredRow(7, sums=RequestSums(1, 0, Ms(0), Ms(70), 1_000, 20, 900))
        assert tx.metered(8) is None
