"""A private store for one test, and every process started around it."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypedDict, TypeVar, Unpack

import apsw

from headgate import Gate, PoolStatus

HEADGATE = str(Path(sys.executable).with_name("headgate"))
LONG = 20.0
"""Seconds after which a test gives up on something that takes milliseconds on an idle machine."""
PRIVATE = ("STATE", "CONFIG", "CACHE", "DATA")
UNSET = ("HEADGATE_LIMITS", "HEADGATE_LEASE", "HEADGATE_TASK", "HEADGATE_CONFIG")
STEADY = '[defaults]\nadapt = "off"\n'
"""For tests that are not about learning: limits stay, and freed seats are free at once."""
TICKET_SHAPED = ("ticket", "lease", "lane", "stretch", "member")

T = TypeVar("T")


def until(what: Callable[[], T], *, within: float = LONG) -> T:
    """Look until it is true; for what other processes do to the store and tell nobody about."""
    deadline = time.monotonic() + within
    while not (found := what()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {found!r} after {within:g}s")
        time.sleep(0.01)
    return found


async def until_async(what: Callable[[], object]) -> None:
    """The same without stopping an event loop."""
    while not what():  # noqa: ASYNC110 - nobody announces it
        await asyncio.sleep(0.002)


def pool_of(gate: Gate, name: str) -> PoolStatus:
    """One pool at this moment."""
    return next(pool for pool in gate.status().pools if pool.pool == name)


class Options(TypedDict, total=False):
    """What a started program may be given."""

    process_group: int

    env: Mapping[str, str]
    stdin: int | IO[bytes]
    stdout: int | IO[bytes]
    stderr: int | IO[bytes]
    pass_fds: Sequence[int]
    start_new_session: bool


class Program:
    """A started process. Its lines can be awaited; it does not outlive its test."""

    def __init__(self, argv: list[str], **options: Unpack[Options]) -> None:
        piped: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process: subprocess.Popen[bytes] = subprocess.Popen(argv, **{**piped, **options})
        self.pid = self.process.pid
        self._lines: dict[int, bytes] = {}

    def line(self, *, within: float = LONG, stream: str = "stdout") -> str:
        """The next line it writes; empty at the end."""
        pipe: IO[bytes] = getattr(self.process, stream)
        fd = pipe.fileno()
        deadline = time.monotonic() + within
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        rest = self._lines.get(fd, b"")
        while b"\n" not in rest:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise AssertionError(f"no line on {stream} within {within:g}s, only {rest!r}")
            more = os.read(fd, 65536)
            if not more:
                break
            rest += more
        line, _, self._lines[fd] = rest.partition(b"\n")
        return line.decode(errors="replace")

    def silent(self, *, stream: str = "stdout", for_seconds: float = 0.0) -> bool:
        """Whether it has written nothing more so far."""
        try:
            self.line(within=for_seconds, stream=stream)
        except AssertionError:
            return True
        return False

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it as the out-of-memory killer would, and see it gone."""
        self.process.kill()
        self.process.wait(LONG)

    def go(self) -> None:
        """Let it read the end of its input."""
        if self.process.stdin:
            self.process.stdin.close()

    def end(self) -> int:
        """Let it read the end of its input, and wait for it."""
        self.go()
        return self.wait()

    def wait(self, within: float = LONG) -> int:
        return self.process.wait(within)

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        if self.alive():
            self.process.kill()
        self.process.wait(LONG)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                with suppress(OSError):  # what was still to be written has no reader any more
                    pipe.close()


class Box:
    """A folder with a store of its own; gates and programs that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "s.db"
        self.url = f"sqlite://{self.path}"
        self.members = folder / "s.db.members"
        self.env = {k: v for k, v in os.environ.items() if k not in UNSET}
        self.env["HEADGATE_STORE"] = self.url
        for name in PRIVATE:
            self.env[f"XDG_{name}_HOME"] = str(folder / f"xdg-{name.lower()}")
        self.pids: list[int] = []
        self.defaults = ""
        self._programs: list[Program] = []
        self._gates: list[Gate] = []

    def gate(self, *, limits: Mapping[str, int] | None = None) -> Gate:
        gate = Gate.open(self.url, limits=limits)
        self._gates.append(gate)
        return gate

    def start(self, *argv: str, **options: Unpack[Options]) -> Program:
        """Start any program in this box; `env` is put on top of the box's own."""
        options["env"] = {**self.env, **options.get("env", {})}
        program = Program(list(argv), **options)
        self._programs.append(program)
        return program

    def python(self, script: str, *argv: str, **options: Unpack[Options]) -> Program:
        """Start a Python script; it finds `gate` open."""
        head = "import os, sys, time, threading\nfrom headgate import *\ngate = Gate.open()\n"
        return self.start(sys.executable, "-u", "-c", head + script, *argv, **options)

    def run(self, *words: str, **options: Unpack[Options]) -> Program:
        """Start `headgate run`."""
        return self.start(HEADGATE, "run", *words, **options)

    def holder(self, key: str = "a/b", *words: str, **options: Unpack[Options]) -> Program:
        """A `headgate run` that has its seats, until its input ends."""
        program = self.run("-m", key, *words, "--", "sh", "-c", "echo up; exec cat", **options)
        assert program.line() == "up"
        return program

    def waiter(self, key: str = "a/b", *words: str, **options: Unpack[Options]) -> Program:
        """A `headgate run` that stands in line; says `up` when it gets in."""
        program = self.run("-m", key, *words, "--", "sh", "-c", "echo up; exec cat", **options)
        assert " waits, " in program.line(stream="stderr")
        return program

    def headgate(self, *words: str, within: float = LONG) -> str:
        """Run a verb to its end and return what it printed; it must succeed."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [HEADGATE, *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """A table, read by a connection of our own."""
        db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(10_000)
            return db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our own names
        finally:
            db.close()

    def events(self, kind: str) -> list[tuple[Any, ...]]:
        return [row for row in self.rows("event") if row[2] == kind]

    def left_over(self) -> dict[str, list[Any]]:
        """Rows and files that should not be there once nobody holds or waits."""
        found: dict[str, list[Any]] = {table: self.rows(table) for table in TICKET_SHAPED}
        found["files"] = sorted(path.name for path in self.members.iterdir())
        return {name: rows for name, rows in found.items() if rows}

    def config(self, text: str) -> Path:
        """Write the configuration file that this box's programs find, after its defaults."""
        path = Path(self.env["XDG_CONFIG_HOME"]) / "headgate" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.defaults + text)
        return path

    def running(self) -> list[dict[str, Any]]:
        """What a fresh process says is running."""
        gate = Gate.open(self.url)
        try:
            return [row._asdict() for row in gate.queue().running]
        finally:
            gate.close()

    def close(self) -> None:
        for gate in self._gates:
            gate.close()
        for pid in self.pids:
            end(pid)
        for program in self._programs:
            program.close()
        for pid in self.strays():
            end(pid)

    def strays(self) -> list[int]:
        """Processes that carry this box's store in their environment: ours, wherever they went."""
        mark = f"HEADGATE_STORE={self.url}".encode()
        found = []
        for name in os.listdir("/proc") if Path("/proc/self/environ").exists() else []:  # noqa: PTH208
            try:
                if name.isdigit() and mark in Path("/proc", name, "environ").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
        return [pid for pid in found if pid != os.getpid()]


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be reaped has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"
