"""Twenty real agents at once on four streams: a seat for each request, and nobody is refused."""

import json
from pathlib import Path

import pytest

from headgate.sim.journal import excess, most_at_once, refusals
from tests.agents.stage import Provider
from tests.clients.conftest import Run
from tests.clients.real import KEY, REAL, Client, Codex
from tests.support import until
from tests.work.conftest import JobBox

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

AGENTS, CAP = 20, 4
SECONDS = 7
"""How long each answer takes: whoever is last waits for longer than gemini endures silence."""
LAG = "500ms"
UP = 400
"""Seconds in which twenty agents start on a busy machine: opencode takes 5 s of processor."""
POOLS = '[pools.host]\nlimit = 40\n[pools."{key}"]\nlimit = 4\ncooldown = "1s"\nadapt = "off"\n'


class WebSocketCodex(Codex):
    """With its own provider, as after `codex login --with-api-key`: it tries a WebSocket first."""

    def prepare(self) -> None:
        (self.home / ".codex").mkdir(exist_ok=True)
        (self.home / ".codex" / "config.toml").write_text(
            f'model = "gpt-5.2"\nopenai_base_url = "{self.url}/v1"\n'
            "check_for_update_on_startup = false\n[analytics]\nenabled = false\n"
        )
        (self.home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": KEY}))

    def env(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.home / ".codex")}


KINDS: dict[str, type[Client]] = {**REAL, "codex by WebSocket": WebSocketCodex}


@pytest.fixture
def provider(box: JobBox) -> Provider:
    """One that counts for itself, and refuses a fifth."""
    return Provider(box, "--cap", str(CAP), "--lag", LAG)


@pytest.fixture(params=KINDS)
def agent(request: pytest.FixtureRequest, box: JobBox, provider: Provider) -> Client:
    """Each of the real agents, with a seat for each of its requests."""
    made = KINDS[request.param](box, provider.url)
    if not Path(made.program).exists():
        pytest.skip(f"{made.program} is not there: run `make clients`")
    box.config(POOLS.format(key=made.key))
    box.env["HEADGATE_METER"] = "requests"
    return made


def prompt(tokens: int) -> str:
    """A prompt whose answer is so many numbers."""
    return f"number {tokens} [[sim tokens={tokens} duration={SECONDS}]]"


def test_twenty_agents_share_four_streams(box: JobBox, agent: Client, provider: Provider) -> None:
    """All have the whole of their own answer; the provider never counts a fifth, refuses nobody."""
    lengths = [20 + n for n in range(AGENTS)]
    gate = box.gate()
    first = Run(box, agent, "first", agent.start("hello [[sim tokens=9 duration=0.1]]"))
    assert first.wait() == 0, first.output  # twenty opencodes would all make its database
    box.headgate("pause", agent.key)  # until all are there, however long each takes to start
    runs = [Run(box, agent, f"run{n}", agent.start(prompt(n))) for n in lengths]
    until(lambda: len(gate.queue().waiting) >= AGENTS, within=UP)
    box.headgate("resume", agent.key)
    until(lambda: most_at_once(provider.lines()) == CAP)
    assert len(gate.queue().waiting) > CAP
    for tokens, run in zip(lengths, runs, strict=True):
        assert run.program.wait(UP) == 0, run.output
        assert agent.answer(run.output) == " ".join(map(str, range(tokens))), run.output
        assert not agent.refusals(run.output), run.output
        if isinstance(agent, WebSocketCodex):
            assert "failed to connect to Responses WebSocket" in run.output  # and fell back at once
    lines = provider.lines()
    assert provider.count("enter") >= AGENTS
    assert most_at_once(lines) == CAP
    assert excess(lines) == 0
    assert refusals(lines) == {}
    assert not box.events("limit_reduced")
    until(lambda: len(box.rows("request")) == provider.count("enter"))
    assert {row[5:7] for row in box.rows("request")} == {("complete", 200)}
