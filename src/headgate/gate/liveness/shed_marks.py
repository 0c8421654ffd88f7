"""A worker that was started inside an agent is no part of it, and lets go of what ties it to that.

Otherwise the agent's end would be the end of the worker and of other people's jobs, and the
agent's seats would be taken for as long as the worker lives.
"""

import os
import re
import stat
import sys
from contextlib import suppress

from headgate.core.agents.replaced_variables import put_back
from headgate.core.environment import FOR_PROGRAMS
from headgate.gate.liveness.process_marks import MARK, NO_LEASE

_LIFE = re.compile(r"\.members/[^/]+\.life(?: \(deleted\))?\Z")
_OF_A_LEASE = {*FOR_PROGRAMS, "HEADGATE_TASK"}


def shed_marks() -> None:
    """Let go of every lease under which this process was started; for before it has threads.

    What others see of its environment was fixed when it was started. So it starts itself anew, in
    the same process and with the same words; it does nothing if there is nothing to let go of.
    """
    lives = _inherited_lives()
    for fd in lives:
        os.close(fd)
    mark = os.environ.get(MARK, "")
    if mark == NO_LEASE or not (mark or lives):
        return
    before = put_back(os.environ)
    kept = {name: value for name, value in before.items() if name not in _OF_A_LEASE}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, sys.orig_argv, {**kept, MARK: NO_LEASE})  # noqa: S606 - ourselves


def _inherited_lives() -> list[int]:
    """The ends of members' pipes that came from whoever started this process."""
    found = []
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - numbers, no paths
        with suppress(OSError):  # one is of this very look
            fd = int(name)
            if os.get_inheritable(fd) and stat.S_ISFIFO(os.fstat(fd).st_mode):
                found += [fd] if _LIFE.search(_path(fd)) else []
    return found


def _path(fd: int) -> str:
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).partition(b"\0")[0])
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - no path that leads anywhere
