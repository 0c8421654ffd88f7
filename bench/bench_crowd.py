"""Many processes that wait for one seat: what they cost, and how fast the seat is handed over.

The baseline is as many Python processes that wait for one file lock, and do nothing else.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from common import Figure, folder

from headgate import Gate

KEY = "anthropic/claude-opus-4-6"
LIMITS = f"{KEY}=1,host=100000"
PROGRAM = "date +%s%N; sleep 0.02; date +%s%N"
"""Tells when it began and when it ended."""
LOCKED = """
import fcntl, subprocess, sys
with open(sys.argv[1]) as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    subprocess.run(sys.argv[2:])
"""
AT_ONCE = 16
"""How many are started before the next have to wait for them."""


class Crowd:
    """Processes that wait, and the file into which their programs write when they run."""

    def __init__(self, here: Path, name: str, argv: list[str]) -> None:
        self.log = here / f"{name}.log"
        self.argv = argv
        self.all: list[subprocess.Popen[bytes]] = []

    def grow(self, number: int, waiting: Callable[[], int]) -> None:
        """Start so many, not too many at once."""
        while len(self.all) < number:
            with self.log.open("ab") as log:
                some = range(min(AT_ONCE, number - len(self.all)))
                self.all += [_start(self.argv, stdout=log) for _ in some]
            while waiting() < len(self.all):
                time.sleep(0.02)

    def idle(self, seconds: float) -> float:
        """Which share of one core they use together."""
        before = sum(_used(one.pid) for one in self.all)
        time.sleep(seconds)
        return (sum(_used(one.pid) for one in self.all) - before) / seconds

    def own(self) -> float:
        """Megabytes that one of them shares with nobody."""
        return statistics.median(_private(one.pid) for one in self.all[-20:]) / 1e6

    def hand_over(self, number: int, patience: float) -> list[float]:
        """Seconds from the end of one program to the start of the next, in order."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if len(self.log.read_text().splitlines()) >= 2 * number:
                break
            time.sleep(0.05)
        times = [int(line) / 1e9 for line in self.log.read_text().splitlines()]
        ends, starts = times[1:-1:2], times[2::2]
        return sorted(start - end for end, start in zip(ends, starts, strict=False))

    def end(self) -> None:
        """Leave none behind, nor any program of theirs."""
        for one in self.all:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        for one in self.all:
            one.wait()


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """A small and a large crowd."""
    for number in (6,) if tiny else (300, 1_000):
        yield from _measure(number, quiet=0.2 if tiny else 20.0, turns=min(number - 1, 200))


def _measure(number: int, quiet: float, turns: int) -> Iterator[Figure]:
    with folder() as here:
        bare = _locked(here, number, quiet, turns)
        url = f"sqlite://{here / 'crowd.db'}"
        os.environ |= {"HEADGATE_STORE": url, "HEADGATE_LIMITS": LIMITS}
        headgate = str(Path(sys.executable).with_name("headgate"))
        run = [headgate, "run", "-m", KEY, "--"]
        crowd = Crowd(here, "ours", [*run, "sh", "-c", PROGRAM])
        with Gate.open(url) as gate:
            holder = _start([*run, "cat"], stdin=subprocess.PIPE)
            try:
                while not gate.queue(most=1).running:
                    time.sleep(0.02)
                crowd.grow(number, lambda: gate.queue(most=1).total_waiting)
                time.sleep(min(3.0, quiet))  # until they have loaded all that they load
                share, own = crowd.idle(quiet), crowd.own()
                queue = statistics.median(_takes([headgate, "queue"]) for _ in range(3))
                holder.communicate()
                gaps = crowd.hand_over(turns, patience=60)
            finally:
                holder.kill()
                crowd.end()
    yield (
        f"{number} waiting: all together, idle; as many in flock() {bare[0]:.1%}",
        f"{share:.1%}",
        "<= 5%",
    )
    yield (
        f"{number} waiting: hand-over, {len(gaps)} of them: p50; flock() {_ms(bare[2], 0.5)}",
        _ms(gaps, 0.5),
        "",
    )
    yield f"{number} waiting: p99; flock() {_ms(bare[2], 0.99)}", _ms(gaps, 0.99), "<= 100 ms"
    yield (
        f"{number} waiting: own memory of one; a bare Python {bare[1]:.1f} MB",
        f"{own:.1f} MB",
        "<= 8 MB",
    )
    yield f"{number} waiting: headgate queue", f"{queue:.2f} s", "<= 1 s"


def _locked(here: Path, number: int, quiet: float, turns: int) -> tuple[float, float, list[float]]:
    """The same of a crowd in flock(): its share of a core, the memory of one, the hand-overs."""
    lock = here / "lock"
    lock.touch()
    argv = [sys.executable, "-c", LOCKED, str(lock), "sh", "-c", PROGRAM]
    crowd = Crowd(here, "bare", argv)
    holder = _start([sys.executable, "-c", LOCKED, str(lock), "cat"], stdin=subprocess.PIPE)
    try:
        time.sleep(0.5)
        crowd.grow(number, _blocked)
        share, own = crowd.idle(quiet), crowd.own()
        holder.communicate()
        gaps = crowd.hand_over(turns, patience=60)
    finally:
        holder.kill()
        crowd.end()
    return share, own, gaps


def _start(argv: list[str], **pipes: object) -> subprocess.Popen[bytes]:
    null = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen(argv, **{**null, **pipes})  # type: ignore[call-overload, no-any-return]


def _takes(argv: list[str]) -> float:
    begun = time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def _used(pid: int) -> float:
    """Seconds of processor that a process has used, with all its threads that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _private(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def _blocked() -> int:
    """How many processes wait for a lock of this kind."""
    return sum(" -> FLOCK " in line for line in Path("/proc/locks").read_text().splitlines())


def _ms(sorted_seconds: list[float], share: float) -> str:
    if not sorted_seconds:
        return "none"
    return f"{sorted_seconds[int(len(sorted_seconds) * share)] * 1000:.0f} ms"
