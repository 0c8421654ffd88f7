"""The real SDKs under the meter `requests`."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from headgate.sim.journal import excess, most_at_once, refusals
from tests.support import LONG, Box
from tests.wire.harness import provider
from tests.wire.test_requests import FOUR, ONE

SDK_AGENT = str(Path(__file__).with_name("sdk_agent.py"))


def sdks(box: Box, upstream_environment: dict[str, str], rounds: int, *run: str) -> list[list[str]]:
    """How the requests of a program on the SDKs went: the name of each, and what it says."""
    words = ("--meter", "requests", "-q", *run, "--", sys.executable, SDK_AGENT, str(rounds))
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
        assert len(got) == 21
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
