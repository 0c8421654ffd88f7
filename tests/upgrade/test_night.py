"""A night in which a newer version comes: nothing is stopped for it, and nothing is lost.

The version before runs agents as jobs (upstream refuses some of them, and they are parked),
programs under `run`, and Python programs with slots. In the midst of it this version opens the
store, submits jobs and starts a worker, and later the old worker is stopped, or killed. Somebody
who knows nothing of headgate counts what runs. It never sees more than the limits; every job ends
once, and every end is recorded as what it was.

HEADGATE_CHAOS_SECONDS says how long the night is.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.core.jobs.states import ENDED
from tests.agents.stage import QUICK, Provider, shim
from tests.support import Program, until
from tests.upgrade.conftest import NEWEST, Version, marked
from tests.work.conftest import JobBox

SECONDS = float(os.environ.get("HEADGATE_CHAOS_SECONDS") or 10)
AGENTS = round(min(120, max(12, SECONDS)))
FAILING = AGENTS // 2
SEATS = {"agent": 4, "run": 2, "slot": 2, "job": 2}
MODEL = "claude-opus-4-6"
TESTS = Path(__file__).parents[1]
CONFIG = f"""
[pools.host]
limit = 30
[pools."anthropic/*"]
limit = {SEATS["agent"]}
[pools."night/run"]
limit = {SEATS["run"]}
[pools."night/slot"]
limit = {SEATS["slot"]}
[pools."night/job"]
limit = {SEATS["job"]}
[jobs]
patience = "2s"
backoff = "300ms"
longest_backoff = "2s"
attempts = 200
[run]
grace = "1s"
"""
SLOTS = """
import subprocess
while not os.path.exists(sys.argv[1]):
    with gate.slot("night/slot"):
        subprocess.run(["sleep", sys.argv[2]], check=True)
print("out")
"""

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(SECONDS * 2 + 200),
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="agents are found in /proc"),
]


class Night:
    """Everything that goes on, whichever version it is of."""

    def __init__(self, box: JobBox) -> None:
        self.box = box
        self.over = box.folder / "over"
        serial = f"{os.getpid():07d}{random.randrange(10**5):05d}"  # noqa: S311 - tells them apart
        self.naps = {"run": f"0.4{serial}", "slot": f"0.3{serial}", "job": f"0.5{serial}"}
        self.provider = Provider(box, *QUICK, "--cap", "1")
        shim(
            box.folder / "bin", "claude", "--requests", "3", "--pause", "2",
            "--state", str(box.folder / "state"), speed=10,
        )  # fmt: skip
        self.codes: list[tuple[int, int]] = []
        self.programs: list[Program] = []
        self._threads: list[threading.Thread] = []
        self._sights = [
            self._observer("chaos", *(f"{name}={nap}" for name, nap in self.naps.items())),
            self._observer("agents", str(box.folder), MODEL),
        ]
        self._begin(self._weather)

    def _observer(self, of: str, *words: str) -> Path:
        seen = self.box.folder / f"seen-{of}"
        with seen.open("wb") as out:
            script = str(TESTS / of / "observer.py")
            self.box.start(sys.executable, "-I", "-S", script, *words, stdout=out)
        return seen

    def _begin(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args)
        thread.start()
        self._threads.append(thread)

    def _weather(self) -> None:
        """Upstream takes nobody and everybody in turn, and at last everybody."""
        while not self.over.exists():
            parked = len(self.box.events("parked"))
            self.provider.plan(cap=0, retry_after=1_000)
            while not self.over.exists() and len(self.box.events("parked")) == parked:
                time.sleep(0.05)
            self.provider.plan(cap=6)
            _sleep(3.0, self.over)
        self.provider.plan(cap=50)

    def live(self, version: Version, runs: int, programs: int) -> None:
        """Have a version run programs and slots until the night is over."""
        for number in range(runs):
            self._begin(self._runs, version, number)
        self.programs += [
            version.python(SLOTS, str(self.over), self.naps["slot"]) for _ in range(programs)
        ]

    def _runs(self, version: Version, code: int) -> None:
        script = f"sleep {self.naps['run']}; exit {code}"
        while not self.over.exists():
            program = version.run("night/run", "sh", "-c", script)
            self.codes.append((code, program.wait(60)))
            program.close()

    def submit(self, version: Version, agents: int, failing: int) -> list[int]:
        """Hand in agents that will be done, and programs that will fail."""
        agent = {
            "command": [
                str(self.box.folder / "bin" / "claude"), "-p", "do it", "--output-format",
                "stream-json", "--verbose", "--model", MODEL,
            ],
            "model": f"anthropic/{MODEL}",
            "env": self.provider.env,
        }  # fmt: skip
        fails = {
            "command": ["sh", "-c", f"sleep {self.naps['job']}; exit 3"],
            "model": "night/job",
        }
        jobs = [agent] * agents + [fails] * failing
        path = self.box.folder / f"batch-{agents}-{len(self.programs)}"
        path.write_text("".join(f"{json.dumps(job)}\n" for job in jobs))
        return [int(id) for id in version.do("submit", "-q", "--batch", str(path)).split()]

    def close(self) -> None:
        """Let all that is left come to its end by itself."""
        self.over.touch()
        for thread in self._threads:
            thread.join()

    def most(self) -> dict[str, int]:
        """How many of each there were at the fullest moments."""
        looks = [json.loads(line) for seen in self._sights for line in _lines(seen)]
        found = {name: max(look.get(name, 0) for look in looks) for name in (*self.naps, MODEL)}
        return {"agent": found.pop(MODEL), **found}


def _lines(path: Path) -> list[str]:
    return path.read_text().rpartition("\n")[0].splitlines()


def _sleep(seconds: float, over: Path) -> None:
    """Sleep, but not longer than the night is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not over.exists():
        time.sleep(0.05)


@pytest.fixture
def night(box: JobBox, old: Version) -> Night:
    box.config(CONFIG)
    return Night(box)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_night_with_an_upgrade(
    number: int, box: JobBox, old: Version, new: Version, night: Night
) -> None:
    """Never above a limit; every job ends once, as what it was; nothing is left behind."""
    try:
        worker = old.worker()
        old_jobs = night.submit(old, AGENTS // 2, FAILING // 2)
        night.live(old, runs=3, programs=2)
        until(lambda: box.events("parked"))
        assert marked(box) == (3, 0)
        new_jobs = night.submit(new, AGENTS // 2, FAILING // 2)
        assert marked(box) == (3, NEWEST)
        second = new.worker()
        night.live(new, runs=2, programs=1)
        time.sleep(SECONDS / 3)
        worker.send(number)
        worker.wait()
        time.sleep(SECONDS / 3)
        for version in (old, new):
            assert version.asked("status")["running"] > 0
            assert version.asked("queue")["running"]
    finally:
        night.close()
    until(lambda: not _unfinished(box), within=SECONDS + 90)
    second.send(signal.SIGTERM)
    second.wait()
    for program in night.programs:
        assert (program.line(), program.wait()) == ("out", 0)

    _every_job_ended_as_what_it_was(box, [*old_jobs, *new_jobs])
    assert night.codes
    assert [pair for pair in night.codes if pair[0] != pair[1]] == []
    most = night.most()
    assert all(most[name] <= SEATS[name] for name in SEATS), most
    assert most["run"] == SEATS["run"], "nothing was going on"
    until(lambda: not box.left_over())
    assert box.rows("process") == []
    _sound(box)


def _unfinished(box: JobBox) -> list[int]:
    return [row[0] for row in box.rows("job") if row[1] not in ENDED]


def _every_job_ended_as_what_it_was(box: JobBox, ids: list[int]) -> None:
    rows: dict[int, Any] = {row[0]: row for row in box.rows("job")}
    assert sorted(rows) == sorted(ids)
    ends = Counter(row[3] for row in box.rows("event") if row[2] in ENDED)
    assert set(ends.values()) == {1}
    for row in rows.values():
        expected = ("failed", "3:0") if row[4] == "night/job" else ("done", "0:0")
        assert (row[1], row[18]) == expected, row[:4]
        assert row[2] == "exit"
    ill = [row for row in box.rows("attempt") if row[5] in {"lost", "stopped", "runner_error"}]
    assert ill == [], f"ends that nobody knows: {ill}"


def _sound(box: JobBox) -> None:
    db = apsw.Connection(str(box.path))
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()
