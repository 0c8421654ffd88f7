"""The parts of the stand-in that need no server."""

import contextlib
import random
from argparse import ArgumentParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import UsageError
from headgate.sim.dialects.dialect import Reply
from headgate.sim.journal import Journal, excess, most_at_once, refusals
from headgate.sim.server.behaviour import (
    Behaviour,
    RequestOptions,
    Script,
    Spread,
    draw,
    fixed,
    parse_request_options,
    parse_spread,
)
from headgate.sim.server.play import pieces
from headgate.sim.server.serve import Options, arguments, options_of
from headgate.sim.upstream import ProviderPlan


def test_a_marker_is_read() -> None:
    """Seconds become milliseconds; of several markers the last counts."""
    body = b'{"a": "[[sim tokens=3]]", "b": "x [[sim duration=2.5 cut=0.5 by=eof status=529]]"}'
    wanted_options = parse_request_options(body)
    assert (
        wanted_options.duration,
        wanted_options.cut,
        wanted_options.by,
        wanted_options.status,
    ) == (2_500, 0.5, "eof", 529)
    assert wanted_options.tokens is None
    assert parse_request_options(b"[[simple]] [[sim") == RequestOptions()


@given(st.binary(max_size=60))
def test_no_marker_breaks_anything(text: bytes) -> None:
    """It is understood, or said to be wrong."""
    with contextlib.suppress(UsageError):
        assert isinstance(parse_request_options(b"[[sim " + text + b"]]"), RequestOptions)


@pytest.mark.parametrize(
    "text, spread",
    [
        ("2s", fixed(2_000)),
        ("500ms..5s", Spread(500, 5_000)),
        ("exp:20s", Spread(0, 200_000, 20_000)),
        ("exp:20s:2s..10m", Spread(2_000, 600_000, 20_000)),
        ("tokens", None),
    ],
)
def test_durations_are_read(text: str, spread: Spread | None) -> None:
    """Fixed, between two ends, exponential within bounds, or by the tokens."""
    assert parse_spread(text) == spread


@pytest.mark.parametrize("text", ["", "5s..1s", "exp:", "exp:0", "exp:1s:2s", "x..y", "999d"])
def test_odd_durations_are_refused(text: str) -> None:
    """With a sentence."""
    with pytest.raises(UsageError, match="duration"):
        parse_spread(text)


MAYBE = st.none() | st.integers(0, 5_000)
WISHES = st.tuples(*[MAYBE] * 4)
SPREADS = st.none() | st.tuples(st.integers(0, 500), st.integers(500, 9_000))


@given(SPREADS, st.tuples(*[st.integers(0, 3_000)] * 3), st.booleans(), WISHES, st.integers())
def test_a_script_makes_sense(
    ends: tuple[int, int] | None,
    times: tuple[int, int, int],
    cut: bool,  # noqa: FBT001
    wishes: tuple[int | None, ...],
    seed: int,
) -> None:
    """Everything happens before the end; every token is sent once, in order, in good time."""
    behaviour = Behaviour(Spread(*ends) if ends else None, *times, cuts=float(cut))
    duration, tokens, first_token, most = wishes
    wanted_options = RequestOptions(duration=duration, tokens=tokens, first_token=first_token)
    chance = random.Random(seed)  # noqa: S311 - no secret
    script = draw(behaviour, chance, wanted_options, most)
    assert 0 <= script.first_token <= script.duration
    assert 0 <= script.headers <= script.duration
    assert (script.cut is not None) == cut
    assert script.cut is None or 0 <= script.cut <= script.duration
    assert most is None or script.tokens <= most
    assert wanted_options.duration is None or script.duration >= wanted_options.duration
    found = list(pieces(script))
    assert [token for _, first, end in found for token in range(first, end)] == list(
        range(script.tokens)
    )
    due = [at for at, _, _ in found]
    assert due == sorted(due)
    assert all(script.first_token <= at <= script.duration for at in due)
    slow = script.stretched(2.0)
    assert slow.duration == 2 * script.duration
    assert slow.tokens == script.tokens


def test_an_answer_numbers_its_tokens() -> None:
    """Its chunks put together are the whole."""
    reply = Reply(1, "m", 3, 12)
    assert reply.text() == "0 1 2 3 4 5 6 7 8 9 10 11"
    assert reply.text(0, 5) + reply.text(5, 12) == reply.text()
    script = Script(0, 0, 100, 12, full=False, cut=None, cut_by="rst")
    assert "".join(reply.text(first, end) for _, first, end in pieces(script)) == reply.text()


def test_a_journal_keeps_what_it_can() -> None:
    """The last lines; numbers go on."""
    journal = Journal(keep=3)
    for n in range(5):
        journal.write("enter", n, in_flight=n, model="a" if n % 2 else "b", model_in_flight=1)
    assert [line.n for line in journal.lines()] == [3, 4, 5]
    assert [line.n for line in journal.lines(4)] == [5]
    assert journal.lines(9) == []
    assert most_at_once(journal.lines()) == 4
    assert most_at_once(journal.lines(), "a") == 1
    assert most_at_once(journal.lines(), "c") == most_at_once([]) == excess([]) == 0
    journal.write("refused", 9, kind="concurrency", over=2)
    assert excess(journal.lines()) == 2
    assert refusals(journal.lines()) == {"concurrency": 1}


def options(*words: str) -> Options:
    parser = ArgumentParser()
    arguments(parser)
    return options_of(parser.parse_args(words))


def test_options_are_read() -> None:
    """With none of them, everything is as by default."""
    assert options() == Options()
    words = "--cap 8,40m:3 --lag 2s --penalty 30m --model-cap opus=2 --weight big=2 --rpm 60"
    more = (
        "--duration 1s..5s --cuts 0.1 --cut-by eof --retry-after 5s --port 9 --json --overload .5"
    )
    found = options(*words.split(), *more.split())
    assert found.plan == ProviderPlan(
        cap=((0, 8), (2_400_000, 3)),
        lag=((0, 2_000),),
        penalty=1_800_000,
        model_caps=(("opus", 2),),
        weights=(("big", 2),),
        rpm=60,
        retry_after=5_000,
        overload=((0, 0.5),),
    )
    assert found.behaviour == Behaviour(duration=Spread(1_000, 5_000), cuts=0.1, cut_by="eof")
    assert (found.port, found.json) == (9, True)


@pytest.mark.parametrize(
    "words",
    [
        "--cap x",
        "--cap 3,5",
        "--cap 3,5s:1,4s:2",
        "--cap -1",
        "--overload 2",
        "--model-cap 3",
        "--lag x",
        "--rpm 1.5",
        "--duration x",
        "--errors -1",
        "--slowdown nan",
    ],
)
def test_odd_options_are_refused(words: str) -> None:
    """With a sentence, and nothing is served."""
    with pytest.raises(UsageError):
        options(*words.replace(" -1", "=-1").split())
