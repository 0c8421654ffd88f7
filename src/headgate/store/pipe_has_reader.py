"""Whether anybody reads a named pipe: the kernel's word on who is alive."""

import errno
import os
from pathlib import Path

_NOBODY = {errno.ENXIO, errno.ENOENT}


def has_reader(path: Path) -> bool:
    """Whether a process has this pipe open for reading; True if that cannot be found out.

    Opening a pipe for writing fails at once if nobody reads it.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in _NOBODY
    return True
