"""The real SDKs, with asyncio and without, streaming and not, under the meters of the wire."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from headgate.sim.journal import excess, most_at_once, refusals
from tests.clients.front import Front
from tests.support import LONG, Box, until
from tests.wire.harness import provider
from tests.wire.test_requests import FOUR, ONE

SDK_AGENT = str(Path(__file__).with_name("sdk_agent.py"))


def sdks(
    box: Box,
    upstream_environment: dict[str, str],
    rounds: int,
    *run: str,
    meter: str = "requests",
    more: tuple[str, ...] = (),
) -> list[list[str]]:
    """How the requests of a program on the SDKs went: the name of each, and what it says."""
    words = ("--meter", meter, "-q", *run, "--", sys.executable, SDK_AGENT, str(rounds), *more)
    program = box.run(*words, env=upstream_environment)
    out, errors = program.process.communicate(timeout=3 * LONG)
    assert program.process.returncode == 0, errors.decode()
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.timeout(120)
def test_many_requests_of_the_sdks_share_four_streams(box: Box) -> None:
    """All calls of both SDKs succeed at once, streaming or not, and the provider counts four."""
    box.config(FOUR)
    with provider(box, "--cap", "4", "--lag", "150ms", "--duration", "200ms") as upstream:
        got = sdks(box, upstream.environment, 3)
        assert {said for _, said in got} == {"ok"}
        assert len(got) == 27
        lines = upstream.lines()
        assert 2 <= most_at_once(lines) <= 4
        assert excess(lines) == 0
        assert set(refusals(lines)) == {"bad"}


@pytest.mark.timeout(120)
def test_the_sdks_know_our_refusals(box: Box) -> None:
    """Who has waited for long enough gets the error that its SDK has for too many requests."""
    box.config(ONE)
    with provider(box, "--cap", "4", "--duration", "4s") as upstream:
        got = sdks(box, upstream.environment, 1, "--queue-timeout", "1s")
        kinds = Counter(said.partition(":")[0] for _, said in got)
        assert kinds["ok"] >= 1
        assert kinds["RateLimitError"] >= 4
        assert set(kinds) == {"ok", "RateLimitError"}, got


@pytest.mark.timeout(120)
@pytest.mark.parametrize("meter", ["wire", "requests"])
def test_a_turn_with_a_tool(box: Box, meter: str) -> None:
    """The call of a tool, its result and the answer pass; so does everything else beside them."""
    box.config(FOUR)
    with (
        provider(box, "--cap", "9", "--duration", "200ms") as upstream,
        Front(upstream.url) as front,
    ):
        environment = {"ANTHROPIC_BASE_URL": front.url, "OPENAI_BASE_URL": f"{front.url}/v1"}
        got = sdks(box, environment, 1, meter=meter, more=("tool",))
        assert {said for _, said in got} == {"ok"}
        assert len(got) == 10
        assert front.called == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("meter", ["wire", "requests"])
def test_a_client_that_gives_up_is_broken_off(box: Box, meter: str) -> None:
    """Its SDK tells of a timeout, upstream is cancelled at once, and no seat stays taken."""
    box.config(FOUR)
    with provider(box, "--cap", "9", "--duration", "100ms") as upstream:
        got = sdks(box, upstream.environment, 0, meter=meter, more=("impatient",))
        assert sorted(got) == [["impatient_chat", "ok"], ["impatient_messages", "ok"]]
        until(lambda: len(upstream.events("cancelled")) == 2)
        until(lambda: not box.rows("lease"))
