"""What is asked of the tables and what is given to them, in as few round trips as possible."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from headgate.config.parsed_config import Retention

Row = tuple[Any, ...]


Statement = tuple[str, Sequence[Any] | Mapping[str, Any]]
"""The name of a query or change in `queries.sql`, with its values."""


class Tables(Protocol):
    """The tables of a store, inside one transaction."""

    def ask(self, changes: Sequence[Statement], questions: Sequence[Statement]) -> list[list[Row]]:
        """Make the changes, then answer the questions: one round trip."""

    def answer(self, name: str, values: Sequence[Any]) -> list[Row]:
        """Answer one question: the same, for the commonest case, with nothing around it."""


class Session:
    """One transaction's questions and changes.

    Changes are gathered. They reach the tables with the next question, or with the commit.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._changes: list[Statement] = []
        self._kept = Retention()

    def retain(self, kept: Retention) -> None:
        """Hear how much is to be kept of what is over, from now on."""
        self._kept = kept

    def forget(self) -> None:
        """Remember nothing of any transaction before."""
        self._changes.clear()

    def finish(self) -> None:
        """Give the tables what they were not given yet; the commit comes next."""
        self._put_off()
        if self._changes:
            changes, self._changes = self._changes, []
            self._tables.ask(changes, ())

    def _put_off(self) -> None:
        """Turn what is written once per transaction into changes, if there is any.

        For the commit, and for questions whose answers it changes.
        """

    def _ask(self, name: str, *values: Any) -> list[Row]:  # noqa: ANN401 - SQL knows, not we
        """The rows that a question brings, after all changes so far."""
        if not self._changes:
            return self._tables.answer(name, values)
        return self._ask_all(((name, values),))[0]

    def _ask_all(self, questions: Sequence[Statement]) -> list[list[Row]]:
        changes, self._changes = self._changes, []
        return self._tables.ask(changes, questions)

    def _number(self, name: str, *values: Any) -> int:  # noqa: ANN401 - as above
        """The one number that a question brings; 0 if it brings nothing."""
        rows = self._ask(name, *values)
        return int(rows[0][0]) if rows else 0

    def _change(self, name: str, *values: Any) -> None:  # noqa: ANN401 - as above
        self._changes.append((name, values))

    def _change_columns(self, name: str, columns: Mapping[str, Any]) -> None:
        self._changes.append((name, columns))


def firsts(rows: Iterable[Row]) -> list[Any]:
    """The first column of some rows."""
    return [row[0] for row in rows]
