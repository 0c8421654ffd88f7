"""Which processes have a member's pipe open, whatever became of its file (Linux).

The kernel remembers the name under which a process opened a pipe. Through `/proc/PID/fd` the pipe
can be opened again after its file was removed, and so its owner can still be woken.
"""

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of ours, which say nothing about whom we look at."""


def pipe_of(pid: int, name: str) -> str | None:
    """Where a process has a pipe of this name open for reading; empty if it has none.

    None if that is not told: the process is another user's, or there is no /proc.
    """
    try:
        return next((path for each, path in _read_by(str(pid)) if each == name), "")
    except (FileNotFoundError, ProcessLookupError):
        return "" if (_PROC / "self" / "fd").exists() else None
    except OSError:
        return None


def readers(names: Collection[str]) -> dict[str, list[int]]:
    """The processes that have pipes of these names open for reading, where the system tells.

    Whoever has inherited a life reads it; who has it open for writing only watches.
    """
    found: dict[str, list[int]] = {}
    if not names or not (_PROC / "self" / "fd").exists():
        return found
    for pid in os.listdir(_PROC):  # noqa: PTH208 - called within a transaction
        if not pid.isdigit():
            continue
        try:
            for name in {name for name, _ in _read_by(pid) if name in names}:
                found.setdefault(name, []).append(int(pid))
        except OSError as error:
            if error.errno in NO_ROOM:  # not to be taken for "nobody reads it"
                raise
    return found


def _read_by(pid: str) -> Iterator[tuple[str, str]]:
    for fd in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - thousands of them
        path = f"/proc/{pid}/fd/{fd}"
        with suppress(FileNotFoundError):  # closed a moment ago
            name = os.readlink(path).removesuffix(" (deleted)").rpartition("/")[2]  # noqa: PTH115
            if name.endswith((".life", ".wake")) and _is_read(pid, fd):
                yield name, path


def _is_read(pid: str, fd: str) -> bool:
    for line in (_PROC / pid / "fdinfo" / fd).read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_WRONLY
    return True
