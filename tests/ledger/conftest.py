"""A yard on each store: pool `a` has one seat, and nobody works yet."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.store import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore
from tests.ledger.yard import Yard


@pytest.fixture(params=["memory", "sqlite"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    def open_it(clock: Callable[[], int]) -> Store:
        if request.param == "memory":
            return MemoryStore(clock=clock)
        return SqliteStore(tmp_path / "s.db", synchronous="OFF", clock=clock)

    it = Yard(open_it)
    it.pools({"a": 1})
    yield it
    it.store.close()
