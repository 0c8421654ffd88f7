"""Rows in SQL tables, so that a transaction takes few round trips however far away they are.

Two rules make that so. What was asked once is remembered, and kept true by what is written
afterwards: a decision that changes something does not have to ask again, and neither does the next
transaction if nobody else has written in between. And no change has an answer: changes are
gathered, and given to the tables with the commit, or before the next question that is not answered
from memory.

So a transaction that says beforehand what it will need (`expect`) takes two round trips: one that
asks for all of it, and one that writes and commits. Where asking costs nothing, as in SQLite, there
is no need to say it: each question is asked when it comes up.

session   questions and changes on their way to the tables
line      lanes and tickets
leases    leases and resting seats
jobs      jobs, attempts, what comes after what
requests  requests of agents, and how each agent is counted and watched
tokens    tokens of those who come from elsewhere, and what they have handed in
remote    clients on other machines
shares    roles that work carries, and the turns of tasks
"""

import time
from collections.abc import Collection, Iterable

from headgate.core.admission.pools import PoolRow
from headgate.core.times import Ms
from headgate.ledger.transaction.job_rows import Attempt
from headgate.ledger.transaction.pool_table import PoolTable
from headgate.ledger.transaction.rows import (
    FEW_LANES,
    EventRow,
    Expected,
    HoldHistory,
    Member,
    Rest,
    Ticket,
    oldest_first,
)
from headgate.store import column_codec
from headgate.store.lane_codec import read_lane
from headgate.store.sql_rows.jobs import JobRows
from headgate.store.sql_rows.leases import LeaseRows
from headgate.store.sql_rows.line import FRONT, LineRows
from headgate.store.sql_rows.remote import RemoteRows
from headgate.store.sql_rows.requests import RequestRows
from headgate.store.sql_rows.session import Row, Session, Statement, Tables, firsts
from headgate.store.sql_rows.shares import ShareRows
from headgate.store.sql_rows.tokens import TokenRows

__all__ = ["Row", "Session", "SqlRows", "Statement", "Tables"]

_TRIM_EVERY = 100
_REMEMBERED = 1_000
"""How many rows to remember for the next transaction; it may have to look through them."""
_MANY = 64
"""From how many members on it takes less to ask for all of them than for each."""


class SqlRows(LineRows, LeaseRows, JobRows, RequestRows, TokenRows, RemoteRows, ShareRows):
    """All tables, as the ledger sees them. Valid inside a transaction."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._known_uid = ""
        self._untrimmed = time.monotonic_ns() % _TRIM_EVERY  # spreads the work
        self._pools = PoolTable()
        self._pool_seq = 0
        """The last change of a pool that was read; 0 if none were."""
        self._pools_written: list[tuple[str, PoolRow | None]] = []
        self.forget()

    def begin(self, *, unchanged: bool) -> None:
        """Begin a transaction; `unchanged`: nobody else has written since the last one."""
        remembered = len(self._leases) + len(self._tickets) + len(self._jobs) + len(self._notes)
        if not unchanged or remembered > _REMEMBERED or len(self._lanes) > FEW_LANES:
            self.forget()

    def forget(self) -> None:
        """Remember nothing of any transaction before."""
        super().forget()
        self._last_id: int | None = None
        self._new_ids = False
        self._notes: dict[str, str] = {}
        self._new_notes: set[str] = set()
        self._pools_read = False
        for name, before in reversed(self._pools_written):  # in a transaction that did not commit
            self._pools.put(name, before)
        self._pools_written.clear()
        self._members: dict[str, Member] | None = None
        self._working: list[Member] | None = None
        self._new_events: list[EventRow] = []
        self._new_holds: dict[str, list[int]] = {}

    def committed(self) -> None:
        """What this transaction wrote is there to stay."""
        self._pools_written.clear()
        if self._lanes:
            self.forget_dropped_lanes()

    def expect(self, expected: Expected) -> None:
        """Ask together for what this transaction is likely to need."""
        self._put_off()
        notes = sorted(expected.notes)
        ids = sorted(expected.leases)
        jobs = sorted(expected.jobs)
        answers = self._ask_all(
            [
                ("pool_changes", (self._pool_seq,)),
                ("lanes", ()),
                ("fronts", (FRONT,)),
                ("held", ()),
                ("families", ()),
                ("recent", (expected.since,)),
                ("rests", ()),
                ("members", ()),
                ("last_id", ()),
                *(("note", (name,)) for name in notes),
                *(("lease", (id,)) for id in ids),
                *(("job", (id,)) for id in jobs),
                *(("attempts", (id,)) for id in jobs),
                *(("needed_by", (id,)) for id in jobs),
                *(("roles", (id,)) for id in jobs),
            ]
        )
        rest = iter(answers)
        self._keep_pools(next(rest))
        self._keep_lanes([read_lane(row) for row in next(rest)])
        fronts: dict[int, list[Ticket]] = {lane.id: [] for lane in self._known_lanes()}
        for row in next(rest):
            ticket = Ticket._make(row)
            fronts[ticket.lane].append(ticket)
        for lane, front in fronts.items():
            front.sort(key=lambda ticket: ticket.order)
            self._keep_front(lane, front, whole=len(front) < FRONT)
        self._keep_held(next(rest))
        self._chained = self._keep([column_codec.read_lease(row) for row in next(rest)])
        self._recent = self._keep([column_codec.read_lease(row) for row in next(rest)])
        self._recent_since = expected.since
        self._rests = [Rest._make(row) for row in next(rest)]
        self._members = {row[0]: Member._make(row) for row in next(rest)}
        self._last_id = int(next(rest)[0][0])
        for name in notes:
            rows = next(rest)
            self._notes[name] = rows[0][0] if rows else ""
        for id in ids:
            rows = next(rest)
            self._leases[id] = column_codec.read_lease(rows[0]) if rows else None
        for id in jobs:
            rows = next(rest)
            self._jobs[id] = column_codec.read_job(rows[0]) if rows else None
        for id in jobs:
            self._attempts[id] = [Attempt._make(row) for row in next(rest)]
        for id in jobs:
            self._needed_by[id] = firsts(next(rest))
        for id in jobs:
            rows = next(rest)
            self._roles[id] = rows[0][0] if rows else ""

    def _put_off(self) -> None:
        """Ids, notes, events and the history of holds are written once per transaction."""
        if self._new_ids:
            self._new_ids = False
            self._change("set_last_id", self._last_id)
        if self._new_notes:
            for name in self._new_notes:
                self._change("set_note", name, self._notes[name])
            self._new_notes.clear()
        if self._new_holds:
            for key, holds in self._new_holds.items():
                self._change("learn_holds", key, tuple(holds))
            self._new_holds = {}
        if self._new_events:
            for row in self._new_events:
                said = (row.work, row.key, row.task, row.pool, row.text)
                self._change("add_event", row.at, row.kind, *said)
            self._untrimmed += len(self._new_events)
            self._new_events = []
            if self._untrimmed >= _TRIM_EVERY:
                self._untrimmed = 0
                self._change("trim_events", self._kept.events)

    def uid(self) -> str:
        if not self._known_uid:
            self._known_uid = self.note("uid")
        return self._known_uid

    def next_id(self) -> int:
        if self._last_id is None:
            self._last_id = self._number("last_id")
        self._last_id += 1
        self._new_ids = True
        return self._last_id

    def note(self, name: str) -> str:
        if name not in self._notes:
            rows = self._ask("note", name)
            self._notes[name] = rows[0][0] if rows else ""
        return self._notes[name]

    def set_note(self, name: str, text: str) -> None:
        self._notes[name] = text
        self._new_notes.add(name)

    def pool_table(self) -> PoolTable:
        if not self._pools_read:
            if self._pool_seq:
                self._keep_pools(self._ask("pool_changes", self._pool_seq))
            if not self._pools_read:  # for the first time, or after too long
                rows = self._ask("pool_rows")
                self._pools.replace({row[0]: PoolRow._make(row) for row in rows})
                self._pool_seq = self._number("last_pool_change")
                self._pools_read = True
        return self._pools

    def _keep_pools(self, rows: list[Row]) -> None:
        """Take in what has changed since the last time, if the rows tell."""
        if not rows or rows[0][0] != self._pool_seq:
            return
        for _, name, *values in rows[1:]:
            self._pools.put(name, PoolRow._make(values) if values[0] is not None else None)
        self._pool_seq = rows[-1][0]
        self._pools_read = True

    def set_pool_row(self, row: PoolRow) -> None:
        kept = None if row.says_nothing else row
        before = self.pool_table().put(row.name, kept)
        self._pools_written.append((row.name, before))
        *first, per_task, ordering = row
        if PoolRow._make((*first, None, None)).says_nothing:
            self._change("untune", row.name)
        else:
            self._change("set_pool_row", *first)
        if row.shares:
            self._change("set_pool_share", row.name, per_task, ordering)
        elif before is not None and before.shares:
            self._change("drop_pool_share", row.name)

    def learn_hold(self, key: str, held: Ms) -> None:
        self._new_holds.setdefault(key, []).append(held)

    def usual_hold(self, keys: Iterable[str]) -> float | None:
        wanted = list(keys)
        asked = list(dict.fromkeys(wanted))
        if not asked:
            return None
        self._put_off()
        answers = self._ask_all([("history", (key,)) for key in asked])
        found = {
            key: HoldHistory._make(rows[0])
            for key, rows in zip(asked, answers, strict=True)
            if rows
        }
        known = [found[key].mean for key in wanted if key in found and found[key].sound]
        return sum(known) / len(known) if known else None

    def known_keys(self) -> list[str]:
        self._put_off()
        return firsts(self._ask("known_keys"))

    def _know_members(self) -> None:
        if self._members is None:
            self._members = {row[0]: Member._make(row) for row in self._ask("members")}

    def add_member(self, row: Member) -> None:
        self._working = None
        if self._members is not None:
            self._members[row.id] = row
        self._change("add_member", *row)

    def drop_member(self, id: str) -> None:
        self._working = None
        if self._members is not None:
            self._members.pop(id, None)
        self._change("drop_member", id)

    def count_members(self) -> int:
        return self._number("count_members") if self._members is None else len(self._members)

    def members(self, among: Collection[str] | None = None) -> list[Member]:
        if among is None or len(among) > _MANY:
            self._know_members()
        if self._members is not None:
            rows = self._members.values()
            return oldest_first(row for row in rows if among is None or row.id in among)
        answers = self._ask_all([("member", (id,)) for id in among or ()])
        return oldest_first(Member._make(row) for rows in answers for row in rows)

    def working_members(self) -> list[Member]:
        if self._members is None:
            if self._working is None:
                self._working = [Member._make(row) for row in self._ask("working_members")]
            return self._working
        return oldest_first(row for row in self._members.values() if row.works)

    def member(self, id: str) -> Member | None:
        if self._members is not None:
            return self._members.get(id)
        return next((Member._make(row) for row in self._ask("member", id)), None)

    def add_event(self, row: EventRow) -> None:
        self._new_events.append(row)

    def events(self, after: int, most: int, work: int) -> list[EventRow]:
        self._put_off()
        if work:
            rows = self._ask("newest_of" if after < 0 else "events_of", work, after, most)
        elif after < 0:
            rows = self._ask("newest_events", most)
        else:
            rows = self._ask("events", after, most)
        return [EventRow._make(row) for row in rows]
