"""The output of a job, as it is read by those who want to see it: from which byte on, and where."""

import os
from collections.abc import Iterator
from pathlib import Path

from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.work.log_file import log_path, read_log

CHUNK = 256 * 1024


def open_output(id: int, path: Path) -> int:
    """Open the output of an attempt of a job."""
    try:
        return read_log(path)
    except FileNotFoundError:
        raise UsageError(f"the log of job {id} is gone: {path}") from None
    except OSError as error:
        raise UsageError(f"the log of job {id} cannot be read: {path}: {error.strerror}") from None


def output_path(gate: Gate, id: int, attempt: int) -> Path:
    """Where it is."""
    return log_path(gate.jobs.folder, id, attempt)


def parts(fd: int, at: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file has something in it, from a position on."""
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            end = min(size, os.lseek(fd, start, os.SEEK_HOLE))
        except AttributeError:  # a system that knows no holes
            start, end = at, size
        except OSError:  # nothing but a hole is left
            return
        yield start, end
        at = end


def start_of_last(fd: int, lines: int | None) -> int:
    """Where to begin so that the last so many lines are shown, or all of them."""
    if lines is None:
        return 0
    size = os.fstat(fd).st_size
    if not lines or not size:
        return size
    breaks = lines + (os.pread(fd, 1, size - 1) == b"\n")
    for start, end in reversed(list(parts(fd, 0, size))):
        at = end
        while at > start:
            first = max(start, at - CHUNK)
            data = os.pread(fd, at - first, first)
            here = data.count(b"\n")
            if here >= breaks:
                index = len(data)
                for _ in range(breaks):
                    index = data.rfind(b"\n", 0, index)
                return first + index + 1
            breaks -= here
            at = first
    return 0
