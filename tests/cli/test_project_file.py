"""A project's own headgate.toml: read when it is trusted, and only ever tighter."""

import json
from pathlib import Path

import pytest

from headgate.core.admission.pool_set import PoolSet
from headgate.core.admission.pools import Pool
from headgate.core.admission.setting_precedence import AtMost, parse_view, read_view, with_project
from tests.cli.golden.compare import Ask
from tests.support import Box

TIGHT = "[pools.anthropic]\nlimit = 1\n[profiles.robo]\nlike = 'claude'\n"


@pytest.fixture
def project(box: Box, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's file, two folders above the one in which everything is done."""
    below = box.folder / "project" / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    file = box.folder / "project" / "headgate.toml"
    file.write_text(TIGHT)
    return file


def limits(ask: Ask) -> dict[str, tuple[int | None, str]]:
    pools = json.loads(ask("status", "--json").out)["pools"]
    return {one["pool"]: (one["limit"], one["source"]) for one in pools}


def test_a_project_is_read_when_it_is_trusted_and_until_it_changes(project: Path, ask: Ask) -> None:
    """Before that, and after a change, it is only mentioned; trust ends when it is taken back."""
    assert "anthropic" not in limits(ask)
    assert f"headgate config trust '{project.parent}'" in ask("status").err
    said = ask("config", "trust")
    assert said.out.splitlines()[1:] == ["  at most 1 in anthropic", "  robo: as claude"]
    assert limits(ask)["anthropic"] == (1, "project")
    assert ask("status").err == ""
    project.write_text(TIGHT.replace("1", "9"))
    assert "anthropic" not in limits(ask)
    assert "is changed since it was trusted" in ask("status").err
    project.write_text(TIGHT)
    assert limits(ask)["anthropic"] == (1, "project")
    assert ask("config", "trust", "--remove").code == 0
    assert "anthropic" not in limits(ask)


def test_trust_is_of_a_place_too(project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text elsewhere is not trusted."""
    ask("config", "trust")
    other = project.parent.parent / "other"
    other.mkdir()
    (other / "headgate.toml").write_text(TIGHT)
    monkeypatch.chdir(other)
    assert "anthropic" not in limits(ask)


def test_work_started_there_is_held_back_and_other_work_is_not(
    box: Box, project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit goes with its tickets, whoever settles the line; HEADGATE_LIMITS beats it."""
    ask("config", "trust")
    key = ("-m", "anthropic/claude-haiku-4-5")
    with box.gate() as gate, gate.slot("anthropic/claude-sonnet-4-6"):
        assert ask("capacity", key[1]).code == 75
        assert ask("run", "--no-wait", *key, "--", "true").code == 75
        monkeypatch.setenv("HEADGATE_LIMITS", "anthropic=2")
        assert ask("capacity", key[1]).code == 0
        monkeypatch.delenv("HEADGATE_LIMITS")
        assert ask("submit", "-q", "--hold", *key, "--", "true").code == 0
        monkeypatch.chdir("/")
        assert ask("capacity", key[1]).code == 0
    (row,) = box.rows("job")
    assert any("anthropic=<1" in text for text in row if isinstance(text, str))


def test_a_program_of_the_project_is_known_there(project: Path, ask: Ask) -> None:
    """Its commands tell their model, as those of the agent that it is like."""
    ask("config", "trust")
    ask("submit", "-q", "--no-check", "--hold", "--", "robo", "--model", "opus", "-p", "x")
    found = json.loads(ask("why", "1", "--json").out)
    assert found["key"].startswith("anthropic/claude-opus")


REFUSED = [
    ("[notify]\n", "notify: not in a project's file; allowed here: pools, profiles"),
    ("[run]\ngrace = '1s'\n", "run: not in a project's file"),
    ("[pools.a]\nlimit = 1\nusage = {}\n", "pools.a.usage: not in a project's file; allowed here"),
    ("[pools.a]\nlimit = 'unlimited'\n", "expected a whole number from 1"),
    ("[pools.a]\nlimit = 'learn'\n", "expected a whole number from 1"),
    ("[pools.a]\n", "limit"),
    ("[profiles.r]\nresume = ['--yolo']\n", "profiles.r.resume: not in a project's file"),
    ("[profiles.r]\nbase_url = {}\n", "profiles.r.base_url: not in a project's file"),
    ("[profiles.claude]\nprovider = 'free'\n", "claude is known already"),
    ("[profiles.r]\nprograms = ['Codex']\n", "Codex is known already"),
    ("[profiles.r]\nprograms = ['npx']\n", "npx is known already"),
    ("[pools]\na = 1\n", "pools.a: found 1, expected a table"),
    ("profiles = 3\n", "profiles: found 3, expected a table"),
    ("pools = [\n", "not valid TOML"),
]


@pytest.mark.parametrize("text, said", REFUSED)
def test_what_is_not_listed_is_refused(project: Path, ask: Ask, text: str, said: str) -> None:
    """The error names the file, the key, and what is allowed; nothing is trusted."""
    project.write_text(text)
    refused = ask("config", "trust")
    assert refused.code == 2
    assert str(project) in refused.err
    assert said in refused.err
    assert json.loads(ask("config", "check", "--json").out)["files"][1]["text"] == "not trusted"


def test_odd_files_end_nothing(project: Path, ask: Ask) -> None:
    """One that is huge, a pipe, no text, or a list of trust that is damaged."""
    assert ask("config", "trust").code == 0
    trusted = next((project.parent.parent / "xdg-state").rglob("trusted.json"))
    assert trusted.stat().st_mode & 0o077 == 0
    trusted.write_text("{")
    assert "anthropic" not in limits(ask)
    trusted.write_text("[]")
    assert "anthropic" not in limits(ask)
    project.write_bytes(b"\xff")
    assert ask("config", "trust").code == 2
    project.write_bytes(b"#" * 300_000)
    assert "expected a few lines" in ask("config", "trust").err
    assert ask("status").code == 0


def test_a_limit_of_a_project_never_widens() -> None:
    """Where the user's own is tighter, or becomes so, it counts."""
    pools = PoolSet({"a": Pool("a", 3, "file", most=3), "b": Pool("b", None, "none")})
    for limit, seen in ((2, 2), (3, 3), (9, 3)):
        view = with_project("", {"a": limit, "b": limit})
        under = pools.under(view).pools
        assert under["a"].limit == seen
        assert (under["b"].limit, under["b"].source) == (limit, "project")
    assert with_project("a=7", {"a": 2, "c": 4}) == "a=7,c=<4"
    assert read_view(parse_view("a=<2,host=5")) == {"a": AtMost(2), "host": 5}
    assert pools.under("a=7").pools["a"].limit == 7


def test_a_broken_variable_drops_nothing_else(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks still sees the limits of the file; the error names the variable and its value."""
    box.config("[pools.openai]\nlimit = 7\n")
    monkeypatch.setenv("HEADGATE_LIMITS", "host=many")
    said = ask("status", "--json")
    assert "(HEADGATE_LIMITS is 'host=many')" in said.err
    pools = {one["pool"]: one["limit"] for one in json.loads(said.out)["pools"]}
    assert pools["openai"] == 7
    box.config("[pools.openai]\nlimit = 'x'\n")
    both = ask("config", "check").err
    assert "pools.openai.limit" in both
    assert "HEADGATE_LIMITS is 'host=many'" in both


def test_the_store_may_be_a_plain_path(box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the root or from home; a relative one would be another store in each folder."""
    for said in (str(box.folder / "t.db"), "~/u.db"):
        monkeypatch.setenv("HOME", str(box.folder))
        monkeypatch.setenv("HEADGATE_STORE", said)
        assert ask("status").code == 0
        assert ask("--store", said, "status").code == 0
        assert ask("doctor").code == 0
    assert (box.folder / "t.db").exists()
    assert (box.folder / "u.db").exists()
    refused = ask("--store", "t.db", "status")
    assert refused.code == 2
    assert "did you mean '/" in refused.err


def test_the_files_that_are_looked_for_are_named(project: Path, box: Box, ask: Ask) -> None:
    """By `--version -v`, `config check` and `doctor`, found or not."""
    shown = ask("--version", "-v").out
    for text in (str(project), "(not trusted)", str(box.path), "config.toml", "trusted.json"):
        assert text in shown
        assert text in ask("config", "check").out
        assert text in ask("doctor").out
    assert ask("--version").out.count("\n") == 1
    assert ask("--version", "-v").out.splitlines()[2].startswith("configuration")
    files = json.loads(ask("config", "check", "--json").out)["files"]
    assert [one["what"] for one in files] == [
        "configuration",
        "project",
        "trusted projects",
        "store",
    ]
