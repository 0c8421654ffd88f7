"""Modules that are kept as bytes, to be loaded when they are needed: from memory, not from a file.

A compiled module takes a third of the memory that it takes when it is loaded, and no time.
"""

import marshal
import os
import struct
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEADER = struct.Struct("<4sIII")


class KeptModules:
    """Finds modules by name before anybody looks for their files, and loads them."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, bytes]] = {}

    def keep(self, name: str, path: str, still: "Callable[[], bool]") -> None:
        """Keep a module that is not loaded; not if something has changed while it was read."""
        if name in sys.modules or name in self._kept:
            return
        code = _compiled(name, path)
        if still():
            self._kept[name] = (path, code)
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, _path: "Sequence[str] | None", _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is to be had: here, if it is kept."""
        found = self._kept.get(name)
        if found is None:
            return None
        folder = [os.path.dirname(found[0])] if found[0].endswith("__init__.py") else None  # noqa: PTH120
        loader: Any = self  # importlib.abc has a class for it, and loads much more
        return spec_from_file_location(
            name, found[0], loader=loader, submodule_search_locations=folder
        )

    def create_module(self, _: ModuleSpec) -> None:
        """As Python does it."""

    def exec_module(self, module: ModuleType) -> None:
        """Load it. It stays kept: whoever has removed it from `sys.modules` may want it again."""
        exec(marshal.loads(self._kept[module.__name__][1]), vars(module))  # noqa: S102, S302 - ours


def _compiled(name: str, path: str) -> bytes:
    """A module's code as it is in its .pyc, if that is of this source; else compiled now."""
    seen = os.stat(path)  # noqa: PTH116 - a hundred of them
    try:
        with open(cache_from_source(path), "rb") as file:  # noqa: PTH123 - as above
            data = file.read()
        header = (MAGIC_NUMBER, 0, int(seen.st_mtime) & 0xFFFFFFFF, seen.st_size & 0xFFFFFFFF)
        if _HEADER.unpack_from(data) == header:
            return data[_HEADER.size :]
    except (OSError, NotImplementedError, struct.error):
        pass
    return marshal.dumps(SourceFileLoader(name, path).get_code(name))
