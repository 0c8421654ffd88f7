"""A stage for jobs: a provider, agents that ask it, and an observer who only counts processes."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.stage import QUICK, Done, Provider, sessions, shim
from tests.support import HEADGATE, LONG, gone, until
from tests.work.conftest import JobBox

OBSERVER = str(Path(__file__).parents[1] / "agents" / "observer.py")
OPUS = "claude-opus-4-6"
SONNET = "claude-sonnet-4-6"
BRISK = """
[pools.host]
limit = 20
[jobs]
patience = "2s"
backoff = "200ms"
longest_backoff = "1s"
[run]
grace = "1s"
"""
"""Settings with which what takes minutes in life takes seconds in a test."""


class Kind(NamedTuple):
    """A kind of agent: its program, what is like it, the words that start it, and its key."""

    program: str
    like: str
    words: tuple[str, ...]
    key: str
    live: bool = True
    """Whether it tells of a refusal when it happens, not only in the end."""


_STREAM = ("--output-format", "stream-json")
KINDS = {
    "claude": Kind(
        "claude",
        "claude",
        ("-p", "do it", *_STREAM, "--verbose", "--model", OPUS),
        f"anthropic/{OPUS}",
    ),
    "claude-text": Kind(
        "claude", "claude-text", ("-p", "do it", "--model", OPUS), f"anthropic/{OPUS}", live=False
    ),
    "opencode": Kind(
        "opencode",
        "opencode",
        ("run", "--format", "json", "--print-logs", "-m", f"anthropic/{OPUS}", "do it"),
        f"anthropic/{OPUS}",
    ),
    "opencode-text": Kind(
        "opencode",
        "opencode-text",
        ("run", "-m", f"anthropic/{OPUS}", "do it"),
        f"anthropic/{OPUS}",
        live=False,
    ),
    "codex-text": Kind(
        "codex", "codex-text", ("exec", "-m", "gpt-5.2", "do it"), "openai/gpt-5.2", live=False
    ),
    "codex": Kind("codex", "codex", ("exec", "--json", "-m", "gpt-5.2", "do it"), "openai/gpt-5.2"),
    "gemini": Kind(
        "gemini",
        "gemini",
        (*_STREAM, "-m", "gemini-2.5-pro", "-p", "do it"),
        "google/gemini-2.5-pro",
    ),
}
LIVE = [name for name, kind in KINDS.items() if kind.live]


class Scene:
    """A box with a provider, and programs of the agents' names on its PATH."""

    def __init__(self, box: JobBox, *words: str, config: str = BRISK) -> None:
        self.box = box
        self.bin = box.folder / "bin"
        self.state = box.folder / "state"
        self.provider = Provider(box, *QUICK, "--cap", "50", *words)
        box.env |= {**self.provider.env, "PATH": f"{self.bin}:{box.env['PATH']}"}
        box.env["HEADGATE_METER"] = "agent"  # these are about what agents print
        box.config(config)

    def cast(self, name: str, *words: str, speed: float = 1) -> Kind:
        """Put a stand-in on the stage, as the program that it stands for."""
        kind = KINDS[name]
        own = ("--state", str(self.state), *words)
        shim(self.bin, kind.program, *own, like=kind.like, speed=speed)
        return kind

    def submit(self, kind: Kind, *options: str) -> int:
        """Hand in a job; its key is found out from its command line."""
        where = ("--cwd", str(self.box.folder))
        return self.box.submit(*where, *options, "--", kind.program, *kind.words)

    def batch(self, jobs: list[dict[str, Any]], **env: str) -> list[dict[str, Any]]:
        """Hand in several jobs at once; where each of them stands then."""
        where = {"cwd": str(self.box.folder)}
        path = self.box.folder / "batch"
        path.write_text("".join(f"{json.dumps({**where, **job})}\n" for job in jobs))
        program = self.box.start(HEADGATE, "submit", "--batch", str(path), "--json", env=env)
        out, err = program.process.communicate(timeout=LONG)
        assert program.wait() == 0, err
        found: list[dict[str, Any]] = json.loads(out)
        return found

    def done(self) -> list[Done]:
        """What was done, by session."""
        return sessions(self.state) if self.state.exists() else []

    def shut(self, retry_after: int | None = 30_000) -> None:
        """Have the provider refuse everything."""
        self.provider.plan(cap=0, retry_after=retry_after)

    def open(self, *pools: str) -> None:
        """Have the provider take everybody again, and open the pools as somebody who knows."""
        self.provider.plan(cap=50)
        for pool in pools:
            self.box.headgate("resume", pool)

    def observer(self, *words: str) -> "Observer":
        """Somebody who counts."""
        path = self.box.folder / "observed"
        with path.open("wb") as file:
            self.box.start(sys.executable, OBSERVER, str(self.box.folder), *words, stdout=file)
        return Observer(path)

    def kill_runner(self, id: int) -> None:
        """Kill the process that looks after a job, as the out-of-memory killer would."""
        os.kill(self.box.runner(id), signal.SIGKILL)

    def agents(self, event: str = "start") -> list[int]:
        """The processes that ever came so far."""
        return [pid for done in self.done() for pid in done.pids(event)]

    def all_gone(self) -> bool:
        """Whether no agent is left."""
        return all(map(gone, self.agents()))


class Observer:
    """What somebody wrote down who counts processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        until(self.counts)

    def counts(self) -> list[dict[str, int]]:
        """How many of each there were, look by look."""
        whole = self._path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def most(self, word: str) -> int:
        """How many there were at the fullest moment."""
        return max(count[word] for count in self.counts())

    def until(self, word: str, count: int) -> None:
        """Wait until there are so many."""
        until(lambda: self.counts()[-1][word] == count)
