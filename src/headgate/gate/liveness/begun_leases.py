"""Which leases a process has begun to use, told to others without a transaction (Linux).

A process holds a lock on the byte of its `life` pipe that has the lease's number. The kernel drops
it with the process, whatever happens, and anybody who can open the pipe can ask for it. The first
byte is locked in pipes whose owner does so: of any other owner, nothing can be said.
"""

import fcntl
import os
import struct
import sys
from collections.abc import Callable

_SET = getattr(fcntl, "F_OFD_SETLK", None)
_GET = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK = struct.Struct("hhqqi4x")
_FAILED = -1
"""What the C library answers then; Python raises an error."""
_TELLS = 0
_MANY = 256
"""How many leases are given back before their bytes are unlocked. No lease gets their numbers."""


class BegunLeases:
    """The leases that this process has begun to use, and their marks in its pipe."""

    def __init__(self) -> None:
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._call = _uninterrupted() if "asyncio" in sys.modules else fcntl.fcntl

    def tell_all(self, pipe: int) -> None:
        """Mark all of them in a pipe that is just made."""
        self._ended.clear()
        for lease in (*self._begun, _TELLS):
            self._lock(pipe, fcntl.F_RDLCK, lease)

    def begin(self, pipe: int, lease: int) -> bool:
        """Lock the byte of a lease; False if that cannot be done, and nothing is told any more."""
        self._begun.add(lease)
        if self._lock(pipe, fcntl.F_RDLCK, lease):
            return True
        self._lock(pipe, fcntl.F_UNLCK, _TELLS)
        return False

    def end(self, pipe: int, lease: int) -> None:
        """Unlock the byte of a lease, some time."""
        self._begun.discard(lease)
        self._ended.add(lease)
        if len(self._ended) >= _MANY:
            first, last = min(self._ended), max(self._ended) + 1
            for kept in (*sorted(id for id in self._begun if first < id < last), last):
                if kept > first:
                    self._lock(pipe, fcntl.F_UNLCK, first, kept - first)
                first = kept + 1
            self._ended.clear()

    def _lock(self, pipe: int, kind: int, at: int, length: int = 1) -> bool:
        if _SET is None or pipe < 0:
            return False
        try:
            return self._call(pipe, _SET, _FLOCK.pack(kind, os.SEEK_SET, at, length, 0)) != _FAILED
        except OSError:
            return False


def _uninterrupted() -> Callable[[int, int, bytes], object]:
    """The same call, for event loops: it goes on being the loop's turn.

    Python's own lets other threads run meanwhile, although it takes a microsecond. The background
    thread takes its turn then, and many tasks that begin at once wait for it one after the other.
    """
    import ctypes

    call = ctypes.PyDLL(None).fcntl
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_char_p)
    return call


def is_marked(pipe: int, lease: int) -> bool:
    """Whether the owner of a pipe has begun with a lease, or does not tell."""
    # In this order: all locks go at once, when a pipe is let go of for a new one.
    return _locked(pipe, lease) or not _locked(pipe, _TELLS)


def _locked(pipe: int, at: int) -> bool:
    if _GET is None:
        return False
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0)
    found: bytes = fcntl.fcntl(pipe, _GET, asked)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)
