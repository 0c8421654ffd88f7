"""What went wrong with an SQLite file: what happened, where, and what to do about it."""

import errno
import os
from pathlib import Path

import apsw

from headgate.core.times import Seconds
from headgate.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from headgate.store.lock_holder import describe_holder

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_LEAST_SPACE = 64 * 1024
"""Bytes. SQLite's index of its log grows by half as many, and says only that it could not."""


def explain(
    error: apsw.Error | OSError | UnicodeDecodeError,
    path: Path,
    db: apsw.Connection | None,
    patience: Seconds,
) -> StoreError:
    """An error of ours for one of SQLite's or of the system's."""
    where = f"the store {path}"
    match error:
        case apsw.FullError():
            return _full(path)
        case apsw.IOError() if _has_no_space(path, db):
            return _full(path)
        case OSError() if error.errno in _NO_SPACE:
            return _full(path)
        case OSError():
            return StoreUnavailableError(f"cannot use the store {path}: {error.strerror}")
        case UnicodeDecodeError():
            return StoreCorruptError(
                f"{where} is damaged: a text in it is none any more ({error}); {_begin_anew(path)}"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorruptError(
                f"{where} is damaged or is no SQLite file ({error}); move it away "
                f"(mv '{path}' '{path}.damaged') and start again"
            )
        case apsw.BusyError() | apsw.LockedError():
            unknown = f"another program; find it with: lsof '{path}'"
            return StoreUnavailableError(
                f"{where} has not been free for {patience:.0f}s: it is locked by "
                f"{describe_holder(path) or unknown}"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return StoreUnavailableError(
                f"{where} cannot be opened for writing ({error}); "
                "check the permissions of the file and of its folder"
            )
        case _:
            return StoreError(f"{where} failed: {type(error).__name__}: {error}")


def emptied(path: Path, members: Path) -> StoreCorruptError:
    """The file has no bytes any more; SQLite would take it for a new one."""
    return StoreCorruptError(
        f"the store {path} was emptied: the file has no bytes, and {members} shows that it was in "
        f"use; {_begin_anew(path)}"
    )


def _begin_anew(path: Path) -> str:
    damaged = f"mv '{path}' '{path}.damaged'"
    return f"put a copy back, or begin anew (what was in line is lost): {damaged}"


def _full(path: Path) -> StoreFullError:
    return StoreFullError(
        f"the store {path} cannot be written: its disk is full; free some space "
        "(nothing was granted or lost, what runs goes on)"
    )


def _has_no_space(path: Path, db: apsw.Connection | None) -> bool:
    if db is not None and db.system_errno in _NO_SPACE:
        return True
    try:
        seen = os.statvfs(path.parent)
    except OSError:
        return False
    return seen.f_bavail * seen.f_frsize < _LEAST_SPACE
