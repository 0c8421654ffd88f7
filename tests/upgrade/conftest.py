"""The version before this one, really installed, on the same store as this one.

`headgate-0.1.0-py3-none-any.whl` is headgate as it was when the store had schema 3: the last
version that takes `user_version` for the schema, and that tells nobody which version it is.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import pytest

from headgate.store.schema import migrations
from tests.support import HEADGATE, LONG, STEADY, Options, Program
from tests.work.conftest import JobBox, Said

NEWEST = migrations()[-1].schema
"""The schema of this version."""
WHEEL = Path(__file__).with_name("headgate-0.1.0-py3-none-any.whl")
ROOT = Path(__file__).parents[2]
_PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--no-input")


class Installed:
    """An environment with one version of headgate in it; what it needs besides is this one's."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", "--symlinks", folder], check=True
        )
        self.python = str(folder / "bin" / "python")
        self.headgate = str(folder / "bin" / "headgate")
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / name / "site-packages"
        (self.site / "needs.pth").write_text(f"{sysconfig.get_path('purelib')}\n")

    def install(self, wheel: Path) -> None:
        """Put a version in the place of the one that is there, as people do."""
        words = ("install", "--no-index", "--no-deps", "--force-reinstall", str(wheel))
        subprocess.run([*_PIP, "--python", self.python, *words], check=True)


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The version before this one. Nobody changes it."""
    found = Installed(tmp_path_factory.mktemp("before"))
    found.install(WHEEL)
    return found


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This version, as a file to install."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", "shims", "man"):
        caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=caches)
    words = ("wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(folder))
    subprocess.run([*_PIP, *words, str(source)], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def following(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """A version to come, of which no module can be loaded by what is of this one."""
    path = tmp_path_factory.mktemp("following") / wheel.name
    with zipfile.ZipFile(wheel) as this, zipfile.ZipFile(path, "w") as other:
        for name in this.namelist():
            if name.endswith(".py"):
                other.writestr(name, "raise ImportError('this is another version')\n")
            elif "dist-info" in name:
                other.writestr(name, this.read(name))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Installed:
    """An environment of the test's own, in which it may replace one version by another."""
    return Installed(tmp_path / "venv")


class Version:
    """One version's commands, in a box."""

    def __init__(self, box: JobBox, headgate: str = HEADGATE, python: str = sys.executable) -> None:
        self.box = box
        self.program = headgate
        self.python_program = python

    def start(self, *words: str, **options: Unpack[Options]) -> Program:
        return self.box.start(self.program, *words, **options)

    def run(self, key: str, *words: str, **options: Unpack[Options]) -> Program:
        return self.start("run", "-m", key, "--", *words, **options)

    def holder(self, key: str = "a/b") -> Program:
        """A `run` that has its seats, until its input ends."""
        program = self.run(key, "sh", "-c", "echo up; exec cat")
        assert program.line() == "up"
        return program

    def waiter(self, key: str = "a/b", *words: str) -> Program:
        """A `run` that stands in line."""
        program = self.run(key, *(words or ("sh", "-c", "echo up; exec cat")))
        assert " waits, " in program.line(stream="stderr")
        return program

    def python(self, script: str, *words: str) -> Program:
        """A Python program that finds `gate` open."""
        head = "import os, sys, time\nfrom headgate import *\ngate = Gate.open()\n"
        return self.box.start(self.python_program, "-u", "-c", head + script, *words)

    def worker(self) -> Program:
        program = self.start("worker", "-q")
        assert "is up" in program.line(stream="stderr")
        return program

    def ask(self, *words: str) -> Said:
        """Run a verb to its end, however it ends."""
        done = subprocess.run(
            [self.program, *words],
            env=self.box.env, capture_output=True, timeout=LONG, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def do(self, *words: str) -> str:
        """What a verb says; it must succeed."""
        said = self.ask(*words)
        assert said.code == 0, said
        return said.out

    def asked(self, *words: str) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.do(*words, "--json"))

    def submit(self, *words: str) -> int:
        return int(self.do("submit", "-q", *words))


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBox]:
    monkeypatch.delenv("HEADGATE_SCHEMA")  # the names that both versions have
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config('[pools.host]\nlimit = 40\n[run]\ngrace = "1s"\n')
    yield box
    box.close()


@pytest.fixture
def old(box: JobBox, before: Installed) -> Version:
    """The version before, whose store this box's is."""
    version = Version(box, before.headgate, before.python)
    version.do("status")
    assert marked(box) == (3, 0)
    return version


@pytest.fixture
def new(box: JobBox, old: Version) -> Version:
    """This version. It has not opened the store yet."""
    return Version(box)


def marked(box: JobBox) -> tuple[int, int]:
    """The oldest schema whose processes can use the store, and the one that it has; 0 if unsaid."""
    (floor,) = box.rows("pragma_user_version")[0]
    return floor, int(dict(box.rows("note")).get("schema", 0))
