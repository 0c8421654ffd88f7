"""Real agents that talk of refusals, are told when their quota is back, or are tried again."""

import shlex
import time

import pytest

from tests.clients.jobs.stage import (
    BRISK,
    ENDLESS,
    PROMPT,
    SLOW,
    TEXT,
    Stage,
    Words,
    codes,
    ended,
    nothing_left,
    paused,
    ran,
    submit,
)
from tests.clients.real import Client
from tests.support import until
from tests.work.conftest import JobBox
from tests.work.test_quota import closed_for

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

TALK = "\n".join(
    (
        "ERROR: exceeded retry limit, last status: 429 Too Many Requests",
        "anthropic.RateLimitError: Error code: 429",
        f"Claude AI usage limit reached|{int(time.time()) // 3600 * 3600 + 75_600}",
        "You've hit your limit \u00b7 resets 4:21am (UTC)",
        '{"type":"error","error":{"type":"rate_limit_error","message":"x"}}',
    )
)
EVENTS = {
    "claude": TEXT,
    "opencode": ("--print-logs", "--format", "json"),
    "codex": ("--json",),
    "gemini": TEXT,
}
"""The options by which they are asked for events; without them they write text."""


@pytest.mark.parametrize("mode", ["events", "text"])
def test_talk_is_no_refusal(box: JobBox, client: Client, provider: Stage, mode: str) -> None:
    """Neither what its tool prints nor what it answers closes a pool or ends anything."""
    box.config(BRISK)
    provider.front.command = f"echo ran >>ran; printf %s\\\\n {shlex.quote(TALK)}"
    provider.front.says = TALK
    without: Words = EVENTS[client.name] if mode == "text" else ()
    box.worker()
    argv = [word for word in client.work_on(PROMPT) if word not in without]
    id = submit(box, client, argv)
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["exit"]), box.log(id)
    assert "anthropic.RateLimitError" in box.log(id)
    assert ran(client) == 1
    assert not box.events("paused")
    assert not box.events("parked")


@pytest.mark.parametrize("client", ["codex"], indirect=True)
@pytest.mark.parametrize("mode", ["events", "text"])
def test_when_its_quota_is_back(box: JobBox, client: Client, provider: Stage, mode: str) -> None:
    """It tells a time of day. The pool is closed until then."""
    box.config(BRISK)
    back = int(time.time()) // 60 * 60 + 7_200
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
    provider.front.refuses_with = {"error": {**error, "plan_type": "plus", "resets_at": back}}
    without = EVENTS[client.name] if mode == "text" else ()
    box.worker()
    id = submit(box, client, [word for word in client.work_on(PROMPT) if word not in without])
    box.until_state(id, "parked", within=SLOW)
    closed = closed_for(box, paused(box)["pool"])
    assert abs(time.time() + closed - back) < 120, box.log(id)
    assert codes(box.job(id)) == ["rate_limited"]


def test_after_its_time_is_up_it_goes_on(box: JobBox, client: Client, provider: Stage) -> None:
    """It is tried again with its session, and what it had done is not done again."""
    box.config(BRISK)
    provider.front.command, provider.front.once = ENDLESS, True
    box.worker()
    long = "8s" if client.name == "codex" else "20s"  # codex breaks a tool off after ten seconds
    words = ("--max-runtime", long, "--retries", "2", "--cwd", str(client.work))
    id = box.submit(*words, "--", *client.work_on(PROMPT))
    until(lambda: ran(client), within=SLOW)
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["max_runtime", "exit"]), box.log(id)
    assert client.session(box.log(id, 2)) == client.session(box.log(id, 1))
    assert provider.resumed_with()
    assert ran(client) == 1
    nothing_left(box, client)
