"""A seat for each request: real agents, real wires, a real provider that counts."""

import base64
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headgate.sim.journal import excess, most_at_once, refusals
from tests.support import Box, Program, pool_of, until
from tests.wire.harness import DIALECTS, agent, provider, said

FOUR = '[pools.host]\nlimit = 40\n[pools."*/opus"]\nlimit = 4\ncooldown = "250ms"\nadapt = "off"\n'
ONE = FOUR.replace("limit = 4\n", "limit = 1\n")


@pytest.mark.timeout(180)
def test_twenty_agents_share_four_streams(box: Box) -> None:
    """All succeed in every API, no byte is changed, and the provider never counts a fifth."""
    box.config(FOUR)
    with provider(box, "--cap", "4", "--lag", "150ms", "--duration", "200ms") as upstream:
        agents = []
        for n in range(20):
            turn = [f"{n}-{dialect}:{dialect}" for dialect in DIALECTS]
            turn = turn[n % 4 :] + turn[: n % 4]
            agents.append(agent(box, upstream, *(["--stream"] if n % 2 else []), *turn))
        got = {one["number"]: one for program in agents for one in said(program)}
        truth = upstream.recorder.answers()
        assert len(got) == 80
        assert {one["status"] for one in got.values()} == {200}
        for number, one in got.items():
            assert (200, base64.b64decode(one["body"])) == truth[number], number
        lines = upstream.lines()
        assert 2 <= most_at_once(lines) <= 4
        assert excess(lines) == 0
        assert refusals(lines) == {}


def body_of(one: dict[str, Any]) -> bytes:
    return base64.b64decode(one["body"])


def in_use(box: Box, pool: str) -> int:
    return pool_of(box.gate(), pool).in_use


def wire_of(agent: Program) -> int:
    """The pid of the wire process beside an agent."""
    found = until(lambda: Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split())
    wires = [pid for pid in found if b"headgate.wire" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(wires[0])


def test_one_agent_with_four_requests_takes_four_seats_of_its_model(box: Box) -> None:
    """Four at once run side by side, on one seat of the machine; a fifth waits for one of them."""
    box.config(FOUR.replace("limit = 40", "limit = 1"))
    gate = box.gate()
    with provider(box, "--cap", "9", "--duration", "3s") as upstream:
        program = agent(box, upstream, "--at-once", *(f"{n}:messages" for n in range(5)))
        until(lambda: len(gate.queue().waiting) == 1)
        until(lambda: most_at_once(upstream.lines()) == 4)
        assert (pool_of(gate, "host").in_use, pool_of(gate, "*/opus").in_use) == (1, 4)
        (waits,) = gate.queue().waiting
        assert (waits.key, waits.pool, waits.position) == ("anthropic/opus", "*/opus", 1)
        assert {one["status"] for one in said(program)} == {200}
        assert most_at_once(upstream.lines()) == 4
    until(lambda: not gate.queue().running)
    assert box.events("granted")[0][4] == ""
    assert len(box.events("granted")) == 1, "requests are not events"


def test_a_client_that_goes_away_leaves_the_line(box: Box) -> None:
    """An agent that is killed while its request waits is out of the line at once."""
    box.config(ONE)
    gate = box.gate()
    with provider(box, "--cap", "9", "--duration", "30s") as upstream:
        first = agent(box, upstream, "--stream", "0:messages")
        until(lambda: upstream.events("enter"))
        second = agent(box, upstream, "--stream", "1:messages")
        until(lambda: gate.queue().waiting)
        second.send(signal.SIGTERM)
        until(lambda: not gate.queue().waiting)
        first.send(signal.SIGTERM)
        until(lambda: upstream.events("cancelled"))
        until(lambda: not gate.queue().running)
        assert len(upstream.events("enter")) == 1


def test_what_a_killed_wire_held_is_freed(box: Box) -> None:
    """The seats of a wire's requests are free when it is killed; another takes its place."""
    box.config(ONE)
    gate = box.gate()
    with provider(box, "--cap", "9", "--duration", "2s") as upstream:
        first = agent(box, upstream, "--stream", "--tries", "9", "0:messages")
        until(lambda: upstream.events("enter"))
        second = agent(box, upstream, "1:messages")
        until(lambda: gate.queue().waiting)
        os.kill(wire_of(first), signal.SIGKILL)
        assert said(second)[0]["status"] == 200
        assert said(first)[0]["status"] == 200
        assert len(upstream.events("enter")) == 3


def test_a_refusal_is_waited_out_in_the_line(box: Box) -> None:
    """A cap that is lower than the pool's is met by requests, and by no client."""
    box.config(FOUR.replace('adapt = "off"', 'adapt = "learn"'))
    with provider(box, "--cap", "2", "--lag", "50ms", "--duration", "150ms") as upstream:
        words = (f"{n}:{DIALECTS[n % 4]}" for n in range(8))
        got = said(agent(box, upstream, "--at-once", *words))
        assert {one["status"] for one in got} == {200}
        assert refusals(upstream.lines())["concurrency"] >= 1
        truth = upstream.recorder.answers()
        assert all(truth[one["number"]] == (200, body_of(one)) for one in got)
    assert box.events("limit_reduced")


def test_a_refusal_for_long_is_the_agents_to_see(box: Box) -> None:
    """A request that is refused for longer than anybody waits gets its provider's own answer."""
    box.config(FOUR)
    with provider(box, "--cap", "1", "--duration", "20s", "--retry-after", "10m") as upstream:
        holds = agent(box, upstream, "--stream", "0:messages")
        until(lambda: upstream.events("enter"))
        (got,) = said(agent(box, upstream, "1:messages"))
        assert upstream.recorder.answers()["1"] == (got["status"], body_of(got))
        assert got["status"] == 429
        assert got["headers"]["retry-after"] == "600"
        holds.send(signal.SIGTERM)
        holds.wait()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_who_has_waited_for_long_enough_is_told(box: Box, dialect: str) -> None:
    """After `--queue-timeout` a client hears it as its provider would say it."""
    box.config(ONE)
    with provider(box, "--cap", "9", "--duration", "30s") as upstream:
        holds = agent(box, upstream, "--stream", f"0:{dialect}")
        until(lambda: upstream.events("enter"))
        waits = agent(box, upstream, f"1:{dialect}", run=("--queue-timeout", "1s"))
        (got,) = said(waits)
        assert got["status"] == 429
        assert 1 <= int(got["headers"]["retry-after"]) <= 60
        assert got["headers"]["x-headgate-reason"] == "pool_full"
        error = json.loads(body_of(got))["error"]
        assert "no seat for" in error["message"]
        assert len(upstream.events("enter")) == 1
        holds.send(signal.SIGTERM)
        holds.wait()


@pytest.mark.parametrize(
    "raw", ["", "{", "null", "[1]", '{"model": 7}', '{"model": "' + "x" * 70_000 + '"}', "\x01"]
)
def test_an_odd_body_is_upstreams_to_judge(box: Box, raw: str) -> None:
    """A request whose model cannot be read is counted as one of an unknown model, and passes."""
    box.config(FOUR)
    with provider(box) as upstream:
        (got,) = said(agent(box, upstream, "--raw", raw, "0:messages"))
        assert (got["status"], body_of(got)) == upstream.recorder.answers()["0"]
        assert 400 <= got["status"] < 500
    assert not box.gate().queue().running


def test_a_huge_request_passes_whole(box: Box) -> None:
    """Twenty megabytes are gathered, read for their model at the end, and sent on as they came."""
    box.config(ONE)
    with provider(box, "--duration", "10ms") as upstream:
        (got,) = said(agent(box, upstream, "--huge", "20000000", "0:messages"))
        assert (got["status"], body_of(got)) == upstream.recorder.answers()["0"]
        assert [line.model for line in upstream.events("enter")] == ["opus"]


def test_a_websocket_is_told_to_use_http(box: Box) -> None:
    """In a WebSocket requests could not be counted one by one: 426, and the client falls back."""
    box.config(FOUR)
    with provider(box) as upstream:
        (got,) = said(agent(box, upstream, "--websocket", "0:responses"))
        assert got["status"] == 426


def test_what_costs_nothing_waits_for_no_seat(box: Box) -> None:
    """The list of models is there while every seat is taken."""
    box.config(ONE)
    with provider(box, "--duration", "30s") as upstream:
        holds = agent(box, upstream, "--stream", "0:messages")
        until(lambda: upstream.events("enter"))
        (got,) = said(agent(box, upstream, "--get", "/v1/models", "1:messages"))
        assert got["status"] == 200
        holds.send(signal.SIGTERM)
        holds.wait()
