"""Have what a process may need later, before a newer version is installed over it.

Modules are loaded when they are first needed: that is what makes commands start in a blink. But a
member may live for hours, and meanwhile `pip` may replace the files that it is made of. What it
loaded then would be another version's code among its own. So whoever joins reads the rest soon
afterwards, in a thread of its own, when what it was started for is under way. It keeps that in
memory, and loads from there (`kept_modules.py`). Whoever forks others loads all of it at once.
"""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.times import Seconds
from headgate.gate.transactions.background_thread import start_without_signals

if TYPE_CHECKING:
    from headgate.gate.liveness.kept_modules import KeptModules

PACKAGES = ("config", "core", "gate", "http_client", "ledger", "store", "usage")
"""All that holding and waiting can need, whatever happens; the rest of it is loaded already."""
_DELAY = Seconds(0.25)
"""Seconds after which a command that ends at once has ended, and pays for nothing."""
_HOME = Path(__file__).parents[2]
_importing = threading.RLock()
"""Held while a module is loaded: a child forked in the midst of it could never load it."""
_done: set[str] = set()
_kept: "list[KeptModules]" = []


def _signature() -> tuple[int, int]:
    """Which files are installed: another version's are other files."""
    try:
        seen = os.stat(_HOME / "__init__.py")  # noqa: PTH116 - a path that Path made
    except OSError:
        return (0, 0)
    return seen.st_ino, seen.st_mtime_ns


_OURS = _signature()


def _still_ours() -> bool:
    return _signature() == _OURS


def preload(packages: Iterable[str] = PACKAGES) -> None:
    """Load every module of some packages, unless the files are another version's by now."""
    for package in packages:
        for name in _modules(package):
            with _importing:
                if not _still_ours():
                    return
                import_module(name)
        _done.add(package)


def keep(packages: Iterable[str] = PACKAGES, stop: threading.Event | None = None) -> None:
    """Read every module of some packages that is not loaded, to be loaded from memory later."""
    from headgate.gate.liveness.kept_modules import KeptModules

    with _importing:
        if not _kept:
            _kept.append(KeptModules())
    for package in packages:
        if package in _done:
            continue
        for name, path in _modules(package).items():
            with _importing:
                if not _still_ours() or (stop is not None and stop.is_set()):
                    return
                _kept[0].keep(name, path, _still_ours)
        _done.add(package)


def _modules(package: str) -> dict[str, str]:
    """The modules of a package by name, each with its file."""
    found = {}
    for file in sorted((_HOME / package).rglob("*.py")):
        names = file.relative_to(_HOME.parent).with_suffix("").parts
        found[".".join(names).removesuffix(".__init__")] = str(file)
    return found


class Preloader:
    """The thread that does it."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin soon; nothing happens if all is loaded, or no thread is to be had."""
        if self._thread is not None or _done.issuperset(PACKAGES):
            return
        _guard_forks()
        thread = threading.Thread(target=self._run, name="headgate-preload", daemon=True)
        with suppress(RuntimeError):
            start_without_signals(thread)
            self._thread = thread

    def stop(self) -> None:
        """Leave the rest unloaded: the process ends, or uses its gate no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        if not self._stop.wait(_DELAY):
            with suppress(ImportError, OSError):  # somebody is just replacing the files
                keep(stop=self._stop)


_guarded: list[bool] = []


def _guard_forks() -> None:
    if not _guarded and hasattr(os, "register_at_fork"):
        _guarded.append(True)
        os.register_at_fork(
            before=_importing.acquire,
            after_in_parent=_importing.release,
            after_in_child=_importing.release,
        )
