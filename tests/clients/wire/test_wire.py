"""Real agents on the wire: they send the same, get the same, and what upstream says is learned."""

import json
import re
from contextlib import suppress

import apsw
import pytest

from tests.clients.conftest import Run
from tests.clients.front import Heard
from tests.clients.jobs.stage import Stage
from tests.clients.real import Client
from tests.support import until
from tests.work.conftest import JobBox

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
PROMPT = "hello [[sim tokens=20 duration=0.5]]"
CHANGES = re.compile(r"[0-9a-f]{4,}(?:-[0-9a-f]{2,})+|\b[a-z]{2,4}_\w{8,}|[0-9a-f]{12,}|\d+")
"""Names of sessions and messages, moments and counts: they differ from run to run."""
OWN = {"host", "content-length", "x-stainless-retry-count", "traceparent", "connection"}
"""Headers that differ from run to run, or belong to one connection."""


def sent(heard: list[Heard]) -> list[str]:
    """What was asked, without what differs from run to run."""
    found = []
    for one in heard:
        heads = {n.lower(): v for n, v in one.headers.items() if n.lower() not in OWN}
        said = json.dumps([one.path, heads, json.loads(one.body)], sort_keys=True)
        found.append(CHANGES.sub("", said))
    return sorted(found)


def text_mode(client: Client) -> list[str]:
    """Its command line without the words that make it write events."""
    events = {"--output-format", "stream-json", "--verbose", "--json", "--format", "json"}
    return [word for word in client.start(PROMPT) if word not in events]


def test_it_sends_the_same(box: JobBox, client: Client, provider: Stage) -> None:
    """What reaches upstream differs in nothing but the host, and its output is the same."""
    answers, asked = [], []
    for meter in ("agent", "wire"):
        box.env["HEADGATE_METER"] = meter
        provider.front.heard.clear()
        run = Run(box, client, meter, client.start(PROMPT))
        assert run.wait() == 0, run.output
        answers.append(client.answer(run.output))
        asked.append(sent(provider.front.heard))
    assert answers[0] == answers[1]
    assert asked[0] == asked[1]


def told(box: JobBox, kind: str) -> bool:
    """Whether there was such an event; there may be no store yet."""
    with suppress(apsw.Error):
        return bool(box.events(kind))
    return False


def test_a_cap_is_learned_in_text_mode(box: JobBox, client: Client, provider: Stage) -> None:
    """Three at once meet a provider that has no room: it is learned, and none of them fails."""
    limits = {"host": 9, "*/claude-opus-*": 9, client.key: 6}
    box.defaults = ""
    box.config("".join(f'[pools."{name}"]\nlimit = {n}\n' for name, n in limits.items()))
    provider.plan(cap=0)
    box.env["HEADGATE_METER"] = "wire"
    runs = [Run(box, client, f"run{n}", text_mode(client)) for n in range(3)]
    until(lambda: told(box, "limit_reduced"), within=180)
    provider.plan(cap=9)
    assert [run.wait() for run in runs] == [0, 0, 0], "\n".join(run.output for run in runs)


@pytest.mark.parametrize("client", ["claude", "opencode"], indirect=True)
def test_a_refusal_under_run_reaches_its_pool(box: JobBox, client: Client, provider: Stage) -> None:
    """The agent says nothing of it for minutes; its pool is closed at once."""
    box.env["HEADGATE_METER"] = "wire"
    provider.plan(cap=0, retry_after=300_000)
    run = Run(box, client, "refused", text_mode(client))
    until(lambda: told(box, "paused"), within=180)
    run.program.send(15)
    run.program.wait(45)
