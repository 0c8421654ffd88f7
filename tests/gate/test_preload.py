"""What a process may need later is in memory before another version can take its place."""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest

from headgate.gate.liveness import preload_modules
from headgate.gate.liveness.kept_modules import KeptModules
from headgate.gate.liveness.preload_modules import PACKAGES, Preloader
from tests.support import Box

HOME = Path(preload_modules.__file__).parents[2]
KEPT = """
import shutil, sys, time
sys.path.insert(0, sys.argv[1])
from importlib import import_module
from headgate import Gate
from headgate.gate.liveness import preload_modules
from headgate.gate.liveness.kept_modules import KeptModules
gate, names = Gate.open(), sys.argv[2:]
assert any(name not in sys.modules for name in names)
with gate.slot("a/b"):
    while not preload_modules._done.issuperset(preload_modules.PACKAGES):
        time.sleep(0.01)
    assert any(name not in sys.modules for name in names)
    shutil.rmtree(sys.argv[1])
    for name in names:
        assert import_module(name).__file__.startswith(sys.argv[1])
    gate.status()
print("done")
"""


def modules() -> list[str]:
    """Every module that holding and waiting can need."""
    return [
        ".".join(("headgate", *file.relative_to(HOME).with_suffix("").parts))
        for package in PACKAGES
        for file in (HOME / package).rglob("[!_]*.py")
    ]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_member_keeps_everything_soon(box: Box, *, compiled: bool) -> None:
    """Nothing of headgate that it can need is read from a file later: there may be none."""
    copy = box.folder / "copy"
    shutil.copytree(HOME, copy / "headgate", ignore=shutil.ignore_patterns("__pycache__"))
    if compiled:
        compileall.compile_dir(copy, quiet=1)
    environment = {**os.environ, "HEADGATE_STORE": box.url, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", KEPT, str(copy), *modules()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_of_an_old_compiled_file_nothing_is_kept(tmp_path: Path) -> None:
    """The source counts, if its .pyc was made of another one."""
    source = tmp_path / "kept_sample.py"
    for number in (1, 22):
        source.write_text(f"VALUE = {number}")
        if number == 1:
            py_compile.compile(str(source))
    kept = KeptModules()
    kept.keep("kept_sample", str(source), lambda: True)
    source.unlink()
    try:
        assert import_module("kept_sample").VALUE == 22
    finally:
        sys.meta_path.remove(kept)
        sys.modules.pop("kept_sample", None)


def test_what_was_replaced_while_it_was_read_is_not_kept(tmp_path: Path) -> None:
    """It may be another version's."""
    source = tmp_path / "kept_sample.py"
    source.write_text("VALUE = 1")
    kept = KeptModules()
    kept.keep("kept_sample", str(source), lambda: False)
    assert kept not in sys.meta_path
    assert kept.find_spec("kept_sample", None) is None


def test_no_other_versions_files_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose files were replaced loads no more of them than it needs."""
    monkeypatch.setattr(preload_modules, "_done", set())
    monkeypatch.setattr(preload_modules, "_OURS", (1, 1))
    monkeypatch.delitem(sys.modules, "headgate.config.template", raising=False)
    preload_modules.preload()
    preload_modules.keep()
    assert "headgate.config.template" not in sys.modules


def test_a_process_that_ends_at_once_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leaves soon waits for nothing and loads nothing."""
    loaded: list[object] = []
    monkeypatch.setattr(preload_modules, "_done", set())
    monkeypatch.setattr(preload_modules, "keep", loaded.append)
    preloader = Preloader()
    preloader.start()
    begun = time.monotonic()
    preloader.stop()
    assert not loaded
    assert time.monotonic() - begun < 5
    assert "headgate-preload" not in {thread.name for thread in threading.enumerate()}


def test_nobody_forks_while_a_module_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that was forked in the midst of it could never load that module."""
    monkeypatch.setattr(preload_modules, "_done", set())
    preloader = Preloader()
    preloader.start()
    preloader.stop()
    held, let_go = threading.Event(), threading.Event()
    order: list[str] = []

    def load() -> None:
        with preload_modules._importing:
            held.set()
            let_go.wait(0.2)
            order.append("loaded")

    thread = threading.Thread(target=load)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    order.append("forked")
    os.waitpid(pid, 0)
    thread.join()
    assert order == ["loaded", "forked"]
