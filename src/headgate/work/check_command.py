"""What `submit` can check of a command before it is handed in: its folder and its program.

A worker starts the program, perhaps with another PATH and perhaps on another file system. What is
certain is refused: a folder or a file that is not there. A name that only the PATH of this shell
does not have is warned of.
"""

import os
from collections.abc import Iterable
from functools import lru_cache

from headgate.core.quantities import shown
from headgate.errors import UsageError
from headgate.ledger.jobs.lifecycle import Draft

ANYWAY = "to hand it in all the same: --no-check"


def check(drafts: Iterable[Draft]) -> list[str]:
    """Refuse what surely cannot be started; what to warn of, each once."""
    wrong: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for draft in drafts:
        spec = draft.spec
        if not spec.argv or draft.after:  # what comes before it may make both
            continue
        said, certain = _judge(spec.argv[0], spec.cwd, spec.env.get("PATH"))
        if said:
            (wrong if certain else warnings)[said] = None
    if wrong:
        raise UsageError("\n".join(["nothing was submitted:", *wrong, f"({ANYWAY})"]))
    return list(warnings)


def _runs(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)  # noqa: PTH113 - any text


@lru_cache(maxsize=1024)
def _judge(program: str, cwd: str, path: str | None) -> tuple[str, bool]:
    """What is wrong with a program in a folder, and whether that is certain."""
    if not os.path.isdir(cwd):  # noqa: PTH112 - any text
        return f"there is no folder {shown(cwd)}", True
    if "{" in program:  # the model is filled in later
        return "", False
    name = os.path.join(cwd, program) if "/" in program else program  # noqa: PTH118 - any text
    folders = os.environ.get("PATH", os.defpath) if path is None else path
    places = [""] if "/" in name else folders.split(os.pathsep)
    if any(_runs(os.path.join(folder, name)) for folder in places):  # noqa: PTH118 - any text
        return "", False
    from headgate.runner.child import find_program  # it says what is wrong

    try:
        find_program(name, path)
    except OSError as error:
        why = f"{shown(program)}: {error.strerror}"
        if "/" in program:
            return why, True
        if path is not None:
            return f"{why} on the PATH that was given for it", True
        hint = "it is looked for on the PATH of the worker; --path gives it the one of this shell"
        return f"{why} on the PATH of this shell; {hint}", False
    return "", False
