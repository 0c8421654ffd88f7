"""A stage for real agents as jobs: a provider with a front, and what is seen from outside."""

import json
import os
from pathlib import Path
from typing import Any

from tests.agents.stage import Provider
from tests.clients.front import WANTED, Asked, Front
from tests.clients.real import Client
from tests.support import Box, until
from tests.work.conftest import JobBox

SLOW = 50.0
"""Seconds that the slowest of them may take on a busy machine."""
WORDS = " ".join(map(str, range(40)))
PROMPT = f"begin {WANTED} [[sim tokens=40 duration=0.3]]"
ENDLESS = "echo ran >>ran; tail -f /dev/null"
BRISK = """
[jobs]
patience = "3s"
backoff = "200ms"
longest_backoff = "1s"
[run]
grace = "2s"
"""
TEXT = ("--output-format", "stream-json", "--verbose")
Words = tuple[str, ...]
NEXT = "Continue where you left off."
"""What the profiles go on with."""


class Stage(Provider):
    """A provider with a front before it."""

    def __init__(self, box: Box, *words: str) -> None:
        super().__init__(box, *words)
        self.front = Front(self.url)
        self._behind, self.url = self.url, self.front.url

    def plan(self, **changes: object) -> None:
        """Have the provider behave otherwise from now on."""
        self.url = self._behind
        super().plan(**changes)
        self.url = self.front.url

    def shut(self, retry_after: int | None = None) -> None:
        """Have it refuse everything; the front still answers the first step."""
        self.plan(cap=0, retry_after=retry_after)

    def open(self) -> None:
        """Have it take everybody again."""
        self.plan(cap=9)

    def resumed_with(self) -> Asked | None:
        """The first request of a session that was resumed; None if none was."""
        return next((asked for asked in self.front.asked if NEXT in asked.text), None)


def refused(box: JobBox, client: Client, id: int) -> None:
    """Wait until the output of its first attempt tells of a refusal."""
    log = Path(f"{box.path}.logs", f"{id}.1.log")
    until(lambda: log.exists() and client.refusals(log.read_text()), within=SLOW)


def ran(client: Client) -> int:
    """How often its tool was run."""
    path = client.work / "ran"
    return path.read_text().count("ran\n") if path.exists() else 0


def marked(box: Box) -> set[int]:
    """The processes that carry the mark of a lease in this box."""
    lease, store = b"\0HEADGATE_LEASE=", f"HEADGATE_STORE={box.url}\0".encode()
    found = {pid: b"\0" + _read(pid, "environ") + b"\0" for pid in _pids()}
    return {pid for pid, text in found.items() if lease in text and store in text}


def around(client: Client, program: str = "") -> set[int]:
    """The processes that work in its folder, or have it in their arguments, whatever they carry."""
    work = str(client.work)
    found = set()
    for pid in _pids():
        arguments = _read(pid, "cmdline")
        here = _folder(pid).startswith(work) or work.encode() in arguments
        if here and arguments.startswith(program.encode()):
            found.add(pid)
    return found


def nothing_left(box: Box, client: Client) -> None:
    """Wait until none of its processes is there: by mark, and by the table of processes."""
    until(lambda: not marked(box) | around(client))


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - a name, wherever it leads
    except OSError:
        return ""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""


def submit(box: JobBox, client: Client, argv: list[str] | None = None) -> int:
    """Hand it in, without a word about its model."""
    return box.submit("--cwd", str(client.work), "--", *(argv or client.work_on(PROMPT)))


def ended(box: JobBox, id: int) -> dict[str, Any]:
    """A job that has come to its end."""
    box.until_state(id, "done", "failed", within=SLOW)
    return box.job(id)


def codes(job: dict[str, Any]) -> list[str]:
    """How its attempts ended."""
    return [attempt["code"] for attempt in job["attempt_list"]]


def paused(box: JobBox) -> dict[str, Any]:
    """The first time that a pool was closed."""
    until(lambda: box.events("paused"))
    lines = map(json.loads, box.headgate("events", "--json", "-n", "1000").splitlines())
    return next(event for event in lines if event["event"] == "paused")
