"""The process's side of its watchdog: it has one for as long as it serves."""

import asyncio
import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.core.times import Seconds
from headgate.wire.spawn import spawn_watchdog
from headgate.wire.watchdog import SERVING

_AGAIN = 0.2
"""Seconds before another watchdog is started."""
_WITHIN = Seconds(2)
_TRY = 0.05


class Guarded:
    """Starts the watchdog, tells it who else would mend this process, and starts it again."""

    def __init__(self, folder: Path, handed_on: Sequence[int]) -> None:
        """`handed_on`: the listening socket, and the secret of a tap."""
        self._folder = folder
        self._handed_on = handed_on
        self._loop = asyncio.get_running_loop()
        self._pid = 0
        self._pipe = self._watched = -1
        self._runners: frozenset[int] = frozenset()
        self._over = not hasattr(os, "pidfd_open")

    def begin(self) -> None:
        """Start the watchdog. Without one all goes on, unguarded."""
        if self._over:
            return
        theirs, ours = os.pipe()
        listening, *secret = self._handed_on
        try:
            self._pid = spawn_watchdog(self._folder, listening, theirs, *secret)
        except OSError:
            os.close(ours)
            return
        finally:
            os.close(theirs)
        self._pipe = ours
        try:
            self._watched = os.pidfd_open(self._pid)
        except OSError:  # a sandbox that does not allow it: the watchdog could not look either
            self.end(for_good=True)
            return
        os.set_blocking(ours, False)
        self._loop.add_reader(self._watched, self._ended)
        self.tell(self._runners)

    def tell(self, runners: Iterable[int]) -> None:
        """Say which runners there are: as long as one lives, it is the one to mend us."""
        self._runners = frozenset(runners)
        if self._pipe >= 0:
            with suppress(OSError):
                os.write(self._pipe, b"%b\n" % " ".join(map(str, self._runners)).encode())

    def end(self, *, for_good: bool) -> None:
        """This process ends: for good, or another one has to follow."""
        self._over = True
        self._forget()
        if self._pid and for_good:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._reap()

    def _ended(self) -> None:
        self._forget()
        self._reap()
        if not self._over:
            self._loop.call_later(_AGAIN, self.begin)

    def _forget(self) -> None:
        if self._watched >= 0:
            self._loop.remove_reader(self._watched)
        for fd in (self._watched, self._pipe):
            if fd >= 0:
                os.close(fd)
        self._watched = self._pipe = -1

    def _reap(self) -> None:
        pid, self._pid = self._pid, 0
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def serve_alone(folder: Path) -> int | None:
    """The lock of whoever serves; None if another process has it and keeps it."""
    until = time.monotonic() + _WITHIN
    try:
        lock = os.open(folder / SERVING, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:  # the disk is full: who has the lock matters only where there are two
        return -1
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                os.close(lock)
                return None
            time.sleep(_TRY)
        else:
            with suppress(OSError):
                os.ftruncate(lock, 0)
                os.write(lock, str(os.getpid()).encode())
            return lock


def other_end(talks: socket.socket) -> int:
    """The process that made a connection to this one; 0 if it cannot be told."""
    try:
        said = talks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return 0
    return int(struct.unpack("3i", said)[0])
