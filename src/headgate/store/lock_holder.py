"""Which process keeps a store locked, as the kernel tells it (Linux)."""

import os
from pathlib import Path

from headgate.core.printable_text import printable
from headgate.store.machine_and_clock import process_fields

_WRITES = 120
"""The byte of the shared-memory file that SQLite locks for who writes (WAL_WRITE_LOCK)."""


def lock_holder(path: Path) -> int | None:
    """The process that has a store open for writing, if it is not this one and can be seen."""
    try:
        inode = path.with_name(path.name + "-shm").stat().st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, _, kind, pid, where, first, last = (line.split() + [""] * 8)[:8]
        if kind != "WRITE" or not where.endswith(f":{inode}"):  # others are shifted: they wait
            continue
        if int(first) <= _WRITES and (last == "EOF" or int(last) >= _WRITES):
            return int(pid) if int(pid) > 0 and int(pid) != os.getpid() else None
    return None


def describe_holder(path: Path) -> str:
    """Who keeps a store locked, and what to do about it; empty if nobody can tell."""
    pid = lock_holder(path)
    if pid is None:
        return ""
    try:
        name = printable(Path(f"/proc/{pid}/comm").read_text().strip(), "?")
    except OSError:
        return ""
    who = f"pid {pid} ({name})"
    if (process_fields(pid) or ["?"])[0] in "Tt":
        return f"{who}, which is stopped; let it go on (kill -CONT {pid}) or end it"
    return f"{who}; see what it does: ps -p {pid}"
