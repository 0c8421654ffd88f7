"""Users without a home or a name, and paths that are no text: told in words, no traceback."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.errors import UsageError
from headgate.store import open_store
from tests.other_user import NO_ENTRY, needs_root, run_as
from tests.support import HEADGATE, Box

VERBS = [
    "status",
    "queue",
    "capacity",
    "events",
    "limits",
    "doctor",
    "submit -- true",
    "run -- true",
]


@pytest.fixture
def own() -> Iterator[Path]:
    """A folder of the user whom nobody knows."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-test-"))
    folder.chmod(0o755)
    own = folder / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NO_ENTRY, NO_ENTRY)
    yield own
    shutil.rmtree(folder)


@needs_root
@pytest.mark.parametrize("verb", VERBS)
def test_a_user_without_a_home_is_told_what_to_set(verb: str) -> None:
    """Neither HOME, nor an entry in the list of users: the store has to be named."""
    done = run_as(NO_ENTRY, *verb.split())
    assert (done.returncode, "Traceback" in done.stderr) == (125, False), done.stderr
    assert f"the user {NO_ENTRY} has no home in the list of users" in done.stderr
    assert "set HEADGATE_STORE=sqlite:///path/to/file, or HOME" in done.stderr


@needs_root
@pytest.mark.parametrize("verb", VERBS)
def test_a_user_without_an_entry_can_work(own: Path, verb: str) -> None:
    """With a store that is named, or a HOME."""
    for env in ({"HEADGATE_STORE": f"sqlite://{own}/s.db"}, {"HOME": str(own)}):
        done = run_as(NO_ENTRY, *verb.split(), **env)
        assert done.returncode == 0, done.stderr


@needs_root
def test_a_folder_called_tilde_is_no_home(own: Path) -> None:
    """Without a home no configuration counts, whatever is in the current folder."""
    done = run_as(NO_ENTRY, "init", HEADGATE_STORE=f"sqlite://{own}/s.db")
    assert (done.returncode, done.stderr) == (
        2,
        "headgate: cannot tell where your home is; set HOME, or name a file: --config\n",
    )


@pytest.mark.parametrize("verb", VERBS)
def test_a_path_that_is_no_text_is_refused(box: Box, verb: str) -> None:
    """SQLite could not open it; the message names it, and says so."""
    folder = Path(os.fsdecode(os.fsencode(box.folder) + b"/\xff\xfe"))
    folder.mkdir()
    done = subprocess.run(
        [HEADGATE, *verb.split()],
        env={**box.env, "HEADGATE_STORE": f"sqlite://{folder}/s.db"},
        capture_output=True,
        text=True,
        check=False,
    )
    expected = 1 if verb == "doctor" else 2  # which tells it as a finding
    assert (done.returncode, "Traceback" in done.stderr) == (expected, False), done.stderr
    assert "only files whose path is UTF-8" in done.stdout + done.stderr
    assert r"\udcff\udcfe/s.db" in done.stdout + done.stderr
    assert not list(folder.iterdir())


def test_a_path_with_a_null_is_refused() -> None:
    """Which only a program can give."""
    with pytest.raises(UsageError, match="without NUL"):
        open_store("sqlite:///tmp/a\0b")
