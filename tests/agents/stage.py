"""What a test with stand-in agents needs: a provider to ask, command lines, and what they did."""

import json
import shlex
import sys
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from headgate.sim import journal
from headgate.sim.journal import JournalLine
from tests.support import HEADGATE, Box

STANDIN = str(Path(__file__).with_name("standin.py"))
SECRET = "sk-standin-5ba5eba11"
QUICK = ("--duration", "30ms", "--headers", "2ms", "--first-token", "5ms", "--lag", "0s")


class Provider:
    """`headgate sim serve` in a process of its own."""

    def __init__(self, box: Box, *words: str) -> None:
        self._log = box.folder / "journal"
        server = box.start(HEADGATE, "sim", "serve", "--json", "--log", str(self._log), *words)
        self.url: str = json.loads(server.line())["url"]

    @property
    def env(self) -> dict[str, str]:
        """What points a stand-in at this provider, whichever it is like."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": SECRET,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": SECRET,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": SECRET,
        }

    def plan(self, **changes: object) -> None:
        """Have it behave otherwise from now on."""
        body = json.dumps(changes).encode()
        with urllib.request.urlopen(f"{self.url}/sim/plan", body) as answer:  # noqa: S310 - ours
            assert answer.status == 200

    def lines(self) -> list[JournalLine]:
        return journal.read(self._log)

    def count(self, event: str) -> int:
        return sum(line.event == event for line in self.lines())


class Done(NamedTuple):
    """What a session's file tells."""

    session: str
    lines: list[dict[str, Any]]

    @property
    def steps(self) -> list[int]:
        """The steps of work that were done, in order: doubled or lost ones show."""
        return [line["step"] for line in self.lines if line["event"] == "step"]

    @property
    def starts(self) -> list[bool]:
        """For each start, whether the session was resumed."""
        return [line["resumed"] for line in self.lines if line["event"] == "start"]

    def pids(self, event: str, name: str = "pid") -> list[int]:
        return [line[name] for line in self.lines if line["event"] == event]


def standin(like: str, *words: str, speed: float = 200) -> list[str]:
    """The command line of a stand-in."""
    own = ("--like", like, "--speed", f"{speed:g}")
    return [sys.executable, "-I", "-S", STANDIN, *own, *words]


def shim(folder: Path, name: str, *words: str, like: str = "", speed: float = 200) -> Path:
    """A program of this name, for PATH, that is a stand-in; its arguments come after `words`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    argv = shlex.join(standin(like or name, *words, speed=speed))
    path.write_text(f'#!/bin/sh\nexec {argv} "$@"\n')
    path.chmod(0o755)
    return path


def sessions(state: Path) -> list[Done]:
    """What was done, by session."""
    found = []
    for path in sorted(state.glob("*.jsonl")):
        whole = path.read_text().rpartition("\n")[0]
        found.append(Done(path.stem, [json.loads(line) for line in whole.splitlines()]))
    return found
