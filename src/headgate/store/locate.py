"""Which store: from a URL, the environment, or the place a person's state belongs."""

import os
from pathlib import Path

from headgate.core.quantities import shown
from headgate.errors import StoreUnavailableError, UsageError
from headgate.store.base import Store
from headgate.store.trusted_paths import check_folder
from headgate.store.urls import file_of

_SHARED: dict[str, Store] = {}


def default_url() -> str:
    """HEADGATE_STORE, or a file under the XDG state folder."""
    given = os.environ.get("HEADGATE_STORE", "").strip()
    if given:
        return as_url(given)
    folder = state_folder()
    if folder is None:
        raise StoreUnavailableError(
            f"cannot tell where to keep the store: HOME is not set, and the user {os.geteuid()} "
            "has no home in the list of users; set HEADGATE_STORE=sqlite:///path/to/file, or HOME"
        )
    return f"sqlite://{folder / 'headgate.db'}"


def as_url(text: str) -> str:
    """A store's URL; a plain path stands for the file there."""
    if text.startswith("~"):
        text = os.path.expanduser(text)  # noqa: PTH111 - Path's raises where there is no home
    return f"sqlite://{text}" if text.startswith("/") else text


def state_folder() -> Path | None:
    """The folder for headgate's state when nobody names another; None if there is no home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base, "headgate")
    try:
        return Path.home() / ".local" / "state" / "headgate"
    except RuntimeError:
        return None


def open_store(url: str | None = None) -> Store:
    """Open the store at a URL; the default one, and only that, gets its folder made."""
    whole = as_url(url) if url else default_url()
    scheme, found, rest = whole.partition("://")
    if not found:
        here = "" if "\0" in whole else f"; did you mean {shown(os.path.abspath(whole))}?"  # noqa: PTH100
        raise UsageError(
            f"bad store {shown(whole)}: expected /path/to/file, sqlite:///path/to/file or "
            f"memory://[NAME]{here}"
        )
    match scheme:
        case "memory":
            from headgate.store.memory import MemoryStore

            if not rest:
                return MemoryStore()
            return _SHARED.setdefault(rest, MemoryStore(rest))
        case "sqlite":
            from headgate.store.sqlite import SqliteStore

            path, shared = file_of(whole) or (Path(), False)
            if path.parent == state_folder():
                _make(path, shared=shared)
            return SqliteStore(path, shared=shared)
        case _:
            raise UsageError(
                f"bad store: {shown(scheme)} is not known; use sqlite:///path or memory://"
            )


def _make(path: Path, *, shared: bool) -> None:
    """Make the state folder, for its owner alone, and so whatever is missing on the way to it."""
    folder = path.parent
    try:
        if not shared:
            check_folder(folder)
        for one in (*reversed(folder.parents), folder):
            if not one.is_dir():
                one.mkdir(mode=0o700, exist_ok=True)
        seen = folder.stat()
        if not shared and seen.st_uid == os.geteuid() and seen.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise StoreUnavailableError(
            f"cannot make the state folder {folder}: {error.strerror}; "
            "set HEADGATE_STORE=sqlite:///path/to/file to use another place"
        ) from error
