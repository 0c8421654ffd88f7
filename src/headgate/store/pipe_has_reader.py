"""Whether anybody reads a named pipe: the kernel's word on who is alive."""

import errno
import os
import stat
from pathlib import Path


def has_reader(path: Path) -> bool | None:
    """Whether a process has this pipe open for reading; None if that cannot be found out.

    Opening a pipe for writing fails at once if nobody reads it. A pipe that is not there, that may
    not be opened, or that is no pipe says nothing about anybody.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        return False if error.errno == errno.ENXIO else None
    try:
        return True if stat.S_ISFIFO(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)
