"""Every verb on another machine: it says what it says here, or that it cannot."""

import inspect
import json
import subprocess
from typing import Any

import pytest

from headgate import Gate
from headgate.core.jobs.states import Word
from headgate.errors import UsageError
from headgate.gate.submit_jobs import Jobs
from headgate.gate.submit_jobs import draft as make
from headgate.remote.gate import RemoteGate
from headgate.remote.jobs import RemoteJobs
from tests.remote.conftest import RemoteBox
from tests.support import HEADGATE, LONG, until

pytestmark = pytest.mark.timeout(60)
OF_THIS_MACHINE = {
    *("open", "seen_by", "grace", "job_policy", "profiles", "profile_of", "silence_hint", "key_of"),
    *(
        "view",
        "enter_project",
        "meter_of",
        "queue_timeout_of",
        "rules",
        "config_path",
        "cancel",
        *("server", "project"),
    ),
}
"""What a client takes from its own configuration, or makes of the rest."""
NOT_HERE = {
    *("correct_rates", "warn_of_quota", "end_quota_warning", "keep_meter", "record_requests"),
    *("set_limit_late", "set_cooldown_late", "free_pool"),
}
"""What only a process beside the store does."""


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def own(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_nothing_of_a_gate_is_forgotten() -> None:
    """Each method of a gate is one of a client's, or is listed here."""
    left = public(Gate) - own(RemoteGate) - OF_THIS_MACHINE - NOT_HERE
    assert left == set()
    assert public(Jobs) - own(RemoteJobs) == {"wait"}


def asked(box: RemoteBox, store: str, *words: str) -> Any:  # noqa: ANN401 - any JSON
    done = subprocess.run(
        [HEADGATE, "--store", store, *words, "--json"],
        env=box.env, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("capacity", "a/b"), ("capacity", "c/d"), ("queue",), ("queue", "--all"),
        ("why", "1"), ("why", "2"), ("why", "3"), ("limits",),
        ("queue", "--task", "t"),
    ],
)  # fmt: skip
def test_both_say_the_same(box: RemoteBox, words: tuple[str, ...]) -> None:
    """With the exit code, and to the last field but for the times."""
    local = box.local()
    local.set_limit("a/b", 1)
    lease = local.slot("a/b", task="t").acquire()
    local.jobs.submit([make(["true"], key="a/b", task="t", name="n"), make(["true"], hold=True)])
    here, there = asked(box, box.store, *words), asked(box, box.url, *words)
    lease.release()
    assert still(here) == still(there)


def still(found: object) -> object:
    """The same without what goes on while one looks."""
    if isinstance(found, dict):
        moving = {"held", "waited", "at", "eta", "since", "started", "retry_after", "due"}
        moving.add("submitted")
        return {name: still(one) for name, one in found.items() if name not in moving}
    if isinstance(found, (list, tuple)):
        return [still(one) for one in found]
    return found


def test_what_is_done_there_is_done(box: RemoteBox) -> None:
    """Limits, pauses, jobs: by verbs that ask the server."""
    local = box.local()
    box.headgate("limits", "set", "a/b", "2")
    box.headgate("limits", "cooldown", "a/b", "1s")
    box.headgate("pause", "a/b", "--note", "lunch")
    pool = local.status().pool("a/b")
    assert (pool.limit, pool.cooldown_ms, pool.paused) == (2, 1000, True)
    box.headgate("resume", "a/b")
    box.headgate("limits", "restore", "a/b")
    id = int(box.headgate("submit", "-q", "-m", "a/b", "--no-check", "--", "true"))
    box.headgate("hold", str(id))
    assert local.jobs.status(id).state == "held"
    box.headgate("release", str(id))
    box.headgate("move", str(id), "--first")
    worker = box.start(HEADGATE, "--store", box.store, "worker", "-q")
    box.headgate("wait", str(id))
    assert local.jobs.status(id).state == "done"
    box.headgate("retry", str(id))
    until(lambda: local.jobs.status(id).attempts == 2)
    worker.kill()


def test_a_submission_is_made_once(box: RemoteBox) -> None:
    """However often its answer is lost."""
    gate = box.gate()
    assert [one.state for one in gate.jobs.submit([make(["true"], key="a/b")])] == ["queued"]
    assert len(box.rows("job")) == 1
    (job,), after = gate.jobs.page([Word.QUEUED])
    assert (job.state, after) == ("queued", 0)
    assert gate.jobs.page([Word.DONE]) == ([], 0)


@pytest.mark.parametrize("words", [("worker",), ("serve",), ("token", "list"), ("notify", "run")])
def test_what_needs_the_store_says_so(box: RemoteBox, words: tuple[str, ...]) -> None:
    """And where it can be done."""
    said = box.start(HEADGATE, *words)
    assert said.wait() == 2
    assert said.process.stderr is not None
    assert b"on the machine that has the store" in said.process.stderr.read()


def test_a_wire_is_not_there(box: RemoteBox) -> None:
    """Agents are metered by their output."""
    gate = box.gate()
    assert gate.wire_folder is None
    with pytest.raises(UsageError, match="that has the store"):
        gate.correct_rates(1, None)  # type: ignore[arg-type]
