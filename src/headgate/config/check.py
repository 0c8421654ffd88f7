"""Checks the text of a file as a whole, and says all that is wrong with it at once."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from headgate.config.file import GRACE, Config
from headgate.config.words import Place, clip, dotted, label, line_numbers, not_toml, shown
from headgate.core.amounts import CLASSES, parse_duration, parse_limit, show_duration
from headgate.core.keys import parse_pattern
from headgate.core.pools import DEFAULTS, UNLIMITED, Declared
from headgate.errors import ConfigError, UsageError

_MOST_LINES = 20
_LIMIT = f'a whole number from 1 to 1000000, or "{UNLIMITED}"; to let nothing in, pause it'
_SEATS = "a whole number from 0 to 1000000"
_TIME = 'a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'
_HOLD = 'a time such as "90m" or "12h", more than none and at most "366d", or "off"'

_T = TypeVar("_T")


def parse(text: str, name: str) -> Config:
    """Check the text of a file called `name`; raise one ConfigError with all that is wrong."""
    import tomllib

    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(not_toml(text, name, str(error))) from None
    except (ValueError, RecursionError):  # Python's own limits, met before TOML's
        raise ConfigError(
            f"{label(name)}: a number is too long or tables are nested too deeply; "
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


class _Notes:
    """What was found wrong or odd in one file, each with its place."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.errors: list[tuple[Place, str]] = []
        self.warnings: list[tuple[Place, str]] = []

    def wrong(self, place: Place, said: str) -> None:
        self.errors.append((place, said))

    def warn(self, place: Place, said: str) -> None:
        self.warnings.append((place, said))

    def table(self, place: Place, parent: Mapping[str, object], key: str) -> Mapping[str, object]:
        """The table of this name; empty if it is missing or something else."""
        found = parent.get(key, {})
        if isinstance(found, dict):
            return found
        here = (*place, key)
        self.wrong(here, f"found {shown(found)}, expected a table; write [{dotted(here)}]")
        return {}

    def value(
        self,
        place: Place,
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
            self.wrong(place, f"found {shown(found)}, expected {allowed}")
            return None

    def check_names(
        self, place: Place, table: Mapping[str, object], known: tuple[str, ...]
    ) -> None:
        """Note each name that means nothing here, and what was probably meant."""
        for name in table:
            if name in known:
                continue
            here = (*place, name)
            advice = _advice(here, isinstance(table[name], dict), known)
            self.wrong(here, f"unknown; allowed here: {', '.join(known)}{advice}")

    def lines(self, notes: Iterable[tuple[Place, str]]) -> tuple[str, ...]:
        """Each note as a line of text, in the order of the file."""
        name = label(self.name)
        where = line_numbers(self.text) if notes else {}
        found = []
        for place, said in notes:
            depths = range(len(place), 0, -1)
            line = next((where[place[:n]] for n in depths if place[:n] in where), None)
            at = f"{name}:" if line is None else f"{name}:{line}:"
            found.append((line or 0, f"{at} {dotted(place)}: {clip(said, 400)}"))
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
            other = dotted(("pools", spelled[pattern]))
            notes.wrong(place, f"is the same pool as {other}; keep one of the two tables")
            continue
        spelled[pattern] = name
        pools[pattern] = pool
        _warn_of_pool(notes, place, pool, DEFAULTS.get(pattern, Declared()))
    return pools


def _read_pool(notes: _Notes, place: Place, table: Mapping[str, object]) -> Declared:
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


def _warn_of_pool(notes: _Notes, place: Place, pool: Declared, default: Declared) -> None:
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


def _advice(place: Place, is_table: bool, known: tuple[str, ...]) -> str:  # noqa: FBT001
    import difflib

    *parent, name = place
    near = difflib.get_close_matches(name[:40].lower(), known, 1)
    if near:
        return f"; did you mean {near[0]}?"
    if not parent and name in Declared._fields:
        return "; put it under its pool, as in [pools.host]"
    if is_table and len(parent) == 2:
        return f"; a pool's name with a dot needs quotes: [pools.{shown(f'{parent[1]}.{name}')}]"
    return ""
