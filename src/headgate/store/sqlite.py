"""Rows in one SQLite file, for all processes of a machine.

Every writing transaction begins with `BEGIN IMMEDIATE`: whoever decides has locked out all
others before it counts. Commits are durable (`synchronous=FULL`).
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import apsw

from headgate.core.stored_text.formats import whole
from headgate.core.times import NO_TIME, Ms, Seconds
from headgate.core.wall_clock import NOTE, WallClock, has_news, read
from headgate.errors import (
    StoreReplacedError,
    StoreTooNewError,
    StoreUnavailableError,
)
from headgate.ledger.transaction.rows import EventRow
from headgate.store.machine_and_clock import machine_id, uptime_ms, wall_ms
from headgate.store.migrate import Layout, layout, migrate
from headgate.store.schema import Migration, migrations
from headgate.store.sql_rows import SqlRows
from headgate.store.sqlite_errors import emptied, explain
from headgate.store.sqlite_tables import SQL, SqliteTables
from headgate.store.trusted_paths import check_trusted, make_file, make_folder
from headgate.store.urls import SHARED
from headgate.store.wall_clock import look, open_clock

_PATIENCE = Seconds(30.0)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.05
"""Between two tries, in seconds."""
_STOPPED = Seconds(1)
"""Who sleeps for longer than it wanted by so much was stopped, as by Ctrl-Z."""
_MAKING = Seconds(2.0)
_CLOCKS_BEGIN = 10**12
"""A wall clock that shows less is of 2001 or before, and was not set."""
_LATEST_CLOCK = 10**13
"""None shows as much before 2286; a digit too many would end every pause."""
_OF_STORE = (apsw.Error, OSError, UnicodeDecodeError)
_MIGRATIONS = migrations()
"""Read once: a newer version may be installed over this one while its processes run."""


class SqliteStore:
    """A store in a file. Its clock is the machine's uptime, moved to the wall clock at boot."""

    instant = False
    far = False
    make_tables = SqliteTables

    def __init__(
        self,
        path: Path,
        *,
        shared: bool = False,
        synchronous: str = "FULL",
        clock: Callable[[], int] | None = None,
        steps: Sequence[Migration] = _MIGRATIONS,
    ) -> None:
        self.path = path
        self.shared = shared
        self.url = f"sqlite://{path}{SHARED if shared else ''}"
        self.folder: Path = path.with_name(path.name + ".members")
        self._clock = clock
        self._offset = NO_TIME
        self.at_rest = threading.Lock()
        """Held while a transaction is open, and not while it waits for another process's to end."""
        self._begins = False
        self._version = 0
        """Says of which commit of others the rows know; 0 if they know nothing for certain."""
        self._floor = 0
        self._locked_out = 0.0
        """Since when the transaction that is to begin waits for another process's to end."""
        self._wall_clock: WallClock | None = None
        self._steps = steps
        self.schema = steps[-1].schema
        with self._translated():
            if not path.parent.is_dir():
                raise StoreUnavailableError(
                    f"cannot open the store {path}: the folder {path.parent} does not exist; "
                    f"make it first (mkdir -p '{path.parent}')"
                )
            if not shared:
                check_trusted(path)
            made = make_file(path, shared=shared)
            if not made:
                self._refuse_emptied()
            if not os.access(
                path, os.R_OK | os.W_OK
            ):  # SQLite would leave read-only files beside it
                raise StoreUnavailableError(
                    f"the store {path} cannot be opened for writing; "
                    "check the permissions of the file and of its folder"
                )
            try:
                self._connect(synchronous)
            except BaseException:
                if made and not path.stat().st_size:
                    path.unlink()  # the next who comes would take it for one that was emptied
                raise
            make_folder(self.folder, shared=shared)
            if not shared:
                check_trusted(path)  # again: what SQLite has opened was made before, or by it

    def _connect(self, synchronous: str) -> None:
        self._db = apsw.Connection(str(self.path))
        self._inode = os.stat(self.path).st_ino  # noqa: PTH116 - the hot path below compares it
        self._db.set_busy_handler(self._wait_for_lock)
        self._run = self._db.cursor().execute
        self._use_wal()
        self._run(f"PRAGMA synchronous={synchronous}").fetchall()
        self._rows = SqlRows(self.make_tables(self._run))
        self._migrate()

    def now(self) -> Ms:
        """Milliseconds on a clock that all processes of this boot agree on."""
        return Ms(self._clock()) if self._clock else uptime_ms() + self._offset

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[SqlRows]:
        """Open a transaction; BEGIN IMMEDIATE for one that writes."""
        with self.at_rest:
            try:
                self._same_file()
                self._begins = True
                self._run("BEGIN IMMEDIATE" if write else "BEGIN")
                self._begins = False
                version, self._version = self._version, 0
                version = self._begin(version, write=write)
                looked_at = self._look_at_wall_clock() if write else self._wall_clock
                yield self._rows
                self._rows.finish()
                self._run("COMMIT")
                self._rows.committed()
                self._wall_clock = looked_at
                self._version = version
            except BaseException as error:
                self._roll_back(error)
                raise

    def _roll_back(self, error: BaseException) -> None:
        """Leave nothing of a transaction behind; raises the error anew if it is the store's."""
        self._begins = False
        with self._translated():
            if self._db.in_transaction:
                self._run("ROLLBACK")
            if isinstance(error, _OF_STORE):
                raise error

    def _begin(self, known: int, *, write: bool) -> int:
        """Find out whether anybody else has written since the last transaction."""
        version = self._number("PRAGMA data_version")
        if version != known:
            self._floor = self._number("PRAGMA user_version")
        if write and self._floor > self.schema:
            self._refuse(layout(self._run))
        self._rows.begin(unchanged=version == known and not self.far)
        return version

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _look_at_wall_clock(self) -> WallClock | None:
        """Find out whether the wall clock was set, or is believable by now; rarely a statement."""
        known = self._wall_clock
        if known is None or self._clock or not has_news(known, uptime_ms(), wall_ms()):
            return known
        self._rows.forget()  # what follows is not always written by way of the rows
        return look(self._rows, self._run, self._offset)

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
        """Fail if the path names another file now: two files would double every limit."""
        try:
            seen = os.stat(self.path)  # noqa: PTH116 - hot
        except FileNotFoundError:
            seen = None
        if seen is not None and not seen.st_size:
            raise emptied(self.path, self.folder)
        if seen is None or seen.st_ino != self._inode:
            raise StoreReplacedError(
                f"the store {self.path} was removed or replaced while in use; "
                "what runs goes on, restart this process to use the file that is there now"
            )

    def _refuse_emptied(self) -> None:
        """Fail if there is nothing in a file that was a store: it would become another, empty one.

        Who makes a new store where one was removed takes a moment to write into it.
        """
        deadline = time.monotonic() + _MAKING
        while self.folder.is_dir() and not self.path.stat().st_size:
            if time.monotonic() > deadline:
                raise emptied(self.path, self.folder)
            time.sleep(0.01)

    def _migrate(self) -> None:
        found = layout(self._run)
        if found.floor > self.schema:
            self._refuse(found)
        offset = None if found.schema < self.schema else self._clock_offset()
        clock = None if offset is None else self._known_clock()
        if offset is None or clock is None:
            with self.transaction(write=True) as rows:
                migrate(self.path, self.folder, self._run, rows, self._steps)
                if not rows.uid():
                    rows.set_note("uid", os.urandom(4).hex())
                offset = self._set_clock(rows)
            clock = self._known_clock()
        self._offset = offset
        self._wall_clock = clock

    def _known_clock(self) -> WallClock | None:
        """What is known of the wall clock in this boot; None if nothing is."""
        said = self._run(SQL["note"], (NOTE,)).fetchone()
        found = read(said[0]) if said else None
        return found if found is not None and found.boot == machine_id() else None

    def _clock_offset(self) -> Ms | None:
        """How far the store's clock is ahead of the machine's uptime; None if nobody can tell."""
        said = self._run(SQL["note"], (f"clock:{machine_id()}",)).fetchone()
        offset = _offset(said[0]) if said else None
        if offset is not None and offset < _CLOCKS_BEGIN:
            # It may have lost digits. A clock behind what was written makes nothing ever end.
            return offset if uptime_ms() + offset >= self._number(SQL["latest_event"]) else None
        return offset

    def _refuse(self, found: Layout) -> NoReturn:
        raise StoreTooNewError(
            f"the store {self.path} has schema {found.schema}, written by a newer headgate, and is "
            f"only for those that know schema {found.floor}; this one knows up to {self.schema}: "
            "upgrade headgate, or use another --store"
        )

    def _set_clock(self, rows: SqlRows) -> Ms:
        """Once per boot, set the clock by the wall, but never behind what was written before."""
        offset = self._clock_offset()  # somebody else may have been faster
        latest = Ms(self._number(SQL["latest_event"]))
        name = f"clock:{machine_id()}"
        text = rows.note(name) if offset is None else ""
        found = open_clock(rows, self._run, offset, latest)
        if text:
            rows.set_note(f"unreadable:{name}", text)
            words = "the store's clock cannot be read: it was set anew, by the wall clock"
            rows.add_event(
                EventRow(
                    id=0,
                    at=uptime_ms() + found,
                    kind="unreadable",
                    work=0,
                    key="",
                    task="",
                    pool="",
                    text=words,
                )
            )
        return found

    def _wait_for_lock(self, tries: int) -> bool:
        """Wait for another process's transaction to end; a few of them take milliseconds.

        Who has waited for long tries less often: a thousand that come at once would keep the
        machine busy with trying alone. Who comes from a program that has ended is before them then.
        """
        if not tries:
            self._locked_out = time.monotonic()
        pause = min(_FIRST_PAUSE * (tries + 1), _LONGEST_PAUSE)
        pause *= 0.5 + os.urandom(1)[0] / 256  # so that they do not all try at once
        if not self._begins:
            time.sleep(pause)
        else:
            self._rest(pause)
        return time.monotonic() - self._locked_out < _PATIENCE

    def _rest(self, pause: float) -> None:
        """Sleep before a transaction has begun. This process may be stopped meanwhile.

        The time for which it is does not count as time that it has waited.
        """
        until = time.monotonic() + pause
        self.at_rest.release()
        try:
            time.sleep(pause)
        finally:
            self.at_rest.acquire()
        late = time.monotonic() - until
        if late > _STOPPED:
            self._locked_out += late

    def _number(self, query: str) -> int:
        row = self._run(query).fetchone()
        return int(row[0]) if row else 0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _OF_STORE as error:
            db = getattr(self, "_db", None)  # it may be what could not be made
            raise explain(error, self.path, db, _PATIENCE) from error


def _offset(text: str) -> Ms | None:
    """A clock's offset from the uptime; None if the text is none."""
    ahead = whole(text, _LATEST_CLOCK)
    behind = whole(text[1:], _LATEST_CLOCK) if text[:1] == "-" else None
    found = ahead if behind is None else -behind
    return None if found is None else Ms(found)
