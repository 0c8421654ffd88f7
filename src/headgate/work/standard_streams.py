"""What a runner and its program read and write: what the job was handed in, and its log."""

import os
from pathlib import Path

from headgate.work.log_file import open_log


def redirect(log: int, path: Path) -> None:
    """What this process and its program write goes to the log from now on."""
    nothing, errors = os.open(os.devnull, os.O_RDONLY), open_log(path)
    for fd, place in ((nothing, 0), (log, 1), (errors, 2)):
        os.dup2(fd, place)
    os.close(nothing)
    os.close(errors)


def hand_in(text: str) -> None:
    """What this process and its program read: what was handed in with the job."""
    source = _open_text(text)
    os.dup2(source, 0)
    os.close(source)


def _open_text(text: str) -> int:
    """A descriptor from which a program reads a text, from its beginning."""
    data = text.encode("utf-8", "surrogateescape")
    fd = _nameless_file()
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stdin")
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        return os.dup(file.fileno())
