"""A store that is far away: an SQLite file behind which every round trip is counted.

It keeps to the contract as a store behind a network must. What a transaction expects is asked for
together, at its beginning, and answered as it was then; what it writes reaches the tables with the
next question or with the commit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from headgate.ledger.transaction.rows import Expected
from headgate.store.sql_rows import Row, SqlRows, Statement
from headgate.store.sqlite import SqliteStore
from headgate.store.sqlite_tables import SqliteTables


class Trip(NamedTuple):
    """One round trip: what was written with it, and what was asked."""

    changes: tuple[str, ...]
    questions: tuple[str, ...]


class CountingTables(SqliteTables):
    """Tables that note what reaches them."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__(run)
        self.trips: list[Trip] = []

    def answer(self, name: str, values: Sequence[Any]) -> list[Row]:
        self.trips.append(Trip((), (name,)))
        return super().answer(name, values)

    def ask(self, changes: Sequence[Statement], questions: Sequence[Statement]) -> list[list[Row]]:
        changed = tuple(one[0] for one in changes)
        self.trips.append(Trip(changed, tuple(one[0] for one in questions)))
        return super().ask(changes, questions)


class FarStore(SqliteStore):
    """The file, as if it were elsewhere (`far`), or near and only counted.

    With `eager` every transaction expects the line and the seats in use, whoever opens it.
    """

    far = False
    make_tables = CountingTables

    def __init__(self, path: Path, *, far: bool = True, eager: bool = False) -> None:
        self._eager = False
        self.transactions: list[list[Trip]] = []
        """The round trips of each writing transaction that was committed."""
        self.looks: list[list[Trip]] = []
        """Those of each that only read."""
        super().__init__(path, synchronous="OFF")
        self.far = far
        self._eager = eager

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[SqlRows]:
        with super().transaction(write=write) as rows:
            tables = rows._tables
            assert isinstance(tables, CountingTables)
            trips = tables.trips = []
            if self._eager:
                rows.expect(Expected())
            yield rows
        if write:
            commits = trips and trips[-1].changes and not trips[-1].questions
            self.transactions.append(trips if commits else [*trips, Trip((), ())])
        else:
            self.looks.append(trips)
