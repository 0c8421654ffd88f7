"""The tables of an SQLite store, as the ledger sees them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw

from headgate.core.jobs import Job
from headgate.core.jobstates import Word
from headgate.core.line import Order
from headgate.core.pools import Tuned
from headgate.ledger.rows import (
    Attempt,
    Happening,
    Held,
    History,
    Lane,
    Lease,
    Member,
    Rest,
    Ticket,
)
from headgate.store import codec
from headgate.store.schema import queries

_EVENTS = 10_000
_STRETCH = 1_000
_NOWHERE = -(2**62)
SQL = queries()


def _lane(row: Sequence[Any]) -> Lane:
    id, machine, key, cls, lender, view, waiting = row
    return Lane(id=id, machine=machine, key=key, cls=cls, lender=lender, view=view, waiting=waiting)


class SqliteRows:
    """The tables, through one connection. Valid inside a transaction.

    Ids, events and the history of holds are written once per transaction, however many there are.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._known_uid = ""
        self._last_id: int | None = None
        self._new_events: list[Happening] = []
        self._new_holds: dict[str, list[int]] = {}

    def flush(self) -> None:
        """Write what was put off."""
        if self._last_id is not None:
            self._do("set_last_id", self._last_id)
        for key, holds in self._new_holds.items():
            history = History(*self._one("history", key) or ())
            for held in holds:
                history = history.learn(held)
            self._do("learn_hold", key, *history)
        if self._new_events:
            latest = 0
            for row in self._new_events:
                said = (row.work, row.key, row.task, row.pool, row.text)
                (latest,) = self._one("add_event", row.at, row.kind, *said)
            if latest // 100 != (latest - len(self._new_events)) // 100:
                self._do("trim_events", latest - _EVENTS)
        self.forget()

    def forget(self) -> None:
        """Drop what was put off."""
        self._last_id = None
        self._new_events.clear()
        self._new_holds.clear()

    def _one(self, name: str, *values: object) -> Any:  # noqa: ANN401 - SQL knows, not we
        return self._run(SQL[name], values).fetchone()

    def _all(self, name: str, *values: object) -> Any:  # noqa: ANN401 - as above
        return self._run(SQL[name], values).fetchall()

    def _do(self, name: str, *values: object) -> None:
        self._run(SQL[name], values)

    def _set(self, name: str, columns: codec.Columns) -> None:
        self._run(SQL[name], columns)

    def uid(self) -> str:
        if not self._known_uid:
            self._known_uid = self.note("uid")
        return self._known_uid

    def next_id(self) -> int:
        if self._last_id is None:
            self._last_id = self._one("last_id")[0]
        self._last_id += 1
        return self._last_id

    def note(self, name: str) -> str:
        try:
            row = self._one("note", name)
        except apsw.SQLError:
            return ""
        return row[0] if row else ""

    def set_note(self, name: str, text: str) -> None:
        self._do("set_note", name, text)

    def tuned(self) -> tuple[Tuned, ...]:
        return tuple(Tuned._make(row) for row in self._run(SQL["tuned"]))

    def tune(self, row: Tuned) -> None:
        if row.says_nothing:
            self._do("untune", row.name)
        else:
            self._do("tune", *row)

    def lanes(self) -> list[Lane]:
        return [_lane(row) for row in self._run(SQL["lanes"])]

    def lane(self, like: Lane) -> int:
        alike = (like.machine, like.key, like.cls, like.lender, like.view)
        row = self._one("lane", *alike) or self._one("add_lane", *alike)
        return int(row[0])

    def lane_by_id(self, lane: int) -> Lane:
        return _lane(self._one("lane_by_id", lane))

    def add_ticket(self, row: Ticket) -> None:
        self._do("add_ticket", *row)
        self._do("wait_more", row.lane)
        found = self._one("stretch_at", row.lane, *row.order)
        if found:
            *start, tickets = found
            self._do("count_stretch", tickets + 1, row.lane, *start)
            if tickets >= _STRETCH:
                self._split(row.lane, start, tickets + 1)
            return
        first = self._one("first_stretch", row.lane)
        if first:
            self._do("drop_stretch", row.lane, *first[:3])
        self._do("add_stretch", row.lane, *row.order, (first[3] if first else 0) + 1)

    def _split(self, lane: int, start: list[int], tickets: int) -> None:
        half = tickets // 2
        middle = self._one("stretch_middle", lane, *start, half)
        self._do("count_stretch", half, lane, *start)
        self._do("add_stretch", lane, *middle, tickets - half)

    def drop_ticket(self, id: int) -> Ticket | None:
        found = self._one("drop_ticket", id)
        if found is None:
            return None
        row = Ticket._make(found)
        *start, tickets = self._one("stretch_at", row.lane, *row.order)
        if tickets > 1:
            self._do("count_stretch", tickets - 1, row.lane, *start)
        else:
            self._do("drop_stretch", row.lane, *start)
        if self._one("wait_less", row.lane)[0] == 0:
            self._do("drop_lane", row.lane)
        return row

    def ticket(self, id: int) -> Ticket | None:
        row = self._one("ticket", id)
        return Ticket._make(row) if row else None

    def head(self, lane: int) -> Ticket | None:
        row = self._one("head", lane)
        return Ticket._make(row) if row else None

    def page(self, lane: int, after: Order | None, most: int) -> list[Ticket]:
        start = after or (_NOWHERE, _NOWHERE, _NOWHERE)
        return [Ticket._make(row) for row in self._all("page", lane, *start, most)]

    def rank(self, lane: int, order: Order) -> int:
        found = self._one("stretch_at", lane, *order)
        if found is None:
            return 0
        start = found[:3]
        before = self._one("before_stretch", lane, *start)[0]
        return int(before + self._one("within_stretch", lane, *start, *order)[0])

    def marks(self, lane: int) -> list[Order]:
        return [tuple(row) for row in self._all("marks", lane)]

    def set_overtaken(self, id: int, overtaken: str) -> None:
        self._do("set_overtaken", overtaken, id)

    def waiting_member(self, machine: str, besides: str) -> str:
        row = self._one("waiting_member", machine, besides)
        return row[0] if row else ""

    def tickets_of(self, member: str) -> list[Ticket]:
        return [Ticket._make(row) for row in self._all("tickets_of", member)]

    def count_tickets_of(self, member: str) -> int:
        return int(self._one("count_tickets_of", member)[0])

    def add_lease(self, row: Lease) -> None:
        self._set("add_lease", codec.write_lease(row))

    def drop_lease(self, id: int) -> Lease | None:
        row = self._one("drop_lease", id)
        return codec.read_lease(row) if row else None

    def lease(self, id: int) -> Lease | None:
        row = self._one("lease", id)
        return codec.read_lease(row) if row else None

    def leases(self, after: int, most: int) -> list[Lease]:
        return [codec.read_lease(row) for row in self._all("leases", after, most)]

    def leases_of(self, member: str) -> list[Lease]:
        return [codec.read_lease(row) for row in self._all("leases_of", member)]

    def family(self, chain: int) -> list[Lease]:
        return [codec.read_lease(row) for row in self._all("family", chain)]

    def families(self) -> list[Lease]:
        return [codec.read_lease(row) for row in self._run(SQL["families"])]

    def recent(self, since: int) -> list[Lease]:
        return [codec.read_lease(row) for row in self._run(SQL["recent"], (since,))]

    def held(self) -> list[Held]:
        return [Held._make(row) for row in self._run(SQL["held"])]

    def change_lease(self, row: Lease) -> None:
        self._set("change_lease", codec.write_lease(row))

    def rests(self) -> list[Rest]:
        return [Rest._make(row) for row in self._run(SQL["rests"])]

    def add_rest(self, row: Rest) -> None:
        self._do("add_rest", *row)

    def drop_rests(self, until: int) -> None:
        self._do("drop_rests", until)

    def learn_hold(self, key: str, held: int) -> None:
        self._new_holds.setdefault(key, []).append(held)

    def usual_hold(self, keys: Iterable[str]) -> float | None:
        if self._new_holds:
            self.flush()
        rows = (self._one("history", key) for key in keys)
        known = [it.mean for row in rows if row and (it := History(*row)).sound]
        return sum(known) / len(known) if known else None

    def add_member(self, row: Member) -> None:
        self._do("add_member", *row[:6])
        self._do("add_process", row.id, row.started, row.version, row.schema)

    def drop_member(self, id: str) -> None:
        self._do("drop_member", id)

    def members(self) -> list[Member]:
        return [Member._make(row) for row in self._run(SQL["members"])]

    def add_event(self, row: Happening) -> None:
        self._new_events.append(row)

    def events(self, after: int, most: int, work: int) -> list[Happening]:
        self.flush()
        if work:
            rows = self._all("newest_of" if after < 0 else "events_of", work, after, most)
        elif after < 0:
            rows = self._all("newest_events", most)
        else:
            rows = self._all("events", after, most)
        return [Happening._make(row) for row in rows]

    def add_job(self, row: Job) -> None:
        self._set("add_job", codec.write_job(row))

    def job(self, id: int) -> Job | None:
        row = self._one("job", id)
        return codec.read_job(row) if row else None

    def change_job(self, row: Job) -> None:
        self._set("change_job", codec.write_job(row))

    def jobs(self, word: Word, after: int, most: int) -> list[Job]:
        found: list[Job] = []
        for state, returned in codec.where(word):
            if after < 0:
                rows = self._all("latest_jobs", state, returned, most)
            else:
                rows = self._all("jobs", state, returned, after, most)
            found += map(codec.read_job, rows)
        return sorted(found, key=lambda row: row.id, reverse=after < 0)[:most]

    def count_jobs(self, word: Word) -> int:
        found = int(self._one("count_jobs", word.value)[0])
        if word is Word.QUEUED:
            return found + self._returned()
        return found - self._returned() if word is Word.PARKED else found

    def _returned(self) -> int:
        """How many jobs were parked and are back in the line, as version 0.1.0 wrote them."""
        return int(self._one("count_returned")[0])

    def aside(self, most: int) -> list[Job]:
        return [codec.read_job(row) for row in self._all("aside", most)]

    def count_aside(self) -> int:
        return int(self._one("count_aside")[0])

    def due_jobs(self, now: int, most: int) -> list[Job]:
        return [codec.read_job(row) for row in self._all("due_jobs", now, most)]

    def next_due(self) -> int:
        row = self._one("next_due")
        return int(row[0]) if row else 0

    def old_jobs(self, before: int, most: int) -> list[int]:
        return [row[0] for row in self._all("old_jobs", before, most)]

    def drop_job(self, id: int) -> None:
        self._do("drop_job", id)
        self._do("drop_attempts", id)
        self._do("drop_needs", id)

    def add_after(self, job: int, needs: int) -> None:
        self._do("add_after", job, needs)

    def needs_of(self, job: int) -> list[int]:
        return [row[0] for row in self._all("needs_of", job)]

    def needed_by(self, needs: int) -> list[int]:
        return [row[0] for row in self._all("needed_by", needs)]

    def drop_after(self, job: int, needs: int) -> None:
        self._do("drop_after", job, needs)

    def keep_attempt(self, row: Attempt) -> None:
        self._do("keep_attempt", *row)

    def attempts(self, job: int) -> list[Attempt]:
        return [Attempt._make(row) for row in self._all("attempts", job)]

    def job_leases(self) -> list[Lease]:
        return [codec.read_lease(row) for row in self._run(SQL["job_leases"])]
