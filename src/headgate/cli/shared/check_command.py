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
from headgate.runner.child import find_program

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


@lru_cache(maxsize=1024)
def _judge(program: str, cwd: str, path: str | None) -> tuple[str, bool]:
    """What is wrong with a program in a folder, and whether that is certain."""
    if not os.path.isdir(cwd):  # noqa: PTH112 - any text
        return f"there is no folder {shown(cwd)}", True
    if "{" in program:  # the model is filled in later
        return "", False
    name = os.path.join(cwd, program) if "/" in program else program  # noqa: PTH118 - any text
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
