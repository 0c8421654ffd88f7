"""Whose a configuration may be: the user's own or root's, where nobody else can change it."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate import Gate
from headgate.config import Watched, load
from headgate.errors import ConfigError
from headgate.store.memory import MemoryStore
from tests.other_user import NOBODY, needs_root, run_as
from tests.support import HEADGATE, Box, pool_of, until

TWO = "[pools.host]\nlimit = 2\n"
NINE = "[pools.host]\nlimit = 9\n"


@pytest.fixture
def path() -> Iterator[Path]:
    """A file that every user can read, two folders deep."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-test-"))
    folder.chmod(0o755)
    (folder / "deep").mkdir(mode=0o755)
    path = folder / "deep" / "config.toml"
    path.write_text(TWO)
    path.chmod(0o644)
    yield path
    shutil.rmtree(folder)


PARTS: dict[str, Callable[[Path], Path]] = {
    "the file": lambda path: path,
    "its folder": lambda path: path.parent,
    "a folder above": lambda path: path.parent.parent,
}


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return str(caught.value)


def follow_advice(text: str, program: str) -> None:
    advice = re.search(rf"\(({program} [^()]+)\)", text)
    assert advice, text
    subprocess.run(["sh", "-c", advice[1]], check=True)


@needs_root
@pytest.mark.parametrize("part", PARTS)
def test_another_users_file_is_refused_even_to_root(path: Path, part: str) -> None:
    """Whoever owns it or a folder on the way; the message names it, and its advice mends it."""
    odd = PARTS[part](path)
    os.chown(odd, NOBODY, NOBODY)
    text = refused(path)
    mode = stat.S_IMODE(odd.stat().st_mode)
    assert f"{odd} (owner nobody (uid {NOBODY}), mode {mode:04o}) belongs to nobody" in text
    assert "Name another file" in text
    follow_advice(text, "chown")
    assert load(path).path == path


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("extra", [0o002, 0o022])
def test_a_file_that_others_can_write_is_refused(path: Path, part: str, extra: int) -> None:
    """Wherever they could; the message names the place and its mode, and its advice mends it."""
    odd = PARTS[part](path)
    odd.chmod(odd.stat().st_mode | extra)
    text = refused(path)
    assert f"{odd} (owner " in text
    assert f"mode {stat.S_IMODE(odd.stat().st_mode):04o})" in text
    follow_advice(text, "chmod")
    assert load(path).path == path


@needs_root
def test_a_link_is_followed_only_through_what_is_trusted(path: Path) -> None:
    """A link of one's own to a file of one's own is fine; one to another's file is not."""
    link = path.parent.parent / "link.toml"
    link.symlink_to(path)
    assert load(link).path == link
    os.chown(path, NOBODY, NOBODY)
    assert f"{path} (owner nobody" in refused(link)
    os.chown(path, 0, 0)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert f"the link {link} (owner nobody" in refused(link)


@needs_root
def test_roots_file_is_anybodys(path: Path) -> None:
    """What root gives to all users of a machine counts for them; what another gives does not."""
    store = f"sqlite://{path.parent / 'own' / 's.db'}"
    (path.parent / "own").mkdir()
    os.chown(path.parent / "own", NOBODY, NOBODY)
    words = ("--store", store, "--config", str(path), "limits", "--json")
    done = run_as(NOBODY, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"limit": 2' in done.stdout
    os.chown(path, NOBODY + 1, NOBODY + 1)
    done = run_as(NOBODY, *words)
    assert done.returncode == 2
    assert f"{path} (owner " in done.stderr


def test_no_command_of_it_is_run(box: Box, path: Path) -> None:
    """Neither to try its notifications nor to tell of events, and no work is started under it."""
    mark = path.parent / "ran"
    target = f'[[notify]]\nname = "me"\ncommand = ["touch", "{mark}"]\n'
    path.write_text(TWO + target)
    path.chmod(0o666)
    for words in (
        ("notify", "test", "me"),
        ("notify", "run"),
        ("worker",),
        ("run", "--", "true"),
    ):
        program = box.start(HEADGATE, "--config", str(path), *words)
        assert program.end() == 2, words
        assert "can be changed by other users" in program.line(stream="stderr")
    assert not mark.exists()


def test_one_can_look_and_cancel_without_it(box: Box, path: Path) -> None:
    """As with a file that is broken: the limits are not known, and nobody is let in by them."""
    holder = box.holder()
    path.chmod(0o666)
    program = box.start(HEADGATE, "--config", str(path), "cancel", str(box.running()[0]["id"]))
    assert program.end() == 0
    assert "can be changed by other users" in program.line(stream="stderr")
    assert "going on without it" in program.line(stream="stderr")
    assert holder.wait() != 0


def test_a_file_that_is_opened_to_others_while_it_is_used(path: Path) -> None:
    """What it said before counts until it is closed to them again, and an event says why."""
    with Gate(MemoryStore(), config=Watched(path)) as gate:
        assert pool_of(gate, "host").limit == 2
        path.chmod(0o666)
        path.write_text(NINE)
        until(lambda: told(gate))
        assert pool_of(gate, "host").limit == 2
        path.chmod(0o644)
        until(lambda: pool_of(gate, "host").limit == 9)


def told(gate: Gate) -> bool:
    """Whether anybody was told of a file that is refused; that is told with the next change."""
    with gate.slot():
        return "config_refused" in {event.event for event in gate.events()}


def test_a_file_that_somebody_else_may_have_removed(path: Path) -> None:
    """Its limits stay: only where nobody else can remove it, no file means the defaults."""
    watched = Watched(path)
    path.parent.chmod(0o777)
    path.unlink()
    assert watched.fresh() is None
    assert watched.problem
    assert f"chmod go-w {path.parent}" in watched.problem
    path.parent.chmod(0o755)
    path.write_text(TWO)
    watched.fresh()
    path.unlink()
    fresh = watched.fresh()
    assert fresh is not None
    assert not fresh.pools
