"""Real agents as jobs: known, parked, resumed, cancelled, and looked after if a runner dies."""

import os
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.clients.jobs.stage import (
    BRISK,
    ENDLESS,
    PROMPT,
    SLOW,
    TEXT,
    WORDS,
    Stage,
    Words,
    around,
    codes,
    ended,
    marked,
    nothing_left,
    paused,
    ran,
    refused,
    submit,
)
from tests.clients.real import Client
from tests.support import until
from tests.work.conftest import JobBox

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

UNTIL_GO = "echo ran >>ran; while [ ! -e go ]; do sleep 0.1; done"
PATIENT = BRISK.replace('"3s"', '"1m"')
NAMED = ("--session-id", "0ddba110-0000-4000-8000-000000000001")


def went_on(box: JobBox, client: Client, provider: Stage, id: int) -> None:
    """See that the second attempt went on with the session of the first, and with all of it."""
    assert client.session(box.log(id, 1))
    assert client.session(box.log(id, 2)) == client.session(box.log(id, 1))
    assert client.answer(box.log(id, 2)) == WORDS
    asked = provider.resumed_with()
    assert asked
    assert PROMPT in asked.text
    assert asked.results
    assert ran(client) == 1


def test_it_is_known_by_its_command_line(box: JobBox, client: Client, provider: Stage) -> None:
    """Without -m its key is told, its output is kept whole, and it is done."""
    box.worker()
    id = submit(box, client)
    job = ended(box, id)
    assert (job["state"], job["exit"], job["key"]) == ("done", "0:0", client.key)
    assert client.answer(box.log(id)) == WORDS
    assert ran(client) == 1
    assert not box.rows("lease")


@pytest.mark.parametrize(
    "client,variable",
    [("claude", "ANTHROPIC_MODEL"), ("gemini", "GEMINI_MODEL")],
    indirect=["client"],
)
def test_it_is_known_by_its_environment(box: JobBox, client: Client, variable: str) -> None:
    """A variable that names its model does as well."""
    model = client.key.partition("/")[2]
    box.env[variable] = model
    argv = [word for word in client.work_on(PROMPT) if word not in {"--model", "-m", model}]
    box.worker()
    job = ended(box, submit(box, client, argv))
    assert (job["state"], job["key"]) == ("done", client.key)


@pytest.mark.parametrize("retry_after", [None, 5_000])
def test_it_is_parked_and_goes_on(
    retry_after: int | None, box: JobBox, client: Client, provider: Stage
) -> None:
    """A refusal is told within two seconds; parked and resumed, it has its whole conversation.

    Only some say for how long they were told to wait; else the pool is opened by hand.
    """
    box.config(BRISK)
    provider.shut(retry_after)
    box.worker()
    id = submit(box, client)
    refused(box, client, id)
    seen = time.time()
    closed = paused(box)
    assert datetime.fromisoformat(closed["at"]).timestamp() - seen < 2
    assert (closed["work"], closed["key"]) == (id, client.key)
    box.until_state(id, "parked", within=SLOW)
    nothing_left(box, client)
    assert not box.rows("lease")
    (first,) = box.job(id)["attempt_list"]
    by_itself = client.name == "codex" and retry_after is None
    assert first["reason"].endswith("it ended without progress") == by_itself
    provider.open()
    tells = client.name in {"claude", "gemini"} and retry_after is not None
    assert closed["text"].startswith("for 5s:") == tells
    if not tells:
        box.headgate("resume", closed["pool"])
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["rate_limited", "exit"])
    went_on(box, client, provider, id)


@pytest.mark.parametrize(
    "client,without,more",
    [
        ("claude", TEXT, NAMED),
        ("opencode", ("--print-logs",), ()),
        ("codex", ("--json",), ()),
        ("gemini", TEXT, NAMED),
    ],
    indirect=["client"],
)
def test_it_tells_less_and_goes_on(
    box: JobBox, client: Client, provider: Stage, without: Words, more: Words
) -> None:
    """What speaks of a refusal late is parked late, and resumed if its session was ever named."""
    parked_and_done(box, client, provider, without, more)
    assert provider.resumed_with()
    assert ran(client) == 1


@pytest.mark.parametrize(
    "client,without",
    [("opencode", ("--print-logs", "--format", "json"))],
    indirect=["client"],
)
def test_it_tells_no_session(box: JobBox, client: Client, provider: Stage, without: Words) -> None:
    """What never names its session is parked, and begins anew: its tools are run again."""
    parked_and_done(box, client, provider, without)
    assert not provider.resumed_with()
    assert ran(client) == 2


@pytest.mark.parametrize("client", ["claude", "gemini"], indirect=True)
def test_it_is_given_a_session(box: JobBox, client: Client, provider: Stage) -> None:
    """What writes text has a session of ours, and goes on with it after it was parked."""
    parked_and_done(box, client, provider, TEXT)
    job = box.job(1)
    assert job["given_session"]
    asked = provider.resumed_with()
    assert asked
    assert PROMPT in asked.text
    assert asked.results
    assert ran(client) == 1


@pytest.mark.parametrize("client", ["claude", "gemini"], indirect=True)
def test_a_given_session_lives_on_when_its_time_is_up(
    box: JobBox, client: Client, provider: Stage
) -> None:
    """After `max_runtime`, too, it goes on where it was."""
    box.config(BRISK)
    provider.front.command, provider.front.once = ENDLESS, True
    box.worker()
    argv = [word for word in client.work_on(PROMPT) if word not in TEXT]
    words = ("--max-runtime", "20s", "--retries", "2", "--cwd", str(client.work))
    id = box.submit(*words, "--", *argv)
    until(lambda: ran(client), within=SLOW)
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["max_runtime", "exit"]), box.log(id)
    assert job["given_session"]
    assert provider.resumed_with()
    assert ran(client) == 1


@pytest.mark.parametrize("client", ["claude", "gemini"], indirect=True)
def test_a_given_session_that_was_never_begun(box: JobBox, client: Client, provider: Stage) -> None:
    """Killed before it had written anything down, it is begun anew, and not failed."""
    box.config(BRISK)
    box.worker()
    argv = [word for word in client.work_on(PROMPT) if word not in TEXT]
    id = submit(box, client, [str(late(client)), *argv[1:]])
    until(lambda: box.job(id)["session"], within=SLOW)
    runner = box.runner(id)
    os.kill(runner, signal.SIGSTOP)
    for pid in marked(box) - {runner}:
        os.kill(pid, signal.SIGKILL)
    (client.work / "late").touch()
    os.kill(runner, signal.SIGKILL)
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["lost", "exit"]), box.log(id, 2)
    assert "that session is not there; it begins anew" in box.log(id, 2)
    assert job["given_session"]
    assert not provider.resumed_with()
    assert ran(client) == 1


def late(client: Client) -> Path:
    """The same program, which begins to work at its second start only."""
    path = client.home / "late" / client.name
    path.parent.mkdir()
    shim = f'#!/bin/sh\n[ -e late ] || exec tail -f /dev/null\nexec {client.program} "$@"\n'
    path.write_text(shim)
    path.chmod(0o755)
    real = Path(client.program).resolve()
    package = next(
        here / "package.json" for here in real.parents if (here / "package.json").exists()
    )
    (path.parent / "package.json").write_text(package.read_text())
    return path


def parked_and_done(
    box: JobBox, client: Client, provider: Stage, without: Words, more: Words = ()
) -> None:
    """Have an agent that tells less refused, parked, and let in again."""
    box.config(BRISK)
    box.env["CLAUDE_CODE_MAX_RETRIES"] = "2"
    provider.shut(1_000)
    box.worker()
    argv = [word for word in client.work_on(PROMPT) if word not in without]
    id = submit(box, client, [*argv, *more])
    box.until_state(id, "parked", "failed", within=SLOW)
    provider.open()
    box.headgate("resume", paused(box)["pool"])
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["rate_limited", "exit"])


def test_cancelled_while_it_retries(box: JobBox, client: Client, provider: Stage) -> None:
    """Nothing of it is left, by mark and by the table of processes."""
    box.config(PATIENT)
    provider.shut(30_000)
    box.worker()
    id = submit(box, client)
    refused(box, client, id)
    assert box.state(id) == "running"
    assert marked(box) & around(client)
    box.headgate("cancel", str(id))
    box.until_state(id, "cancelled")
    nothing_left(box, client)
    assert not box.rows("lease")


def test_cancelled_while_a_tool_runs(box: JobBox, client: Client, provider: Stage) -> None:
    """Its tool is gone with it, though most of them start tools in sessions of their own."""
    box.config(BRISK)
    provider.front.command = ENDLESS
    box.worker()
    id = submit(box, client)
    tool = until(lambda: around(client, "tail"), within=SLOW)
    assert tool <= marked(box)
    box.headgate("cancel", str(id))
    box.until_state(id, "cancelled")
    nothing_left(box, client)
    assert not box.rows("lease")
    assert len(provider.front.asked) == 1


def test_its_runner_is_killed(box: JobBox, client: Client, provider: Stage) -> None:
    """It goes on, is looked after to its end, and is not asked to go on when it has finished."""
    box.config(BRISK)
    provider.front.command = UNTIL_GO
    box.worker()
    id = submit(box, client)
    until(lambda: ran(client), within=SLOW)
    first, agent = box.runner(id), until(lambda: box.job(id)["pid"])
    os.kill(first, signal.SIGKILL)
    until(lambda: box.events("adopted"))
    assert box.runner(id) != first
    assert agent in marked(box)
    (client.work / "go").touch()
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["finished"])
    assert client.answer(box.log(id, 1)) == WORDS
    assert not provider.resumed_with()
    assert ran(client) == 1
    nothing_left(box, client)


def test_its_runner_is_killed_while_it_retries(
    box: JobBox, client: Client, provider: Stage
) -> None:
    """Whoever looks after it next ends it when it only retries, and parks its job."""
    box.config(BRISK)
    provider.shut(30_000)
    box.worker()
    id = submit(box, client)
    refused(box, client, id)
    os.kill(box.runner(id), signal.SIGKILL)
    until(lambda: box.events("adopted"))
    box.until_state(id, "parked", within=SLOW)
    nothing_left(box, client)
    assert not box.rows("lease")
    provider.open()
    box.headgate("resume", paused(box)["pool"])
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["rate_limited", "exit"])
    went_on(box, client, provider, id)


@pytest.mark.parametrize("client", ["opencode"], indirect=True)
def test_its_pool_rests_as_long_as_it_waits(box: JobBox, client: Client, provider: Stage) -> None:
    """Opencode obeys a Retry-After of 7 s, and does not tell: its pool opens with its next try."""
    box.config(PATIENT)
    provider.shut(7_000)
    box.worker()
    id = submit(box, client)
    refused(box, client, id)
    provider.open()
    closed = datetime.fromisoformat(paused(box)["at"]).timestamp()
    box.headgate("run", "-m", client.key, "--", "true", within=SLOW)
    assert 7 <= time.time() - closed < 25
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["exit"])
    assert len(box.events("paused")) == 1


@pytest.mark.parametrize("client", ["opencode"], indirect=True)
def test_it_gives_up_and_says_for_how_long(box: JobBox, client: Client, provider: Stage) -> None:
    """Opencode names the Retry-After when it gives up: its pool opens then, not after 30 s."""
    box.config(PATIENT)
    provider.shut(7_000)
    box.worker()
    id = submit(box, client)
    box.until_state(id, "parked", within=SLOW + 35)
    gave_up = time.time()
    provider.open()
    job = ended(box, id)
    second = datetime.fromisoformat(job["attempt_list"][1]["started"]).timestamp()
    assert 5 < second - gave_up < 15
    assert (job["state"], codes(job)) == ("done", ["rate_limited", "exit"])
    went_on(box, client, provider, id)
