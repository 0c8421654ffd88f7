"""Which store: from a URL, the environment, or the place a person's state belongs."""

import os
from pathlib import Path

from headgate.core.quantities import shown
from headgate.errors import StoreUnavailableError, UsageError
from headgate.store.base import Store

_SHARED: dict[str, Store] = {}


def default_url() -> str:
    """HEADGATE_STORE, or a file under the XDG state folder."""
    given = os.environ.get("HEADGATE_STORE", "").strip()
    return given or f"sqlite://{state_folder() / 'headgate.db'}"


def state_folder() -> Path:
    """The folder for headgate's state when nobody names another."""
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return home / "headgate"


def open_store(url: str | None = None) -> Store:
    """Open the store at a URL; the default one, and only that, gets its folder made."""
    whole = url or default_url()
    scheme, found, rest = whole.partition("://")
    if not found:
        raise UsageError("bad store: expected sqlite:///path/to/file or memory://[NAME]")
    match scheme:
        case "memory":
            from headgate.store.memory import MemoryStore

            if not rest:
                return MemoryStore()
            return _SHARED.setdefault(rest, MemoryStore(rest))
        case "sqlite":
            from headgate.store.sqlite import SqliteStore

            if not rest.startswith("/"):
                raise UsageError(f"bad store {whole!r}: expected an absolute path, sqlite:///path")
            path = Path(rest)
            if not path.name:
                raise UsageError(
                    f"bad store {whole!r}: expected the path of a file, sqlite:///path"
                )
            if path.parent == state_folder():
                _make(path.parent)
            return SqliteStore(path)
        case _:
            raise UsageError(
                f"bad store: {shown(scheme)} is not known; use sqlite:///path or memory://"
            )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StoreUnavailableError(
            f"cannot make the state folder {folder}: {error.strerror}; "
            "set HEADGATE_STORE=sqlite:///path/to/file to use another place"
        ) from error
