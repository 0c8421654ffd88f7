"""`headgate init --service`: a unit that systemd takes, a plist that launchd takes."""

import configparser
import os
import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.shared import service_files
from headgate.errors import UsageError
from headgate.store.urls import has_password, show_url
from tests.cli.golden.compare import Ask, asking
from tests.support import LONG, Box

ODD = '/a b/100%h/$HOME/${x}/it\'s "q"/back\\slash/é'


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], box: Box, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("HOME", str(box.folder / "home"))
    monkeypatch.delenv("HEADGATE_STORE")
    return asking(capsys)


def unit(text: str) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser["Service"]


def words(line: str) -> list[str]:
    """A command line as systemd reads it: quotes, then specifiers, then variables."""
    program, *rest = (word.replace("%%", "%") for word in shlex.split(line))
    return [program, *(word.replace("$$", "$") for word in rest)]


def test_a_unit_is_written_where_systemd_looks(ask: Ask, box: Box) -> None:
    """It runs this very headgate, leaves its agents alone, and the next steps are told."""
    said = ask("init", "--service", "systemd")
    path = Path(os.environ["XDG_CONFIG_HOME"], "systemd", "user", "headgate.service")
    assert (said.code, said.out) == (0, f"{path}\n")
    found = unit(path.read_text())
    program, verb = words(found["ExecStart"])
    assert (Path(program).name, verb) == ("headgate", "up")
    assert os.access(program, os.X_OK)
    assert (found["KillMode"], found["Restart"]) == ("process", "on-failure")
    for step in ("daemon-reload", "enable --now headgate", "loginctl enable-linger"):
        assert step in said.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_an_xdg_folder_it_is_under_home(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """~/.config is where systemd looks then; a relative folder counts as none."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    said = ask("init", "--service", "systemd")
    assert said.out == f"{os.environ['HOME']}/.config/systemd/user/headgate.service\n"


def test_the_same_store_and_configuration_are_used(
    ask: Ask, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the command or of its environment, as absolute paths, whatever is in them."""
    monkeypatch.chdir(box.folder)
    store = f"sqlite://{ODD}"
    said = ask("--store", store, "--config", "x y.toml", "init", "--service=systemd", "--print")
    found = words(unit(said.out)["ExecStart"])[1:]
    assert found == [f"--store={store}", f"--config={box.folder}/x y.toml", "up"]
    monkeypatch.setenv("HEADGATE_STORE", "sqlite:///else/where.db")
    said = ask("init", "--service=systemd", "--print")
    assert words(unit(said.out)["ExecStart"])[1:] == ["--store=sqlite:///else/where.db", "up"]
    assert not (box.folder / "xdg-config").exists()


def test_odd_names_survive_the_quoting() -> None:
    """Spaces, quotes, percent and dollar signs in the program, its arguments and the path."""
    found = unit(service_files.make(service_files.SYSTEMD, [ODD, ODD, "up"], f"{ODD}:/bin").text)
    assert words(found["ExecStart"]) == ["/usr/bin/env", ODD, ODD, "up"]
    found = unit(
        service_files.make(
            service_files.SYSTEMD, ["/a b/$HOME/100%", ODD, "up"], f"{ODD}:/bin"
        ).text
    )
    assert words(found["ExecStart"]) == ["/a b/$HOME/100%", ODD, "up"]
    assert words(found["Environment"]) == [f"PATH={ODD}:/bin"]
    plist = service_files.make(service_files.LAUNCHD, [ODD, "<&>", "up"], ODD).text
    assert plistlib.loads(plist.encode())["ProgramArguments"] == [ODD, "<&>", "up"]


@pytest.mark.parametrize("kind", service_files.KINDS)
@pytest.mark.parametrize("bad", ["/a\nExecStart=/b", "/a\x00", "/\udcff"])
def test_what_no_line_can_hold_is_refused(kind: str, bad: str) -> None:
    """A line break in a path cannot become a line of the unit."""
    with pytest.raises(UsageError, match=r"cannot put .* into a service"):
        service_files.make(kind, ["/headgate", f"--config={bad}", "up"], "/bin")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
@pytest.mark.parametrize("name", ["100% sure", "$HOME", '"q"', "it's", "back\\slash"])
def test_systemd_finds_nothing_wrong(box: Box, name: str) -> None:
    """The unit passes systemd's own check in silence, with odd paths in it."""
    folder = box.folder / name
    folder.mkdir()
    program = folder / "headgate"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = box.folder / "headgate.service"
    path.write_text(
        service_files.make(service_files.SYSTEMD, [str(program), ODD, "up"], "/bin:/a b").text
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(path)],
        env={**box.env, "XDG_RUNTIME_DIR": str(box.folder)},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_plist_is_written_where_launchd_looks(ask: Ask, box: Box) -> None:
    """It starts at login and again after a failure, and leaves its agents alone."""
    said = ask("--store", "sqlite:///a b/s.db", "init", "--service", "launchd")
    home = Path(os.environ["HOME"])
    path = home / "Library" / "LaunchAgents" / "dev.headgate.worker.plist"
    assert (said.code, said.out) == (0, f"{path}\n")
    found = plistlib.loads(path.read_bytes())
    assert found["ProgramArguments"][-2:] == ["--store=sqlite:///a b/s.db", "up"]
    assert found["Label"] == path.stem
    assert (found["AbandonProcessGroup"], found["RunAtLoad"]) == (True, True)
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["StandardErrorPath"] == f"{home}/Library/Logs/headgate.log"
    assert "launchctl bootstrap" in said.err


@pytest.mark.parametrize("kind", service_files.KINDS)
def test_nothing_is_overwritten_unless_forced(ask: Ask, kind: str) -> None:
    """A service that somebody has edited stays as it is."""
    path = Path(ask("init", "--service", kind).out.strip())
    path.write_text("mine")
    said = ask("init", "--service", kind)
    assert (said.code, said.out, path.read_text()) == (2, "", "mine")
    assert "headgate init --service --force" in said.err
    assert ask("init", "--service", kind, "--force").code == 0
    assert path.read_text() != "mine"


def test_it_may_be_written_elsewhere_or_only_printed(ask: Ask, box: Box) -> None:
    """--path names the file, --print writes none."""
    path = box.folder / "sub" / "my.service"
    assert ask("init", "--service", "systemd", "--path", str(path)).out == f"{path}\n"
    assert ask("init", "--service", "systemd", "--print").out == path.read_text()
    assert ask("init", "--print").out.startswith("# headgate's configuration")
    assert not (box.folder / "xdg-config").exists()


def test_a_password_is_not_written_down(ask: Ask) -> None:
    """A store whose URL holds one is refused, and the message does not repeat it."""
    said = ask("--store", "postgresql://me:hunter2@db/x", "init", "--service", "--print")
    assert (said.code, said.out) == (2, "")
    assert "password" in said.err
    assert "hunter2" not in said.err


@pytest.mark.parametrize(
    "url, shown",
    [
        ("sqlite:///a:b@c/x.db", "sqlite:///a:b@c/x.db"),
        ("memory://", "memory://"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        ("postgresql://me:se/c@ret@db/x", "postgresql://me:(hidden)@db/x"),
        (
            "postgresql://db/x?user=a&password=b&c=d",
            "postgresql://db/x?user=a&password=(hidden)&c=d",
        ),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    """Paths stay as they are; of a database's URL only the rest is shown."""
    assert show_url(url) == shown
    assert has_password(url) == (url != shown)


def test_the_kind_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is launchd on macOS, systemd elsewhere."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert service_files.usual() == service_files.LAUNCHD
    monkeypatch.setattr(sys, "platform", "linux")
    assert service_files.usual() == service_files.SYSTEMD


def test_this_headgate_can_be_started_from_anywhere(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name it was called, by the one beside Python, or as a module of it."""
    program = box.folder / "headgate"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.chdir(box.folder)
    monkeypatch.setattr(sys, "argv", ["./headgate"])
    assert service_files.this_headgate() == [str(program)]
    monkeypatch.setattr(sys, "argv", ["/x/headgate/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(box.folder / "bin" / "python"))
    assert service_files.this_headgate() == [sys.executable, "-m", "headgate"]
