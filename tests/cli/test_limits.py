"""The verbs that change something: limits, pause, resume, report, init, config check."""

import json
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from headgate.config import load
from headgate.config.template import TEMPLATE
from headgate.core.display.snapshots import PoolStatus
from tests.cli.golden.compare import Ask, check
from tests.support import HEADGATE, LONG, Box

OPUS = "anthropic/claude-opus-4-6"


def pool(box: Box, name: str) -> PoolStatus:
    """A pool, as a gate of its own sees it."""
    with box.gate() as gate:
        return next(found for found in gate.status().pools if found.pool == name)


def test_limits_are_shown_with_where_they_come_from(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pool, from every layer; what the configuration says where something else counts."""
    box.config(
        '[pools.anthropic]\nlimit = 8\nmax_hold = "12h"\nreserve = { interactive = 2 }\n'
        '[pools.openai]\ncooldown = "2s"\n'
    )
    ask("limits", "set", "*/claude-opus-*", "2")
    ask("limits", "unset", "mistral")
    monkeypatch.setenv("HEADGATE_LIMITS", "host=5")
    check("limits", ask("limits").out)
    said = json.loads(ask("limits", "--json").out)["pools"]
    host = next(row for row in said if row["pool"] == "host")
    assert (host["limit"], host["source"], host["configured_limit"]) == (5, "environment", 3)
    assert set(host) == {
        *("pool", "limit", "source", "configured_limit", "cooldown_ms", "max_hold", "reserve"),
        *("per_task", "order"),
        *("adapt", "auto_reduced", "auto_reduced_from", "probing", "next_probe", "lag_ms"),
        *("rpm", "tpm", "spacing_ms"),
    }


def test_a_limit_is_set_for_good(box: Box, ask: Ask) -> None:
    """The confirmation goes to stderr, and a later process finds the limit."""
    said = ask("limits", "set", "Host", "7")
    assert said == (0, "", "headgate: host has a limit of 7 now (it had 3)\n")
    assert json.loads(box.headgate("status", "--json"))["pools"][1]["limit"] == 7


def test_lowering_a_limit_says_that_it_drains(box: Box, ask: Ask) -> None:
    """Below what is in use, people are told that nothing is ended."""
    gate = box.gate()
    with gate.slot(), gate.slot():
        said = ask("limits", "set", "host", "1")
    assert said.err == (
        "headgate: host has a limit of 1 now (it had 3); "
        "2 are in use, so it drains, nothing is ended\n"
    )


def test_headgate_limits_is_said_to_win(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it set in this shell is warned that the change does not count here."""
    monkeypatch.setenv("HEADGATE_LIMITS", "host=9,openai=unlimited")
    told = ask("limits", "set", "host", "2").err.splitlines()
    assert told == [
        "headgate: host has a limit of 2 now",
        "headgate: HEADGATE_LIMITS is set in this shell and beats that: here host has 9",
    ]
    assert "here openai has no limit" in ask("limits", "set", "openai", "2").err
    assert "HEADGATE_LIMITS" not in ask("limits", "cooldown", "host", "2s").err


def test_a_new_pool_is_pointed_out(ask: Ask) -> None:
    """A slip in a pool's name makes a new pool, and that is said."""
    assert "(a new pool: it takes in all work whose provider" in ask("limits", "set", "x", "1").err
    assert "new pool" not in ask("limits", "set", "x", "2").err
    assert "(a new pool: it takes in all work whose key fits)" in ask("pause", "x/y-*").err


def test_unset_lets_everyone_in(box: Box) -> None:
    """A process that lifts the limit frees those who wait in another one."""
    gate = box.gate()
    gate.set_limit("a", 1)
    waits, inside = threading.Event(), threading.Event()

    def work() -> None:
        with gate.slot("a/b", on_wait=lambda _: waits.set()):
            inside.set()

    with gate.slot("a/b"):
        thread = threading.Thread(target=work)
        thread.start()
        assert waits.wait(LONG)
        box.headgate("limits", "unset", "a")
        assert inside.wait(LONG)
    thread.join(LONG)
    assert pool(box, "a").limit is None


def test_cooldown_and_restore(box: Box, ask: Ask) -> None:
    """A cooldown is kept until it is restored, and one without a limit says what it is for."""
    box.config('[pools.a]\nlimit = 4\ncooldown = "3s"\n')
    assert ask("limits", "cooldown", "a", "1m30s").err == (
        "headgate: seats of a freed from now on rest for 1m30s\n"
    )
    assert pool(box, "a").cooldown_ms == 90_000
    ask("limits", "set", "a", "9")
    assert ask("limits", "restore", "a").err == (
        "headgate: a is as configured again: limit 4, cooldown 3s\n"
    )
    assert (pool(box, "a").limit, pool(box, "a").cooldown_ms) == (4, 3000)
    assert "no limit, so this applies once it has one" in ask("limits", "cooldown", "b", "2s").err


def test_restoring_an_unknown_pool_makes_none(box: Box, ask: Ask) -> None:
    """A slip in the name is an error, and leaves no pool behind."""
    said = ask("limits", "restore", "hots")
    assert (said.code, said.err) == (
        2,
        "headgate: there is no pool hots; headgate limits lists them\n",
    )
    assert len(box.gate().status().pools) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("limits", "set", "host", "0"),
        ("limits", "set", "host", "many"),
        ("limits", "set", "host", "learn"),
        ("limits", "set", "a b", "1"),
        ("limits", "set", "host/x", "1"),
        ("limits", "set", "a/\x1b[31m", "1"),
        ("limits", "cooldown", "host", "soon"),
        ("limits", "cooldown", "host", "nan"),
        ("limits", "cooldown", "host", "999d"),
        ("pause", "host", "--for", "0"),
        ("pause", "host", "--for", "later"),
        ("pause", "host", "--note", "\x1b[31mred"),
        ("pause", "host", "--note", "x" * 201),
        ("report", "host", "overload"),
        ("report", "a b", "overloaded"),
        ("report", "host", "overloaded", "--retry-after", "-1"),
        ("report", "host", "overloaded", "--retry-after", "nan"),
        ("report", "host", "overloaded", "--in-use", "3"),
        ("report", "host", "overloaded", "--limit", "3"),
        ("report", "host", "accepted", "--retry-after", "3"),
        ("report", "host", "overloaded", "--note", "two\nlines"),
        ("report", "host", "usage"),
        ("report", "host", "usage", "--limit", "3"),
        ("report", "host", "usage", "--in-use", "nan"),
        ("report", "host", "usage", "--in-use", "1000001"),
        ("report", "host", "usage", "--in-use", "٣"),
        ("report", "host", "usage", "--in-use", "3", "--limit", "0"),
        ("report", "host", "usage", "--in-use", "3", "--retry-after", "3"),
        ("pause", "a/"),
        ("resume", "/"),
    ],
)
def test_bad_input_changes_nothing(box: Box, ask: Ask, words: tuple[str, ...]) -> None:
    """One printable sentence names what was typed; exit code 2; no event."""
    said = ask(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("headgate: bad ")
    assert said.err.count("\n") == 1
    assert said.err[:-1].isprintable()
    assert box.gate().events() == ()


@pytest.mark.parametrize(
    "words",
    [
        ("limits", "set", "host"),
        ("limits", "raise", "host", "1"),
        ("pause",),
        ("config",),
        ("report",),
        ("report", "host"),
        ("sim",),
        ("sim", "play"),
    ],
)
def test_missing_and_unknown_words_are_bad_usage(ask: Ask, words: tuple[str, ...]) -> None:
    """What the parser does not know is refused with exit code 2."""
    said = ask(*words)
    assert (said.code, said.out) == (2, "")
    assert "error: " in said.err


def test_pause_for_a_while(box: Box, ask: Ask) -> None:
    """A timed pause says for how long, and those who ask hear the note."""
    assert ask("pause", "anthropic", "--for", "2m", "--note", " quota ").err.startswith(
        "headgate: anthropic is paused for 2m; nothing new starts in it, what runs goes on"
    )
    assert pool(box, "anthropic").paused_until is not None
    said = ask("capacity", OPUS)
    assert said.code == 75
    assert "anthropic is paused for 2m more: quota" in said.out


def test_pause_until_resumed(box: Box, ask: Ask) -> None:
    """Without a length a pause lasts until resume, which says when there was none."""
    assert "host is paused until it is resumed;" in ask("pause", "host").err
    assert ask("resume", "openai").err == (
        "headgate: openai was not paused; what is paused: host\n"
    )
    assert ask("resume", "HOST") == (0, "", "headgate: host goes on\n")
    assert ask("resume", "host") == (0, "", "headgate: host was not paused\n")
    assert {found.pool for found in box.gate().status().pools} == {"host", "*/claude-opus-*"}


def test_init_writes_what_changes_nothing(box: Box) -> None:
    """The path goes to stdout, folders are made, only the owner may read, defaults still count."""
    path = Path(box.headgate("init").rstrip("\n"))
    assert path == Path(box.env["XDG_CONFIG_HOME"], "headgate", "config.toml")
    assert path.read_text() == TEMPLATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["config.toml"]  # noqa: PTH208 - names are the point
    found = load(path)
    assert found.warnings == ()
    assert {name: pool.limit for name, pool in found.pools.items() if pool.limit} == {}


def test_init_never_overwrites_unless_forced(box: Box, ask: Ask) -> None:
    """What is there stays, byte for byte, and the message says how to replace it."""
    path = box.config("# mine\n")
    said = ask("init")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"headgate: {path} is there already; to replace it: headgate init --force\n"
    assert path.read_text() == "# mine\n"
    assert ask("init", "--force").code == 0
    assert path.read_text() == TEMPLATE


def test_init_loses_a_race_gracefully(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that appears between the look and the write is not overwritten."""
    path = tmp_path / "c.toml"
    path.write_text("# mine\n")
    monkeypatch.setattr(Path, "exists", lambda *_, **__: False)
    said = ask("init", "--path", str(path))
    assert (said.code, path.read_text()) == (2, "# mine\n")
    assert sorted(found.name for found in tmp_path.glob("*c.toml*")) == ["c.toml"]


def test_init_without_hard_links(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has none gets the file all the same."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert ask("init", "--path", f"{tmp_path}/c.toml").code == 0
    assert (tmp_path / "c.toml").read_text() == TEMPLATE


def test_init_follows_links_and_names(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--path beats --config beats HEADGATE_CONFIG, and a link stays a link."""
    real, link = tmp_path / "dotfiles.toml", tmp_path / "link.toml"
    link.symlink_to(real)
    assert ask("init", "--path", str(link)).out == f"{real}\n"
    assert link.is_symlink()
    assert ask("init", "--path", str(link), "--force").code == 0
    assert link.is_symlink()
    monkeypatch.setenv("HEADGATE_CONFIG", f"{tmp_path}/env.toml")
    assert ask("--config", f"{tmp_path}/said.toml", "init").out == f"{tmp_path}/said.toml\n"
    assert ask("init").out == f"{tmp_path}/env.toml\n"


def test_init_where_nothing_can_be_written(tmp_path: Path, ask: Ask) -> None:
    """A folder, or a file where a folder should be, is a clear error."""
    (tmp_path / "file").touch()
    assert ask("init", "--path", str(tmp_path)).err == (
        f"headgate: {tmp_path} is a folder; name a file in it\n"
    )
    said = ask("init", "--path", f"{tmp_path}/file/c.toml")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"headgate: cannot write {tmp_path}/file/c.toml: ")


def test_config_check_shows_what_follows(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says ok and the pools that follow; what looks harmful goes to stderr."""
    path = box.config('[pools.anthropic]\nlimit = 8\nmax_hold = "5m"\n')
    monkeypatch.setenv("HEADGATE_LIMITS", "openai=2")
    said = ask("config", "check")
    check("config-check", said.out.replace(str(path), "PATH").replace(str(box.folder), "HOME"))
    assert said.code == 0
    assert said.err.startswith(f"headgate: warning: {path}:3: pools.anthropic.max_hold: ")
    found = json.loads(ask("config", "check", "--json").out)
    assert (found["ok"], found["path"], len(found["warnings"])) == (True, str(path), 1)
    assert [row["pool"] for row in found["pools"]] == [
        "*/claude-opus-*",
        "anthropic",
        "host",
        "openai",
    ]


def test_config_check_shows_what_pools_adapt_to(box: Box, ask: Ask) -> None:
    """What [defaults] says counts for every pool; rates, usage and observe have their columns."""
    path = box.config(
        '[defaults]\nadapt = "step-down"\ncooldown = "3s"\n'
        '[pools.umans]\nlimit = "learn"\nadapt = "learn"\n'
        'usage = { kind = "umans", url = "https://u.example/private", key_env = "UMANS" }\n'
        '[pools.openai]\nrpm = 50\ntpm = 40000\nspacing = "1.5s"\n'
        '[pools.claude]\nlimit = 2\nadapt = "off"\nobserve = [{ process = "(^|/)claude( |$)" }]\n'
    )
    said = ask("config", "check")
    check(
        "config-check-learning",
        said.out.replace(str(path), "PATH").replace(str(box.folder), "HOME"),
    )
    found = {row["pool"]: row for row in json.loads(ask("config", "check", "--json").out)["pools"]}
    assert (found["umans"]["usage"], found["umans"]["source"]) == ("umans", "learned")
    assert found["claude"]["observe"] == ["(^|/)claude( |$)"]
    assert (found["openai"]["rpm"], found["openai"]["spacing_ms"]) == (50, 1500)
    assert found["*/claude-opus-*"]["adapt"] == "step-down"


def test_config_check_without_a_file(ask: Ask) -> None:
    """The defaults count, and that is said."""
    said = ask("config", "check")
    assert said.out.startswith("ok: there is no file, the defaults count\n")
    assert json.loads(ask("config", "check", "--json").out)["path"] is None


def test_config_check_tells_all_that_is_wrong(box: Box, tmp_path: Path) -> None:
    """A real process ends with 2 and a line for each mistake; as JSON the same on stdout."""
    path = tmp_path / "bad.toml"
    path.write_text("[pools.host]\nlimit = 0\n[pools.openai]\nlimt = 3\n")
    for words in (("config", "check", str(path)), ("--config", str(path), "config", "check")):
        done = subprocess.run(
            [HEADGATE, *words], env=box.env, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        first, second = done.stderr.splitlines()
        assert first.startswith(f"headgate: {path}:2: pools.host.limit: found 0")
        assert second.startswith(f"{path}:4: pools.openai.limt: ")


def test_config_check_json_of_a_bad_file(tmp_path: Path, ask: Ask) -> None:
    """Programs get the mistakes as a list, and the same exit code."""
    path = tmp_path / "bad.toml"
    path.write_text("[pools.host\n")
    said = ask("config", "check", str(path), "--json")
    found = json.loads(said.out)
    assert (said.code, found["ok"], len(found["errors"])) == (2, False, 1)


def test_config_check_of_bad_headgate_limits(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment adds is checked too."""
    monkeypatch.setenv("HEADGATE_LIMITS", "host")
    said = ask("config", "check")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("headgate: HEADGATE_LIMITS: 'host' has no '='")
