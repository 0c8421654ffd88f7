"""Finds the file, reads it, and watches it for changes."""

import os
import stat
import time
from pathlib import Path

from headgate.config.error_text import label
from headgate.config.parsed_config import GRACE, Config
from headgate.errors import ConfigError

_LARGEST = 4 * 1024 * 1024
_UNSETTLED_NS = 100_000_000
_Mark = tuple[int, ...] | None


NO_HOME = "/nonexistent"
"""The home of users who have none. A path that begins with ~ would be in the current folder."""


def default_path() -> Path:
    """Where the file is looked for when nothing names another."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):  # the XDG specification says to ignore a relative one
        base = _at_home("~/.config")
        base = NO_HOME if base.startswith("~") else base
    return Path(base, "headgate", "config.toml")


def find() -> Path | None:
    """The file that counts: HEADGATE_CONFIG, which must exist, or the default path if it does."""
    said = os.environ.get("HEADGATE_CONFIG")
    path = Path(_at_home(said)).absolute() if said else default_path()
    if _look(path) is not None:
        return path
    if said:
        raise ConfigError(
            f"{label(path)}: HEADGATE_CONFIG names this file, but there is none; "
            "correct or unset the variable, or write the file with: headgate init"
        )
    return None


PROJECT_FILE = "headgate.toml"


def find_project(folder: str) -> Path | None:
    """The file of the project that a folder is in: the nearest one up the tree."""
    while folder.startswith("/"):
        path = os.path.join(folder, PROJECT_FILE)  # noqa: PTH118 - in each command, so no Path
        if os.path.isfile(path):  # noqa: PTH113
            return Path(path)
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            break
        folder = above
    return None


def load(path: Path | None) -> Config:
    """Read and check a file; None stands for no file, which leaves the defaults."""
    if path is None:
        return Config(None, {}, GRACE, ())
    name = label(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer, perhaps for ever
            found = "a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise ConfigError(f"{name}: found {found}, expected a TOML file; name a file instead")
        check_trusted(path)
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name has a null character"
        raise ConfigError(
            f"{name}: cannot be read: {why}; expected a TOML file that you may read; "
            "name another, or write one with: headgate init"
        ) from None
    if len(data) > _LARGEST:
        raise ConfigError(
            f"{name}: found more than {_LARGEST >> 20} MiB, expected a TOML file of a few lines; "
            "name another file"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}:{line}: found the byte 0x{data[error.start]:02x}, expected UTF-8 text; "
            "save the file as UTF-8"
        ) from None
    from headgate.config.check import parse

    return parse(text, str(path))._replace(path=path)


def check_trusted(path: Path) -> None:
    """Raise if a file is not this user's or root's alone: it may name commands to run."""
    from headgate.trusted_files import Trust, check_file, check_way

    trust = Trust(ConfigError, "Name another file, as with HEADGATE_CONFIG", roots=True)
    check_way(path.absolute().parent, trust)
    check_file(path.absolute(), trust)


class Defaults:
    """No file at all, whatever there is."""

    problem: str | None = None

    def __init__(self) -> None:
        self.config = load(None)

    def fresh(self) -> Config | None:
        """Nothing ever changes."""
        return None


class Watched:
    """A file that may change, appear or vanish at any time, and the last good Config of it.

    A path that is given must exist now; None watches the default path, which need not. While there
    is no file, the defaults count. `problem` is set once for each change that cannot be used, and
    is None again when the file is good; whoever has told people of it may clear it.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = (path or default_path()).absolute()  # the program may change directory
        self.problem: str | None = None
        self._told: str | None = None
        mark = _look(self.path)
        self._seen = _settled(mark)
        self.config = load(None if path is None and mark is None else self.path)

    def fresh(self) -> Config | None:
        """The new Config when the file says something new, else None. Costs one stat."""
        mark = _look(self.path)
        if mark == self._seen:
            return None
        self._seen = _settled(mark)
        try:
            if mark is None:  # who can change its folder may have removed it
                check_trusted(self.path)
            config = load(None if mark is None else self.path)
        except ConfigError as error:
            if self._told != str(error):
                self.problem = self._told = str(error)
            return None
        self.problem = self._told = None
        if config == self.config:
            return None
        self.config = config
        return config


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - Path's raises where there is no home


def _look(path: Path) -> _Mark:
    """What changes whenever the file does; None if there is none."""
    try:
        seen = os.stat(path)  # noqa: PTH116 - half the time of Path.stat, in every transaction
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return (0,)
    # ctime moves also when only the permissions change, or when a copy keeps the old mtime.
    return (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)


def _settled(mark: _Mark) -> _Mark:
    """The mark to compare with next time; one that never matches if the file is too young.

    Two writes within one tick of the file system's clock leave the same mark.
    """
    young = mark is not None and abs(time.time_ns() - mark[0]) < _UNSETTLED_NS
    return () if young else mark
