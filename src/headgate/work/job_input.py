"""What a job was handed in to read, as an open file without a name."""

import os


def open_input(text: str) -> int:
    """A descriptor from which a program reads it, from its beginning."""
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
