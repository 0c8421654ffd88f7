"""The output of a job: all of its last attempt, or as it comes."""

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headgate.cli.common import open_anyway, parse_id, say
from headgate.cli.queue import whole
from headgate.core.jobs import ENDED
from headgate.errors import UsageError
from headgate.gate import Gate

_CHUNK = 256 * 1024
_LOOK = 0.1


def arguments(parser: ArgumentParser) -> None:
    """What `logs` takes."""
    parser.add_argument("id", metavar="ID", help="as printed by headgate submit")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job has ended, or Ctrl-C"
    )
    parser.add_argument("-n", metavar="N", dest="lines", help="only the last N lines")
    parser.add_argument("--attempt", metavar="N", help="of this attempt (the last)")
    parser.add_argument("--path", action="store_true", help="print where the file is, and no more")


def run(args: Namespace) -> int:
    """Copy the log to stdout."""
    id = parse_id(args.id)
    with open_anyway(args) as gate:
        job = gate.jobs.status(id)
        attempt = job.attempts if args.attempt is None else whole(args.attempt, "--attempt")
        if not attempt and not args.follow:
            raise UsageError(f"job {id} has not been started yet: it is {job.state}")
        if attempt > max(1, job.attempts):
            raise UsageError(f"job {id} has had {job.attempts} attempts, not {attempt}")
        if args.path:
            print(_path(gate, id, attempt))
            return 0
        if args.follow:
            return _follow(gate, id, args)
        path = _path(gate, id, attempt)
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise UsageError(f"the log of job {id} is gone: {path}") from None
        try:
            start = 0 if args.lines is None else _tail(fd, whole(args.lines, "-n", least=0))
            _copy(fd, start)
        finally:
            os.close(fd)
    return 0


def _path(gate: Gate, id: int, attempt: int) -> Path:
    from headgate.work.output import log_path

    return log_path(gate.jobs.folder, id, attempt)


def _copy(fd: int, at: int) -> int:
    """Copy a file from a position on, without the part that was given back; where it ended."""
    size = os.fstat(fd).st_size
    while at < size:
        at = _data(fd, at)
        more = os.pread(fd, _CHUNK, at)
        if not more:
            break
        sys.stdout.buffer.write(more)
        at += len(more)
    sys.stdout.buffer.flush()
    return at


def _data(fd: int, at: int) -> int:
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except (OSError, AttributeError):  # nothing but holes, or a file system without any
        return at


def _tail(fd: int, lines: int) -> int:
    """Where the last so many lines begin."""
    at = os.fstat(fd).st_size
    found = 0 if at and os.pread(fd, 1, at - 1) != b"\n" else -1
    while at > 0:
        start = max(0, at - _CHUNK)
        data = os.pread(fd, at - start, start)
        for index in range(len(data) - 1, -1, -1):
            if data[index] == 10:
                found += 1
                if found >= lines:
                    return start + index + 1
        at = start
    return 0


def _follow(gate: Gate, id: int, args: Namespace) -> int:
    """Copy what comes, over all attempts, until the job has ended."""
    fd, shown, at = -1, 0, 0
    try:
        while True:
            job = gate.jobs.status(id)
            if job.attempts > shown and (path := _path(gate, id, job.attempts)).exists():
                if fd >= 0:
                    _copy(fd, at)
                    os.close(fd)
                    say(f"attempt {job.attempts}")
                fd, shown = os.open(path, os.O_RDONLY), job.attempts
                at = 0 if args.lines is None else _tail(fd, whole(args.lines, "-n", least=0))
            if fd >= 0:
                at = _copy(fd, at)
            if job.state in ENDED:
                say(f"job {id} is {job.state}: {job.reason}")
                return 0
            time.sleep(_LOOK)
    finally:
        if fd >= 0:
            os.close(fd)
