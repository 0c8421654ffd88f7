"""Leases and resting seats: the rows that decisions are counted from."""

from headgate.core.times import Ms
from headgate.ledger.transaction.rows import Held, LeaseRow, Rest, TaskHeld
from headgate.store import column_codec
from headgate.store.sql_rows.session import Row, Session

_Group = tuple[str, str, str, str]


class LeaseRows(Session):
    """Who holds seats, and which seats rest."""

    def forget(self) -> None:
        """Remember nothing of any transaction before."""
        super().forget()
        self._leases: dict[int, LeaseRow | None] = {}
        self._held: dict[_Group, tuple[int, int]] | None = None
        self._chained: dict[int, LeaseRow] | None = None
        self._recent: dict[int, LeaseRow] | None = None
        self._recent_since = 0
        self._rests: list[Rest] | None = None

    def lease(self, id: int) -> LeaseRow | None:
        if id not in self._leases:
            rows = self._ask("lease", id)
            self._leases[id] = column_codec.read_lease(rows[0]) if rows else None
        return self._leases[id]

    def add_lease(self, row: LeaseRow) -> None:
        self._count_in(row)
        self._change("add_lease", *column_codec.write_lease(row))

    def drop_lease(self, id: int) -> LeaseRow | None:
        if id not in self._leases:  # one question instead of a question and a change
            rows = self._ask("take_lease", id)
            taken = column_codec.read_lease(rows[0]) if rows else None
            if taken is not None:
                self._count_out(taken)
            return taken
        row = self._leases[id]
        if row is not None:
            self._count_out(row)
            self._change("drop_lease", id)
        return row

    def change_lease(self, row: LeaseRow) -> None:
        before = self.lease(row.id)
        if before is not None:
            self._count_out(before)
            self._count_in(row)
            self._change("change_lease", *column_codec.write_lease(row))

    def _count_in(self, row: LeaseRow) -> None:
        self._leases[row.id] = row
        if self._recent is not None and row.granted > self._recent_since:
            self._recent[row.id] = row
        if row.chain:
            if self._chained is not None:
                self._chained[row.id] = row
        elif self._held is not None:
            group = (row.machine, row.key, row.cls, row.roles)
            seats, leases = self._held.get(group, (0, 0))
            self._held[group] = (seats + row.weight, leases + 1)

    def _count_out(self, row: LeaseRow) -> None:
        self._leases[row.id] = None
        if self._recent is not None:
            self._recent.pop(row.id, None)
        if row.chain:
            if self._chained is not None:
                self._chained.pop(row.id, None)
        elif self._held is not None:
            group = (row.machine, row.key, row.cls, row.roles)
            seats, leases = self._held[group]
            if leases > 1:
                self._held[group] = (seats - row.weight, leases - 1)
            else:
                del self._held[group]

    def leases(self, after: int, most: int) -> list[LeaseRow]:
        return [column_codec.read_lease(row) for row in self._ask("leases", after, most)]

    def leases_of(self, member: str) -> list[LeaseRow]:
        return [column_codec.read_lease(row) for row in self._ask("leases_of", member)]

    def job_leases(self) -> list[LeaseRow]:
        return [column_codec.read_lease(row) for row in self._ask("job_leases")]

    def family(self, chain: int) -> list[LeaseRow]:
        return sorted(
            (row for row in self.families() if row.chain == chain), key=lambda row: row.id
        )

    def families(self) -> list[LeaseRow]:
        if self._chained is None:
            self._chained = self._keep(
                [column_codec.read_lease(row) for row in self._ask("families")]
            )
        if not self._chained:
            return []
        return sorted(self._chained.values(), key=lambda row: (row.chain, row.id))

    def recent(self, since: Ms) -> list[LeaseRow]:
        if self._recent is None or since < self._recent_since:
            rows = self._ask("recent", since)
            self._recent, self._recent_since = (
                self._keep([column_codec.read_lease(row) for row in rows]),
                since,
            )
        return [row for row in self._recent.values() if row.granted > since]

    def _keep(self, rows: list[LeaseRow]) -> dict[int, LeaseRow]:
        found = {row.id: row for row in rows}
        self._leases.update(found)
        return found

    def held(self) -> list[Held]:
        if self._held is None:
            self._keep_held(self._ask("held"))
        assert self._held is not None  # noqa: S101 - for the type checker
        return [
            Held(machine=machine, key=key, cls=cls, seats=seats, leases=leases, roles=roles)
            for (machine, key, cls, roles), (seats, leases) in self._held.items()
        ]

    def held_by_task(self) -> list[TaskHeld]:
        return [TaskHeld._make(row) for row in self._ask("held_by_task")]

    def _keep_held(self, rows: list[Row]) -> None:
        """Remember what is held; and if nobody borrows, that there are no families."""
        self._held = {}
        borrowed = False
        for machine, key, cls, seats, leases, chained, roles in rows:
            if chained:
                borrowed = True
            else:
                self._held[machine, key, cls, roles] = (seats, leases)
        if not borrowed and self._chained is None:
            self._chained = {}

    def rests(self) -> list[Rest]:
        if self._rests is None:
            self._rests = [Rest._make(row) for row in self._ask("rests")]
        return self._rests

    def add_rest(self, row: Rest) -> None:
        if self._rests is not None:
            self._rests = [*self._rests, row]
        self._change("add_rest", *row)

    def drop_rests(self, until: Ms) -> None:
        if any(row.keep <= until for row in self.rests()):
            self._rests = [row for row in self.rests() if row.keep > until]
            self._change("drop_rests", until)
