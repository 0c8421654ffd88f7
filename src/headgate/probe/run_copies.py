"""Some copies of a command at once: how long they took, what they took, how they ended.

Each copy is a session of its own without input. Its output is read for refusals, and forgotten.
What it has started is ended with it: found among our own children, for we inherit all that lose
their parents; where the system cannot do that, by its session.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from headgate.core.answers.classify import classify_line
from headgate.core.answers.signals import REFUSALS
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.gate.liveness.process_marks import end, family
from headgate.probe.search import Copy, Round
from headgate.runner.child import become_subreaper

_UNIT = 1_024 if os.uname().sysname == "Linux" else 1
"""In what the system counts the most memory that a process has taken."""
_EVERY = Seconds(0.1)
_GRACE = Seconds(2)
_LONGEST_LINE = 8_192


class Bounds(NamedTuple):
    """When copies are ended, and how often memory is looked at."""

    timeout: Seconds
    alarm: Callable[[], str] = str
    """Why all of it is to be broken off now; empty while it is not."""


class _Running:
    """One copy while it runs."""

    def __init__(self, argv: list[str]) -> None:
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.memory = 0
        self.seconds = Seconds(0)
        self.cpu = Seconds(0)
        self.code: int | None = None
        self.ended = False
        self.refused = ""
        self._rest = b""
        if self.process.stdout is not None:
            os.set_blocking(self.process.stdout.fileno(), False)

    def hear(self) -> None:
        """Take in what it wrote; only whether it was refused is kept."""
        pipe = self.process.stdout
        if pipe is None or pipe.closed:
            return
        for _ in range(64):
            try:
                piece = os.read(pipe.fileno(), 65_536)
            except OSError:
                return
            if not piece:
                pipe.close()
                break
            *lines, rest = (self._rest + piece).split(b"\n")
            self._rest = rest[-_LONGEST_LINE:]
            for line in lines:
                self._judge(line)

    def _judge(self, line: bytes) -> None:
        said = classify_line(line[:_LONGEST_LINE].decode("utf-8", "replace"))
        if said is not None and said.kind in REFUSALS:
            self.refused = said.kind

    def reap(self, own: int) -> bool:
        """Whether it has ended; if so, note how. `own` is what we take ourselves, in bytes."""
        if self.ended:
            return True
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if not pid:
            return False
        self.ended = True
        self.seconds = Seconds(time.monotonic() - self.begun)
        self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = Seconds(usage.ru_utime + usage.ru_stime)
        largest = usage.ru_maxrss * _UNIT
        if largest > own * 1.2:  # what we took at most counts as its own too, by its start
            self.memory = max(self.memory, largest)
        return True

    def result(self) -> Copy:
        """How it ended."""
        self.hear()
        self._judge(self._rest)
        return Copy(
            seconds=self.seconds,
            memory=self.memory,
            cpu=self.cpu,
            code=self.code,
            refused=self.refused if self.code != 0 else "",
        )

    def close(self) -> None:
        """Let go of what is left of it."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        if not self.ended:
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.process.returncode = -signal.SIGKILL


def run_round(argv: list[str], count: int, bounds: Bounds) -> Round:
    """Run so many copies at once until all have ended; nothing of them is left behind."""
    adopts = become_subreaper()
    before = family(os.getpid())
    copies: list[_Running] = []
    begun = time.monotonic()
    peak, stopped = 0, ""
    try:
        try:
            while len(copies) < count:
                copies.append(_Running(argv))
        except OSError as error:
            if not copies:
                raise
            stopped = f"no more than {len(copies)} could be started: {error.strerror}"
        if not stopped:
            peak, stopped = _watch_copies(copies, bounds)
        wall = Seconds(time.monotonic() - begun)
    finally:
        with _Undisturbed():
            end(lambda: _left(before, copies, adopts=adopts), _GRACE)
            for copy in copies:
                copy.close()
    return Round(tuple(copy.result() for copy in copies), wall, peak, stopped)


def _watch_copies(copies: list[_Running], bounds: Bounds) -> tuple[int, str]:
    """Look after copies until they have ended or are to be ended."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    deadline = time.monotonic() + bounds.timeout
    peak, look_at, pause = 0, 0.0, 0.005
    while True:
        for copy in copies:
            copy.hear()
        ended = [copy.reap(own) for copy in copies]
        if all(ended):
            return peak, ""
        now = time.monotonic()
        if now >= look_at:
            peak = max(peak, _measure(copies))
            look_at = time.monotonic() + max(_EVERY, (time.monotonic() - now) * 5)
            if why := bounds.alarm():
                return peak, why
        if now >= deadline:
            for copy in copies:
                copy.seconds = copy.seconds or bounds.timeout
            return peak, ""
        time.sleep(pause)
        pause = min(0.05, pause * 1.2)


def _measure(copies: list[_Running]) -> int:
    """Note what each copy takes with all it has started; returns what they take together."""
    taken = {copy.pid: 0 for copy in copies}
    owner = {copy.pid: copy.pid for copy in copies}
    with suppress(psutil.Error):
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, OSError):
                session = os.getsid(process.pid)
                mine = session if session in taken else owner.get(process.ppid())
                if mine is not None:
                    owner[process.pid] = mine
                    taken[mine] += _memory(process)
    for copy in copies:
        copy.memory = max(copy.memory, taken[copy.pid])
    return sum(taken.values())


def _memory(process: psutil.Process) -> int:
    """What a process takes, with its share of what it shares, where the system tells."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_bytes()
        for line in text.split(b"\n"):
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1_024
    except (OSError, ValueError, IndexError):
        pass
    return process.memory_info().rss


def _left(before: set[int], copies: list[_Running], *, adopts: bool) -> set[int]:
    """What still runs of the copies."""
    for copy in copies:
        if not copy.ended:
            _reap(copy)
    found = family(os.getpid()) - before - {os.getpid()}
    sessions = set() if adopts else {copy.pid for copy in copies}
    for pid in psutil.pids() if sessions else ():
        with suppress(OSError):
            if os.getsid(pid) in sessions and not _is_dead(pid):
                found.add(pid)
    return found


def _reap(copy: _Running) -> None:
    """Take in a copy that we have ended: it has no code of its own."""
    with suppress(ChildProcessError):
        pid, _, usage = os.wait4(copy.pid, os.WNOHANG)
        if pid:
            copy.ended, copy.process.returncode = True, -signal.SIGKILL
            copy.seconds = copy.seconds or Seconds(time.monotonic() - copy.begun)
            copy.cpu = Seconds(usage.ru_utime + usage.ru_stime)


def _is_dead(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


class _Undisturbed:
    """Holds off Ctrl-C and its like while we tidy up."""

    _HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._HELD)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
