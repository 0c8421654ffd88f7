"""A night in a few minutes: jobs, bad weather upstream, and everything killed at random.

Agents (stand-ins that behave on a refusal as the real one does) are submitted as jobs, two workers
start them, and the provider rejects, overloads and closes in turn. Workers, runners and agents are
killed with `kill -9`. In the end every job has ended exactly once, with a reason; the provider's
own log shows no more at once than was allowed; no job ever ran twice at the same time; no session
lost or repeated a step; and no agent that only retried lived longer than its patience and 5 s.

HEADGATE_CHAOS_SECONDS says how long things are killed for, and so how much work there is: with
3600, 200 jobs for an hour.
"""

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.core.jobs.states import ENDED
from tests.agents.stage import QUICK, Provider, sessions, shim
from tests.support import HEADGATE, Program, until
from tests.work.conftest import JobBox

SECONDS = float(os.environ.get("HEADGATE_CHAOS_SECONDS") or 12)
JOBS = round(min(200, max(24, SECONDS)))
CAP, SEATS, PATIENCE = 6, 4, 3.0
STEP = 0.25
"""About how many seconds an agent takes for a step, when nothing goes wrong."""
REQUESTS = max(4, round(SECONDS * SEATS / 2 / JOBS / STEP))
WEATHER = (
    ({"cap": CAP, "overload": 0.0}, 2.0),
    ({"cap": 2}, 2.0),
    ({"cap": CAP, "overload": 0.5}, 1.5),
    ({"overload": 0.0, "quota": 2_500}, 2.5),
)
CONFIG = f"""
[defaults]
cooldown = "0s"
[pools.host]
limit = 12
[pools."anthropic/*"]
limit = {SEATS}
cooldown = "0s"
[jobs]
patience = "{PATIENCE:g}s"
backoff = "300ms"
longest_backoff = "3s"
attempts = 200
[run]
grace = "1s"
"""

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(SECONDS * 2 + 200),
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="agents are found in /proc"),
]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    box.config(CONFIG)
    yield box
    box.close()


class Night:
    """Everything that goes wrong, and an outsider's view of it."""

    def __init__(self, box: JobBox, provider: Provider, dice: random.Random) -> None:
        self.box = box
        self.provider = provider
        self.dice = dice
        self.calm = threading.Event()
        self.over = threading.Event()
        self.kills: Counter[str] = Counter()
        self.killed_agents: set[str] = set()
        self.doubles: list[str] = []
        self.most = 0
        self.tag = f"night-{os.getpid()}-"
        """How its agents' prompts begin: another night may be under way on this machine."""
        self.workers: list[Program] = []
        self._threads = [
            threading.Thread(target=self._watch),
            threading.Thread(target=self._weather),
        ]

    def start(self) -> None:
        self.workers = [self.box.worker("-q") for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.calm.set()
        self.over.set()
        for thread in self._threads:
            thread.join()

    def agents(self) -> dict[int, str]:
        """The agents that live at this moment, by pid, each with its job's prompt."""
        found = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of times
            if name.isdigit():
                try:
                    words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                prompt = [word for word in words if word.startswith(self.tag.encode())]
                if prompt and any(word.endswith(b"standin.py") for word in words):
                    found[int(name)] = prompt[0].decode()
        return found

    def _watch(self) -> None:
        while not self.over.wait(0.03):
            first = self.agents()
            there = {pid: job for pid, job in self.agents().items() if pid in first}
            self.most = max(self.most, len(there))
            self.doubles += [job for job, count in Counter(there.values()).items() if count > 1]

    def _weather(self) -> None:
        while not self.calm.is_set():
            for plan, seconds in WEATHER:
                self.provider.plan(**plan)
                if self.calm.wait(seconds):
                    break
        self.provider.plan(cap=CAP, overload=0.0, quota=0)

    def kill_something(self) -> None:
        what = self.dice.choice(["worker", "runner", "runner", "agent"])
        if what == "worker":
            victim = self.dice.randrange(len(self.workers))
            self.workers[victim].kill()
            self.workers[victim] = self.box.worker("-q")
        elif what == "runner":
            members = {row[0]: row[2] for row in self.box.rows("member") if not row[5]}
            holders = [members[row[7]] for row in self.box.rows("lease") if row[7] in members]
            if not holders:
                return
            _kill(self.dice.choice(holders))
        else:
            agents = self.agents()
            if not agents:
                return
            pid = self.dice.choice(sorted(agents))
            self.killed_agents.add(agents[pid])
            _kill(pid)
        self.kills[what] += 1


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_a_night(box: JobBox, tmp_path: Path) -> None:
    """Whatever is killed and however upstream behaves, every job ends once, with a reason."""
    dice = random.Random()  # noqa: S311 - any night will do
    provider = Provider(box, *QUICK, "--cap", str(CAP))
    night = Night(box, provider, dice)
    state = tmp_path / "sessions"
    claude = shim(tmp_path / "bin", "claude", "--requests", str(REQUESTS), "--pause", "2", speed=10)
    jobs = [
        {
            "command": [
                str(claude), "-p", f"{night.tag}{number}",
                "--output-format", "stream-json", "--verbose",
            ],
            "model": "anthropic/claude-opus-4-6",
            "env": {
                **provider.env,
                "ANTHROPIC_BASE_URL": f"{provider.url}/t/{number}",
                "STANDIN_STATE": str(state),
            },
        }
        for number in range(JOBS)
    ]  # fmt: skip
    night.start()
    submitted = box.start(HEADGATE, "submit", "-q", "--batch", "-")
    assert submitted.process.stdin
    submitted.process.stdin.write("\n".join(map(json.dumps, jobs)).encode())
    submitted.end()
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and _unfinished(box):
        time.sleep(dice.uniform(0.2, 1.0))
        night.kill_something()
    night.calm.set()
    try:
        until(lambda: not _unfinished(box), within=SECONDS + 120)
    finally:
        night.stop()
    print(f"{JOBS} jobs, killed {dict(night.kills)}, at most {night.most} agents at once")  # noqa: T201
    _every_job_ended_once(box, night)
    assert not night.doubles
    assert night.most <= SEATS
    assert max(line.in_flight for line in provider.lines()) <= SEATS
    for done in sessions(state):
        assert done.steps == sorted(set(done.steps)), f"{done.session} did a step twice"
    _no_zombies(box, provider)


def _unfinished(box: JobBox) -> list[int]:
    return [row[0] for row in box.rows("job") if row[1] not in ENDED]


def _every_job_ended_once(box: JobBox, night: Night) -> None:
    rows = box.rows("job")
    assert len(rows) == JOBS
    ends = Counter(row[3] for row in box.rows("event") if row[2] in ENDED)
    for number, row in enumerate(sorted(rows)):
        id, state, code, text = row[:4]
        assert ends[id] == 1, f"job {id} ended {ends[id]} times"
        assert code
        assert text
        if state != "done":
            assert f"{night.tag}{number}" in night.killed_agents, row[:4]
            assert row[18] == "0:9"
    left = box.rows("lease") + box.rows("ticket")
    assert not left


def _no_zombies(box: JobBox, provider: Provider) -> None:
    """From the first refusal after which it got nothing any more, no agent lived for long."""
    first = min(row[0] for row in box.rows("job"))
    by_job: dict[int, list[tuple[float, bool]]] = {}
    for line in provider.lines():
        if line.task.isdigit() and line.event in {"refused", "exit"}:
            by_job.setdefault(int(line.task) + first, []).append((line.wall, line.event == "exit"))
    for job, _, _, started, ended, code, text, _ in box.rows("attempt"):
        began, over = started / 1000, ended / 1000
        seen = [(at, good) for at, good in by_job.get(job, []) if began <= at <= over]
        streak: list[float] = []
        for at, good in seen:
            streak = [] if good else [*streak, at]
        if streak:
            assert over - streak[0] <= PATIENCE + 5, f"job {job}: {code}, {text}"
