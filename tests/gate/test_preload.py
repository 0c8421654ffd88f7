"""What a process may need later is loaded before another version can take its place."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from headgate.gate.liveness import preload_modules
from headgate.gate.liveness.preload_modules import PACKAGES, Preloader
from tests.support import Box

HOME = Path(preload_modules.__file__).parents[2]
LOADED = """
def missing():
    return [name for name in sys.argv[1:] if name not in sys.modules]
before = len(missing())
with gate.slot("a/b"):
    while missing():
        time.sleep(0.01)
    print(before > 0)
"""


def modules() -> list[str]:
    """Every module that holding and waiting can need."""
    return [
        ".".join(("headgate", *file.relative_to(HOME).with_suffix("").parts))
        for package in PACKAGES
        for file in (HOME / package).rglob("[!_]*.py")
    ]


def test_a_member_loads_everything_soon(box: Box) -> None:
    """Nothing of headgate that it can need is left to be loaded later."""
    program = box.python(LOADED, *modules())
    assert program.line() == "True"
    assert program.wait() == 0


def test_no_other_versions_files_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose files were replaced loads no more of them than it needs."""
    monkeypatch.setattr(preload_modules, "_done", set())
    monkeypatch.setattr(preload_modules, "_OURS", (1, 1))
    monkeypatch.delitem(sys.modules, "headgate.config.template", raising=False)
    preload_modules.preload()
    assert "headgate.config.template" not in sys.modules


def test_a_process_that_ends_at_once_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leaves soon waits for nothing and loads nothing."""
    loaded: list[object] = []
    monkeypatch.setattr(preload_modules, "_done", set())
    monkeypatch.setattr(preload_modules, "import_module", loaded.append)
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
