"""The files that have a say: where each is looked for, and whether it is there."""

import os
from collections.abc import Mapping
from pathlib import Path

from headgate.config import default_path, find_project
from headgate.config.error_text import label
from headgate.config.file import PROJECT_FILE
from headgate.config.project import read_project, trust_list
from headgate.core.named_tuple import NamedTuple
from headgate.doctor.finding import Finding, note, ok
from headgate.errors import HeadgateError
from headgate.store.locate import as_url, default_url, state_folder
from headgate.store.urls import file_of, show_url


class File(NamedTuple):
    """A file that has a say, or would have."""

    what: str
    path: str | None
    """Where it is looked for; None if that is nowhere."""
    found: bool
    text: str
    """How it stands with it."""


def look(
    environ: Mapping[str, str], *, store: str | None = None, config: str | None = None
) -> tuple[File, ...]:
    """All of them, in the order in which they are read."""
    return (_config(environ, config), _project(), _trust_list(), _store(environ, store))


def check(files: tuple[File, ...]) -> list[Finding]:
    """A finding for each."""
    found = []
    for one in files:
        where = f" {one.path}" if one.path else ""
        make = ok if one.found else note
        found.append(make("file", f"{one.what}:{where} ({one.text})"))
    return found


def lines(files: tuple[File, ...]) -> list[str]:
    """For people: a line for each."""
    width = max(len(one.what) for one in files)
    return [
        "  ".join(filter(None, (f"{one.what:<{width}}", one.path, f"({one.text})")))
        for one in files
    ]


def _config(environ: Mapping[str, str], said: str | None) -> File:
    named = environ.get("HEADGATE_CONFIG")
    text = said or named
    path = Path(os.path.expanduser(text)) if text else default_path()  # noqa: PTH111 - no home
    by = ", named by --config" if said else ", named by HEADGATE_CONFIG" if named else ""
    there = path.exists()
    stands = "found" if there else "not there: the defaults count"
    return File("configuration", label(path.absolute()), there, stands + by)


def _project() -> File:
    what = "project"
    try:
        path = find_project(os.getcwd())  # noqa: PTH109 - any text
    except OSError:
        return File(what, None, found=False, text="this folder is not there any more")
    if path is None:
        return File(what, None, found=False, text=f"no {PROJECT_FILE} here or in a folder above")
    try:
        state = str(read_project(path, state_folder()).state)
    except HeadgateError as error:
        state = f"cannot be used: {error}"
    return File(what, label(path), state == "trusted", state)


def _trust_list() -> File:
    folder = state_folder()
    what = "trusted projects"
    if folder is None:
        return File(what, None, False, "there is no home to keep them in")
    path = trust_list(folder)
    return File(what, label(path), path.exists(), "found" if path.exists() else "none so far")


def _store(environ: Mapping[str, str], said: str | None) -> File:
    named = ", named by --store" if said else ""
    if not said and environ.get("HEADGATE_STORE", "").strip():
        named = ", named by HEADGATE_STORE"
    try:
        url = as_url(said) if said else default_url()
        found = file_of(url)
    except HeadgateError as error:
        return File("store", None, False, f"cannot be told: {error}")
    if found is None:
        return File("store", show_url(url), True, f"not in a file{named}")
    there = found[0].exists()
    text = "found" if there else "not there yet: it is made when first used"
    return File("store", label(found[0]), there, text + named)
