"""Real agents on the wire whose runner is killed in the middle of a turn: they go on with it."""

import os
import signal
from pathlib import Path

import pytest

from tests.clients.conftest import Run
from tests.clients.front import WANTED
from tests.clients.jobs.stage import (
    BRISK,
    SLOW,
    Stage,
    around,
    codes,
    ended,
    marked,
    nothing_left,
    ran,
    submit,
)
from tests.clients.real import Client
from tests.support import gone, until
from tests.work.conftest import JobBox

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

UNTIL_GO = "echo ran >>ran; while [ ! -e go ]; do sleep 0.1; done"
TOKENS = 40
WORDS = " ".join(map(str, range(TOKENS)))
PROMPT = f"begin {WANTED} [[sim tokens={TOKENS} duration=3]]"
METERS = ("wire", "requests")


def seen(box: JobBox) -> int:
    """How many requests for an answer the wire has recorded."""
    return len(box.rows("request"))


def no_wire_left(box: JobBox) -> bool:
    """Whether the folders of wires are gone."""
    return not list(Path(f"{box.path}.wire").iterdir())


@pytest.mark.parametrize("meter", METERS)
def test_a_job_goes_on_without_its_runner(
    box: JobBox, client: Client, provider: Stage, meter: str
) -> None:
    """Killed while a tool runs: the next request goes through, is seen, and ends the turn."""
    box.config(BRISK)
    box.env["HEADGATE_METER"] = meter
    provider.front.command = UNTIL_GO
    box.worker()
    id = submit(box, client, client.work_on(PROMPT))
    until(lambda: ran(client), within=SLOW)
    first = box.runner(id)
    os.kill(first, signal.SIGKILL)
    until(lambda: box.events("adopted"))
    assert box.runner(id) != first
    (client.work / "go").touch()
    job = ended(box, id)
    assert (job["state"], codes(job)) == ("done", ["finished"]), box.log(id)
    assert client.answer(box.log(id, 1)) == WORDS
    assert provider.front.asked[-1].results
    assert ran(client) == 1
    until(lambda: seen(box) == len(provider.front.asked))
    nothing_left(box, client)
    until(lambda: no_wire_left(box))


@pytest.mark.parametrize("meter", METERS)
def test_a_run_goes_on_without_its_runner(
    box: JobBox, client: Client, provider: Stage, meter: str
) -> None:
    """Nobody adopts it; its wire stays with it: the next request goes through and is seen."""
    box.env["HEADGATE_METER"] = meter
    provider.front.command = UNTIL_GO
    run = Run(box, client, "orphan", client.work_on(PROMPT))
    until(lambda: ran(client), within=SLOW)
    run.program.kill()
    assert marked(box) & around(client)
    (client.work / "go").touch()
    until(lambda: not around(client), within=SLOW)
    assert client.answer(run.output) == WORDS, run.output
    assert provider.front.asked[-1].results
    assert ran(client) == 1
    until(lambda: seen(box) == len(provider.front.asked))
    gate = box.gate()
    until(lambda: not gate.queue().running)
    until(lambda: not marked(box))
    until(lambda: no_wire_left(box))


@pytest.mark.parametrize("meter", METERS)
def test_an_answer_goes_on_without_the_runner(
    box: JobBox, client: Client, provider: Stage, meter: str
) -> None:
    """Killed while an answer comes in: the wire is a process of its own, and it comes in whole."""
    box.env["HEADGATE_METER"] = meter
    run = Run(box, client, "orphan", client.start(f"say [[sim tokens={TOKENS} duration=6]]"))
    until(lambda: provider.count("enter"), within=SLOW)
    run.program.kill()
    assert gone(run.program.pid)
    assert provider.count("exit") == 0
    until(lambda: not around(client), within=SLOW)
    assert client.answer(run.output) == WORDS, run.output
    assert (provider.count("enter"), provider.count("exit")) == (1, 1)
