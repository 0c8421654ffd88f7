"""Profiles of agents: the built-in ones in `profiles/`, and the tables of a user's file.

A table of a built-in name changes the fields it names, one of another name is a new profile, which
may be `like` a built-in one. Of a field that is a table itself, single entries are changed.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.config.error_text import Place
from headgate.config.problems import Notes, each_table, read_table
from headgate.config.profile_fields import (
    BUILTIN,
    BUILTIN_FIELDS,
    FIELDS,
    MOST,
    TOOL,
    TOOLS,
    WIRE,
    WIRE_WAY,
)
from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.meters import WireWay
from headgate.core.agents.profile import Profile, Tool, find
from headgate.core.table_fields import Fields
from headgate.errors import UsageError

if TYPE_CHECKING:
    from headgate.config.parsed_config import Config

_FOLDER = Path(__file__).with_name("profiles")
_MOST_PROFILES = 100
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

Said = Mapping[str, Any]
"""The fields that a table names, checked, by their names in Profile."""


def all_profiles(config: "Config") -> tuple[Profile, ...]:
    """The profiles that count: the user's own, then the built-in ones, as the user changed them."""
    return _profiles(config, BUILTIN)


def profile_of(config: "Config", argv: Sequence[str]) -> Profile:
    """The profile of the program that a command line starts; the generic one if none fits.

    Of the built-in ones only those are read whose text has the program's name in it: most commands
    are no agents, and `run` and `submit` should not wait for what they do not need.
    """
    words = [f'"{name}"' for name in unwrap(argv).names]
    possible = [
        name
        for name, text in _builtin_texts().items()
        if name in config.profiles or any(word in text for word in words)
    ]
    return find(argv, _profiles(config, possible))


def _profiles(config: "Config", builtin: Sequence[str]) -> tuple[Profile, ...]:
    own = [_merged(name, said) for name, said in config.profiles.items() if name not in BUILTIN]
    changed = (_merged(name, config.profiles.get(name, {})) for name in builtin)
    return (*own, *changed)


def read_profiles(notes: Notes, document: Mapping[str, object]) -> dict[str, Said]:
    """What the tables of a file say; what is wrong with them goes into the notes."""
    tables = notes.table((), document, "profiles")
    if len(tables) > _MOST_PROFILES:
        notes.wrong(("profiles",), f"found {len(tables)}, expected at most {_MOST_PROFILES}")
        return {}
    found = {}
    for name in tables:
        place = ("profiles", name)
        if not re.fullmatch(_NAME, name):
            notes.wrong(place, "found a name that is none, expected letters, digits and . _ -")
            continue
        found[name] = read_profile(notes, place, notes.table(("profiles",), tables, name))
    return found


def read_profile(
    notes: Notes, place: Place, table: Mapping[str, object], fields: Fields = FIELDS
) -> Said:
    """The fields that one table names."""
    said = read_table(notes, place, table, fields)
    if "tools" in table:
        said["tools"] = _read_tools(notes, (*place, "tools"), table["tools"])
    if "wire" in table:
        said["wire"] = _read_wire(notes, (*place, "wire"), table["wire"])
    if "base_url" in said:
        said["wire"] = (*said.get("wire", ()), _pointed(said.pop("base_url")))
    if "like" in said and place[-1] in BUILTIN:
        notes.wrong((*place, "like"), f"not here: {place[-1]} is a built-in profile itself")
    return said


def _merged(name: str, said: Said) -> Profile:
    like = said.get("like", "")
    known = like or name
    base = _builtin(known) if known in BUILTIN else Profile(name, (name.lower(),))
    profile = base._replace(name=name)
    if like:
        profile = profile._replace(speaks=base.name, programs=(name.lower(),))
    fields = {field: value for field, value in said.items() if field != "like"}
    for field, value in fields.items():
        if isinstance(value, dict):
            fields[field] = {**getattr(base, field), **value}
    own = not fields.keys().isdisjoint({"session_line", "retries", "asks", "no_session"})
    profile = profile._replace(**fields, builtin=base.builtin and not own)
    return profile._replace(programs=tuple(map(str.lower, profile.programs)))


def builtin_programs() -> frozenset[str]:
    """The programs that are known to everybody."""
    return frozenset(program for name in BUILTIN for program in _builtin(name).programs)


@cache
def _builtin_texts() -> Mapping[str, str]:
    return {name: (_FOLDER / f"{name}.toml").read_text(encoding="utf-8") for name in BUILTIN}


@cache
def _builtin(name: str) -> Profile:
    import tomllib

    text = _builtin_texts()[name]
    notes = Notes(text, f"{name}.toml")
    said = read_profile(notes, (), tomllib.loads(text), BUILTIN_FIELDS)
    if notes.errors:
        raise UsageError("\n".join(notes.lines(notes.errors)))
    return Profile(name, builtin=True)._replace(**said)


def _read_tools(notes: Notes, place: Place, found: object) -> tuple[Tool, ...]:
    tables = each_table(notes, place, found, MOST, TOOLS)
    return tuple(Tool(**{"on": "", **read_table(notes, *table, TOOL)}) for table in tables)


def _read_wire(notes: Notes, place: Place, found: object) -> tuple[WireWay, ...]:
    tables = each_table(notes, place, found, MOST, WIRE)
    return tuple(WireWay(**read_table(notes, *table, WIRE_WAY)) for table in tables)


def _pointed(variables: Mapping[str, str]) -> WireWay:
    """The way that `base_url` is short for: to wherever the first of its variables points now."""
    first = next(iter(variables), "")
    texts = {name: text.replace("{url}", "{url}/up") for name, text in variables.items()}
    return WireWay(when=(first,), environment=texts, upstreams={"up": f"{{{first}}}"})
