"""Which leases a process has begun to use, told to others without a transaction (Linux).

A process holds a lock on the byte of its `life` pipe that has the lease's number. The kernel drops
it with the process, whatever happens, and anybody who can open the pipe can ask for it. The first
byte is locked in pipes whose owner does so: of any other owner, nothing can be said.
"""

import fcntl
import os
import struct
from contextlib import suppress

_SET = getattr(fcntl, "F_OFD_SETLK", None)
_GET = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK = "hhqqi4x"
TELLS = 0


def mark(pipe: int, lease: int) -> bool:
    """Lock the byte of a lease; False if that cannot be done."""
    return _lock(pipe, fcntl.F_RDLCK, lease)


def unmark(pipe: int, lease: int) -> None:
    """Unlock the byte of a lease."""
    _lock(pipe, fcntl.F_UNLCK, lease)


def _lock(pipe: int, kind: int, at: int) -> bool:
    if _SET is None or pipe < 0:
        return False
    with suppress(OSError):
        fcntl.fcntl(pipe, _SET, struct.pack(_FLOCK, kind, os.SEEK_SET, at, 1, 0))
        return True
    return False


def is_marked(pipe: int, lease: int) -> bool:
    """Whether the owner of a pipe has begun with a lease, or does not tell."""
    # In this order: all locks go at once, when a pipe is let go of for a new one.
    return _locked(pipe, lease) or not _locked(pipe, TELLS)


def _locked(pipe: int, at: int) -> bool:
    if _GET is None:
        return False
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0)
    found: bytes = fcntl.fcntl(pipe, _GET, asked)
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)
