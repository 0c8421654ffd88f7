"""Real agents whose requests wait for longer than any of them would wait in silence."""

import os
import select

import pytest

from tests.agents.stage import Provider
from tests.clients.conftest import Run
from tests.clients.real import REAL
from tests.support import until
from tests.work.conftest import JobBox

PAST_ALL = 465.0
"""Seconds: codex and opencode get headers after 150 s, and give up 300 s of silence later."""
TOKENS = 40
WORDS = " ".join(map(str, range(TOKENS)))
PROMPT = f"say [[sim tokens={TOKENS} duration=0.5]]"

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(PAST_ALL + 180)]


@pytest.fixture
def provider(box: JobBox) -> Provider:
    return Provider(box, "--cap", "9", "--lag", "0s")


def test_none_of_them_gives_up(box: JobBox, provider: Provider) -> None:
    """All four wait together for pools that are closed for minutes, and then have their answers."""
    variables: dict[str, str] = {}
    clients = []
    for kind in REAL.values():
        clients.append(kind(box, provider.url))
        variables |= box.env
    box.env = {**variables, "HEADGATE_METER": "requests"}
    pools = sorted({client.key for client in clients})
    box.config("".join(f'[pools."{pool}"]\nlimit = 9\n' for pool in ("host", *pools)))
    for pool in pools:
        box.headgate("pause", pool)
    gate = box.gate()
    runs = [Run(box, client, client.name, client.start(PROMPT)) for client in clients]
    until(lambda: len(gate.queue().waiting) == len(clients), within=90)
    assert not _first_to_end(runs, PAST_ALL), "\n".join(run.output for run in runs)
    waited = {row.key: row.waited for row in gate.queue().waiting}
    assert min(waited.values()) >= PAST_ALL, waited  # with the request that they came with
    assert provider.count("enter") == 0
    for pool in pools:
        box.headgate("resume", pool)
    for client, run in zip(clients, runs, strict=True):
        assert run.wait() == 0, run.output
        assert client.answer(run.output) == WORDS, run.output
    assert provider.count("enter") == len(clients)


def _first_to_end(runs: list[Run], within: float) -> bool:
    """Whether any of them ends within so many seconds."""
    ends = [os.pidfd_open(run.program.pid) for run in runs]
    poll = select.poll()
    for fd in ends:
        poll.register(fd, select.POLLIN)
    try:
        return bool(poll.poll(within * 1000))
    finally:
        for fd in ends:
            os.close(fd)
