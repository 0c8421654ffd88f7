"""The SQLite file: who may read it, how it is made, what happens when it is not well."""

import asyncio
import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate import Gate
from headgate.core.admission.lease_events import PENDING
from headgate.core.display.snapshots import PoolStatus, Status
from headgate.core.times import Ms, Seconds
from headgate.errors import (
    NoRoomError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreTooNewError,
    StoreUnavailableError,
)
from headgate.ledger.transaction.rows import Tx
from headgate.store import default_url, open_store
from headgate.store.machine_and_clock import machine_id
from headgate.store.schema import migrations, queries
from headgate.store.sqlite import SqliteStore
from tests.store.rows import CHANGES, JOBS, fill, job, lane, said, ticket
from tests.support import until

DAY = 86_400.0
TABLES = ("ticket", "lane", "stretch", "lease", "rest", "member", "pool", "sequence", "history")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.db"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def rows(path: Path, *tables: str) -> dict[str, list[Any]]:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608
    finally:
        db.close()


def pool(status: Status, name: str) -> PoolStatus:
    return next(one for one in status.pools if one.pool == name)


def use(path: Path) -> dict[str, Any]:
    """Open the store, see that it works, and return what it says."""
    store = SqliteStore(path)
    try:
        with store.transaction(write=True) as tx:
            tx.next_id()
            return said(tx)
    finally:
        store.close()


def test_the_default_store_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default folder is made with mode 0700 and everything in it is closed to others."""
    monkeypatch.delenv("HEADGATE_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "deep" / "state"))
    before = os.umask(0)
    try:
        store = open_store()
    finally:
        os.umask(before)
    folder = tmp_path / "deep" / "state" / "headgate"
    with store.transaction(write=True) as tx:
        fill(tx)
    assert default_url() == f"sqlite://{folder}/headgate.db" == store.url
    assert mode(folder) == 0o700
    assert {entry.name: oct(mode(entry)) for entry in folder.iterdir()} == {
        "headgate.db": "0o600",
        "headgate.db-wal": "0o600",
        "headgate.db-shm": "0o600",
        "headgate.db.members": "0o700",
    }
    store.close()


def test_a_named_file_is_its_owners_alone(path: Path) -> None:
    """A store anywhere else is a file of mode 0600, too, whatever the umask allows."""
    before = os.umask(0)
    try:
        use(path)
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert mode(path.with_name("rows.db.members")) == 0o700


def marked(db: apsw.Connection) -> tuple[int, int]:
    """The schema that a file says it has, and the oldest whose processes can use it."""
    schema = db.execute("SELECT text FROM note WHERE name = 'schema'").get
    return int(schema), db.pragma("user_version")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """Every migration runs on an empty file, and the file says how far it came."""
    path.touch()
    assert use(path)["uid"]
    db = apsw.Connection(str(path))
    assert marked(db) == (migrations()[-1].schema, 3)
    assert db.pragma("journal_mode") == "wal"
    assert db.pragma("integrity_check") == "ok"
    db.close()


def test_opening_again_changes_nothing(path: Path) -> None:
    """A store that is up to date is not migrated once more, and keeps its name and rows."""
    first = SqliteStore(path)
    with first.transaction(write=True) as tx:
        fill(tx)
        before, uid = said(tx), tx.uid()
    second = SqliteStore(path)
    with second.transaction(write=False) as tx:
        assert (said(tx), tx.uid()) == (before, uid)
    first.close()
    second.close()


def old_version(path: Path, version: int = 1) -> Path:
    """A file as an older schema had it, with all that it can hold of a store that was filled."""
    store = SqliteStore(path.with_name("now.db"))
    with store.transaction(write=True) as tx:
        fill(tx)
    store.close()
    db = apsw.Connection(str(path))
    for step in migrations()[:version]:
        db.execute(step.script)
        db.pragma("user_version", step.schema)
    db.execute("DELETE FROM sequence; ATTACH ? AS now", (str(store.path),))
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        columns = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA table_info({table})"))
        db.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM now.{table}")  # noqa: S608
        assert db.execute(f"SELECT * FROM {table}").fetchall(), f"nothing in {table}"  # noqa: S608
    db.execute("DELETE FROM note WHERE name = 'schema'")
    db.close()
    return store.path


def without_jobs(tx: Tx) -> None:
    """Take out of a store what no older schema had room for."""
    for id in JOBS:
        tx.drop_job(id)
    for row in tx.job_leases():
        tx.drop_lease(row.id)
        tx.add_lease(row._replace(job=0))


def without_learning(before: dict[str, Any]) -> None:
    """Make of what a store says what it said before anything was learned."""
    for some in (before["leases"], before["lease"], *before["leases_of"], *before["recent"]):
        some[:] = [row._replace(sent="", answer=PENDING, tokens=0) for row in some]
    for line in before["lines"].values():
        line[:] = [row._replace(tokens=0) for row in line]
    before["pool_rows"] = [row._replace(learned="") for row in before["pool_rows"]]
    del before["rests"]  # seats that rest while headgate is upgraded are free


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_file_is_brought_up_to_date(path: Path, version: int) -> None:
    """Nothing that waits, runs or was set is lost; what the file had no room for is empty."""
    now = SqliteStore(old_version(path, version))
    with now.transaction(write=True) as tx:
        if version < 3:
            without_jobs(tx)
        before, uid = said(tx), tx.uid()
    now.close()
    before["requests"] = [[] for _ in before["requests"]]
    before["metered"] = [None for _ in before["metered"]]
    before["in_flight"] = []
    before["members"] = [row._replace(started=0, version="", schema=0) for row in before["members"]]
    if version == 1:
        without_learning(before)
    store = SqliteStore(path)
    with store.transaction(write=True) as tx:
        after = said(tx)
        assert tx.uid() == uid
        assert {name: after[name] for name in before} == before
        tx.drop_rests(Ms(10**6))
        for id in JOBS if version < 3 else ():
            assert tx.next_id() > id
            tx.add_job(job(id))
        for change in CHANGES.values():
            change(tx)
    store.close()
    db = apsw.Connection(str(path))
    assert marked(db) == (migrations()[-1].schema, 3)
    assert db.pragma("integrity_check") == "ok"
    db.close()


@pytest.mark.parametrize("damage", ["CREATE TABLE rest_keep (x)", "DROP TABLE lease"])
def test_a_migration_that_fails_changes_nothing(path: Path, damage: str) -> None:
    """A file that cannot be brought up to date is as it was: half a migration is none."""
    old_version(path)
    db = apsw.Connection(str(path))
    db.execute(damage)
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    db.close()
    before = rows(path, *tables)
    with pytest.raises(StoreError, match=re.escape(str(path))):
        SqliteStore(path)
    assert rows(path, *tables) == before
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == 1
    db.close()


def test_a_newer_schema_is_refused(path: Path) -> None:
    """A file from a newer headgate is left alone, and the message says what to do."""
    use(path)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 999)
    db.close()
    before = rows(path, *TABLES)
    with pytest.raises(StoreTooNewError, match=r"schema 999.*newer headgate.*upgrade") as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert rows(path, *TABLES) == before


def test_a_file_that_was_upgraded_while_in_use_is_left_alone(path: Path) -> None:
    """A process that was running when a newer headgate migrated the file writes no more to it."""
    store = SqliteStore(path)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 999)
    db.close()
    with (
        pytest.raises(StoreTooNewError, match="schema 999"),
        store.transaction(write=True) as tx,
    ):
        tx.set_note("x", "y")
    store.close()


BOTH = """
import sys
from pathlib import Path
from headgate.store.sqlite import SqliteStore
print("ready", flush=True)
for path in sys.stdin:
    store = SqliteStore(Path(path.strip()))
    with store.transaction(write=True) as tx:
        print(tx.uid(), tx.next_id(), store.now(), flush=True)
    store.close()
"""


def test_two_processes_make_the_file_at_once(tmp_path: Path) -> None:
    """However they race, there is one store with one name, and both use it."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", BOTH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for racer in racers:
            assert racer.stdout
            assert racer.stdout.readline() == "ready\n"
        for number in range(20):
            for racer in racers:
                assert racer.stdin
                racer.stdin.write(f"{tmp_path}/{number}.db\n")
                racer.stdin.flush()
            answers = [racer.stdout.readline().split() for racer in racers if racer.stdout]
            if not all(answers):
                errors = [racer.communicate(timeout=20)[1] for racer in racers]
                pytest.fail(f"round {number}: {errors}")
            (uid, one, now), (other_uid, two, other_now) = answers
            assert uid == other_uid
            assert {one, two} == {"1", "2"}
            assert abs(int(now) - int(other_now)) < 5_000
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
            for pipe in (racer.stdin, racer.stdout, racer.stderr):
                if pipe:
                    pipe.close()


def test_a_missing_folder_is_not_made_up(tmp_path: Path) -> None:
    """A missing folder is probably a mistyped path: an error with the command that makes it."""
    with pytest.raises(StoreUnavailableError, match=r"does not exist.*mkdir -p"):
        open_store(f"sqlite://{tmp_path}/not/there/rows.db")
    assert list(tmp_path.iterdir()) == []


def test_the_default_folder_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the state folder cannot be made, the error says how to name another place."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("HEADGATE_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreUnavailableError, match="HEADGATE_STORE"):
        open_store()


def test_a_folder_is_no_store(path: Path) -> None:
    """A folder where the file should be is a clear error."""
    path.mkdir()
    with pytest.raises(StoreUnavailableError, match=re.escape(str(path))):
        SqliteStore(path)


def test_garbage_is_no_store(path: Path) -> None:
    """A file that is no database is refused, and not touched."""
    garbage = b"this is a letter, not a database\n" * 500
    path.write_bytes(garbage)
    with pytest.raises(StoreCorruptError, match=r"damaged or is no SQLite.*mv '"):
        SqliteStore(path)
    assert path.read_bytes() == garbage


def test_a_database_of_someone_else_is_no_store(path: Path) -> None:
    """Another program's SQLite file is refused, and nothing is put into it."""
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE note (id INTEGER, body TEXT); INSERT INTO note VALUES (1, 'mine')")
    db.close()
    with pytest.raises(StoreError, match=re.escape(str(path))):
        SqliteStore(path)
    db = apsw.Connection(str(path))
    assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("note",)]
    assert db.execute("SELECT * FROM note").fetchall() == [(1, "mine")]
    db.close()


def closed_store(path: Path) -> None:
    """A store with many rows, closed, so that everything is in the one file."""
    store = SqliteStore(path)
    with store.transaction(write=True) as tx:
        fill(tx)
        for number in range(2_000):
            tx.set_note(f"n{number}", "x" * 50)
    store.close()
    assert not path.with_name("rows.db-wal").exists()


def test_a_store_that_was_emptied_is_no_new_one(path: Path) -> None:
    """Who opens it and who has it open are told, also if SQLite's own files are gone."""
    use(path)
    in_use = SqliteStore(path)
    os.truncate(path, 0)
    with pytest.raises(StoreCorruptError, match="was emptied"), in_use.transaction(write=True):
        pass
    with pytest.raises(StoreCorruptError, match=f"{path}.members shows that it was in use"):
        SqliteStore(path)
    in_use.close()
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    with pytest.raises(StoreCorruptError) as caught:
        SqliteStore(path)
    assert not path.stat().st_size
    advice = re.search(r"mv '.+?' '.+?'", str(caught.value))
    assert advice
    subprocess.run(["sh", "-c", advice[0]], check=True)
    SqliteStore(path).close()


def test_many_may_make_a_store_anew_where_one_was_removed(path: Path) -> None:
    """The folder of the old one is there, and the file of the new one empty for a moment."""
    use(path)
    for _ in range(5):
        for one in path.parent.glob("rows.db*"):
            one.unlink() if one.is_file() else None
        script = "import sys; from headgate.store import open_store; open_store(sys.argv[1])"
        argv = [sys.executable, "-c", script, f"sqlite://{path}"]
        started = [subprocess.Popen(argv) for _ in range(4)]
        assert [one.wait(30) for one in started] == [0] * 4


def test_a_truncated_file_is_found_out(path: Path) -> None:
    """Half a file is an error when it is opened or used, and never a grant."""
    closed_store(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreCorruptError, match=re.escape(str(path))):
        damaged_use(path)


def test_an_overwritten_page_is_found_out(path: Path) -> None:
    """Garbage in the middle of the file is an error that names the file and the way out."""
    closed_store(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for page in range(1, size // 4096):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)
    with pytest.raises(StoreCorruptError, match=r"rows.db.damaged"):
        damaged_use(path)


def damaged_use(path: Path) -> None:
    gate = Gate.open(f"sqlite://{path}", limits={"host": 5})
    try:
        with gate.slot("a/x", timeout=0):
            raise AssertionError("granted from a damaged store")
    finally:
        gate.close()


def test_a_file_that_was_removed_is_not_written(path: Path) -> None:
    """Nobody writes to a file that is gone: two sets of books would be twice the limit."""
    store = SqliteStore(path)
    path.unlink()
    with (
        pytest.raises(StoreUnavailableError, match="removed or replaced"),
        store.transaction(write=True),
    ):
        pytest.fail("opened a transaction on a removed file")
    with (
        pytest.raises(StoreUnavailableError, match="removed or replaced"),
        store.transaction(write=False),
    ):
        pytest.fail("opened a transaction on a removed file")
    store.close()


def test_a_file_that_was_replaced_is_not_written(path: Path, tmp_path: Path) -> None:
    """The same if another file has taken its name."""
    store = SqliteStore(path)
    other = tmp_path / "other.db"
    use(other)
    other.rename(path)
    with (
        pytest.raises(StoreUnavailableError, match="restart this process"),
        store.transaction(write=True),
    ):
        pytest.fail("opened a transaction on a replaced file")
    store.close()
    use(path)


def test_what_runs_goes_on_without_the_file(path: Path) -> None:
    """A holder whose store is removed keeps its work, and its release raises nothing."""
    gate = Gate.open(f"sqlite://{path}", limits={"host": 5})
    with gate.slot("a/x") as lease:
        path.unlink()
        with pytest.raises(StoreUnavailableError):
            gate.status()
        assert lease.ended_by is None
    gate.close()


def test_the_wall_clock_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sets the clock a day forth or back: leases and pauses stay as they are."""
    gate = Gate.open(f"sqlite://{path}", limits={"host": 5})
    gate.pause("b", "60s")
    wall, wall_ns = time.time, time.time_ns
    with gate.slot("a/x"):
        for jump in (DAY, -DAY):
            monkeypatch.setattr(time, "time", lambda jump=jump: wall() + jump)
            monkeypatch.setattr(time, "time_ns", lambda jump=jump: wall_ns() + int(jump * 1e9))
            other = Gate.open(f"sqlite://{path}", limits={"host": 5})
            for one in (gate, other):
                status = one.status()
                assert pool(status, "b").paused
                left = (pool(status, "b").paused_until or Seconds(0)) - status.at
                assert 0 < left <= 60
                assert pool(status, "host").in_use == 1
                running = one.queue().running
                assert 0 <= running[0].held < 60
                with pytest.raises(NoRoomError), one.slot("b/z", timeout=0):
                    pytest.fail("granted in a paused pool")
            other.close()
    gate.close()


def test_the_clock_passes_like_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections agree on the time, whatever the wall clock says when each is opened."""
    one = SqliteStore(path)
    wall_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - int(DAY * 1e9))
    other = SqliteStore(path)
    before, between, after = one.now(), other.now(), one.now()
    assert before <= between <= after
    one.close()
    other.close()


def test_a_new_boot_never_turns_the_clock_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart with the wall clock a day behind, new times come after all old ones."""
    store = SqliteStore(path)
    with store.transaction(write=True) as tx:
        fill(tx)
        latest = store.now()
        tx.add_event(tx.events(-1, 1, 0)[0]._replace(at=latest))
    store.close()
    db = apsw.Connection(str(path))
    name = f"clock:{machine_id()}"
    assert db.execute("DELETE FROM note WHERE name = ? RETURNING name", (name,)).fetchall()
    db.close()
    wall_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - int(DAY * 1e9))
    store = SqliteStore(path)
    assert store.now() >= latest
    store.close()


@pytest.mark.parametrize("spoil", ["", "x", "1e12", "{}0", "9" * 5_000, "٣", "cut"])
def test_a_clock_that_cannot_be_read_is_set_anew(path: Path, spoil: str) -> None:
    """By the wall, never behind what was written before; the text is set aside, and told of."""
    store = SqliteStore(path)
    name = f"clock:{machine_id()}"
    with store.transaction(write=True) as tx:
        fill(tx)
        latest = store.now() + 5_000
        tx.add_event(tx.events(-1, 1, 0)[0]._replace(at=Ms(latest)))
        offset = tx.note(name)
        text = offset[:-1] if spoil == "cut" else spoil.format(offset)
        tx.set_note(name, text)
    store.close()
    store = SqliteStore(path)
    assert latest <= store.now() < latest + 60_000
    with store.transaction(write=False) as tx:
        assert tx.note(f"unreadable:{name}") == text
        kinds = [row.kind for row in tx.events(-1, 9, 0)]
        assert kinds.count("unreadable") == bool(text)
        set_to = tx.note(name)
    other = SqliteStore(path)
    with other.transaction(write=False) as tx:
        assert tx.note(name) == set_to
    other.close()
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one mebibyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "size=1m,mode=700")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def mount(folder: Path, options: str) -> None:
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("NOT TESTED: mounting a file system needs root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"NOT TESTED: cannot mount a file system here: {done.stderr.strip()}")


@pytest.mark.parametrize("free", [0, 4, 8, 16, 28, 36, 48, 64, 96])
def test_a_full_disk_is_told_before_the_first_use(small_disk: Path, free: int) -> None:
    """However far a new store gets; with room it is made, also where one was before."""
    path = small_disk / "rows.db"
    Path(f"{path}.members").mkdir(mode=0o700)
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    os.truncate(ballast, ballast.stat().st_size - free * 1024)
    with pytest.raises(StoreFullError, match="its disk is full; free some space"):
        SqliteStore(path)
    ballast.unlink()
    SqliteStore(path).close()


class Disk:
    """A store whose space can be used up and freed."""

    def __init__(self, path: Path, fill: Callable[[], None], free: Callable[[], None]) -> None:
        self.path = path
        self.url = f"sqlite://{path}"
        self.fill = fill
        self.free = free


def real_disk(folder: Path) -> Disk:
    """The disk is full because something else has filled it."""
    ballast = folder / "ballast"

    def fill() -> None:
        with ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass

    return Disk(folder / "rows.db", fill, ballast.unlink)


def capped_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """SQLite is told that the file may not grow; as good as a full disk, on every machine."""
    opened: list[apsw.Connection] = []

    def hook(db: apsw.Connection) -> None:
        opened.append(db)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, hook])

    def cap(resolver: int) -> None:
        for db in opened:
            with contextlib.suppress(apsw.ConnectionClosedError):
                db.pragma("max_page_count", resolver)

    def fill() -> None:
        size = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        resolver = size.pragma("page_count")
        size.close()
        cap(resolver)

    return Disk(path, fill, lambda: cap(2**31 - 2))


@pytest.fixture(params=["real", "capped"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    if request.param == "real":
        return real_disk(request.getfixturevalue("small_disk"))
    return capped_disk(tmp_path / "rows.db", monkeypatch)


def ask_until_full(gate: Gate) -> list[Any]:
    """Take leases until the disk has no room for another."""
    taken = []
    for number in range(5_000):
        before = gate.queue(most=10**6)
        try:
            taken.append(gate.slot("free/work", task=f"{number}-" + "t" * 150).acquire())
        except StoreFullError:
            after = gate.queue(most=10**6)
            assert [row.id for row in after.running] == [row.id for row in before.running]
            assert {one.id for one in taken} <= {row.id for row in after.running}
            return taken
    raise AssertionError("the disk did not fill up")


@pytest.mark.usefixtures("steady")
def test_a_full_disk_grants_nothing_and_loses_nothing(disk: Disk) -> None:
    """On a full disk a request fails, rows stay as they were, and with room all works again."""
    gate = Gate.open(disk.url, limits={"host": 100_000})
    gate.set_limit("a", 1)
    held = gate.slot("a/x").acquire()
    disk.fill()
    taken = ask_until_full(gate)
    before = rows(disk.path, *TABLES)
    for _ in range(3):
        with pytest.raises(StoreFullError, match="disk is full"):
            gate.slot("free/work", task="t" * 150).acquire()
    assert rows(disk.path, *TABLES) == before
    assert pool(gate.status(), "a").in_use == 1
    assert held.ended_by is None
    disk.free()
    lease = gate.slot("free/work", task="t" * 150).acquire()
    assert {row.id for row in gate.queue(most=10**6).running} == {
        held.id,
        lease.id,
        *(one.id for one in taken),
    }
    with pytest.raises(NoRoomError), gate.slot("a/y", timeout=0):
        pytest.fail("the seat held through the full disk was given away")
    gate.close()
    assert rows(disk.path, "lease")["lease"] == []
    db = apsw.Connection(str(disk.path))
    assert db.pragma("integrity_check") == "ok"
    db.close()


@pytest.mark.usefixtures("steady")
def test_a_release_on_a_full_disk_is_made_up_for(small_disk: Path) -> None:
    """A release that cannot be written raises nothing, and happens once there is room again."""
    disk = real_disk(small_disk)
    gate = Gate.open(disk.url, limits={"host": 100_000})
    gate.set_limit("a", 1)
    held = gate.slot("a/x").acquire()
    disk.fill()
    ask_until_full(gate)
    assert held.release()
    assert held.id in [row[0] for row in rows(disk.path, "lease")["lease"]]
    disk.free()
    until(lambda: held.id not in [row[0] for row in rows(disk.path, "lease")["lease"]], within=5)
    with gate.slot("a/x", timeout=0):
        pass
    gate.close()


@pytest.mark.usefixtures("steady")
def test_a_waiter_gets_in_after_a_full_disk(small_disk: Path) -> None:
    """Someone who waits through a full disk is let in by the release that could not be written."""
    disk = real_disk(small_disk)
    gate = Gate.open(disk.url, limits={"host": 100_000})
    gate.set_limit("a", 1)
    held = gate.slot("a/x").acquire()

    async def wait() -> None:
        other = Gate.open(disk.url, limits={"host": 100_000})
        waits = asyncio.Event()
        slot = other.slot("a/x", on_wait=lambda _: waits.set())
        waiting = asyncio.create_task(slot.acquire_async())
        await waits.wait()
        disk.fill()
        await asyncio.to_thread(ask_until_full, gate)
        held.release()
        await asyncio.sleep(0)
        assert not waiting.done()
        disk.free()
        lease = await asyncio.wait_for(waiting, 10)
        lease.release()
        await asyncio.to_thread(other.close)

    asyncio.run(wait())
    gate.close()


def test_a_request_that_failed_takes_nothing_from_who_got_its_number(small_disk: Path) -> None:
    """Cancelling a request that a full disk refused never ends someone else's lease."""
    disk = real_disk(small_disk)
    gate = Gate.open(disk.url, limits={"host": 100_000})
    other = Gate.open(disk.url, limits={"host": 100_000})
    other.slot("c/d").acquire()
    disk.fill()
    ask_until_full(gate)

    async def give_up() -> None:
        asking = asyncio.create_task(gate.slot("free/work", task="t" * 150).acquire_async())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises((asyncio.CancelledError, StoreFullError)):
            await asking

    asyncio.run(give_up())
    disk.free()
    theirs = other.slot("c/d", task="theirs").acquire()
    time.sleep(2.5)  # longer than it takes to try again what the full disk refused
    running = {row.id: row.task for row in other.queue(most=10**6).running}
    assert running.get(theirs.id) == "theirs"
    gate.close()
    other.close()


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """A folder with a store on a file system that can be made read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "size=4m,mode=700")

    def freeze() -> Path:
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        return folder / "rows.db"

    use(folder / "rows.db")
    yield freeze
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_read_only_file_is_a_clear_error(read_only: Callable[[], Path]) -> None:
    """A store on a read-only file system cannot be opened, and the error names it."""
    path = read_only()
    with pytest.raises(StoreUnavailableError, match=re.escape(str(path))):
        use(path)


def test_a_new_file_in_a_read_only_folder_is_a_clear_error(read_only: Callable[[], Path]) -> None:
    """A store cannot be made in a read-only folder, and the error names it."""
    path = read_only().with_name("new.db")
    with pytest.raises(StoreUnavailableError, match=re.escape(str(path))):
        use(path)


AS_NOBODY = """
import grp, os, pwd, shlex, sys  # while the interpreter's own files can be read
from pathlib import Path
from headgate.errors import StoreUnavailableError
from headgate.store.sqlite import SqliteStore
os.setgid(65534), os.setuid(65534)
try:
    store = SqliteStore(Path(sys.argv[1]))
    with store.transaction(write=True) as tx:
        tx.next_id()
except StoreUnavailableError as error:
    print("refused:", error)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone can get to, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "outer_mode, folder_mode, file_mode",
    [
        (0o755, 0o755, 0o644),
        (0o755, 0o755, 0o600),
        (0o755, 0o644, 0o644),
        (0o755, 0o700, 0o644),
        (0o700, 0o755, 0o644),
    ],
)
def test_a_file_without_permission_is_a_clear_error(
    open_folder: Path, outer_mode: int, folder_mode: int, file_mode: int
) -> None:
    """Who may not write the file, may not read it or cannot get to it is told so, by name."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: becoming someone else needs root")
    folder = open_folder / "state"
    folder.mkdir()
    path = folder / "rows.db"
    use(path)
    path.chmod(file_mode)
    folder.chmod(folder_mode)
    open_folder.chmod(outer_mode)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("refused: "), done.stderr or "it was let in"
    assert str(path) in done.stdout


SMALL = {
    *("lane", "rest", "member", "m", "process", "pool", "note", "sequence", "history", "lease"),
    "pool_share",
    "token",
    "remote_member",
}
"""Tables that grow with pools, seats and processes, and not with those who wait."""
GROWING = {
    "ticket",
    "remote_request",
    "stretch",
    "event",
    "job",
    "after",
    "attempt",
    "request",
    "metered",
    "submission",
}


def plans() -> dict[str, list[str]]:
    db = apsw.Connection(":memory:")
    for step in migrations():
        db.execute(step.script)
    found = {}
    for name, text in queries().items():
        named = dict.fromkeys(re.findall(r":(\w+)", text))
        holes = named or (None,) * text.count("?")
        found[name] = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}", holes)]
    db.close()
    return found


PLANS = plans()


def test_no_query_goes_through_the_whole_line() -> None:
    """No query scans or sorts a table that grows with those who wait or with what happened."""
    # Once, when a wrong clock is put right; and once for every hundred agents, of a bounded table.
    rare = {"make_jobs_younger", "make_events_younger", "make_requests_younger", "trim_metered"}
    rare |= {"trim_roles", "trim_turns"}
    by_index = "job_aside|ticket_overtaken|metered_in_flight"
    for name in PLANS.keys() - {"newest_events", "newest_of", "latest_event"} - rare:
        for step in PLANS[name]:
            scanned = re.match(rf"SCAN (\w+)(?! USING INDEX (?:{by_index}))\b", step)
            if scanned:
                assert scanned[1] in SMALL | {"l", "found"}, f"{name}: {step}"
        if GROWING & set(re.findall(r"\w+", queries()[name])):
            assert not [step for step in PLANS[name] if "TEMP B-TREE" in step], PLANS[name]


WAYS = [
    ("fronts", "ticket USING COVERING INDEX ticket_line (lane=?)"),
    ("page", "ticket USING INDEX ticket_line (lane=?"),
    ("ticket", "ticket USING INTEGER PRIMARY KEY"),
    ("delete_ticket", "ticket USING INTEGER PRIMARY KEY"),
    ("set_overtaken", "ticket USING INTEGER PRIMARY KEY"),
    ("tickets_of", "ticket USING INDEX ticket_member (member=?)"),
    ("waiting_members", "USING INDEX ticket_line (lane=?)"),
    ("stretch_at", "stretch USING PRIMARY KEY (lane=?"),
    ("first_stretch", "stretch USING PRIMARY KEY (lane=?)"),
    ("before_stretch", "stretch USING PRIMARY KEY (lane=?"),
    ("within_stretch", "ticket USING COVERING INDEX ticket_line (lane=? AND "),
    ("stretch_middle", "ticket USING COVERING INDEX ticket_line (lane=? AND "),
    ("count_stretch", "stretch USING PRIMARY KEY (lane=? AND urgency=? AND since=? AND id=?)"),
    ("lease", "lease USING INTEGER PRIMARY KEY"),
    ("drop_lease", "lease USING INTEGER PRIMARY KEY"),
    ("drop_empty_lane", "lane USING INTEGER PRIMARY KEY"),
    ("events", "event USING INTEGER PRIMARY KEY (rowid>?)"),
    ("trim_events", "event USING INTEGER PRIMARY KEY (rowid<?)"),
    ("trim_requests", "request USING INTEGER PRIMARY KEY (rowid<?)"),
    ("requests_of", "request USING INDEX request_work (work=?)"),
    ("metered", "metered USING INTEGER PRIMARY KEY"),
    ("marks", "stretch USING PRIMARY KEY (lane=?)"),
    ("job", "job USING INTEGER PRIMARY KEY"),
    ("change_job", "job USING INTEGER PRIMARY KEY"),
    ("drop_job", "job USING INTEGER PRIMARY KEY"),
    ("jobs", "job USING INDEX job_state (state=? AND id>?)"),
    ("latest_jobs", "job USING INDEX job_state (state=?)"),
    ("count_jobs", "job USING COVERING INDEX job_state (state=?)"),
    ("aside", "job USING INDEX job_aside"),
    ("count_aside", "job USING INDEX job_aside"),
    ("due_jobs", "job USING INDEX job_due (due>? AND due<?)"),
    ("next_due", "job USING COVERING INDEX job_due (due>?)"),
    ("old_jobs", "job USING COVERING INDEX job_ended (ended>? AND ended<?)"),
    ("needs_of", "after USING PRIMARY KEY (job=?)"),
    ("needed_by", "after USING COVERING INDEX after_needs (needs=?)"),
    ("drop_after", "after USING PRIMARY KEY (job=? AND needs=?)"),
    ("drop_needs", "after USING PRIMARY KEY (job=?)"),
    ("attempts", "attempt USING PRIMARY KEY (job=?)"),
    ("drop_attempts", "attempt USING PRIMARY KEY (job=?)"),
]


def test_a_decision_goes_straight_to_its_rows() -> None:
    """Each query of a decision finds its rows by key or index."""
    for name, way in WAYS:
        assert any(way in step for step in PLANS[name]), (name, PLANS[name])


def test_a_decision_costs_the_same_with_a_longer_line(path: Path) -> None:
    """Head, page, add and drop take as many steps of SQLite with 250 waiting as with 20,250."""

    def steps(waiting: int) -> int:
        store = SqliteStore(path.with_name(f"{waiting}.db"), synchronous="OFF")
        counted = 0

        def tick() -> bool:
            nonlocal counted
            counted += 1
            return False

        with store.transaction(write=True) as tx:
            line = tx.lane(lane())
            for id in range(1, waiting + 1):
                tx.add_ticket(ticket(id, line, since=id))
        store._db.set_progress_handler(tick, 10)
        with store.transaction(write=True) as tx:
            tx.page(line, None, 1)
            tx.add_ticket(ticket(waiting + 1, line, since=waiting + 1))
            tx.page(line, (0, waiting // 2, 0), 10)
            tx.drop_ticket(1)
            tx.waiting_members("m", "nobody", 8)
        store._db.set_progress_handler(None)
        store.close()
        return counted

    assert steps(20_250) <= 2 * steps(250) + 20
