"""A box in which jobs are submitted and worked on, by real processes."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import HEADGATE, LONG, STEADY, Box, Program, until


class Said(NamedTuple):
    """How a verb ended, and what it wrote."""

    code: int
    out: str
    err: str


class JobBox(Box):
    """A box with what tests of jobs do again and again."""

    def ask(
        self, *words: str, text: str | bytes = "", env: Mapping[str, str] | None = None
    ) -> Said:
        """Run a verb to its end, however it ends, with some text as its input."""
        done = subprocess.run(
            [HEADGATE, *words],
            input=text.encode() if isinstance(text, str) else text,
            env={**self.env, **(env or {})},
            capture_output=True,
            timeout=LONG,
            check=False,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def asked(self, *words: str) -> Any:  # noqa: ANN401 - any JSON
        """What a verb says in JSON."""
        return json.loads(self.headgate(*words, "--json"))

    def batch(self, *jobs: Mapping[str, object]) -> list[int]:
        """The ids of jobs that were submitted together."""
        text = "".join(f"{json.dumps(job)}\n" for job in jobs)
        return [int(id) for id in self.ask("submit", "-q", "--batch", "-", text=text).out.split()]

    def worker(self, *words: str) -> Program:
        """A worker that is up."""
        program = self.start(HEADGATE, "worker", *words)
        assert "is up" in program.line(stream="stderr")
        return program

    def submit(self, *words: str) -> int:
        """The id of a job that was submitted."""
        return int(self.headgate("submit", "-q", *words))

    def finished(self, *words: str) -> int:
        """The id of a job that was submitted and is done."""
        id = self.submit(*words)
        self.headgate("wait", str(id))
        return id

    def job(self, id: int) -> dict[str, Any]:
        """All that is known of a job."""
        found: dict[str, Any] = json.loads(self.headgate("why", str(id), "--json"))
        return found

    def state(self, id: int) -> str:
        """The state of a job, read from its row."""
        states = {row[0]: row[1] for row in self.rows("job")}
        return str(states[id])

    def until_state(self, id: int, *states: str, within: float = LONG) -> str:
        """Wait until a job is in one of some states.

        `parked` is over when its backoff is, perhaps before anybody has looked. So a job that waits
        in line, and was parked and not started since, counts as well.
        """

        def found() -> str:
            state = self.state(id)
            if state == "queued" and "parked" in states:
                told = [row for row in self.rows("event") if row[3] == id]
                last = [row[2] for row in told if row[2] in {"started", "parked"}]
                state = "parked" if last[-1:] == ["parked"] else state
            return state if state in states else ""

        return until(found, within=within)

    def runner(self, id: int) -> int:
        """The process that looks after a job."""
        member = next(row[7] for row in self.rows("lease") if row[0] == id)
        return int(next(row[2] for row in self.rows("member") if row[0] == member))

    def log(self, id: int, attempt: int = 1) -> str:
        """What a job has written."""
        return Path(f"{self.path}.logs", f"{id}.{attempt}.log").read_text()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config("")
    yield box
    box.close()
