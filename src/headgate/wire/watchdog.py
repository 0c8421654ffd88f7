"""Starts the process beside an agent again if it is killed while no runner is there to do it.

The process starts this file as a program of its own, without headgate's modules, so that it takes
three megabytes and no time: it sleeps until its process has ended. Whose runners live is told
through a pipe, as numbers of processes; that their process has ended, by the end of that pipe. If a
runner lives, it is left two seconds to mend it. Else this becomes the process itself.

    python -I -S watchdog.py FOLDER GIVEN PID    3: listening socket, 4: the pipe, 5: a tap's secret
"""

import fcntl
import os
import select
import sys
import time
from contextlib import suppress

PIPE = 4
SERVING = "serving"
"""The file that is locked by the process that serves; its number is in there."""
_LOOK, _SOON = 0.25, 0.01
"""Seconds between two looks: whether a runner has mended it; whether a lock is free."""
_GRACE = 2.0
"""For how long a runner may take, unless it is killed too; it may be stopped."""
_YOUNG = 2.0
"""A process that was killed sooner is not started again at once."""


def main(argv: list[str]) -> None:
    """Watch, and return if there is nothing to do."""
    _, folder, given, watched = argv
    began = time.monotonic()
    runners = _watch()
    ended = time.monotonic()
    while os.path.exists(f"{folder}/order.json"):  # noqa: PTH110 - pathlib is not loaded
        serves = _who_serves(folder)
        living = [fd for fd in runners if not select.select([fd], [], [], 0)[0]]
        if serves == watched:  # it has not quite ended; or another has not quite begun
            time.sleep(_SOON)
        elif serves:
            return
        elif living and time.monotonic() - ended < _GRACE:
            select.select(living, [], [], _LOOK)
        else:
            if time.monotonic() - began < _YOUNG:
                time.sleep(_LOOK)
            words = ("-P", "-m", "headgate.wire", folder, given)
            os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - itself, no shell


def _watch() -> list[int]:
    """Read until the process has ended; returns the runners that it had last."""
    runners: list[int] = []
    said = b""
    while more := os.read(PIPE, 4096):
        *lines, said = (said + more).split(b"\n")
        if lines:
            for fd in runners:
                os.close(fd)
            runners = list(_opened(lines[-1]))
    return runners


def _opened(pids: bytes) -> list[int]:
    found = []
    for pid in pids.split():
        with suppress(OSError):  # it has ended
            found.append(os.pidfd_open(int(pid)))
    return found


def _who_serves(folder: str) -> str:
    """The process that has the lock; empty if none has."""
    try:
        lock = os.open(f"{folder}/{SERVING}", os.O_RDWR)
    except OSError:
        return ""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return os.read(lock, 20).decode()
    finally:
        os.close(lock)
    return ""


if __name__ == "__main__":
    main(sys.argv)
