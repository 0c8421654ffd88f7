"""Whose files a store may be in: the user's own, where nobody else can put anything."""

import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate import Gate, StoreUntrustedError
from headgate.errors import UsageError
from headgate.store import open_store
from headgate.store.sqlite import SqliteStore
from headgate.store.urls import file_of
from tests.other_user import NO_ENTRY, NOBODY, needs_root, run_as
from tests.support import Program


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can get to, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def path(folder: Path) -> Path:
    """A store that was used before, with a log, two folders deep."""
    (folder / "deep").mkdir(mode=0o755)
    path = folder / "deep" / "s.db"
    with Gate.open(f"sqlite://{path}") as gate:
        gate.jobs.make_folder()
    return path


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb as another user who has no home."""
    return run_as(NOBODY, *words, XDG_CONFIG_HOME="/nowhere", XDG_STATE_HOME="/nowhere")


PARTS: dict[str, Callable[[Path], Path]] = {
    "the file": lambda path: path,
    "its log": lambda path: Path(f"{path}-wal"),
    "its members' folder": lambda path: Path(f"{path}.members"),
    "its logs' folder": lambda path: Path(f"{path}.logs"),
    "its folder": lambda path: path.parent,
    "a folder above": lambda path: path.parent.parent,
}


def refused(path: Path) -> str:
    with pytest.raises(StoreUntrustedError) as caught:
        SqliteStore(path)
    return str(caught.value)


@needs_root
@pytest.mark.parametrize("part", PARTS)
def test_another_users_store_is_refused_even_to_root(path: Path, part: str) -> None:
    """Whoever owns any part of it; the message names it, and its advice mends it."""
    odd = PARTS[part](path)
    if not odd.exists():
        odd.touch(mode=0o600)
    os.chown(odd, NOBODY, NOBODY)
    text = refused(path)
    mode = stat.S_IMODE(odd.stat().st_mode)
    assert f"{odd} (owner nobody (uid {NOBODY}), mode {mode:04o}) belongs to nobody" in text
    assert f"--store 'sqlite://{path}?shared=true'" in text
    follow_advice(text, "chown")
    SqliteStore(path).close()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("extra", [0o002, 0o022])
def test_a_store_that_others_can_write_is_refused(path: Path, part: str, extra: int) -> None:
    """Wherever they could; the message names the place and its mode, and its advice mends it."""
    odd = PARTS[part](path)
    if not odd.exists():
        odd.touch(mode=0o600)
    odd.chmod(odd.stat().st_mode | extra)
    text = refused(path)
    assert f"{odd} (owner " in text
    assert f"mode {stat.S_IMODE(odd.stat().st_mode):04o})" in text
    follow_advice(text, "chmod")
    SqliteStore(path).close()


def follow_advice(text: str, program: str) -> None:
    advice = re.search(rf"\(({program} [^()]+)\)", text)
    assert advice, text
    subprocess.run(["sh", "-c", advice[1]], check=True)


def test_a_group_that_others_are_in_is_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own private group is the user; as soon as it has another member it is not."""
    me = pwd.getpwuid(os.geteuid())
    path.parent.chmod(0o775)
    os.chown(path.parent, -1, os.getegid())
    monkeypatch.setattr("grp.getgrgid", lambda _: type("G", (), {"gr_mem": []}))
    monkeypatch.setattr("pwd.getpwall", lambda: [me])
    SqliteStore(path).close()
    other = pwd.struct_passwd(("other", "x", me.pw_uid + 1, me.pw_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr("pwd.getpwall", lambda: [me, other])
    assert "chmod g-w" in refused(path)


def test_a_folder_for_all_has_to_have_the_sticky_bit(path: Path) -> None:
    """As /tmp: what is ours there cannot be replaced."""
    path.parent.chmod(0o1777)
    SqliteStore(path).close()
    path.parent.chmod(0o777)
    assert f"chmod go-w {path.parent}" in refused(path)


@needs_root
def test_what_somebody_put_into_a_sticky_folder_first_is_refused(folder: Path) -> None:
    """A file, a log of SQLite's, a link or a folder under the name that ours would have."""
    folder.chmod(0o1777)
    path = folder / "s.db"
    own = folder / "own"
    own.mkdir()
    for name in ("s.db", "s.db-wal", "s.db-shm", "s.db-journal", "s.db.members", "s.db.logs"):
        planted = folder / name
        for plant in (planted.touch, planted.mkdir, lambda p=planted: p.symlink_to(own)):
            plant()
            os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
            assert f"{planted} (owner nobody" in refused(path)
            planted.rmdir() if planted.is_dir() and not planted.is_symlink() else planted.unlink()
    assert not list(own.iterdir())
    assert [entry.name for entry in folder.iterdir()] == ["own"]


def test_links_of_ones_own_are_followed(folder: Path, path: Path) -> None:
    """A store, or its logs, may be on another disk; what is on the way there is looked at too."""
    link = folder / "link.db"
    link.symlink_to(path)
    SqliteStore(link).close()
    new = folder / "new.db"
    new.symlink_to("deep/new.db")
    SqliteStore(new).close()
    assert stat.S_IMODE((folder / "deep" / "new.db").stat().st_mode) == 0o600
    path.parent.chmod(0o1777)  # as /tmp, where nothing is so far
    later = folder / "later.db"
    later.symlink_to(path.parent / "later.db")
    SqliteStore(later).close()
    path.parent.chmod(0o777)
    assert f"{path.parent} (owner" in refused(link)


@needs_root
def test_a_folder_of_roots_is_no_obstacle(folder: Path) -> None:
    """What root has made for a user is the user's, though root could change it."""
    own = folder / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NOBODY, NOBODY)
    done = as_nobody("--store", f"sqlite://{own}/s.db", "status")
    assert done.returncode == 0, done.stderr
    assert "belongs to nobody" in refused(own / "s.db")


IN_A_SANDBOX = """
import ctypes, grp, os, pwd, shlex, sys  # while the interpreter's own files can be read
from pathlib import Path
from headgate.store.sqlite import SqliteStore
import headgate.store.wall_clock
user = int(sys.argv[2])
os.setgroups([]), os.setgid(user), os.setuid(user)
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(4, 1, 0, 0, 0)
if libc.unshare(0x10000000):
    sys.exit(f"NOT TESTED: no user namespace: {os.strerror(ctypes.get_errno())}")
for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1")):
    Path("/proc/self", name).write_text(text)
print(os.stat("/").st_uid)
SqliteStore(Path(sys.argv[1])).close()
"""


@needs_root
@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: no user namespaces here")
def test_a_sandbox_in_which_root_has_no_number_is_no_obstacle(folder: Path) -> None:
    """Where folders of root's seem to be the overflow user's; other users' stay others'."""
    own = folder / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NO_ENTRY, NO_ENTRY)
    argv = [sys.executable, "-c", IN_A_SANDBOX, str(own / "s.db"), str(NO_ENTRY)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "NOT TESTED" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stdout) == (0, "65534\n"), done.stderr
    os.chown(own, NOBODY, NOBODY)
    os.chown(own / "s.db", NOBODY, NOBODY)
    own.chmod(0o755)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "belongs to nobody" in done.stderr


@needs_root
def test_roots_worker_does_not_run_what_nobody_put_into_its_store(folder: Path) -> None:
    """The worker ends with 125 and says why; what was submitted does not run."""
    own = folder / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NOBODY, NOBODY)
    url = f"sqlite://{own}/s.db"
    done = as_nobody("--store", url, "submit", "--", "touch", str(own / "ran"))
    assert done.returncode == 0, done.stderr
    worker = subprocess.run(
        [sys.executable, "-m", "headgate", "--store", url, "worker"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert worker.returncode == 125
    assert f"the folder {own} (owner nobody (uid 65534), mode 0700)" in worker.stderr
    assert not (own / "ran").exists()


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_users_that_share_a_store_say_so(folder: Path, mode: int) -> None:
    """With shared=true each can hand in, start and read what the other does."""
    folder.chmod(mode)
    url = f"sqlite://{folder}/s.db?shared=true"
    umask = os.umask(0o077)
    try:
        with Gate.open(url) as gate:
            assert gate.url == url
            gate.jobs.make_folder()
    finally:
        os.umask(umask)
    done = as_nobody("--store", url, "submit", "-q", "--", "sh", "-c", "id -u")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    root = [sys.executable, "-m", "headgate", "--store", url]
    worker = Program([*root, "worker"])
    try:
        assert "is up" in worker.line(stream="stderr")
        subprocess.run([*root, "wait", "1"], check=True, capture_output=True, timeout=30)
    finally:
        worker.close()
    assert as_nobody("--store", url, "logs", "1").stdout == "0\n"
    assert as_nobody("--store", f"sqlite://{folder}/s.db", "status").returncode == 125


@pytest.mark.parametrize("url", ["sqlite:///a?share=true", "sqlite:///a?shared=yes"])
def test_a_misspelt_setting_is_no_part_of_the_name(url: str) -> None:
    """Else a store of that name would be made."""
    with pytest.raises(UsageError, match="only shared=true is known"):
        open_store(url)


def test_a_path_may_have_a_question_mark() -> None:
    """As before: only a name and a value after it are a setting."""
    assert file_of("sqlite:///a?b/s.db") == (Path("/a?b/s.db"), False)
    assert file_of("sqlite:///a?b/s.db?shared=true") == (Path("/a?b/s.db"), True)
    assert file_of("sqlite:///s.db?shared=false") == (Path("/s.db"), False)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_what_headgate_makes_passes(folder: Path, umask: int) -> None:
    """Whatever the umask, and in a home where nothing has been made so far."""
    script = (
        "import os; from headgate import Gate; gate = Gate.open(); gate.status(); "
        "gate.jobs.make_folder(); gate.close(); Gate.open().close()"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HEADGATE_"))}
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.umask({umask}); {script}"],
        env={**env, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = [folder / ".local", *(folder / ".local").rglob("*")]
    assert len(made) >= 6
    assert not [one for one in made if one.stat().st_mode & 0o077]
