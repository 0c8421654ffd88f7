"""The project that work is started in."""

import os
from typing import TYPE_CHECKING

from headgate.config import find_project
from headgate.store.locate import state_folder

if TYPE_CHECKING:
    from headgate.config.project import Project


def project_here(folder: str | None = None) -> "Project | None":
    """The project that a folder is in: this one, if no other is named. None if it has no file."""
    try:
        path = find_project(os.getcwd() if folder is None else folder)  # noqa: PTH109 - any text
    except OSError:  # this folder was removed
        return None
    if path is None:
        return None
    from headgate.config.project import read_project

    return read_project(path, state_folder())
