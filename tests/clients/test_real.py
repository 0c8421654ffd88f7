"""Real agents under headgate, against a provider on loopback."""

import uuid

import pytest

from headgate.sim.journal import most_at_once
from tests.agents.stage import Provider, standin
from tests.clients.conftest import Runs
from tests.clients.real import Client, events
from tests.support import Box, until

pytestmark = pytest.mark.clients

WORDS = " ".join(map(str, range(40)))
ANSWERED = "[[sim tokens=40 duration=0.3]]"
REFUSED = {"claude": 1, "opencode": 1, "codex": 1, "gemini": 400 % 256}


def test_two_of_them_under_a_cap_of_one(
    box: Box, client: Client, provider: Provider, run: Runs
) -> None:
    """One waits for the other: the provider refuses nobody, and each output is complete."""
    box.config(f'[pools."{client.key}"]\nlimit = 1\n')
    runs = [run(name, client.start(f"say {name} {ANSWERED}")) for name in ("one", "two")]
    assert [each.wait() for each in runs] == [0, 0]
    assert [client.answer(each.output) for each in runs] == [WORDS, WORDS]
    assert len({client.session(each.output) for each in runs}) == 2
    assert provider.count("refused") == 0
    assert most_at_once(provider.lines()) == 1
    assert not [client.refusals(each.output) for each in runs if client.refusals(each.output)]


def test_the_exit_code_is_kept(client: Client, provider: Provider, run: Runs) -> None:
    """A client that is told no for good fails under headgate with its own code."""
    assert run("bad", client.start("[[sim status=400]]")).wait() == REFUSED[client.name]
    assert provider.count("refused")


def test_a_refusal_is_understood_and_the_session_resumed(
    box: Box, client: Client, provider: Provider, run: Runs
) -> None:
    """What it says while it waits is classified; ended there, its session goes on later.

    The answer's length is asked for in the first prompt only: it comes if that prompt was sent on.
    """
    session = str(uuid.uuid4()) if client.chosen else ""
    marker = "[[sim tokens=40 status=429 retry_after=30 times=1]]"
    first = run("first", client.start(f"begin {marker}", session))
    until(lambda: client.refusals(first.output), within=40)
    session = session or client.session(first.output)
    (running,) = box.running()
    box.headgate("cancel", "--grace", "5s", str(running["id"]))
    first.wait()
    again = run("again", client.resume(session, "go on"))
    assert again.wait() == 0
    assert client.answer(again.output) == WORDS
    assert client.session(again.output) == session
    assert provider.count("refused") == 1


def test_its_stand_in_prints_the_same_events(
    box: Box, client: Client, provider: Provider, run: Runs
) -> None:
    """What the stand-in prints has the kinds of events that the real one prints."""
    real = run("real", client.start(f"hi {ANSWERED}"))
    assert real.wait() == 0
    box.env |= provider.env
    own = run("own", standin(client.name, *client.start(f"hi {ANSWERED}")[1:]))
    assert own.wait() == 0
    assert client.answer(own.output) == client.answer(real.output) == WORDS
    assert {e["type"] for e in events(own.output)} == {e["type"] for e in events(real.output)}
    assert set(events(own.output)[0]) <= set(events(real.output)[0])
