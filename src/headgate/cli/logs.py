"""The output of a job: all of its last attempt, or as it comes."""

import os
import re
import sys
import time
from argparse import ArgumentParser, Namespace

from headgate.cli.queue import whole
from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import find_id, open_anyway, say
from headgate.core.jobs.states import ENDED
from headgate.core.printable_text import plain
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.work.read_output import open_output, output_path, parts, start_of_last

_CHUNK = 256 * 1024
_LONGEST_SEQUENCE = 256
_LONGEST_EVENT = 4 * 1024 * 1024
_BEGUN = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)|\r)\Z")
"""What may go on in the next part: a sequence that steers a terminal, the end of a line."""
_LOOK = Seconds(0.1)


def arguments(parser: ArgumentParser) -> None:
    """What `logs` takes."""
    parser.add_argument("id", metavar="ID", help="its id, or the name of a job")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job has ended, or Ctrl-C"
    )
    parser.add_argument("-n", metavar="N", dest="lines", help="only the last N lines")
    parser.add_argument("--attempt", metavar="N", help="the output of this attempt (the last)")
    parser.add_argument(
        "--raw", action="store_true", help="as it was written; a terminal is shown events as text"
    )
    parser.add_argument("--path", action="store_true", help="print the path of the file instead")


def run(args: Namespace) -> int:
    """Copy the log to stdout."""
    lines = None if args.lines is None else whole(args.lines, "-n", least=0)
    attempt = None if args.attempt is None else whole(args.attempt, "--attempt")
    if attempt is not None and args.follow:
        raise UsageError("-f follows the last attempt; use it without --attempt")
    with open_anyway(args) as gate:
        id = find_id(gate, args.id)
        job = gate.jobs.status(id)
        if args.follow and not args.path:
            return _follow(gate, id, lines, _output(raw=args.raw))
        if not job.attempts:
            raise UsageError(f"job {id} has not been started yet: it is {job.state}")
        if attempt is not None and attempt > job.attempts:
            raise UsageError(f"job {id} has no attempt {attempt}, its last is {job.attempts}")
        path = output_path(gate, id, attempt or job.attempts)
        if args.path:
            terminal.show_path(path)
            return 0
        fd = open_output(id, path)
        try:
            out = _output(raw=args.raw)
            _copy(fd, start_of_last(fd, lines), out)
            out.end()
        finally:
            os.close(fd)
    return 0


class _Exact:
    """Writes what a program reads: to the byte."""

    def write(self, data: bytes) -> None:
        """Write some of it."""
        sys.stdout.buffer.write(data)

    def end(self) -> None:
        """Nothing was kept back."""


class _Plain:
    """Writes what a person reads on a terminal: nothing in it steers the terminal."""

    def __init__(self) -> None:
        from codecs import getincrementaldecoder

        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, data: bytes) -> None:
        """Write some of it. A sequence that goes on in the next part is kept until then."""
        self._show(self._decoder.decode(data))

    def end(self) -> None:
        """Write what was kept back."""

    def _show(self, text: str) -> None:
        text = self._rest + text
        begun = _BEGUN.search(text, max(0, len(text) - _LONGEST_SEQUENCE))
        at = begun.start() if begun else len(text)
        text, self._rest = text[:at], text[at:]
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(plain(text).encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()


class _Readable(_Plain):
    """The same, with the events of agents as lines that people read."""

    def __init__(self) -> None:
        super().__init__()
        self._line = ""

    def write(self, data: bytes) -> None:
        """Write some of it. What may be an event is kept back until its line has ended."""
        *lines, last = (self._line + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._show(self._said(line))
        self._line = last
        if not last.lstrip().startswith("{") or len(last) > _LONGEST_EVENT:
            self._line = ""
            self._show(last)

    def end(self) -> None:
        """Write the last line, if it was an event without an end."""
        if self._line:
            self._show(self._said(self._line))
            self._line = ""

    @staticmethod
    def _said(line: str) -> str:
        from headgate.core.agents.readable_events import readable

        said = readable(line)
        return f"{line}\n" if said is None else "".join(f"{one}\n" for one in said)


def _output(*, raw: bool = False) -> _Exact | _Plain:
    if not sys.stdout.isatty():
        return _Exact()
    return _Plain() if raw else _Readable()


def _copy(fd: int, at: int, out: _Exact | _Plain) -> int:
    """Copy a file from a position on, without the part that was given back; where it ended."""
    size = os.fstat(fd).st_size
    last = b"\n"
    for start, end in parts(fd, at, size):
        if start > at:
            out.write(b"" if last == b"\n" else b"\n")
            sys.stdout.buffer.flush()
            say(f"{start - at} bytes are left out here: the log had become too large")
        at = start
        while at < end and (more := os.pread(fd, min(_CHUNK, end - at), at)):
            out.write(more)
            at += len(more)
            last = more[-1:]
    sys.stdout.buffer.flush()
    return at


def _follow(gate: Gate, id: int, lines: int | None, out: _Exact | _Plain) -> int:
    """Copy what comes, over all attempts, until the job has ended."""
    fd, shown, at = -1, 0, 0
    command = gate.jobs.command(id)
    if command and (hint := gate.silence_hint(command)):
        say(hint)
    try:
        while True:
            job = gate.jobs.status(id)
            for number in range(shown + 1 if shown else job.attempts, job.attempts + 1):
                if not os.path.lexists(path := output_path(gate, id, number)):
                    continue
                if fd >= 0:
                    _copy(fd, at, out)
                    os.close(fd)
                    say(f"attempt {number}")
                fd = open_output(id, path)
                at, shown = 0 if shown else start_of_last(fd, lines), number
            if fd >= 0:
                at = _copy(fd, at, out)
            if job.state in ENDED:
                out.end()
                say(f"job {id} is {job.state}: {job.reason}")
                return 0
            time.sleep(_LOOK)
    finally:
        if fd >= 0:
            os.close(fd)
