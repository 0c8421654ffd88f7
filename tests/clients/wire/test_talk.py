"""Real agents that talk of refusals, while their requests show that there were none."""

import shlex

import pytest

from tests.clients.jobs.stage import BRISK, PROMPT, Stage, Words, codes, ended, ran, submit
from tests.clients.jobs.test_talk import EVENTS, TALK
from tests.clients.real import Client
from tests.work.conftest import JobBox

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


@pytest.mark.parametrize("mode", ["events", "text"])
def test_talk_is_no_refusal(box: JobBox, client: Client, provider: Stage, mode: str) -> None:
    """Neither what its tool prints nor what it answers changes a pool, a limit or a job."""
    box.config(BRISK)
    box.env["HEADGATE_METER"] = "wire"
    provider.front.command = f"echo ran >>ran; printf %s\\\\n {shlex.quote(TALK)}"
    provider.front.says = TALK
    without: Words = EVENTS[client.name] if mode == "text" else ()
    box.worker()
    id = submit(box, client, [word for word in client.work_on(PROMPT) if word not in without])
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["exit"]), box.log(id)
    assert job["metered"]["meter"] == "wire"
    assert job["metered"]["refused"] == 0
    assert "anthropic.RateLimitError" in box.log(id)
    assert ran(client) == 1
    told = {kind for kind in ("paused", "parked", "limit_reduced") if box.events(kind)}
    assert not told
