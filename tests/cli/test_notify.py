"""`headgate notify`: trying targets, showing them, and delivering without a worker."""

import json

import pytest

from tests.cli.golden.compare import Ask
from tests.support import Box


@pytest.fixture
def three(box: Box) -> None:
    """A target that works, one that fails, and one that lacks its secret."""
    box.config(
        f"""
        [[notify]]
        name = "book"
        command = "cat > {box.folder}/told"
        events = "all"
        [[notify]]
        name = "broken"
        command = ["sh", "-c", "echo no such room >&2; exit 3"]
        only = {{ task = "oracle-*", key = ["a", "b/c"] }}
        [[notify]]
        name = "lacking"
        url = "https://example.com/hook"
        secret_env = "HOOK_SECRET"
        """
    )


def test_a_test_goes_to_all(three: None, box: Box, ask: Ask) -> None:
    """Each target has a line that says how it went; one that fails makes it exit 125."""
    assert ask("notify", "test") == (
        125,
        "book: ok\nbroken: exit 3: no such room\nlacking: HOOK_SECRET is not set\n",
        "",
    )
    assert json.loads((box.folder / "told").read_text())["event"] == "test"
    assert not box.path.exists()  # trying needs no store


def test_a_test_goes_to_one(three: None, ask: Ask) -> None:
    """A target can be tried by its name, and as JSON."""
    assert ask("notify", "test", "book") == (0, "book: ok\n", "")
    found = ask("notify", "test", "broken", "--json")
    assert found.code == 125
    assert json.loads(found.out) == {
        "schema": 1,
        "targets": [{"target": "broken", "ok": False, "problem": "exit 3: no such room"}],
    }


def test_an_unknown_target_is_refused(three: None, ask: Ask) -> None:
    """A slip of the pen tells which there are."""
    assert ask("notify", "test", "bok") == (
        *(2, ""),
        "headgate: no target 'bok'; there are book, broken, lacking\n",
    )


def test_the_list_shows_who_is_told_of_what(three: None, ask: Ask) -> None:
    """Names, ways and filters, without anything that may be secret."""
    out = ask("notify", "list").out
    assert [line.split()[0] for line in out.splitlines()] == ["name", "book", "broken", "lacking"]
    assert "task oracle-*; key a, b/c" in out
    assert "HOOK_SECRET is not set" in out
    assert "no such room" not in out
    written, _, lacking = json.loads(ask("notify", "list", "--json").out)["targets"]
    assert written == {
        "target": "book",
        "by": "command",
        "to": "sh",
        "events": ["all"],
        "only": {"task": [], "key": [], "pool": []},
        "timeout": 10.0,
        "tries": 5,
        "signed": False,
        "behind": None,
        "delivering": False,
        "problem": None,
    }
    assert (lacking["to"], lacking["signed"]) == ("example.com", True)


def test_nobody_to_tell(box: Box, ask: Ask) -> None:
    """Without targets there is nothing to try or to run, and that is said."""
    said = "headgate: no [[notify]] in the configuration; see docs/notifications.md\n"
    assert ask("notify", "test") == (2, "", said)
    assert ask("notify", "run") == (2, "", said)
    assert ask("notify", "list") == (0, "", said)
    assert json.loads(ask("notify", "list", "--json").out) == {"schema": 1, "targets": []}
