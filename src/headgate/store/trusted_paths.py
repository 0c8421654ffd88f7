"""Whether a store's files are this user's own: who can write them can have commands run as us.

The rules are those of `headgate.trusted_files`, for the store's file and all that is beside it.

A store that was opened with `?shared=true` is not looked at: whoever can write it is trusted.
"""

import os
from pathlib import Path

from headgate.errors import StoreUntrustedError
from headgate.trusted_files import Trust, check_file, check_way, quoted

_BESIDE_FILE = ("-wal", "-shm", "-journal")
_BESIDE_NAME = (".members", ".logs")


def check_trusted(path: Path) -> None:
    """Raise if somebody else than this user and root can change the store, or has made it."""
    check_folder(path)
    trust = _trust(path)
    check_file(path, trust)
    real = os.path.realpath(path)
    for end in _BESIDE_FILE:  # SQLite puts them where the file is, not where a link to it is
        check_file(Path(real + end), trust)
    for end in _BESIDE_NAME:
        check_file(Path(f"{path}{end}"), trust)


def check_folder(path: Path) -> None:
    """Raise if the folder that a store is in, or is to be in, can be changed by somebody else."""
    check_way(path.parent, _trust(path))


def _trust(store: Path) -> Trust:
    def share() -> str:
        url = quoted(f"sqlite://{store}?shared=true")
        return f", or trust everybody who can write there: --store {url}"

    return Trust(StoreUntrustedError, "Use another store", or_else=share)


def make_folder(folder: Path, *, shared: bool) -> None:
    """Make a folder beside a store, for its owner alone; beside a shared one, as open as that."""
    store = folder.with_suffix("")
    mode = store.stat().st_mode & 0o666 if shared else 0o600
    mode |= mode >> 2 & 0o111  # who can read in it can enter it
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        if not shared:
            check_file(folder, _trust(store))
        return
    if shared:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _open_up(fd, mode, store)
        finally:
            os.close(fd)


def make_file(path: Path, *, shared: bool) -> bool:
    """Make an empty file, for its owner alone; in a shared store's folder, as open as the folder.

    Whatever is there already stays as it is: False.
    """
    real = Path(os.path.realpath(path))
    mode = real.parent.stat().st_mode & 0o666 if shared else 0o600
    try:
        fd = os.open(real, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
    except FileExistsError:
        return False
    try:
        if shared:
            _open_up(fd, mode, real.parent)
    finally:
        os.close(fd)
    return True


def open_as_its_folder(fd: int, folder: Path) -> None:
    """Open a file of ours to those to whom its folder is open: nobody else, if not shared."""
    mode = folder.stat().st_mode & 0o666
    if mode & 0o066:
        _open_up(fd, mode, folder)


def _open_up(fd: int, mode: int, like: Path) -> None:
    """Give what we have just made a mode, whatever our umask, and its folder's group if we may.

    By its descriptor: others may have put something else under its name by now.
    """
    try:
        os.fchown(fd, -1, like.stat().st_gid)
    except PermissionError:
        mode &= 0o707  # our group has nothing to do with it
    os.fchmod(fd, mode)
