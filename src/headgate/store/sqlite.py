"""Rows in one SQLite file, for all processes of a machine.

Every writing transaction begins with `BEGIN IMMEDIATE`: whoever decides has locked out all
others before it counts. Commits are durable (`synchronous=FULL`).
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import apsw

from headgate.core.line import Order
from headgate.core.pools import Tuned
from headgate.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreTooNewError,
    StoreUnavailableError,
)
from headgate.ledger.rows import Happening, Held, Lane, Lease, Member, Rest, Ticket
from headgate.store.machine import machine_id, uptime_ms
from headgate.store.schema import migrations, queries

_EVENTS = 10_000
_STRETCH = 1_000
_PATIENCE = 30.0
_NOWHERE = -(2**62)
_SQL = queries()


class SqliteStore:
    """A store in a file. Its clock is the machine's uptime, moved to the wall clock at boot."""

    instant = False

    def __init__(
        self, path: Path, *, synchronous: str = "FULL", clock: Callable[[], int] | None = None
    ) -> None:
        self.path = path
        self.url = f"sqlite://{path}"
        self.folder: Path = path.with_name(path.name + ".members")
        self._clock = clock
        self._offset = 0
        self._version = 0
        with self._translated():
            if not path.parent.is_dir():
                raise StoreUnavailableError(
                    f"cannot open the store {path}: the folder {path.parent} does not exist; "
                    f"make it first (mkdir -p '{path.parent}')"
                )
            if not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = apsw.Connection(str(path))
            self._inode = os.stat(path).st_ino  # noqa: PTH116 - the hot path below compares it
            self._db.set_busy_handler(_wait_for_lock)
            self._run = self._db.cursor().execute
            self._use_wal()
            self._run(f"PRAGMA synchronous={synchronous}").fetchall()
            self._rows = _Rows(self._run)
            self._migrate()
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def now(self) -> int:
        """Milliseconds on a clock that all processes of this boot agree on."""
        return self._clock() if self._clock else uptime_ms() + self._offset

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator["_Rows"]:
        """Open a transaction; BEGIN IMMEDIATE for one that writes."""
        with self._translated():
            self._same_file()
            self._run("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                if write and self._number("PRAGMA user_version") > self._version:
                    self._refuse(self._number("PRAGMA user_version"))
                yield self._rows
                self._rows.flush()
                self._run("COMMIT")
            except BaseException:
                self._rows.forget()
                if self._db.in_transaction:
                    self._run("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _use_wal(self) -> None:
        """Turn the log on; SQLite does not wait here if another process is just doing the same."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._run("PRAGMA journal_mode=WAL").fetchall()
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def _same_file(self) -> None:
        """Two files under one name would be two sets of books, and twice the limit."""
        try:
            same = os.stat(self.path).st_ino == self._inode  # noqa: PTH116 - hot
        except FileNotFoundError:
            same = False
        if not same:
            raise StoreUnavailableError(
                f"the store {self.path} was removed or replaced while in use; "
                "what runs goes on, restart this process to use the file that is there now"
            )

    def _migrate(self) -> None:
        steps = migrations()
        newest = self._version = steps[-1][0]
        version = self._number("PRAGMA user_version")
        if version > newest:
            self._refuse(version)
        if version < newest or not self._rows.note(f"clock:{machine_id()}"):
            with self.transaction(write=True) as rows:
                version = self._number("PRAGMA user_version")
                for number, script in steps:
                    if number > version:
                        for _ in self._run(script):
                            pass
                        self._run(f"PRAGMA user_version={number}")
                if not rows.uid():
                    rows.set_note("uid", os.urandom(4).hex())
                self._set_clock(rows)
        self._offset = int(self._rows.note(f"clock:{machine_id()}"))

    def _refuse(self, version: int) -> NoReturn:
        raise StoreTooNewError(
            f"the store {self.path} has schema {version}, written by a newer headgate; "
            f"this one knows up to {self._version}: upgrade headgate, or use another --store"
        )

    def _set_clock(self, rows: "_Rows") -> None:
        """Once per boot, set the clock by the wall, but never behind what was written before."""
        name = f"clock:{machine_id()}"
        if not rows.note(name):
            start = max(time.time_ns() // 1_000_000, self._number(_SQL["latest_event"]))
            rows.set_note(name, str(start - uptime_ms()))

    def _number(self, query: str) -> int:
        row = self._run(query).fetchone()
        return int(row[0]) if row else 0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._explain(error) from error
        except OSError as error:
            raise StoreUnavailableError(
                f"cannot use the store {self.path}: {error.strerror}"
            ) from error

    def _explain(self, error: apsw.Error) -> StoreError:
        where = f"the store {self.path}"
        match error:
            case apsw.FullError():
                return StoreFullError(
                    f"{where} cannot be written: its disk is full; free some space "
                    "(nothing was granted or lost, what runs goes on)"
                )
            case apsw.CorruptError() | apsw.NotADBError():
                return StoreCorruptError(
                    f"{where} is damaged or is no SQLite file ({error}); move it away "
                    f"(mv '{self.path}' '{self.path}.damaged') and start again"
                )
            case apsw.BusyError() | apsw.LockedError():
                return StoreUnavailableError(
                    f"{where} has been locked by another program for {_PATIENCE:.0f}s; "
                    "find it with: lsof " + f"'{self.path}'"
                )
            case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
                return StoreUnavailableError(
                    f"{where} cannot be opened for writing ({error}); "
                    "check the permissions of the file and of its folder"
                )
            case _:
                return StoreError(f"{where} failed: {type(error).__name__}: {error}")


def _wait_for_lock(tries: int) -> bool:
    """Wait a moment for another process's transaction to end; a few of them take milliseconds."""
    pause = min(0.0002 * (tries + 1), 0.005)
    time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - only spreads the waiters
    return tries * 0.005 < _PATIENCE


class _Rows:
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
            count, mean = self._one("history", key) or (0, 0.0)
            for held in holds:
                count += 1
                mean += (held - mean) / min(count, 16)
            self._do("learn_hold", key, count, mean)
        if self._new_events:
            latest = 0
            for row in self._new_events:
                (latest,) = self._one("add_event", *row[1:])
            if latest // 100 != (latest - len(self._new_events)) // 100:
                self._do("trim_events", latest - _EVENTS)
        self.forget()

    def forget(self) -> None:
        """Drop what was put off."""
        self._last_id = None
        self._new_events.clear()
        self._new_holds.clear()

    def _one(self, name: str, *values: object) -> Any:  # noqa: ANN401 - SQL knows, not we
        return self._run(_SQL[name], values).fetchone()

    def _all(self, name: str, *values: object) -> Any:  # noqa: ANN401 - as above
        return self._run(_SQL[name], values).fetchall()

    def _do(self, name: str, *values: object) -> None:
        self._run(_SQL[name], values)

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
        return tuple(Tuned(*row) for row in self._run(_SQL["tuned"]))

    def tune(self, row: Tuned) -> None:
        if row.says_nothing:
            self._do("untune", row.name)
        else:
            self._do("tune", *row)

    def lanes(self) -> list[Lane]:
        return [Lane(*row) for row in self._run(_SQL["lanes"])]

    def lane(self, like: Lane) -> int:
        row = self._one("lane", *like[1:-1]) or self._one("add_lane", *like[1:-1])
        return int(row[0])

    def lane_by_id(self, lane: int) -> Lane:
        return Lane(*self._one("lane_by_id", lane))

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
        row = Ticket(*found)
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
        return Ticket(*row) if row else None

    def head(self, lane: int) -> Ticket | None:
        row = self._one("head", lane)
        return Ticket(*row) if row else None

    def page(self, lane: int, after: Order | None, most: int) -> list[Ticket]:
        start = after or (_NOWHERE, _NOWHERE, _NOWHERE)
        return [Ticket(*row) for row in self._all("page", lane, *start, most)]

    def rank(self, lane: int, order: Order) -> int:
        found = self._one("stretch_at", lane, *order)
        if found is None:
            return 0
        start = found[:3]
        before = self._one("before_stretch", lane, *start)[0]
        return int(before + self._one("within_stretch", lane, *start, *order)[0])

    def set_overtaken(self, id: int, overtaken: str) -> None:
        self._do("set_overtaken", overtaken, id)

    def waiting_member(self, machine: str, besides: str) -> str:
        row = self._one("waiting_member", machine, besides)
        return row[0] if row else ""

    def tickets_of(self, member: str) -> list[Ticket]:
        return [Ticket(*row) for row in self._all("tickets_of", member)]

    def count_tickets_of(self, member: str) -> int:
        return int(self._one("count_tickets_of", member)[0])

    def add_lease(self, row: Lease) -> None:
        self._do("add_lease", *row)

    def drop_lease(self, id: int) -> Lease | None:
        row = self._one("drop_lease", id)
        return Lease(*row) if row else None

    def lease(self, id: int) -> Lease | None:
        row = self._one("lease", id)
        return Lease(*row) if row else None

    def leases(self, after: int, most: int) -> list[Lease]:
        return [Lease(*row) for row in self._all("leases", after, most)]

    def leases_of(self, member: str) -> list[Lease]:
        return [Lease(*row) for row in self._all("leases_of", member)]

    def family(self, chain: int) -> list[Lease]:
        return [Lease(*row) for row in self._all("family", chain)]

    def families(self) -> list[Lease]:
        return [Lease(*row) for row in self._run(_SQL["families"])]

    def held(self) -> list[Held]:
        return [Held(*row) for row in self._run(_SQL["held"])]

    def change_lease(self, row: Lease) -> None:
        self._do("change_lease", row.chain, row.lender, row.pid, row.cancel, row.id)

    def rests(self) -> list[Rest]:
        return [Rest(*row) for row in self._run(_SQL["rests"])]

    def add_rest(self, row: Rest) -> None:
        self._do("add_rest", *row)

    def drop_rests(self, until: int) -> None:
        self._do("drop_rests", until)

    def learn_hold(self, key: str, held: int) -> None:
        self._new_holds.setdefault(key, []).append(held)

    def usual_hold(self, keys: Iterable[str]) -> float | None:
        if self._new_holds:
            self.flush()
        known = [row[0] for key in keys if (row := self._one("usual_hold", key))]
        return sum(known) / len(known) if known else None

    def add_member(self, row: Member) -> None:
        self._do("add_member", *row)

    def drop_member(self, id: str) -> None:
        self._do("drop_member", id)

    def members(self) -> list[Member]:
        return [Member(*row) for row in self._run(_SQL["members"])]

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
        return [Happening(*row) for row in rows]
