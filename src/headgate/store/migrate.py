"""Bring the tables of a store up to date, under the processes that use it.

`PRAGMA user_version` is the floor: the oldest schema whose processes can go on using the store. A
process looks at it in every transaction that writes. The schema of the tables themselves is a
note. Up to schema 3 the two were one number, and the file has no such note.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from headgate.core.named_tuple import NamedTuple
from headgate.errors import StoreInUseError
from headgate.ledger.transaction.rows import Member
from headgate.store.process_of_member import is_listening
from headgate.store.schema import Migration
from headgate.store.sql_rows import SqlRows
from headgate.store.sqlite_tables import SQL

NOTE = "schema"
_UNTOLD = 3
"""The last schema whose processes do not tell which one they know."""
_SHOWN = 10


class Layout(NamedTuple):
    """How a store's tables are laid out, and for whom."""

    schema: int
    floor: int


def layout(run: Callable[..., Any]) -> Layout:
    """The layout of the store as it is now; zeros for an empty file."""
    floor = int(run("PRAGMA user_version").fetchone()[0])
    try:
        said = run(SQL["note"], (NOTE,)).fetchone()
    except apsw.SQLError:  # there are no tables yet
        said = None
    return Layout(max(floor, int(said[0]) if said else 0), floor)


def migrate(
    path: Path, folder: Path, run: Callable[..., Any], rows: SqlRows, steps: Sequence[Migration]
) -> None:
    """Apply what is missing; the caller has opened a writing transaction.

    Refuses, with nothing changed, if a process is alive that could not go on.
    """
    now = layout(run)
    missing = [step for step in steps if step.schema > now.schema]
    if not missing:
        return
    floor = max(now.floor, *(step.lives_with for step in missing))
    if now.schema and floor > now.floor:
        _check_users(path, folder, run, now, floor)
    for step in missing:
        for _ in run(step.script):
            pass
    rows.set_note(NOTE, str(missing[-1].schema))
    run(f"PRAGMA user_version={floor}")


def known_schema(member: Member) -> int:
    """The newest schema that a member knows."""
    return member.schema or _UNTOLD


def described(member: Member) -> str:
    """A member's process, for people."""
    version = f"headgate {member.version}" if member.version else "an older headgate"
    return f"pid {member.pid} ({version}, schema {known_schema(member)})"


def _check_users(
    path: Path, folder: Path, run: Callable[..., Any], now: Layout, floor: int
) -> None:
    """Refuse to shut out a process that is there. Its programs alone do not need the store."""
    if now.schema > _UNTOLD:
        members = [Member._make(row) for row in run(SQL["members"])]
    else:
        found = run("SELECT id, machine, pid, pid_space, joined FROM member ORDER BY joined, id")
        members = [
            Member(
                id=id,
                machine=machine,
                pid=pid,
                pid_space=pid_space,
                joined=joined,
                schema=now.schema,
            )
            for id, machine, pid, pid_space, joined in found
        ]
    left = [
        described(member)
        for member in members
        if known_schema(member) < floor and is_listening(folder, member)
    ]
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        raise StoreInUseError(
            f"the store {path} is used by processes of an older version, which could not go on if "
            f"it were brought up to date: {', '.join(left[:_SHOWN])}{more}; let them end or stop "
            "them, then try again (nothing was changed)"
        )
