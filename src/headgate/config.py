"""The configuration file: found, read, checked as a whole, and watched for changes.

A file is accepted or refused as a whole. All that is wrong with it is said at once, a line for each
mistake: where it is, what was found there, and what is allowed. What is legal but looks harmful
becomes a warning.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from headgate.core.amounts import CLASSES, parse_duration, parse_limit, show_duration
from headgate.core.keys import parse_pattern
from headgate.core.pools import DEFAULTS, UNLIMITED, Declared
from headgate.errors import ConfigError, UsageError

GRACE = 10_000
"""Milliseconds an ended agent has between SIGTERM and SIGKILL, unless the file says otherwise."""

TEMPLATE = """\
# headgate's configuration. Every setting is optional; those behind a # show the defaults, so that
# this file as it stands changes nothing. A saved change is noticed without a restart. What is set
# with `headgate limits`, and HEADGATE_LIMITS in the environment, beat this file.

# A pool is a limit with a name, and work takes a seat in every pool whose name matches it:
#   host                           all work on one machine
#   anthropic                      all models of one provider
#   "anthropic/claude-opus-4-6"    one model
#   "anthropic/claude-opus-*"      a family of models; * is any text, ? is one character
# Names with . / * ? need the quotes.

[pools.host]
#limit = 3            # how many agents may run at once on one machine, or "unlimited"

[pools."*/claude-opus-*"]
#limit = 4            # how many may use such a model at once, or "unlimited"
#cooldown = "0s"      # how long a freed seat rests; "2s" lets the provider's own count catch up
#max_hold = "off"     # end work that holds its seats longer than this; "12h" ends what hangs
#reserve = {}         # seats for one class of work, as in { interactive = 1 }; normal, background

[run]
#grace = "10s"        # how long an agent that is ended may tidy up before it is killed
"""

_LARGEST = 256 * 1024
_MOST_LINES = 20
_UNSETTLED_NS = 100_000_000

_LIMIT = f'a whole number from 1 to 1000000, or "{UNLIMITED}"; to let nothing in, pause it'
_SEATS = "a whole number from 0 to 1000000"
_TIME = 'a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'
_HOLD = 'a time such as "90m" or "12h", more than none and at most "366d", or "off"'

_Place = tuple[str, ...]
_Mark = tuple[int, ...] | None
_T = TypeVar("_T")


class Config(NamedTuple):
    """What a configuration file says. Times are in milliseconds."""

    path: Path | None
    pools: Mapping[str, Declared]
    grace: int
    warnings: tuple[str, ...]


def default_path() -> Path:
    """Where the file is looked for when nothing names another."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):  # the XDG specification says to ignore a relative one
        base = _at_home("~/.config")
    return Path(base, "headgate", "config.toml")


def find() -> Path | None:
    """The file that counts: HEADGATE_CONFIG, which must exist, or the default path if it does."""
    said = os.environ.get("HEADGATE_CONFIG")
    path = Path(_at_home(said)).absolute() if said else default_path()
    if _look(path) is not None:
        return path
    if said:
        raise ConfigError(
            f"{_label(path)}: HEADGATE_CONFIG names this file, but there is none; "
            "correct or unset the variable, or write the file with: headgate init"
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
            raise ConfigError(f"{name}: found {found}, expected a TOML file; name a file instead")
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{name}: cannot be read: {why}; expected a TOML file that you may read; "
            "name another, or write one with: headgate init"
        ) from None
    if len(data) > _LARGEST:
        raise ConfigError(
            f"{name}: found more than {_LARGEST // 1024} KiB, expected a TOML file of a few lines; "
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
    return parse(text, str(path))._replace(path=path)


def parse(text: str, name: str) -> Config:
    """Check the text of a file called `name`; raise one ConfigError with all that is wrong."""
    import tomllib

    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_not_toml(text, name, str(error))) from None
    except (ValueError, RecursionError):  # Python's own limits, met before TOML's
        raise ConfigError(
            f"{_label(name)}: a number is too long or tables are nested too deeply; "
            "expected what `headgate init` writes"
        ) from None
    notes = _Notes(text, name)
    notes.check_names((), document, ("pools", "run"))
    pools = _read_pools(notes, document)
    run = notes.table((), document, "run")
    notes.check_names(("run",), run, ("grace",))
    grace = notes.value(("run", "grace"), run, parse_duration, _TIME)
    if grace is not None and grace < 1_000:
        notes.warn(("run", "grace"), "hardly time for an ended agent to save its work; 10s is")
    if notes.errors:
        raise ConfigError("\n".join(notes.lines(notes.errors)))
    warnings = notes.lines(notes.warnings)
    return Config(None, pools, GRACE if grace is None else grace, warnings)


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


class _Notes:
    """What was found wrong or odd in one file, each with its place."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.errors: list[tuple[_Place, str]] = []
        self.warnings: list[tuple[_Place, str]] = []

    def wrong(self, place: _Place, said: str) -> None:
        self.errors.append((place, said))

    def warn(self, place: _Place, said: str) -> None:
        self.warnings.append((place, said))

    def table(self, place: _Place, parent: Mapping[str, object], key: str) -> Mapping[str, object]:
        """The table of this name; empty if it is missing or something else."""
        found = parent.get(key, {})
        if isinstance(found, dict):
            return found
        here = (*place, key)
        self.wrong(here, f"found {_shown(found)}, expected a table; write [{_dotted(here)}]")
        return {}

    def value(
        self,
        place: _Place,
        table: Mapping[str, object],
        read: Callable[[object], _T],
        allowed: str,
    ) -> _T | None:
        """The setting at this place as `read` takes it; None if it is missing or refused."""
        if place[-1] not in table:
            return None
        found = table[place[-1]]
        try:
            return read(found)
        except (UsageError, ValueError, OverflowError):  # the latter two by numbers of any length
            self.wrong(place, f"found {_shown(found)}, expected {allowed}")
            return None

    def check_names(
        self, place: _Place, table: Mapping[str, object], known: tuple[str, ...]
    ) -> None:
        """Note each name that means nothing here, and what was probably meant."""
        for name in table:
            if name in known:
                continue
            here = (*place, name)
            advice = _advice(here, isinstance(table[name], dict), known)
            self.wrong(here, f"unknown; allowed here: {', '.join(known)}{advice}")

    def lines(self, notes: Iterable[tuple[_Place, str]]) -> tuple[str, ...]:
        """Each note as a line of text, in the order of the file."""
        name = _label(self.name)
        where = _line_numbers(self.text) if notes else {}
        found = []
        for place, said in notes:
            depths = range(len(place), 0, -1)
            line = next((where[place[:n]] for n in depths if place[:n] in where), None)
            at = f"{name}:" if line is None else f"{name}:{line}:"
            found.append((line or 0, f"{at} {_dotted(place)}: {_clip(said, 400)}"))
        found.sort(key=lambda pair: pair[0])
        shown = tuple(text for _, text in found[:_MOST_LINES])
        more = len(found) - len(shown)
        return (*shown, f"{name}: and {more} more like these") if more else shown


def _read_pools(notes: _Notes, document: Mapping[str, object]) -> dict[str, Declared]:
    tables = notes.table((), document, "pools")
    spelled: dict[str, str] = {}
    pools = {}
    for name in tables:
        place = ("pools", name)
        pool = _read_pool(notes, place, notes.table(("pools",), tables, name))
        try:
            pattern = parse_pattern(name)
        except UsageError as error:
            notes.wrong(place, str(error))
            continue
        if pattern in spelled:
            other = _dotted(("pools", spelled[pattern]))
            notes.wrong(place, f"is the same pool as {other}; keep one of the two tables")
            continue
        spelled[pattern] = name
        pools[pattern] = pool
        _warn_of_pool(notes, place, pool, DEFAULTS.get(pattern, Declared()))
    return pools


def _read_pool(notes: _Notes, place: _Place, table: Mapping[str, object]) -> Declared:
    notes.check_names(place, table, Declared._fields)
    seats = notes.table(place, table, "reserve")
    notes.check_names((*place, "reserve"), seats, CLASSES)
    taken = ((cls, notes.value((*place, "reserve", cls), seats, _seats, _SEATS)) for cls in CLASSES)
    reserve = tuple((cls, number) for cls, number in taken if number)
    return Declared(
        limit=notes.value((*place, "limit"), table, _limit, _LIMIT),
        cooldown=notes.value((*place, "cooldown"), table, parse_duration, _TIME),
        max_hold=notes.value((*place, "max_hold"), table, _max_hold, _HOLD),
        reserve=reserve if "reserve" in table else None,
    )


def _warn_of_pool(notes: _Notes, place: _Place, pool: Declared, default: Declared) -> None:
    said = default.limit if pool.limit is None else pool.limit
    limit = said if isinstance(said, int) else None
    rest, hold = pool.cooldown or 0, pool.max_hold
    reserved = sum(seats for _, seats in pool.reserve or ())
    if limit and limit > 1_000:
        notes.warn((*place, "limit"), f'{limit} seats limit little; "{UNLIMITED}" says so plainly')
    if rest > 300_000:
        text = f"each freed seat stays empty for {show_duration(rest)}; 2s is usual"
        notes.warn((*place, "cooldown"), text)
    if hold and hold < 1_800_000:
        text = f"agents run for hours, and are ended after {show_duration(hold)}; 12h is safer"
        notes.warn((*place, "max_hold"), text)
    if reserved and limit is None:
        notes.warn((*place, "reserve"), "has no effect while this pool has no limit")
    elif limit and reserved >= limit:
        text = f"sets aside {reserved} of {limit} seats, but one always stays open to everyone"
        notes.warn((*place, "reserve"), text)


def _limit(value: object) -> int | str:
    if isinstance(value, str) and value.strip().lower() == UNLIMITED:
        return UNLIMITED
    return parse_limit(_number(value))


def _seats(value: object) -> int:
    return parse_limit(value) if _number(value) else 0


def _number(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UsageError("not a whole number; in quotes it is text")


def _max_hold(value: object) -> int | None:
    if isinstance(value, str) and value.strip().lower() == "off":
        return None
    hold = parse_duration(value)
    if hold == 0:
        raise UsageError("no work ends the moment it starts")
    return hold


def _advice(place: _Place, is_table: bool, known: tuple[str, ...]) -> str:  # noqa: FBT001
    import difflib

    *parent, name = place
    near = difflib.get_close_matches(name[:40].lower(), known, 1)
    if near:
        return f"; did you mean {near[0]}?"
    if not parent and name in Declared._fields:
        return "; put it under its pool, as in [pools.host]"
    if is_table and len(parent) == 2:
        return f"; a pool's name with a dot needs quotes: [pools.{_shown(f'{parent[1]}.{name}')}]"
    return ""


def _not_toml(text: str, name: str, said: str) -> str:
    at = re.search(r"\(at line (\d+), column (\d+)\)", said)
    line = at[1] if at else str(text.count("\n") + 1)
    advice = 'put quotes around text ("2s") and names with . / * ?, as in [pools."openai/gpt-*"]'
    if said.startswith("Cannot"):
        advice = "give each table and each setting once"
    elif at:
        rest = text.replace("\r\n", "\n").split("\n")[int(at[1]) - 1][int(at[2]) - 1 :]
        said += f", found {_shown(rest[0]) if rest else 'the end of the line'}"
    return f"{_label(name)}:{line}: not valid TOML: {_clip(said, 200)}; {advice}"


def _line_numbers(text: str) -> dict[_Place, int]:
    """Where each table and setting begins; inside values that span lines this may err."""
    import tomllib

    part = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
    start = re.compile(rf"(\[{{0,2}})\s*({part}(?:\s*\.\s*{part})*)\s*[\]=]")
    found: dict[_Place, int] = {}
    table: _Place = ()
    for number, line in enumerate(text.split("\n"), 1):
        match = start.match(line.strip())
        if not match:
            continue
        try:
            step: object = tomllib.loads(f"{match[2]} = 0")
        except (ValueError, RecursionError):
            continue
        path: list[str] = []
        while isinstance(step, dict):
            [(name, step)] = step.items()
            path.append(name)
        place = tuple(path) if match[1] else (*table, *path)
        table = place if match[1] else table
        for depth in range(1, min(len(place), 4) + 1):
            found.setdefault(place[:depth], number)
    return found


def _shown(value: object) -> str:
    """A value as TOML would write it: short, and on one line whatever is in it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 63:
        return "a number beyond 64 bits"
    if not isinstance(value, str):
        return str(value)
    quoted = repr(_clip(value, 60))
    return quoted if '"' in quoted else f'"{quoted[1:-1]}"'


def _dotted(place: _Place) -> str:
    bare = re.compile(r"[A-Za-z0-9_-]{1,60}")
    return ".".join(name if bare.fullmatch(name) else _shown(name) for name in place)


def _label(name: str | Path) -> str:
    text = str(name)
    return text if text.isprintable() else repr(text)


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"
