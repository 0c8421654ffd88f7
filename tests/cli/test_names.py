"""The name of a job stands for its id, wherever an id is taken."""

import json

import pytest

from tests.cli.golden.compare import Ask
from tests.support import Box


def submit(ask: Ask, name: str, *words: str) -> str:
    """Hand in a job that stays out of the line, and tell its id."""
    said = ask("submit", "-q", "--name", name, "--hold", *words, "--", "true")
    assert said.code == 0, said.err
    return said.out.strip()


@pytest.fixture(autouse=True)
def _home(box: Box) -> None:
    """Everything here uses the store of a box."""


def test_a_name_stands_for_the_job_that_has_not_ended(ask: Ask) -> None:
    """Of two of a name, the one that goes on is meant, though the other is newer."""
    first, second = submit(ask, "night shift"), submit(ask, "night shift")
    assert ask("cancel", second).code == 0
    found = json.loads(ask("why", "night shift", "--json").out)
    assert (found["id"], found["name"]) == (int(first), "night shift")
    for verb, *more in (("release",), ("hold",), ("move", "--first"), ("cancel",)):
        said = ask(verb, *more, "night shift")
        assert (said.code, said.out) == (0, "")


def test_a_name_stands_for_the_latest_that_has_ended(ask: Ask) -> None:
    """If all of a name have ended, the one that was handed in last is meant."""
    ids = [submit(ask, "night") for _ in range(2)]
    assert ask("cancel", *ids).code == 0
    said = ask("retry", "night")
    assert said.err.startswith(f"headgate: job {ids[1]} (night) is queued")


def test_two_that_have_not_ended_are_listed(ask: Ask) -> None:
    """Nobody guesses which was meant; nothing is done."""
    ids = [submit(ask, "twin") for _ in range(2)]
    for words in (("cancel",), ("why",), ("wait",), ("logs",), ("hold",)):
        said = ask(*words, "twin")
        assert said.code == 2
        assert f"{ids[0]} (held), {ids[1]} (held); give the number of one" in said.err
    said = ask("submit", "--after", "twin", "--", "true")
    assert (said.code, "bad --after 'twin': 2 jobs of that name" in said.err) == (2, True)


def test_cancelling_by_name_tells_the_id(ask: Ask) -> None:
    """What became of it is told with the number that its name stood for."""
    id = submit(ask, "review")
    (outcome,) = json.loads(ask("cancel", "--json", "review").out)
    assert (outcome["id"], outcome["outcome"]) == (int(id), "withdrawn")


def test_a_job_comes_after_another_by_its_name(ask: Ask) -> None:
    """Both on the command line and in a batch."""
    id = submit(ask, "build")
    said = ask("submit", "--after", "build", "--", "true")
    assert f"comes after job {id}" in said.err


def test_names_are_shown_in_every_list(ask: Ask) -> None:
    """In the queue whatever the job does, in events, in why and in what verbs tell."""
    submit(ask, "aside")
    assert ask("submit", "-q", "--name", "waits", "--", "true").code == 0
    assert "job 2 (waits)" in ask("move", "2", "--first").err
    shown = ask("queue").out
    assert "aside" in shown
    assert "waits" in shown
    assert "waits" in ask("events").out
    assert "waits" in ask("why", "2").out
    last = json.loads(ask("events", "-n", "1", "--json").out)
    assert last["name"] == "waits"
    assert ask("cancel", "2").code == 0
    assert "waits" in ask("queue", "--all").out


def test_a_number_is_an_id_and_a_name_of_digits_is_warned_of(ask: Ask) -> None:
    """A job that is named like an id can only be had by its id, and submit says so."""
    said = ask("submit", "--name", "31", "--hold", "--", "true")
    assert "warning: a name of digits only is taken for an id" in said.err
    assert ask("why", "31").code == 2
