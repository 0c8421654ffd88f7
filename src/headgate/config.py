"""The configuration file: found, read, checked as a whole, and watched for changes.

A file is accepted or refused as a whole. What is wrong with it is said all at once, a line for each
mistake: where it is, what was found there, and what is allowed. What is legal but looks harmful
becomes a warning.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from headgate.core.amounts import CLASSES, parse_duration, parse_limit, show_duration
from headgate.core.keys import parse_pattern
from headgate.core.pools import DEFAULTS, UNLIMITED, Declared
from headgate.errors import ConfigError, UsageError

GRACE = 10_000
_LARGEST = 256 * 1024
_MOST_LINES = 20
_UNSETTLED_NS = 100_000_000

_TABLES = ("pools", "run")
_IN_POOL = ("limit", "cooldown", "max_hold", "reserve")
_IN_RUN = ("grace",)

_LIMIT = (
    f'a whole number from 1 to 1000000, or "{UNLIMITED}" (to let nothing in: headgate pause POOL)'
)
_SEATS = "a whole number from 0 to 1000000"
_TIME = 'a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'

_Place = tuple[str, ...]
_T = TypeVar("_T")

TEMPLATE = """\
# headgate's configuration. Every setting is optional. Those behind a # are the defaults, so this
# file as it stands changes nothing. A saved change counts at once, for work already waiting too.
# What is set with `headgate limits`, and HEADGATE_LIMITS in the environment, beat this file.

# A pool is a limit with a name, and work takes a seat in every pool whose name matches it:
#   host                           all work on one machine
#   anthropic                      all models of one provider
#   "anthropic/claude-opus-4-6"    one model
#   "anthropic/claude-opus-*"      a family of models; * is any text, ? one character
# Names with . / * ? need the quotes.

[pools.host]
#limit = 3            # how many agents may run at once on one machine, or "unlimited"

[pools."*/claude-opus-*"]
#limit = 4            # how many may use such a model at once, or "unlimited"
#cooldown = "0s"      # how long a freed seat rests; "2s" lets the provider's own count catch up
#max_hold = "off"     # end work that holds its seats longer than this; "12h" ends what hangs
#reserve = {}         # seats for one priority only: { interactive = 1 }; also normal, background

[run]
#grace = "10s"        # how long an agent that is ended may tidy up before it is killed
"""


class Config(NamedTuple):
    """What a configuration file says. Times are in milliseconds."""

    path: Path | None
    pools: Mapping[str, Declared]
    grace: int
    warnings: tuple[str, ...]


def default_path() -> Path:
    """Where the file is looked for when nothing else is said."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore a relative one
        base = os.path.join(os.path.expanduser("~"), ".config")
    return Path(base, "headgate", "config.toml")


def find() -> Path | None:
    """The file that counts: HEADGATE_CONFIG, which must exist, or the default path if it does."""
    said = os.environ.get("HEADGATE_CONFIG")
    path = Path(os.path.abspath(os.path.expanduser(said))) if said else default_path()
    if _mark(path) is not None:
        return path
    if said:
        raise ConfigError(
            f"{_label(path)}: HEADGATE_CONFIG names this file, and there is none; "
            "correct or unset it, or write the file with: headgate init"
        )
    return None


def load(path: Path | None) -> Config:
    """Read and check a file; None stands for no file, which leaves the defaults."""
    if path is None:
        return Config(None, {}, GRACE, ())
    name = _label(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer, perhaps for ever
            found = "a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise ConfigError(f"{name}: expected a TOML file, found {found}; name a file instead")
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{name}: cannot read the configuration: {why}; "
            "make it readable, name another file, or write one with: headgate init"
        ) from None
    if len(data) > _LARGEST:
        raise ConfigError(
            f"{name}: larger than {_LARGEST // 1024} KiB, so hardly a configuration of headgate; "
            "name another file"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}:{line}: expected UTF-8 text, found the byte 0x{data[error.start]:02x}; "
            "save the file as UTF-8"
        ) from None
    return parse(text, str(path))._replace(path=path)


def parse(text: str, name: str) -> Config:
    """Check the text of a file called `name`; raise one ConfigError with all that is wrong."""
    import tomllib

    text = text.removeprefix("\ufeff")  # some editors put a byte order mark there
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_not_toml(text, name, str(error))) from None
    except (ValueError, RecursionError):  # what Python's own limits make of absurd values
        said = "a number is too long, or tables are nested too deeply"
        raise ConfigError(_not_toml(text, name, said)) from None
    notes = _Notes(text, name)
    notes.check_names((), document, _TABLES)
    pools = _pools(notes, document)
    run = notes.table((), document, "run")
    notes.check_names(("run",), run, _IN_RUN)
    grace = notes.value(("run",), run, "grace", parse_duration, _TIME)
    if grace is not None and grace < 1_000:
        notes.warn(("run", "grace"), "an ended agent has no time to save its work; 1s or more has")
    if notes.errors:
        raise ConfigError("\n".join(notes.lines(notes.errors)))
    return Config(None, pools, GRACE if grace is None else grace, notes.lines(notes.warnings))


class Watched:
    """A file that may change, appear or vanish at any time, and the last good Config of it.

    A path that is given must exist now; None watches the default path, which need not. Without the
    file the defaults count. `problem` is set once for each change that cannot be used; whoever has
    told people of it may clear it.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path or default_path()
        self.problem: str | None = None
        self._told: str | None = None
        self._seen = self._settled(mark := _mark(self.path))
        self.config = load(path if mark is None else self.path)

    def fresh(self) -> Config | None:
        """The new Config if the file now says something else, or None. Costs one stat."""
        mark = _mark(self.path)
        if mark == self._seen:
            return None
        self._seen = self._settled(mark)
        try:
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

    @staticmethod
    def _settled(mark: _Mark | None) -> _Mark | None:
        # Two writes within one tick of the file system's clock look alike, so a file that was
        # written just now is read again next time.
        unsettled = mark is not None and abs(time.time_ns() - mark[0]) < _UNSETTLED_NS
        return () if unsettled else mark


def _mark(path: Path) -> tuple[int, ...] | None:
    """What changes whenever the file does; None if there is none."""
    try:
        seen = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return (0, getattr(error, "errno", None) or 0)
    # ctime also moves when only the permissions do, or when a copy keeps the old mtime
    return (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
