"""What both storms need: processes as /proc shows them, harm that is counted, and an outsider.

Nothing here knows how headgate works inside. It knows how its processes look from outside: a
`headgate run`, a `headgate worker`, the process its runners are forked from, a runner, a program.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support import Box

OBSERVER = str(Path(__file__).with_name("observer.py"))
SHORTEST_STOP, LONGEST_STOP = 0.1, 5.0


class Process(NamedTuple):
    """A process at one moment."""

    pid: int
    parent: int
    session: int
    line: bytes
    """Its words, each with a zero byte after it."""


def processes(wanted: Callable[[bytes], bool]) -> dict[int, Process]:
    """The processes at this moment whose words are wanted; who waits to be reaped has none."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of times
        if name.isdigit() and wanted(line := contents(f"/proc/{name}/cmdline")):
            stat = contents(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if stat:
                found[int(name)] = Process(int(name), int(stat[1]), int(stat[3]), line)
    return found


def children(pid: int) -> list[Process]:
    return [it for it in processes(lambda _: True).values() if it.parent == pid]


def contents(path: str) -> bytes:
    """What is in a file of /proc; nothing if its process is gone."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - thousands of times
            return file.read()
    except OSError:
        return b""


def state(pid: int) -> str:
    """The letter by which the kernel says what a process does; T is stopped."""
    stat = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return stat[0].decode() if stat else "X"


def environment(pid: int) -> list[bytes]:
    """The environment that it was started with."""
    return contents(f"/proc/{pid}/environ").split(b"\0")


class Cast(NamedTuple):
    """Who takes part at one moment, by kind."""

    wrappers: list[int]
    waiters: list[int]
    programs: dict[int, Process]
    workers: list[int]
    servers: list[int]
    """The processes that runners are forked from."""
    runners: list[int]

    @property
    def kinds(self) -> dict[str, list[int]]:
        return {
            "wrapper": self.wrappers,
            "waiter": self.waiters,
            "program": sorted(self.programs),
            "worker": self.workers,
            "server": self.servers,
            "runner": self.runners,
        }


def cast(box: Box, serial: str, program: Callable[[bytes], bool]) -> Cast:
    """Find them: programs by their command, each `headgate run` by the serial in its own."""
    there = processes(lambda line: b"/headgate\0" in line or program(line))
    store = f"HEADGATE_STORE={box.url}".encode()
    programs = {pid: it for pid, it in there.items() if program(it.line)}
    parents = {it.parent for it in programs.values()}
    runs = [
        pid for pid, it in there.items()
        if b"/headgate\0run\0" in it.line and serial.encode() in it.line
    ]  # fmt: skip
    work = {
        pid: it for pid, it in there.items()
        if b"/headgate\0worker\0" in it.line and store in environment(pid)
    }  # fmt: skip
    leaders = {pid for pid, it in work.items() if it.session == pid}
    servers = {pid for pid in leaders - parents if work[pid].parent in work.keys() - leaders}
    return Cast(
        wrappers=sorted(pid for pid in runs if pid in parents),
        waiters=sorted(pid for pid in runs if pid not in parents),
        programs=programs,
        workers=sorted(work.keys() - leaders),
        servers=sorted(servers),
        runners=sorted(leaders - servers),
    )


class Harm:
    """Kills, stops and removals, each counted; whoever is stopped is continued in time.

    A thread sees to that: one who was stopped with the store's lock would otherwise keep it for as
    long as the storm itself waits for an answer.
    """

    def __init__(self, box: Box, dice: random.Random) -> None:
        self.box = box
        self.dice = dice
        self.kills: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.removals: Counter[str] = Counter()
        self._stopped: list[tuple[float, int]] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._keep_time, daemon=True).start()

    def _keep_time(self) -> None:
        while not self._over.wait(0.02):
            self.go_on()

    def close(self) -> None:
        """Stop nobody from now on, and continue all who are stopped."""
        self._over.set()
        self.go_on(everyone=True)

    def kill(self, kind: str, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills[kind] += 1

    def stop(self, kind: str, pid: int, seconds: float | None = None) -> None:
        """Stop a process, for some seconds if none are said."""
        if seconds is None:
            seconds = self.dice.uniform(SHORTEST_STOP, LONGEST_STOP)
        with suppress(ProcessLookupError), self._lock:
            handle = os.pidfd_open(pid)
            self._stopped.append((time.monotonic() + seconds, handle))
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
            self.stops[kind] += 1

    def go_on(self, *, everyone: bool = False) -> None:
        """Continue those whose time is over."""
        now = time.monotonic()
        with self._lock:
            for it in [*self._stopped]:
                due, handle = it
                if everyone or due <= now:
                    self._stopped.remove(it)
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, signal.SIGCONT)
                    os.close(handle)

    def remove(self) -> None:
        """Remove the folder with the members' pipes, or one of them, or several."""
        folder = self.box.members
        what = self.dice.choice(["folder", "file", "files"])
        if what == "folder":
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with suppress(OSError):
                files = sorted(folder.iterdir())
                count = 1 if what == "file" else len(files) // 2
                for path in self.dice.sample(files, min(count, len(files))):
                    path.unlink(missing_ok=True)
        self.removals[what] += 1

    def told(self) -> str:
        def list_of(counts: Counter[str]) -> str:
            return ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)) or "none"

        return (
            f"{self.kills.total()} kills ({list_of(self.kills)}); "
            f"{self.stops.total()} stops ({list_of(self.stops)}); "
            f"{self.removals.total()} removals ({list_of(self.removals)})"
        )


def stopped_in_a_transaction(box: Box, pid: int) -> bool:
    """Whether it holds the store's lock: by the kernel's own list."""
    inodes = {
        str(path.stat().st_ino) for path in box.folder.glob(f"{box.path.name}*") if path.is_file()
    }
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if "WRITE" in words and str(pid) in words:
            place = next((word for word in words if word.count(":") == 2), "")
            if place.rpartition(":")[2] in inodes:
                return True
    return False


class Outsider:
    """The observer, and what it has seen: how many programs of each name there were at once."""

    def __init__(self, box: Box, naps: Mapping[str, str]) -> None:
        words = [f"{name}={nap}" for name, nap in naps.items()]
        self.names = list(naps)
        self.log = box.folder / "seen"
        with self.log.open("wb") as out:
            self.program = box.start(
                sys.executable, "-I", "-S", OBSERVER, *words, stdout=out, stdin=subprocess.DEVNULL
            )

    def last(self) -> dict[str, float]:
        """The latest look."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - 2000))
            lines = file.read().split(b"\n")
        latest: dict[str, float] = json.loads(lines[-2]) if len(lines) > 2 else {}
        return latest

    def count(self) -> float:
        """How many programs there were at the latest look."""
        look = self.last()
        return sum(look.get(name, 0) for name in self.names)

    def seen(self) -> list[dict[str, float]]:
        *lines, _ = self.log.read_text().split("\n")
        return [json.loads(line) for line in lines]


def left(box: Box, besides: int) -> list[bytes]:
    """The commands of this box's processes that still live, but for one."""
    mine = {*box.strays()} - {besides}
    return [it.line for pid, it in processes(bool).items() if pid in mine]
