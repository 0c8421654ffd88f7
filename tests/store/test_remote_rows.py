"""The rows of clients on other machines, for every store: gone with their member or their lease."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.times import Ms
from headgate.ledger.transaction.remote_rows import RemoteMember, RemoteRequest
from headgate.ledger.transaction.rows import Member
from headgate.store import Store, open_store
from tests.store.far import FarStore
from tests.store.rows import lease

ONE = RemoteMember("remote-1", "läptop", "server", "boot", Ms(7), Ms(9))
FOR_EVER = RemoteMember("remote-2", "", "", "", Ms(8), None)


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
    with it.transaction(write=True) as tx:
        for row in (FOR_EVER, ONE):
            tx.add_member(Member(row.id, "remote", 0, "", Ms(1)))
            tx.keep_remote_member(row)
    yield it
    it.close()


def test_a_client_comes_back_as_it_went_in(store: Store) -> None:
    """Every field is kept, also when it is written again; nobody else is there."""
    with store.transaction(write=False) as tx:
        assert tx.remote_member(ONE.id) == ONE
        assert tx.remote_members() == [ONE, FOR_EVER]
        assert tx.remote_member("remote-3") is None
    with store.transaction(write=True) as tx:
        tx.keep_remote_member(ONE._replace(heard=Ms(99)))
        assert tx.remote_member(ONE.id) == ONE._replace(heard=Ms(99))


def test_a_client_goes_with_its_member(store: Store) -> None:
    """And so does what it has asked for; that of others stays."""
    with store.transaction(write=True) as tx:
        for member in (ONE.id, FOR_EVER.id):
            tx.keep_remote_request(RemoteRequest(member, "k", 5, "d"))
        tx.drop_member(ONE.id)
    with store.transaction(write=False) as tx:
        assert tx.remote_members() == [FOR_EVER]
        assert tx.remote_requests(ONE.id) == []
        assert tx.remote_request(FOR_EVER.id, "k") == RemoteRequest(FOR_EVER.id, "k", 5, "d")


def test_a_request_goes_with_its_lease_or_by_its_id(store: Store) -> None:
    """Two members may use one key; a member's come in the order of their ids."""
    rows = [RemoteRequest(ONE.id, key, id, "d") for key, id in (("b", 3), ("a", 4), ("c", 5))]
    with store.transaction(write=True) as tx:
        tx.add_lease(lease(3)._replace(member=ONE.id))
        for row in rows:
            tx.keep_remote_request(row)
        assert tx.remote_requests(ONE.id) == rows
        tx.drop_lease(3)
        tx.drop_remote_request(5)
        assert tx.remote_requests(ONE.id) == rows[1:2]
        assert tx.remote_request(FOR_EVER.id, "a") is None


def test_a_transaction_that_fails_changes_nothing(store: Store) -> None:
    """Neither clients nor requests."""
    with pytest.raises(Crash), store.transaction(write=True) as tx:  # noqa: PT012 - all of it
        tx.keep_remote_request(RemoteRequest(ONE.id, "k", 5, "d"))
        tx.drop_member(ONE.id)
        raise Crash
    with store.transaction(write=False) as tx:
        assert tx.remote_members() == [ONE, FOR_EVER]
        assert tx.remote_requests(ONE.id) == []
