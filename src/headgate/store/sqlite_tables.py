"""The tables of an SQLite file: each question and change is a statement of `queries.sql`.

Some need more than one statement. A lane is cut into stretches of at most a thousand tickets, each
of which knows how many it has, so that a position is a sum over stretches: whoever adds or drops a
ticket keeps them right (see `sql/0001_tables.sql`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from headgate.core.times import Ms
from headgate.ledger.transaction.rows import HoldHistory
from headgate.store.schema import queries
from headgate.store.sql_rows.session import Row, Statement

SQL = queries()
_STRETCH = 1_000


class SqliteTables:
    """The tables, through one connection. No round trip costs anything here."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._several: dict[str, Callable[..., Any]] = {
            "add_ticket": self._add_ticket,
            "drop_ticket": self._drop_ticket,
            "rank": self._rank,
            "learn_holds": self._learn_holds,
            "add_member": self._add_member,
        }

    def ask(self, changes: Sequence[Statement], questions: Sequence[Statement]) -> list[list[Row]]:
        """Make the changes, then answer the questions."""
        for name, values in changes:
            several = self._several.get(name)
            if several is not None:
                several(*values)
            else:
                self._run(SQL[name], values)
        answer = SqliteTables.answer
        return [answer(self, name, values) for name, values in questions]

    def answer(self, name: str, values: Any) -> list[Row]:  # noqa: ANN401 - SQL knows, not we
        """Answer one question."""
        if name in self._several:
            return [(self._several[name](*values),)]
        asked = self._run(SQL[name], values)
        try:
            found: list[Row] = asked.fetchall()
        except UnicodeDecodeError:
            return self._damaged(SQL[name], values, len(asked.getdescription()))
        return found

    def _damaged(self, query: str, values: Any, columns: int) -> list[Row]:  # noqa: ANN401
        """Answer a question with texts that are none any more, with a sign for each bad byte."""
        names = [f"c{number}" for number in range(columns)]
        as_bytes = ", ".join(
            f"CASE typeof({one}) WHEN 'text' THEN CAST({one} AS BLOB) ELSE {one} END"
            for one in names
        )
        whole = f"WITH q ({', '.join(names)}) AS ({query}) SELECT {as_bytes} FROM q"  # noqa: S608
        return [
            tuple(one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in row)
            for row in self._run(whole, values).fetchall()
        ]

    def _one(self, name: str, *values: Any) -> Any:  # noqa: ANN401 - SQL knows, not we
        return self._run(SQL[name], values).fetchone()

    def _do(self, name: str, *values: Any) -> None:  # noqa: ANN401 - as above
        self._run(SQL[name], values)

    def _add_ticket(self, id: int, lane: int, urgency: int, since: int, *rest: Any) -> None:  # noqa: ANN401
        order = (urgency, since, id)
        self._do("insert_ticket", id, lane, urgency, since, *rest)
        self._do("wait_more", lane)
        found = self._one("stretch_at", lane, *order)
        if found:
            *start, tickets = found
            self._do("count_stretch", tickets + 1, lane, *start)
            if tickets >= _STRETCH:
                self._split(lane, start, tickets + 1)
            return
        first = self._one("first_stretch", lane)
        if first:
            self._do("drop_stretch", lane, *first[:3])
        self._do("add_stretch", lane, *order, (first[3] if first else 0) + 1)

    def _split(self, lane: int, start: list[int], tickets: int) -> None:
        half = tickets // 2
        middle = self._one("stretch_middle", lane, *start, half)
        self._do("count_stretch", half, lane, *start)
        self._do("add_stretch", lane, *middle, tickets - half)

    def _drop_ticket(self, dropped: int, lane: int, *order: int) -> None:
        self._do("delete_ticket", dropped)
        *start, tickets = self._one("stretch_at", lane, *order)
        if tickets > 1 and tuple(start) == order:  # so that it begins where its first ticket is
            id, _, urgency, since, *_ = self._one("page", lane, *order, 1)
            self._do("move_stretch", urgency, since, id, tickets - 1, lane, *start)
        elif tickets > 1:
            self._do("count_stretch", tickets - 1, lane, *start)
        else:
            self._do("drop_stretch", lane, *start)
        self._do("wait_less", lane)
        self._do("drop_empty_lane", lane)

    def _rank(self, lane: int, *order: int) -> int:
        """How many tickets of a lane stand before a place in the line."""
        found = self._one("stretch_at", lane, *order)
        if found is None:
            return 0
        start = found[:3]
        before = self._one("before_stretch", lane, *start)[0]
        return int(before + self._one("within_stretch", lane, *start, *order)[0])

    def _learn_holds(self, key: str, holds: Sequence[Ms]) -> None:
        found = self._one("history", key)
        history = HoldHistory._make(found) if found else HoldHistory()
        for held in holds:
            history = history.learn(held)
        self._do("learn_hold", key, *history)

    def _add_member(self, id: str, *rest: Any) -> None:  # noqa: ANN401 - as above
        """A member has two rows, because processes of schema 3 know but one of the tables."""
        machine, pid, pid_space, joined, works, *process = rest
        self._do("insert_member", id, machine, pid, pid_space, joined, works)
        self._do("add_process", id, *process)
