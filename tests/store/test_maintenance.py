"""A store is checked, copied and compacted while real processes write to it."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headgate.core.times import Ms, Seconds
from headgate.errors import (
    StoreCorruptError,
    StoreFullError,
    StoreUnavailableError,
    StoreUntrustedError,
    UsageError,
)
from headgate.ledger.transaction.rows import EventRow
from headgate.store import maintenance
from headgate.store.sqlite import SqliteStore
from tests.store.test_sqlite import mount
from tests.support import HEADGATE, LONG, Program, until

WRITER = """
import sys
from headgate import Gate
with Gate.open(sys.argv[1]) as gate:
    print("up", flush=True)
    while True:
        with gate.slot("a/b", task="t", roles="lead"):
            pass
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with something in it."""
    path = tmp_path / "rows.db"
    SqliteStore(path).close()
    return path


@pytest.fixture
def writers(path: Path) -> Iterator[list[Program]]:
    """Two processes that take seats and give them back, as fast as they can."""
    found = [
        Program([sys.executable, "-c", WRITER, f"sqlite://{path}"], env=os.environ)
        for _ in range(2)
    ]
    for one in found:
        assert one.line() == "up"
    yield found
    for one in found:
        one.close()


def place(path: Path) -> maintenance.Place:
    return maintenance.find(f"sqlite://{path}")


def go_on() -> bool:
    return True


def note(path: Path, text: str) -> str:
    """Leave a note in a store; returns the one that was there."""
    store = SqliteStore(path)
    with store.transaction(write=True) as tx:
        before = tx.note("told")
        tx.set_note("told", text)
    store.close()
    return before


def last_event(path: Path) -> int:
    db = apsw.Connection(str(path))
    found = next(iter(db.execute("SELECT coalesce(max(id), 0) FROM event")))[0]
    db.close()
    return int(found)


@pytest.mark.usefixtures("writers")
def test_under_load(path: Path, tmp_path: Path) -> None:
    """Nothing is found wrong, a copy is whole, compacting works, and the writers go on."""
    before = last_event(path)
    assert maintenance.check(place(path), go_on) == []
    copy = tmp_path / "copy.db"
    assert maintenance.backup(place(path), copy, go_on) == copy.stat().st_size
    assert copy.stat().st_mode & 0o777 == 0o600
    assert maintenance.check(place(copy), go_on) == []
    assert maintenance.compact(place(path), Seconds(LONG), go_on) is not None
    after = last_event(path)
    until(lambda: last_event(path) > after > before)
    assert maintenance.check(place(path), go_on) == []


def test_a_copy_is_put_back(path: Path, tmp_path: Path) -> None:
    """Moved to where the store was, it is the store as it was then."""
    note(path, "before")
    copy = tmp_path / "copy.db"
    maintenance.backup(place(path), copy, go_on)
    note(path, "after")
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    copy.rename(path)
    assert note(path, "again") == "before"


def test_nothing_is_replaced(path: Path, tmp_path: Path) -> None:
    """A file, a link or a folder of that name stays as it is."""
    there = tmp_path / "there"
    there.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    for target in (there, link, tmp_path, path):
        with pytest.raises(UsageError, match="is there already"):
            maintenance.backup(place(path), target, go_on)
    assert there.read_text() == "mine"
    with pytest.raises(UsageError, match="does not exist"):
        maintenance.backup(place(path), tmp_path / "no" / "copy.db", go_on)


def test_no_copy_where_others_could_change_it(path: Path, tmp_path: Path) -> None:
    """It holds commands that are run when it is put back."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StoreUntrustedError):
        maintenance.backup(place(path), folder / "copy.db", go_on)
    assert list(folder.iterdir()) == []


def test_a_full_disk_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """No half of a copy is left, and the store is as it was."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(disk, "size=64k,mode=700")
    try:
        with pytest.raises(StoreFullError, match=r"copy\.db"):
            maintenance.backup(place(path), disk / "copy.db", go_on)
        assert list(disk.iterdir()) == []
    finally:
        os.system(f"umount -l '{disk}'")  # noqa: S605 - a folder of this test's own
    assert maintenance.check(place(path), go_on) == []


def test_whoever_breaks_it_off_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """No half of a copy is left."""
    folder = tmp_path / "copies"
    folder.mkdir(mode=0o700)
    db = apsw.Connection(str(path))
    db.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
        "INSERT INTO note SELECT 'n' || i, 'x' FROM n"
    )
    db.close()
    with pytest.raises(apsw.InterruptError):
        maintenance.backup(place(path), folder / "copy.db", lambda: False)
    assert list(folder.iterdir()) == []
    assert maintenance.compact(place(path), Seconds(0), go_on) is None
    assert maintenance.check(place(path), go_on) == []


def test_damage_is_told(path: Path) -> None:
    """A page that was overwritten, rows that contradict each other, and what is no store."""
    db = apsw.Connection(str(path))
    db.execute("INSERT INTO lane VALUES (1, 'm', 'a/b', 'normal', 0, '', 3)")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    found = maintenance.check(place(path), go_on)
    assert found == [
        "lanes that do not know how many wait in them: 1",
        "lanes whose stretches do not know how many wait: 1",
    ]
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 4] = b"\xff" * 4096 * 3
    path.write_bytes(data)
    try:
        assert maintenance.check(place(path), go_on)[0].startswith("the file is damaged")
    except StoreCorruptError as error:
        assert "damaged" in str(error)  # noqa: PT017 - as early as that
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(StoreCorruptError):
        maintenance.check(place(path), go_on)


def test_a_store_of_another_version_is_not_touched(tmp_path: Path) -> None:
    """It is checked and copied as it is; no table is brought up to date."""
    path, copy = tmp_path / "old.db", tmp_path / "copy.db"
    SqliteStore(tmp_path / "new.db").close()
    shutil.copy(tmp_path / "new.db", path)
    path.chmod(0o600)
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE task_lane; PRAGMA user_version = 99")
    db.close()
    assert maintenance.check(place(path), go_on) == []
    maintenance.backup(place(path), copy, go_on)
    db = apsw.Connection(str(copy))
    assert db.execute("PRAGMA user_version").fetchone() == (99,)
    db.close()


def test_nothing_is_made_where_no_store_is(tmp_path: Path) -> None:
    """Whoever looks after a store that is not there hears so."""
    with pytest.raises(StoreUnavailableError, match="there is no store"):
        place(tmp_path / "none.db")
    with pytest.raises(UsageError, match="no file"):
        maintenance.find("memory://")
    assert list(tmp_path.iterdir()) == []


def test_what_each_table_takes_is_told(path: Path) -> None:
    """With its indexes, and what nothing uses; together it is the whole file. Nothing if late."""
    store = SqliteStore(path)
    with store.transaction(write=True) as tx:
        for _ in range(2_000):
            tx.add_event(EventRow(0, Ms(1), "told", *(7, "a/x", "t", "", "x" * 100)))
    store.close()
    found = maintenance.sizes(path)
    assert found["event"] > 200_000
    assert sum(found.values()) == path.stat().st_size
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM event")
    db.close()
    assert maintenance.sizes(path)[""] > 150_000
    path.write_bytes(b"no store at all, and long enough to be looked at as one" * 40)
    assert maintenance.sizes(path) == {}


def test_ctrl_c_leaves_a_store_as_it_was(path: Path) -> None:
    """Exit 130 in the midst of compacting, nothing is left behind, and others can write."""
    db = apsw.Connection(str(path))
    db.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) "
        "INSERT INTO note SELECT 'n' || i, hex(randomblob(60)) FROM n"
    )
    db.execute("DELETE FROM note WHERE name LIKE 'n%3'")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    before, beside = path.stat().st_size, {file.name for file in path.parent.iterdir()}
    words = [HEADGATE, "--store", f"sqlite://{path}", "store", "compact", "--at-most", "300s"]
    one = Program(words, env={**os.environ, "SQLITE_TMPDIR": str(path.parent)})
    until(lambda: _is_locked(path))
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 130
    assert [one.line(stream=stream) for stream in ("stdout", "stderr")] == ["", ""]
    one.close()
    assert path.stat().st_size == before
    left = {file.name for file in path.parent.iterdir()} - beside
    assert left <= {"rows.db-wal", "rows.db-shm"}
    assert maintenance.check(place(path), go_on) == []
    note(path, "written")


def _is_locked(path: Path) -> bool:
    """Whether somebody else writes."""
    db = apsw.Connection(str(path))
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except apsw.BusyError:
        return True
    finally:
        db.close()
    return False
