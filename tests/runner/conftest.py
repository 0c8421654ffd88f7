"""A stand-in agent, and terminals to run it in."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import HEADGATE, LONG, Box, Program, until

AGENT = str(Path(__file__).with_name("agent.py"))
_LEAD = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvpe(sys.argv[1], sys.argv[1:], os.environ)"
)


class Agent:
    """What a stand-in agent under `headgate run` has said so far."""

    def __init__(self, box: Box, name: str = "agent") -> None:
        self.log = box.folder / f"{name}.log"
        self.argv = [sys.executable, "-I", "-S", AGENT, str(self.log)]
        self.command = [HEADGATE, "run", "-m", "a/b", "--", *self.argv]

    def said(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def says(self, text: str, *, within: float = LONG) -> None:
        until(lambda: text in [line.partition(" ")[0] for line in self.said()], within=within)

    @property
    def pid(self) -> int:
        self.says("ready")
        return int(self.said()[0].split()[1])

    def signals(self) -> list[str]:
        return self.said()[1:]


class Terminal:
    """A terminal of one's own: a program leads a session in it, and somebody types."""

    def __init__(self, box: Box, argv: list[str], *, rows: int = 30, columns: int = 100) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.text = ""
        self.program: Program = box.start(
            sys.executable, "-I", "-S", "-c", _LEAD, *argv,
            stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
            env={"TERM": "xterm", "PS1": "$ ", "HISTFILE": ""},
        )  # fmt: skip

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def shows(self, text: str, *, within: float = LONG) -> None:
        """Wait until this appears on the screen, after what was waited for before."""
        deadline = time.monotonic() + within
        poll = select.poll()
        poll.register(self.master, select.POLLIN)
        while text not in self.text:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise AssertionError(f"{text!r} is not in {self.text!r}")
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError as error:  # the last one has closed its end
                raise AssertionError(f"{text!r} is not in {self.text!r}") from error
        self.text = self.text.partition(text)[2]

    def hang_up(self) -> None:
        for fd in (self.slave, self.master):
            os.close(fd)
        self.slave = self.master = -1

    def close(self) -> None:
        self.program.close()
        for fd in (self.slave, self.master):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def agent(box: Box) -> Agent:
    return Agent(box)


@pytest.fixture
def terminal(box: Box) -> Iterator[Callable[..., Terminal]]:
    """Opens terminals."""
    opened: list[Terminal] = []

    def opener(*argv: str, **options: int) -> Terminal:
        opened.append(Terminal(box, list(argv), **options))
        return opened[-1]

    yield opener
    for one in opened:
        one.close()
