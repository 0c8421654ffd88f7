"""A project's own `headgate.toml`, which is read once its user has said that it is trusted.

Anybody may have put it there: it comes with what was cloned. So it can do two things only. It can
tighten pools for work that is started in the project, and it can name programs that are started
there and that nobody knows otherwise. What else a configuration can say is refused: what may stand
there is listed here, and nothing is listed that is a URL, a key, a command, an argument or a hook.

Trust is bound to the file's path and to what is in it, as direnv does. `check_trusted` of other
files is of no use here: whoever changes the file changes what it is.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from tempfile import mkstemp

from headgate.config.error_text import Place, dotted, label, not_toml
from headgate.config.parsed_config import Config
from headgate.config.problems import Notes, read_table
from headgate.config.profile_fields import BUILTIN
from headgate.config.profile_fields import FIELDS as PROFILE_FIELDS
from headgate.config.profiles import Said, all_profiles, builtin_programs, read_profiles
from headgate.core.agents.command_wrappers import is_wrapper
from headgate.core.key_patterns import parse_pattern
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import MOST
from headgate.core.table_fields import Field, Fields, whole
from headgate.errors import ConfigError, UsageError
from headgate.trusted_files import Trust, check_file

_LARGEST = 256 * 1024
_LIST = "trusted.json"
POOL_FIELDS: Fields = {
    "limit": Field(
        whole(1, MOST),
        f"a whole number from 1 to {MOST}",
        text="At most so many at once in this pool when work of this project starts.",
        required=True,
    )
}
_PROFILE_FIELDS: Fields = {
    name: PROFILE_FIELDS[name]
    for name in ("like", "programs", "provider", "default", "model_options", "aliases")
}
ALLOWED: Mapping[str, Fields] = {"pools": POOL_FIELDS, "profiles": _PROFILE_FIELDS}
"""All that may stand in a project's file: the tables, and what each table in them can have."""


class TrustState(StrEnum):
    """What a user has said of a project's file."""

    TRUSTED = "trusted"
    UNKNOWN = "not trusted"
    CHANGED = "changed since it was trusted"


class Project(NamedTuple):
    """A project's file; what it says only if it is trusted."""

    path: Path
    state: TrustState
    limits: Mapping[str, int] = {}
    profiles: Mapping[str, Said] = {}

    @property
    def advice(self) -> str:
        """Why it is not read, and what to do; empty if it is."""
        if self.state is TrustState.TRUSTED:
            return ""
        folder = label(self.path.parent)
        return (
            f"{label(self.path)} is {self.state}, so it is not read; look at it, then: "
            f"headgate config trust {folder!r}"
        )


def read_project(path: Path, state: Path | None) -> Project:
    """A project's file; `state` is the folder in which its user's word on it is kept."""
    data = _read(path)
    said = _trusted(state).get(str(path.resolve()))
    if said is None:
        return Project(path, TrustState.UNKNOWN)
    if said != _digest(data):
        return Project(path, TrustState.CHANGED)
    return _parse(data, path)


def lay_under(config: Config, profiles: Mapping[str, Said]) -> Config:
    """A configuration that also knows a project's programs; what it knew, it knows as before."""
    known = {program for profile in all_profiles(config) for program in profile.programs}
    new = {
        name: said
        for name, said in profiles.items()
        if name not in config.profiles
        and known.isdisjoint(map(str.lower, said.get("programs", (name,))))
    }
    return config._replace(profiles={**config.profiles, **new})


def trust(path: Path, state: Path) -> Project:
    """Trust a project's file as it is now; one that cannot be used is refused."""
    data = _read(path)
    project = _parse(data, path)
    _keep({**_trusted(state), str(path.resolve()): _digest(data)}, state)
    return project


def distrust(path: Path, state: Path) -> bool:
    """Trust it no more; whether it was."""
    known = dict(_trusted(state))
    was = known.pop(str(path.resolve()), None) is not None
    if was:
        _keep(known, state)
    return was


def trust_list(state: Path) -> Path:
    """The file in which it is kept who is trusted."""
    return state / _LIST


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> bytes:
    name = label(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe keeps nobody waiting
        with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{name}: found no plain file, expected one of TOML")
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{name}: cannot be read: {why}") from None
    if len(data) > _LARGEST:
        raise ConfigError(f"{name}: found more than {_LARGEST >> 10} KiB, expected a few lines")
    return data


def _trusted(state: Path | None) -> Mapping[str, str]:
    """What was said of which files; nothing where that cannot be read or is not the user's own."""
    if state is None:
        return {}
    path = trust_list(state)
    check_file(path, Trust(ConfigError, "Remove it, and trust your projects anew"))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: said for name, said in found.items() if isinstance(said, str)}


def _keep(trusted: Mapping[str, str], state: Path) -> None:
    path = trust_list(state)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, name = mkstemp(dir=state, prefix=f"{_LIST}.")  # for its owner alone
        try:
            with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                json.dump(trusted, file, indent=1)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{label(path)}: cannot be written: {error.strerror}") from None


def _parse(data: bytes, path: Path) -> Project:
    import tomllib

    try:
        text = data.decode("utf-8-sig")
        document = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ConfigError(f"{label(path)}: found bytes that are no UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(not_toml(text, str(path), str(error))) from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{label(path)}: a number is too long or tables too deep") from None
    notes = Notes(text, str(path))
    document = _allowed(notes, (), document, tuple(ALLOWED))
    limits = _read_limits(notes, notes.table((), document, "pools"))
    profiles = _read_profiles(notes, document)
    if notes.errors:
        raise ConfigError("\n".join(notes.lines(notes.errors)))
    return Project(path, TrustState.TRUSTED, limits, profiles)


def _allowed(
    notes: Notes, place: Place, table: Mapping[str, object], known: tuple[str, ...]
) -> dict[str, object]:
    """What may stand in a table; all else is an error."""
    for name in table:
        if name not in known:
            text = f"not in a project's file; allowed here: {', '.join(known)}"
            notes.wrong((*place, name), text)
    return {name: value for name, value in table.items() if name in known}


def _read_limits(notes: Notes, tables: Mapping[str, object]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in tables:
        place = ("pools", name)
        table = notes.table(("pools",), tables, name)
        table = _allowed(notes, place, table, tuple(POOL_FIELDS))
        try:
            pattern = parse_pattern(name)
        except UsageError as error:
            notes.wrong(place, str(error))
            continue
        said = read_table(notes, place, table, POOL_FIELDS)
        if pattern in found:
            notes.wrong(place, f"{dotted(place)} is there twice, in other letters")
        if "limit" in said:
            found[pattern] = said["limit"]
    return found


def _read_profiles(notes: Notes, document: Mapping[str, object]) -> Mapping[str, Said]:
    tables = notes.table((), document, "profiles")
    kept = {
        name: _allowed(notes, ("profiles", name), table, tuple(_PROFILE_FIELDS))
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }
    profiles = read_profiles(notes, {"profiles": kept})
    known = builtin_programs()
    for name, said in profiles.items():
        for program in said.get("programs", (name,)):
            if name in BUILTIN or program.lower() in known or is_wrapper(program.lower()):
                at = ("profiles", name, *(("programs",) if "programs" in said else ()))
                text = f"{label(program)} is known already; a project may only name other programs"
                notes.wrong(at, text)
    return profiles
