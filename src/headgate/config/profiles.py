"""Profiles of agents: the built-in ones in `profiles/`, and the tables of a user's file.

A table of a built-in name changes the fields it names, one of another name is a new profile, which
may be `like` a built-in one. Of a field that is a table itself, single entries are changed.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.config.error_text import Place, shown
from headgate.config.problems import Notes
from headgate.config.value_readers import Refused, choice, listed, spelled
from headgate.core.agents.profile import Profile, Tool
from headgate.errors import UsageError

if TYPE_CHECKING:
    from headgate.config.content import Config

BUILTIN = ("aider", "claude", "codex", "gemini", "opencode")
_FOLDER = Path(__file__).with_name("profiles")
_MOST = 500
_MOST_PROFILES = 100
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_PROVIDER = r"[a-z0-9][a-z0-9._@+-]{0,63}"
_FIELDS = ("like", *(name for name in Profile._fields if name not in {"name", "speaks"}))

Said = Mapping[str, Any]
"""The fields that a table names, checked, by their names in Profile."""


def all_profiles(config: "Config") -> tuple[Profile, ...]:
    """The profiles that count: the user's own, then the built-in ones, as the user changed them."""
    builtin = _builtin()
    own = [_merged(name, said) for name, said in config.profiles.items() if name not in builtin]
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


def read_profile(notes: Notes, place: Place, table: Mapping[str, object]) -> Said:
    """The fields that one table names."""
    notes.check_names(place, table, _FIELDS)
    said: dict[str, Any] = {}
    for field, (read, allowed) in _READERS.items():
        value = notes.value((*place, field), table, read, allowed)
        if value is not None:
            said[field] = value
    if "tools" in table:
        said["tools"] = _read_tools(notes, (*place, "tools"), table["tools"])
    if "like" in said and place[-1] in BUILTIN:
        notes.wrong((*place, "like"), f"not here: {place[-1]} is a built-in profile itself")
    return said


def _merged(name: str, said: Said) -> Profile:
    like = said.get("like", "")
    base = _builtin().get(like or name, Profile(name, (name.lower(),)))
    profile = base._replace(name=name)
    if like:
        profile = profile._replace(speaks=base.name, programs=(name.lower(),))
    fields = {field: value for field, value in said.items() if field != "like"}
    for field, value in fields.items():
        if isinstance(value, dict):
            fields[field] = {**getattr(base, field), **value}
    profile = profile._replace(**fields)
    return profile._replace(programs=tuple(map(str.lower, profile.programs)))


@cache
def _builtin() -> Mapping[str, Profile]:
    import tomllib

    found = {}
    for name in BUILTIN:
        file = _FOLDER / f"{name}.toml"
        text = file.read_text(encoding="utf-8")
        notes = Notes(text, file.name)
        found[name] = Profile(name)._replace(**read_profile(notes, (), tomllib.loads(text)))
        if notes.errors:
            raise UsageError("\n".join(notes.lines(notes.errors)))
    return found


def _read_tools(notes: Notes, place: Place, found: object) -> tuple[Tool, ...]:
    if not isinstance(found, list) or len(found) > _MOST:
        text = 'a list of tables, as in [{ on = "tool_use", name = "tool" }]'
        notes.wrong(place, f"found {shown(found)}, expected {text}")
        return ()
    tools = []
    for number, entry in enumerate(found, 1):
        here = (*place, number)
        if not isinstance(entry, dict):
            notes.wrong(
                here, f'found {shown(entry)}, expected a table, as in {{ on = "tool_use" }}'
            )
            continue
        notes.check_names(here, entry, Tool._fields)
        if "on" not in entry:
            notes.wrong(here, "on: missing, expected the kind of event that is a tool call")
        said: dict[str, Any] = {"on": ""}
        for field in ("on", "at", "name", "input"):
            value = notes.value((*here, field), entry, _text, _TEXT)
            if value is not None:
                said[field] = value
        where = notes.value((*here, "where"), entry, _table(".+", ".+"), _TABLE)
        tools.append(Tool(**said, where=where or {}))
    return tuple(tools)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("neither true nor false")
    return value


def _several(read: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    def several(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > _MOST:
            raise UsageError("not a list")
        for entry in value:
            try:
                read(entry)
            except Refused:
                raise
            except UsageError:
                raise Refused(f"found {shown(entry)} in it") from None
        return tuple(map(read, value))

    return several


def _table(keys: str, values: str) -> Callable[[object], dict[str, str]]:
    name, text = spelled(keys, 200), spelled(values, 2_000)

    def table(value: object) -> dict[str, str]:
        if not isinstance(value, dict) or len(value) > _MOST:
            raise UsageError("not a table")
        found = {}
        for key, entry in value.items():
            try:
                found[name(key)] = text(entry)
            except UsageError:
                raise Refused(f"found {shown(key)} = {shown(entry)} in it") from None
        return found

    return table


def _pattern(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1_000:
        raise UsageError("not a pattern")
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise Refused(f"found {shown(value)} ({error})") from None
    return value


def _session_line(value: object) -> str:
    if re.compile(_pattern(value)).groups < 1:
        raise Refused(f"found {shown(value)}, which has no group")
    return str(value)


_text = spelled(".*", 200)
_words = _several(spelled(".+", 200))
_TEXT = "a line of at most 200 characters"
_WORDS = f"a list of at most {_MOST} texts, each a line of at most 200 characters"
_TABLE = "a table of texts"
_PATTERNS = f"a list of at most {_MOST} regular expressions of at most 1000 characters"
_OPTIONS = 'a list of options, as in ["--model", "-m"]'
_VARIABLES = 'a list of environment variables, as in ["ANTHROPIC_MODEL"]'
_PROVIDERS = "a table of providers, which are lower-case letters, digits and . _ @ + -"
_options = _several(spelled(r"-.*", 200))

_READERS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "like": (choice(*BUILTIN), listed(BUILTIN)),
    "programs": (_words, _WORDS),
    "provider": (spelled(f"(?:{_PROVIDER})?", 64), 'a provider, as in "anthropic"'),
    "model_options": (_options, _OPTIONS),
    "model_environment": (_several(spelled(_VARIABLE, 128)), _VARIABLES),
    "default": (_text, "the name of a model"),
    "aliases": (_table(".+", ".+"), 'a table of models, as in { opus = "claude-opus-4-6" }'),
    "alias_environment": (_table(".+", _VARIABLE), "a table of environment variables"),
    "provider_options": (_options, _OPTIONS),
    "provider_when": (_table(f"{_VARIABLE}(?:=.+)?", _PROVIDER), _PROVIDERS),
    "families": (_table(".+", _PROVIDER), _PROVIDERS),
    "providers": (_table(".+", _PROVIDER), _PROVIDERS),
    "subcommands": (_words, _WORDS),
    "other_commands": (_words, _WORDS),
    "flags": (_options, _OPTIONS),
    "valued": (_options, _OPTIONS),
    "optional": (_options, _OPTIONS),
    "greedy": (_options, _OPTIONS),
    "prompt_options": (_options, _OPTIONS),
    "session_options": (_options, _OPTIONS),
    "resume": (_words, 'a list of arguments, as in ["--resume", "{session}"]'),
    "drops": (_options, _OPTIONS),
    "unresumable": (_options, _OPTIONS),
    "continue_with": (_text, _TEXT),
    "session": (_words, 'a list of paths into an event, as in ["session_id"]'),
    "session_line": (_session_line, "a regular expression whose first group is the id"),
    "kind": (_words, 'a list of paths into an event, as in ["type"]'),
    "progress": (_words, 'a list of kinds of events, as in ["assistant", "tool_*"]'),
    "unless": (_words, 'a list of paths into an event, as in ["is_error", "role=user"]'),
    "polls": (_words, _WORDS),
    "retries": (_several(_pattern), _PATTERNS),
    "silent": (_flag, "true or false"),
    "exit_lies": (_flag, "true or false"),
    "base_url": (
        _table(_VARIABLE, r".*\{url\}.*"),
        'a table of environment variables, as in { ANTHROPIC_BASE_URL = "{url}" }',
    ),
}
