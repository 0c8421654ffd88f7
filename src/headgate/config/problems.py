"""What was found wrong or odd in one file, each with its place."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from headgate.config.error_text import Place, clip, dotted, hide, label, line_numbers, shown
from headgate.core.admission.pools import Declared
from headgate.core.printable_text import printable
from headgate.core.table_fields import Fields, nearest, read_fields

_MOST_LINES = 20
_LIKE_A_KEY = r"(?i)key|token|secret|passw|auth"
UPSTREAM = ("usage", "rpm", "tpm", "meter", "queue_timeout", "warned_limit")
"""The settings of a pool that host has not: they are about what is upstream of it."""
OF_HOST = ("memory_floor", "load_ceiling", "agent_memory")
"""The settings that only host has: they are about the machine."""
SHARED = ("adapt", "cooldown", "meter", "queue_timeout", "warned_limit")
"""The settings of a pool that [defaults] takes too."""


class Notes:
    """All notes on one file: errors, for which it is refused, and warnings."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.errors: list[tuple[Place, str]] = []
        self.warnings: list[tuple[Place, str]] = []

    def wrong(self, place: Place, said: str) -> None:
        """Note what makes the file unusable."""
        self.errors.append((place, said))

    def warn(self, place: Place, said: str) -> None:
        """Note what is legal but looks harmful."""
        self.warnings.append((place, said))

    def table(self, place: Place, parent: Mapping[str, object], key: str) -> Mapping[str, object]:
        """The table of this name; empty if it is missing or something else."""
        found = parent.get(key, {})
        if isinstance(found, dict):
            return found
        here = (*place, key)
        self.wrong(here, f"found {shown(found)}, expected a table; write [{dotted(here)}]")
        return {}

    def check_names(
        self, place: Place, table: Mapping[str, object], known: tuple[str, ...]
    ) -> None:
        """Note each name that means nothing here, and what was probably meant."""
        for name in table:
            if name in known:
                continue
            advice = _advice(place, name, isinstance(table[name], dict), known)
            self.wrong((*place, name), f"unknown; allowed here: {', '.join(known)}{advice}")

    def lines(self, notes: Iterable[tuple[Place, str]]) -> tuple[str, ...]:
        """Each note as a line of text, in the order of the file."""
        name = label(self.name)
        where = line_numbers(self.text) if notes else {}
        found = []
        for place, said in notes:
            depths = range(len(place), 0, -1)
            line = next((where[place[:n]] for n in depths if place[:n] in where), None)
            at = f"{name}:" if line is None else f"{name}:{line}:"
            found.append(
                (line or 0, f"{at} {hide(dotted(place))}: {clip(hide(printable(said)), 400)}")
            )
        found.sort(key=lambda pair: pair[0])
        shown = tuple(text for _, text in found[:_MOST_LINES])
        more = len(found) - len(shown)
        return (*shown, f"{name}: and {more} more like these") if more else shown


def read_table(
    notes: Notes, place: Place, table: Mapping[str, object], fields: Fields
) -> dict[str, Any]:
    """The values of the fields that a table names; what is wrong with it goes into the notes.

    No method, since processes of version 0.1.0 that live on after an upgrade call it with their
    own Notes.
    """
    notes.check_names(place, table, tuple(fields))
    return read_fields(table, fields, wrong_at(notes, place), shown)


def wrong_at(notes: Notes, place: Place) -> Callable[[str, str], None]:
    """Where what is wrong with a table goes: told its field, or "", and what it is."""
    return lambda name, said: notes.wrong((*place, name) if name else place, said)


def each_table(
    notes: Notes, place: Place, found: object, most: int | None = None, such: str = ""
) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """The tables of a list, each with its place; `such` is an example of one inside of a line."""
    write = f"; write [[{dotted(place)}]]"
    if not isinstance(found, list):
        how = f", as in [{such}]" if such else write
        notes.wrong(place, f"found {shown(found)}, expected a list of tables{how}")
        return
    if most is not None and len(found) > most:
        notes.wrong(place, f"found {len(found)} tables, expected at most {most}")
        return
    for number, entry in enumerate(found, 1):
        here = (*place, number)
        if isinstance(entry, dict):
            yield here, entry
        else:
            how = f", as in {such}" if such else write
            notes.wrong(here, f"found {shown(entry)}, expected a table{how}")


def _advice(place: Place, name: str, is_table: bool, known: tuple[str, ...]) -> str:  # noqa: FBT001
    if "key_env" in known and re.search(_LIKE_A_KEY, name[:200]):
        return "; keys come from the environment: name the variable in key_env"
    if near := nearest(name, known):
        return f"; did you mean {near}?"
    if not place and name in SHARED:
        return "; put it under its pool, or under [defaults] for all"
    if place in {(), ("defaults",)} and name in Declared._fields:
        pool = "anthropic" if name in UPSTREAM else "host"
        return f"; put it under its pool, as in [pools.{pool}]"
    if is_table and len(place) == 2 and place[0] == "pools":
        return f"; a pool's name with a dot needs quotes: [pools.{shown(f'{place[1]}.{name}')}]"
    return ""
