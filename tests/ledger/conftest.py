"""Fixtures on SQLite. The state machine tests compare both stores, so the examples need one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.core.admission.pools import Declared
from headgate.core.times import Ms
from headgate.store import Store
from headgate.store.sqlite import SqliteStore
from tests.ledger.test_cases import World
from tests.ledger.test_learning import Lab
from tests.ledger.yard import Yard


@pytest.fixture
def open_it(tmp_path: Path) -> Callable[[Callable[[], int]], Store]:
    return lambda clock: SqliteStore(tmp_path / "s.db", synchronous="OFF", clock=clock)


@pytest.fixture
def world(open_it: Callable[[Callable[[], int]], Store]) -> Iterator[World]:
    it = World(open_it)
    yield it
    it.store.close()


@pytest.fixture
def yard(open_it: Callable[[Callable[[], int]], Store]) -> Iterator[Yard]:
    """Pool `a` has one seat, and nobody works yet."""
    it = Yard(open_it)
    it.pools({"a": 1})
    yield it
    it.store.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Pool `a` learns, from a limit of four."""
    it = Lab("sqlite", tmp_path)
    it.declare(a=Declared(limit=4, cooldown=Ms(0)))
    yield it
    it.store.close()
