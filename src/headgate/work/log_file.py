"""The log of an attempt: the program writes it by itself, we read it as it grows.

There is no pipe in between that could break or fill up. Its stdout and its stderr are one file that
was opened twice: where each was written to last tells whose the latest lines are.

When a log becomes larger than allowed, its middle is given back to the file system: the beginning
and the latest part stay, and so do all positions in the file.
"""

import errno
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from headgate.core.agents.agent_watch import fit_to_show
from headgate.store.trusted_paths import open_as_its_folder

_CHUNK = 1024 * 1024
_TAIL = 64 * 1024
_LONGEST_LINE = 64 * 1024
_HEAD = 64 * 1024
_BLOCK = 4096
_BREAK = re.compile(rb"[\r\n]+")
_PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def log_path(folder: Path, job: int, attempt: int) -> Path:
    """Where an attempt's output is."""
    return folder / f"{job}.{attempt}.log"


def open_log(path: Path) -> int:
    """Open a log for a program to write to; everything goes to its end, whoever writes.

    It is a file of this name and no other: not what a link leads to, and no pipe or device.
    """
    fd = _open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if os.fstat(fd).st_nlink > 1:
        os.close(fd)
        raise OSError(errno.EMLINK, "the file has another name too", str(path))
    with suppress(PermissionError):  # another user has made it, in a shared store
        open_as_its_folder(fd, path.parent)
    return fd


def read_log(path: Path) -> int:
    """Open a log for reading, under the same conditions."""
    return _open_file(path, os.O_RDONLY)


def _open_file(path: Path, flags: int) -> int:
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:  # whose own words are "Too many levels of symbolic links"
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    os.set_blocking(fd, True)
    return fd


class Tail:
    """Reads the lines that a growing file gets: its beginning, and then as much as one can.

    Of a line that is too long only its beginning is given; one whose beginning was left out is not.
    """

    def __init__(self, path: Path) -> None:
        self._fd = read_log(path)
        self._at = 0
        self._from = 0
        self._rest = b""
        self._skipping = False
        self._put_back: list[str] = []

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def size(self) -> int:
        """How long the file is."""
        return os.fstat(self._fd).st_size

    def lines(self, *, to_end: bool = False) -> list[str]:
        """The lines since last time; at the end also one that was not completed."""
        again, self._put_back = self._put_back, []
        if not again:
            return self._new_lines(to_end=to_end)
        if not to_end:
            return again
        since = self._from
        more = self._new_lines(to_end=True)
        self._from = min(since, self._from)
        return [*again, *more]

    def put_back(self, lines: list[str]) -> None:
        """Have lines read again next time, before any others."""
        self._put_back = lines

    def _new_lines(self, *, to_end: bool) -> list[str]:
        size = self.size()
        if size < self._at:  # somebody has emptied it
            self._at, self._rest, self._skipping = 0, b"", False
        found: list[bytes] = []
        self._from = self._at - len(self._rest)
        if size - self._at > _CHUNK:  # more than anyone reads at once: go on with the latest
            if not self._at:
                found += self._read(_HEAD)
            self._at, self._rest, self._skipping = size - _CHUNK, b"", True
        found += self._read(_CHUNK)
        if to_end and self._rest:
            found.append(self._rest)
            self._rest = b""
        return [line.decode("utf-8", "replace") for line in found if line]

    def _read(self, most: int) -> list[bytes]:
        more = os.pread(self._fd, most, self._at)
        self._at += len(more)
        *complete, rest = _BREAK.split(self._rest + more)
        if self._skipping and complete:
            complete.pop(0)
            self._skipping = False
        if self._skipping:
            rest = b""
        elif len(rest) > _LONGEST_LINE:
            complete.append(rest)
            rest, self._skipping = b"", True
        self._rest = rest
        return complete

    def only_by(self, writer: int, other: int) -> bool:
        """Whether the last lines were surely written through one descriptor alone, not the other.

        Each must have been opened by itself to append to this file: then its position is where its
        last write ended. A program that writes past them both leaves that open.
        """
        there, elsewhere = (os.lseek(fd, 0, os.SEEK_CUR) for fd in (writer, other))
        return elsewhere <= self._from and there >= self._at


def trim(fd: int, most: int) -> bool:
    """Give the middle of a log back to the file system if it takes more room than allowed."""
    seen = os.fstat(fd)
    if seen.st_blocks * 512 <= most + most // 4:
        return False
    start, end = (
        min(_HEAD, most // 4) // _BLOCK * _BLOCK,
        (seen.st_size - most // 2) // _BLOCK * _BLOCK,
    )
    if end <= start:
        return False
    if not _punch(fd, start, end - start):
        os.ftruncate(fd, 0)
        with suppress(OSError):
            os.write(fd, b"headgate: the log was too large, and begins anew here\n")
    return True


def _punch(fd: int, start: int, length: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    offset, size = ctypes.c_longlong(start), ctypes.c_longlong(length)
    return bool(libc.fallocate64(fd, _PUNCH, offset, size) == 0)


def last_line(path: Path) -> str:
    """The last line that says something, for people; empty if there is none."""
    try:
        with open(read_log(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8192))
            data = file.read()
    except OSError:
        return ""
    lines = [line for line in _BREAK.split(data) if line.strip(b" \t\0")]
    return fit_to_show(lines[-1].decode("utf-8", "replace")) if lines else ""


def last_words(path: Path) -> str:
    """The last line that says something to people: of an agent's events, what they say."""
    from headgate.core.agents.readable_events import readable

    try:
        with open(read_log(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            data = file.read()
    except OSError:
        return ""
    for line in reversed(_BREAK.split(data)):
        text = line.decode("utf-8", "replace")
        said = readable(text) if line.strip(b" \t\0") else []
        shown = [text] if said is None else said
        if words := next((one for one in reversed(shown) if one.strip()), ""):
            return fit_to_show(words)
    return ""


def remove(folder: Path, job: int) -> None:
    """Remove the logs of a job that is forgotten."""
    for path in folder.glob(f"{job}.*.log"):
        path.unlink(missing_ok=True)
