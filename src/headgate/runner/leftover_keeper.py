"""Keeps a program's seats for what it left running, after its runner has gone.

Whoever shares our processes finds them by their mark. From another container they cannot be seen,
and if they have dropped the pipe as well, their seats would be given on. So a small process stays
behind that has the pipe open until the last of them has ended. It needs nothing of the store.
"""

import os
import select
import sys
from contextlib import suppress

from headgate.gate import Gate
from headgate.gate.liveness.process_marks import carriers

_LOOK = 10_000


def stay_for_leftovers(gate: Gate, mark: str) -> None:
    """Close the gate, and leave its leases to the processes that live on with them."""
    life = os.dup(gate.life_fd) if gate.life_fd >= 0 else -1
    gate.leave_behind()
    if life >= 0 and carriers([mark]):
        sys.stdout.flush()
        if os.fork() == 0:
            try:
                _stay(mark, life)
            finally:
                os._exit(0)


def _stay(mark: str, life: int) -> None:
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    os.closerange(3, life)
    os.closerange(life + 1, 1024)
    while pids := [pid for pid in carriers([mark]).get(mark, ()) if pid != os.getpid()]:
        _await_any(pids)


def _await_any(pids: list[int]) -> None:
    """Sleep until one of these has ended, and ten seconds at most."""
    poll = select.poll()
    fds = []
    for pid in pids:
        with suppress(OSError, AttributeError):
            fds.append(os.pidfd_open(pid))
            poll.register(fds[-1], select.POLLIN)
    poll.poll(_LOOK)
    for fd in fds:
        os.close(fd)
