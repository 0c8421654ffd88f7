"""Say that a project's own file is trusted, or no more."""

import os
from argparse import Namespace
from pathlib import Path

from headgate.cli.shared import terminal
from headgate.config import find_project
from headgate.config.error_text import label
from headgate.config.file import PROJECT_FILE
from headgate.config.project import Project, distrust, trust
from headgate.errors import UsageError
from headgate.store.locate import state_folder


def trust_project(args: Namespace) -> int:
    """Read it, and remember it as it is now."""
    path = _file(args.folder)
    state = state_folder()
    if state is None:
        raise UsageError("there is no home to keep that in; set HOME or XDG_STATE_HOME")
    if args.remove:
        was = distrust(path, state)
        terminal.show([f"{'not trusted any more' if was else 'was not trusted'}: {label(path)}"])
        return 0
    project = trust(path, state)
    terminal.show([f"trusted, until it is changed: {label(path)}", *_said(project)])
    return 0


def _file(said: str | None) -> Path:
    folder = os.path.abspath(said or ".")  # noqa: PTH100 - any text
    if os.path.basename(folder) == PROJECT_FILE:  # noqa: PTH119
        folder = os.path.dirname(folder)  # noqa: PTH120
    found = find_project(folder)
    if found is None:
        raise UsageError(f"there is no {PROJECT_FILE} in {label(folder)} or in a folder above")
    return found


def _said(project: Project) -> list[str]:
    """What it says, for those who have not looked."""
    limits = [f"  at most {n} in {pool}" for pool, n in project.limits.items()]
    programs = [
        f"  {', '.join(said.get('programs', (name,)))}: as {said['like']}"
        if "like" in said
        else f"  {', '.join(said.get('programs', (name,)))}: a program of its own"
        for name, said in project.profiles.items()
    ]
    return [terminal.clean(line) for line in (*limits, *programs)]
