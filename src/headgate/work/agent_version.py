"""Which version of an agent a command starts, told from where it is installed.

Nothing is started for that: an agent takes a second to say it, and may do more than say it.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.profile import Profile

_NUMBER = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
_HIGHEST = 6
_LARGEST = 1024 * 1024


def agent_version(profile: Profile, argv: Sequence[str], path: str | None, cwd: str) -> str:
    """The version; empty if it cannot be told."""
    word = argv[unwrap(argv).at]
    if "/" in word:
        found: str | None = os.path.join(cwd, word)  # noqa: PTH118 - any text
    else:
        found = shutil.which(word, path=path)
    if found is None:
        return ""
    program = Path(os.path.realpath(found))
    for folder in program.parents[:_HIGHEST]:
        said = _of_package(folder / "package.json", profile)
        if said is not None:
            return said
    native = next(filter(_NUMBER.fullmatch, reversed(program.parts)), "")
    return native if set(profile.programs).intersection(program.parts) else ""


def _of_package(path: Path, profile: Profile) -> str | None:
    """The version in a package's own file; None if that is no file of the agent's."""
    try:
        said = json.loads(path.read_bytes()[:_LARGEST])
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("name") not in profile.programs:
        return None
    return str(said.get("version", ""))
