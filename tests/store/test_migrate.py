"""A store is brought up to date under the processes that use it, or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headgate.core.times import Ms
from headgate.errors import StoreError, StoreInUseError, StoreTooNewError
from headgate.ledger.transaction.rows import Member
from headgate.store.machine_and_clock import process_start
from headgate.store.memory import MemoryStore
from headgate.store.schema import FOLDERS, Migration, migrations
from headgate.store.sqlite import SqliteStore

TABLE = "CREATE TABLE more (x INTEGER) STRICT;\n"
NEWEST = migrations()[-1].schema


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sql"
    folder.mkdir()
    return folder


def following(folder: Path, lives_with: int) -> tuple[Migration, ...]:
    """The migrations of a version to come, with one more than now."""
    file = folder / f"{NEWEST + 1:04}_more.sql"
    file.write_text(f"-- More.\n-- lives with: {lives_with}\n\n{TABLE}")
    return migrations([*FOLDERS, folder])


class Process:
    """A member whose own process listens, or seems to."""

    def __init__(self, store: SqliteStore, member: Member, *, listens: bool = True) -> None:
        with store.transaction(write=True) as tx:
            tx.add_member(member)
        pipe = store.folder / f"{member.id}.wake"
        os.mkfifo(pipe)
        self._fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        if not listens:
            self.end()

    def end(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def marked(path: Path) -> tuple[int, int, bool]:
    """The schema a file has, the oldest that can use it, and whether it was brought further."""
    db = apsw.Connection(str(path))
    try:
        schema = db.execute("SELECT text FROM note WHERE name = 'schema'").get
        more = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'more'").get
        return int(schema), db.pragma("user_version"), bool(more)
    finally:
        db.close()


def write(store: SqliteStore) -> None:
    with store.transaction(write=True) as tx:
        tx.set_note("n", "x")


def test_every_migration_says_what_it_lives_with() -> None:
    """Schema 4 is the first that another lives with: 3."""
    assert [(step.schema, step.lives_with) for step in migrations()][:4] == [
        (1, 1), (2, 2), (3, 3), (4, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "head",
    [
        "",
        "-- lives with:\n",
        "-- lives with: three\n",
        "-- lives with: 0\n",
        f"-- lives with: {NEWEST + 2}\n",
        "-- lives with: 3, 4\n",
        "-- lives with: 3\n-- lives with: 4\n",
        "-- More.\n\n-- lives with: 3\n",
    ],
)
def test_a_migration_that_does_not_say_it_is_refused(head: str, folder: Path) -> None:
    """The message names the file and what was expected in its head."""
    file = folder / f"{NEWEST + 1:04}_more.sql"
    file.write_text(head + TABLE)
    with pytest.raises(StoreError, match=r"lives with: N.*from 1 to") as caught:
        migrations([*FOLDERS, folder])
    assert str(file) in str(caught.value)


def test_a_gap_between_migrations_is_refused(folder: Path) -> None:
    """What is missing is not passed over, nor is a folder without any."""
    (folder / f"{NEWEST + 2:04}_more.sql").write_text("-- lives with: 3\n")
    with pytest.raises(StoreError, match="expected 1, 2, 3 and so on"):
        migrations([*FOLDERS, folder])
    with pytest.raises(StoreError, match="missing"):
        migrations([])


def test_a_version_before_finds_only_its_own_migrations() -> None:
    """Processes of schema 3 read this folder whenever they open a store, upgraded or not."""
    names = sorted(path.name[:4] for path in FOLDERS[0].glob("[0-9][0-9][0-9][0-9]_*.sql"))
    assert names == ["0001", "0002", "0003"]


def test_a_compatible_migration_is_applied_under_a_running_process(
    path: Path, folder: Path, store: SqliteStore
) -> None:
    """The floor says who may go on; the process goes on, and so does one that starts anew."""
    process = Process(store, Member("p1", "m", 10, "", Ms(1), version="1.0", schema=NEWEST))
    newer = SqliteStore(path, steps=following(folder, NEWEST))
    assert marked(path) == (NEWEST + 1, NEWEST, True)
    write(store)
    write(newer)
    again = SqliteStore(path)
    write(again)
    assert marked(path) == (NEWEST + 1, NEWEST, True)
    again.close()
    newer.close()
    process.end()


@pytest.mark.parametrize(
    "member, told",
    [
        (Member("p1", "m", 4711, "", Ms(1)), "pid 4711 (an older headgate, schema 3)"),
        (
            Member("p1", "m", 4711, "", Ms(1), version="1.0", schema=NEWEST),
            f"pid 4711 (headgate 1.0, schema {NEWEST})",
        ),
    ],
)
def test_an_incompatible_migration_waits_for_those_that_run(
    member: Member, told: str, path: Path, folder: Path, store: SqliteStore
) -> None:
    """The newer program names them and changes nothing; when they have ended, it goes on."""
    process = Process(store, member)
    steps = following(folder, NEWEST + 1)
    for _ in range(2):
        with pytest.raises(StoreInUseError, match="let them end or stop them") as caught:
            SqliteStore(path, steps=steps)
        assert told in str(caught.value)
        assert str(path) in str(caught.value)
    assert marked(path) == (NEWEST, 3, False)
    write(store)
    process.end()
    SqliteStore(path, steps=steps).close()
    assert marked(path) == (NEWEST + 1, NEWEST + 1, True)
    with pytest.raises(StoreTooNewError, match=rf"schema {NEWEST + 1}.*upgrade headgate"):
        write(store)
    with pytest.raises(StoreTooNewError, match=rf"knows up to {NEWEST}: upgrade headgate"):
        SqliteStore(path)


def test_members_that_were_killed_hold_nobody_up(
    path: Path, folder: Path, store: SqliteStore
) -> None:
    """A row that was left behind is no process; nor is one that knows the new schema."""
    killed = Member("p1", "m", 10, "", Ms(1), version="1.0", schema=NEWEST)
    Process(store, killed, listens=False)
    newer = Process(store, Member("p2", "m", 11, "", Ms(1), version="2.0", schema=NEWEST + 1))
    SqliteStore(path, steps=following(folder, NEWEST + 1)).close()
    assert marked(path)[1] == NEWEST + 1
    newer.end()


def test_a_store_before_versions_were_told_counts_all_its_members(path: Path) -> None:
    """A process that made a file of schema 2 cannot live with 3, and is waited for."""
    old = SqliteStore(path, steps=[step for step in migrations() if step.schema <= 2])
    db = apsw.Connection(str(path))
    db.execute(
        "INSERT INTO member VALUES ('p1', 'm', 4711, '', 1); DELETE FROM note WHERE name = 'schema'"
    )
    db.close()
    os.mkfifo(old.folder / "p1.wake")
    fd = os.open(old.folder / "p1.wake", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(StoreInUseError, match=r"pid 4711 \(an older headgate, schema 2\)"):
        SqliteStore(path)
    os.close(fd)
    old.close()
    SqliteStore(path).close()
    assert marked(path)[:2] == (NEWEST, 3)


def test_a_member_is_removed_with_what_it_told_of_itself(path: Path, store: SqliteStore) -> None:
    """Also by a version that knows only its row among the members."""
    with store.transaction(write=True) as tx:
        tx.add_member(Member("p1", "m", 1, "", Ms(1), 0, 5, "1.0", NEWEST))
        tx.add_member(Member("p2", "m", 2, "", Ms(2), 0, 6, "1.0", NEWEST))
        tx.drop_member("p1")
    db = apsw.Connection(str(path))
    assert db.execute("SELECT member FROM process").fetchall() == [("p2",)]
    db.execute("DELETE FROM member WHERE id = 'p2'")
    assert db.execute("SELECT * FROM process").fetchall() == []
    db.execute("INSERT INTO member VALUES ('p3', 'm', 3, '', 3, 1)")
    db.close()
    with store.transaction(write=False) as tx:
        assert tx.members() == [Member("p3", "m", 3, "", Ms(3), 1)]


def test_a_process_is_told_from_the_next_of_its_number() -> None:
    """Its start is one moment for as long as it lives; a process that is gone has none."""
    mine = process_start(os.getpid())
    assert mine == process_start(os.getpid()) > 0
    assert process_start(os.getppid()) <= mine
    assert process_start(2**22 + 1) == 0
    assert MemoryStore().schema == 0
