"""Real agents as jobs: told, parked, resumed, cancelled, and looked after when a runner dies."""

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.agents.stage import Provider
from tests.clients.front import WANTED, Asked, Front
from tests.clients.real import Client
from tests.support import Box, until
from tests.work.conftest import JobBox

pytestmark = pytest.mark.clients

WORDS = " ".join(map(str, range(40)))
PROMPT = f"begin {WANTED} [[sim tokens=40 duration=0.3]]"
NEXT = "Continue where you left off."
"""What the profiles go on with."""
QUICK = "echo ran >>ran"
ENDLESS = "echo ran >>ran; tail -f /dev/null"
UNTIL_GO = "echo ran >>ran; while [ ! -e go ]; do sleep 0.1; done"
BRISK = """
[jobs]
patience = "3s"
backoff = "200ms"
longest_backoff = "1s"
[run]
grace = "2s"
"""
PATIENT = BRISK.replace('"3s"', '"1m"')
SLOW = 50.0
"""Seconds that the slowest of them may take, on a busy machine."""


class Stage(Provider):
    """A provider with a front before it."""

    def __init__(self, box: Box, *words: str) -> None:
        super().__init__(box, *words)
        self.front = Front(self.url)
        self.behind, self.url = self.url, self.front.url

    def plan(self, **changes: object) -> None:
        """Have the provider behave otherwise from now on."""
        self.url = self.behind
        super().plan(**changes)
        self.url = self.front.url

    def shut(self, retry_after: int | None = None) -> None:
        """Have it refuse everything; only the front's first step is answered."""
        self.plan(cap=0, retry_after=retry_after)

    def open(self) -> None:
        self.plan(cap=9)

    def goes_on(self) -> Asked:
        """The request that a resumed session began with."""
        return next(asked for asked in self.front.asked if NEXT in asked.text)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    yield box
    box.close()


@pytest.fixture
def provider(box: JobBox) -> Iterator[Stage]:
    stage = Stage(box, "--duration", "300ms", "--cap", "9", "--lag", "0s")
    with stage.front:
        yield stage


def submit(box: JobBox, client: Client, argv: list[str] | None = None) -> int:
    """Hand it in, without a word about its model."""
    return box.submit("--cwd", str(client.work), "--", *(argv or client.work_on(PROMPT)))


def told(box: JobBox, kind: str) -> list[dict[str, Any]]:
    """The events of a kind, with their times."""
    lines = box.headgate("events", "--json", "-n", "1000").splitlines()
    return [event for line in lines if (event := json.loads(line))["kind"] == kind]


def refused(box: JobBox, client: Client, id: int) -> float:
    """Wait until its output tells of a refusal; when that was."""
    log = Path(f"{box.path}.logs", f"{id}.1.log")
    until(lambda: log.exists() and client.refusals(log.read_text()), within=SLOW)
    return time.time()


def ran(client: Client) -> int:
    """How often its tool was run."""
    path = client.work / "ran"
    return path.read_text().count("ran\n") if path.exists() else 0


def marked(box: JobBox, id: int) -> set[int]:
    """The processes that carry a job's mark."""
    lease, store = b"\0HEADGATE_LEASE=", f"HEADGATE_STORE={box.url}\0".encode()
    found = {pid: _bytes(pid, "environ") for pid in _pids()}
    return {pid for pid, text in found.items() if lease in b"\0" + text and store in text + b"\0"}


def around(client: Client) -> set[int]:
    """The processes that work in its folder, or have it in their arguments, whoever they are."""
    work = str(client.work)
    found = set()
    for pid in _pids():
        try:
            where = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            where = ""
        if where.startswith(work) or work.encode() in _bytes(pid, "cmdline"):
            found.add(pid)
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""


def test_it_is_known_by_its_command_line(box: JobBox, client: Client, provider: Stage) -> None:
    """Without -m its key is told, its output is kept whole, and it is done."""
    box.worker()
    id = submit(box, client)
    box.until_state(id, "done", "failed", within=SLOW)
    job = box.job(id)
    assert (job["state"], job["exit"], job["key"]) == ("done", "0:0", client.key)
    assert client.answer(box.log(id)) == WORDS
    assert ran(client) == 1
    assert not box.rows("lease")


@pytest.mark.parametrize("retry_after", [None, 5_000])
def test_it_is_parked_and_goes_on(
    retry_after: int | None, box: JobBox, client: Client, provider: Stage
) -> None:
    """A refusal is told within two seconds; parked and resumed, it has its whole conversation."""
    box.config(BRISK)
    provider.shut(retry_after)
    box.worker()
    id = submit(box, client)
    seen = refused(box, client, id)
    (paused, *_) = until(lambda: told(box, "paused"))
    assert datetime.fromisoformat(paused["at"]).timestamp() - seen < 2
    assert (paused["work"], paused["key"]) == (id, client.key)
    box.until_state(id, "parked", within=SLOW)
    assert not box.rows("lease")
    until(lambda: not marked(box, id) | around(client))
    (first,) = box.job(id)["attempts"]
    assert first["code"] == "rate_limited"
    provider.open()
    if retry_after is None:
        box.headgate("resume", paused["pool"])
    box.until_state(id, "done", "failed", within=SLOW)
    job = box.job(id)
    print([(a["code"], a["exit"], a["reason"]) for a in job["attempts"]])
    assert (job["state"], len(job["attempts"])) == ("done", 2)
    assert client.answer(box.log(id, 2)) == WORDS
    assert client.session(box.log(id, 2)) == client.session(box.log(id, 1))
    asked = provider.goes_on()
    assert PROMPT in asked.text
    assert asked.results == 1
    assert ran(client) == 1


def test_cancelled_while_it_retries(box: JobBox, client: Client, provider: Stage) -> None:
    """Nothing of it is left, by mark and by the table of processes."""
    box.config(PATIENT)
    provider.shut(30_000)
    box.worker()
    id = submit(box, client)
    refused(box, client, id)
    assert box.state(id) == "running"
    assert marked(box, id) & around(client)
    box.headgate("cancel", str(id))
    box.until_state(id, "cancelled")
    until(lambda: not marked(box, id) | around(client))
    assert not box.rows("lease")


@pytest.mark.parametrize("command", [ENDLESS], indirect=False)
def test_cancelled_while_a_tool_runs(
    command: str, box: JobBox, client: Client, provider: Stage
) -> None:
    """Its tool is gone with it, though most of them start tools in sessions of their own."""
    box.config(BRISK)
    provider.front.command = command
    box.worker()
    id = submit(box, client)
    until(lambda: ran(client), within=SLOW)
    tails = until(lambda: {p for p in around(client) if _bytes(p, "cmdline").startswith(b"tail")})
    assert tails <= marked(box, id)
    box.headgate("cancel", str(id))
    box.until_state(id, "cancelled")
    until(lambda: not marked(box, id) | around(client))
    assert not box.rows("lease")
    assert len(provider.front.asked) == 1


def test_its_runner_is_killed(box: JobBox, client: Client, provider: Stage) -> None:
    """It goes on, is looked after to its end, and is tried again with its session."""
    box.config(BRISK)
    provider.front.command = UNTIL_GO
    box.worker()
    id = submit(box, client)
    until(lambda: ran(client), within=SLOW)
    first = box.runner(id)
    agents = marked(box, id)
    os.kill(first, signal.SIGKILL)
    until(lambda: box.events("adopted"))
    assert box.runner(id) != first
    assert agents <= marked(box, id)
    (client.work / "go").touch()
    box.until_state(id, "done", "failed", within=SLOW)
    job = box.job(id)
    assert [attempt["code"] for attempt in job["attempts"]] == ["lost", "exit"]
    assert job["state"] == "done"
    assert client.answer(box.log(id, 1)) == client.answer(box.log(id, 2)) == WORDS
    assert client.session(box.log(id, 2)) == client.session(box.log(id, 1))
    asked = provider.goes_on()
    assert PROMPT in asked.text
    assert asked.results == 1
    assert ran(client) == 1
    until(lambda: not marked(box, id) | around(client))
