"""What is piped into `submit`: kept for the job if that is said, and never lost in silence.

It is not read unasked. A program that calls `submit` may have left a pipe open that never ends (as
Node's `exec` does), and in a loop over lines, or in a script that a shell reads from its input,
what waits there is the rest of the loop or of the script.
"""

import os
import stat
from pathlib import Path

from headgate.cli.shared.open_gate import say
from headgate.errors import UsageError
from headgate.gate.submit_jobs import LONGEST_INPUT

_HOW = "--stdin - gives it to the job, < /dev/null says that it is not meant for it"


def read_input(name: str) -> str:
    """The content of a file, or of stdin for -; as text, whatever bytes it has.

    Of what is too much only so much is read that this can be told.
    """
    which = 0 if name == "-" else name
    try:
        with open(which, "rb", closefd=which != 0) as file:
            data = file.read(LONGEST_INPUT + 1)
    except OSError as error:
        raise UsageError(f"cannot read --stdin {name}: {error.strerror}") from None
    return data.decode("utf-8", "surrogateescape")


def refuse_unread(*, quiet: bool) -> None:
    """Refuse to go on if something waits on stdin that was meant for the job.

    If our parent has the same stdin, it may be the parent's; then it is said, unless `quiet`.
    """
    if not _waits():
        return
    if not _is_parents():
        raise UsageError(f"nothing was submitted: there is input on stdin, and {_HOW}")
    if not quiet:
        say(f"warning: there is input on stdin, which the job does not get: {_HOW}")


def _waits() -> bool:
    """Whether a pipe has something in it, or a file is there that nobody has begun to read."""
    try:
        seen = os.fstat(0)
        if stat.S_ISREG(seen.st_mode):
            return seen.st_size > 0 and os.lseek(0, 0, os.SEEK_CUR) == 0
        if stat.S_ISFIFO(seen.st_mode) or stat.S_ISSOCK(seen.st_mode):
            return _bytes_waiting() > 0
    except OSError:
        pass
    return False


def _bytes_waiting() -> int:
    from array import array
    from fcntl import ioctl
    from termios import FIONREAD

    found = array("i", [0])
    ioctl(0, FIONREAD, found)
    return found[0]


def _is_parents() -> bool:
    """Whether the process that has started us reads from the same place (where that is told)."""
    try:
        return os.path.samestat(Path(f"/proc/{os.getppid()}/fd/0").stat(), os.fstat(0))
    except OSError:
        return False
