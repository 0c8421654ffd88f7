"""Looking after a store's file while others use it: check it, copy it, give back unused space.

No table is brought up to date here, so it works with a store of any version. Reading keeps nobody
from writing. Only `compact` does, for as long as it is told to at most, and then it gives up.
"""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.errors import StoreError, StoreUnavailableError, UsageError
from headgate.store.locate import as_url, default_url
from headgate.store.sqlite_errors import explain
from headgate.store.trusted_paths import check_folder, check_trusted
from headgate.store.urls import file_of

_PATIENCE = Seconds(30)
_STEPS = 20_000
"""After how many steps of SQLite's somebody is asked whether to go on."""
_SHOWN = 20
_GLANCE = Seconds(2)
GoOn = Callable[[], bool]
"""Whether to go on; asked a few hundred times a second."""

INVARIANTS = {
    "lanes that do not know how many wait in them": """
        SELECT id FROM lane WHERE waiting <> (SELECT count(*) FROM ticket WHERE lane = lane.id)""",
    "tickets that stand in no lane": """
        SELECT id FROM ticket WHERE lane NOT IN (SELECT id FROM lane)""",
    "lanes whose stretches do not know how many wait": """
        SELECT id FROM lane
        WHERE waiting <> (SELECT coalesce(sum(tickets), 0) FROM stretch WHERE lane = lane.id)""",
    "work that both waits and runs": """
        SELECT id FROM ticket WHERE id IN (SELECT id FROM lease)""",
    "leases of members that are not there": """
        SELECT id FROM lease WHERE member NOT IN (SELECT id FROM member)""",
    "leases of jobs that are not there": """
        SELECT id FROM lease WHERE job > 0 AND id NOT IN (SELECT id FROM job)""",
    "jobs in the line without a ticket": """
        SELECT id FROM job WHERE state = 'queued' AND code = ''
        AND id NOT IN (SELECT id FROM ticket)""",
    "jobs that run without a lease": """
        SELECT id FROM job WHERE state = 'running' AND id NOT IN (SELECT id FROM lease)""",
    "numbers that were given twice": """
        SELECT id FROM (SELECT id FROM lease UNION SELECT id FROM ticket UNION SELECT id FROM job)
        WHERE id > (SELECT last FROM sequence)""",
    "turns of lanes that are not there": """
        SELECT lane FROM task_lane WHERE lane NOT IN (SELECT id FROM lane)""",
}
"""What must not be there, each with a query that finds it."""


class Place(NamedTuple):
    """The file of a store."""

    path: Path
    shared: bool


class Compacted(NamedTuple):
    """What became of a store's file: its bytes before and after."""

    before: int
    after: int


def find(url: str | None) -> Place:
    """The file of a store that is there, and whose it is."""
    found = file_of(as_url(url) if url else default_url())
    if found is None:
        raise UsageError("this store has no file to look after: use --store sqlite:///path/to/file")
    path, shared = found
    place = Place(path, shared=shared)
    if not place.path.is_file():
        raise StoreUnavailableError(
            f"there is no store at {place.path}; nothing was made or changed"
        )
    if not place.shared:
        check_trusted(place.path)
    return place


def check(place: Place, go_on: GoOn) -> list[str]:
    """All that is wrong with a store: its file first, then what must be true of its rows."""
    with _open(place, go_on) as db:
        db.execute("BEGIN")  # so that all is looked at as it is at one moment
        found = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({_SHOWN})")]
        if found != ["ok"]:
            return [f"the file is damaged: {one}" for one in found]
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
        if "ticket" not in tables:
            return [f"{place.path} is no store of headgate"]
        return [said for what, query in INVARIANTS.items() if (said := _broken(db, what, query))]


def _broken(db: apsw.Connection, what: str, query: str) -> str:
    try:
        ids = [str(row[0]) for row in db.execute(f"{query} LIMIT {_SHOWN + 1}")]
    except apsw.SQLError as error:
        if "no such table" in str(error):  # it is of an older version
            return ""
        raise
    more = ", …" if len(ids) > _SHOWN else ""
    return f"{what}: {', '.join(ids[:_SHOWN])}{more}" if ids else ""


def backup(place: Place, target: Path, go_on: GoOn) -> int:
    """Copy a store as it is at one moment into a new file, for its owner alone; its bytes.

    The file is there whole, or not at all.
    """
    target = target.absolute()
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} is there already; nothing was written: give another name")
    if not target.parent.is_dir():
        raise UsageError(f"the folder {target.parent} does not exist; make it first")
    check_folder(target)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise StoreUnavailableError(f"cannot write {target}: {error.strerror}") from None
    try:
        with _open(place, go_on, writes_to=target) as db:
            db.execute("VACUUM INTO ?", (str(part),))
        _sync(part)
        os.link(part, target)  # which replaces nothing
    except FileExistsError:
        raise UsageError(
            f"{target} is there already; nothing was written: give another name"
        ) from None
    finally:
        for end in ("", "-journal"):
            with suppress(FileNotFoundError):
                Path(f"{part}{end}").unlink()
    _sync(target.parent)
    return target.stat().st_size


def compact(place: Place, at_most: Seconds, go_on: GoOn) -> Compacted | None:
    """Give back the space that a store does not need; None if that would take too long.

    Nobody can write meanwhile. If it is given up, all is as it was before.
    """
    before = _size(place.path)
    until = time.monotonic() + at_most

    def in_time() -> bool:
        return go_on() and time.monotonic() < until

    try:
        with _open(place, in_time) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.InterruptError:
        if time.monotonic() < until:
            raise
        return None
    return Compacted(before, _size(place.path))


def sizes(path: Path, at_most: Seconds = _GLANCE) -> dict[str, int]:
    """How many bytes each table takes with its indexes, and under no name what nothing does.

    Nothing is told of a store that it takes too long to look through, or that cannot be read.
    """
    until = time.monotonic() + at_most
    try:
        with _open(Place(path, shared=False), lambda: time.monotonic() < until) as db:
            rows = db.execute(
                "SELECT coalesce(tbl_name, ''), sum(pgsize) FROM dbstat AS used "
                "LEFT JOIN sqlite_schema AS known ON known.name = used.name "
                "WHERE aggregate = TRUE GROUP BY 1"
            )
            found = {str(name) or "sqlite_schema": int(size) for name, size in rows}
            (free,), (page,) = (
                next(db.execute("PRAGMA freelist_count")),
                next(db.execute("PRAGMA page_size")),
            )
            return {**found, "": free * page}
    except (apsw.InterruptError, StoreError):
        return {}


def _size(path: Path) -> int:
    beside = Path(f"{path}-wal")
    return path.stat().st_size + (beside.stat().st_size if beside.exists() else 0)


@contextmanager
def _open(place: Place, go_on: GoOn, writes_to: Path | None = None) -> Generator[apsw.Connection]:
    """The file of a store, with the errors of ours for those of SQLite."""
    db: apsw.Connection | None = None
    try:
        db = apsw.Connection(str(place.path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_timeout(int(_PATIENCE * 1000))
        db.set_progress_handler(lambda: not go_on(), _STEPS)
        yield db
    except apsw.InterruptError:
        raise
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise explain(error, writes_to or place.path, db, _PATIENCE) from error
    finally:
        if db is not None:
            db.close()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
