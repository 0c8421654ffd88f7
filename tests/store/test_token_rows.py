"""The rows of tokens and submissions, for every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.times import Ms
from headgate.ledger.transaction.token_rows import SubmissionRow, TokenRow
from headgate.store import Store, open_store
from tests.store.far import FarStore


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


def token(id: str, created: int, *templates: str) -> TokenRow:
    return TokenRow(
        id=id, name=f"ä {id}", scope="read", hash="h", templates=templates, created=Ms(created)
    )


def submission(key: str, at: int, *ids: int) -> SubmissionRow:
    return SubmissionRow(key=key, digest="d", ids=ids, at=Ms(at))


def test_tokens_come_back_as_they_went_in(store: Store) -> None:
    """The oldest first; one that was dropped is gone."""
    rows = [token("b", 1, "review", "fix"), token("a", 2)]
    with store.transaction(write=True) as tx:
        for row in reversed(rows):
            tx.add_token(row)
        assert tx.tokens() == rows
    with store.transaction(write=True) as tx:
        assert tx.token("b") == rows[0]
        tx.drop_token("b")
        tx.drop_token("nobody")
        assert tx.token("b") is None
    with store.transaction(write=False) as tx:
        assert tx.tokens() == rows[1:]


def test_submissions_are_remembered_and_forgotten(store: Store) -> None:
    """By their keys, and by their age."""
    old, new = submission("o\0k", 5, 1, 2), submission("k", 9)
    with store.transaction(write=True) as tx:
        tx.add_submission(old)
        tx.add_submission(new)
    with store.transaction(write=True) as tx:
        assert [tx.submission(row.key) for row in (old, new)] == [old, new]
        tx.forget_submissions(Ms(9))
    with store.transaction(write=False) as tx:
        assert [tx.submission(row.key) for row in (old, new)] == [None, new]


def test_what_fails_leaves_nothing(store: Store) -> None:
    """A transaction that breaks off has made no token and no submission."""
    with pytest.raises(ZeroDivisionError):
        _break_off(store)
    with store.transaction(write=False) as tx:
        assert tx.tokens() == []
        assert tx.submission("k") is None


def _break_off(store: Store) -> None:
    with store.transaction(write=True) as tx:
        tx.add_token(token("a", 1))
        tx.add_submission(submission("k", 1, 1))
        raise ZeroDivisionError
