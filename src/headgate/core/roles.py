"""Roles: what work is done as, as in `reviewer`. The pool `role:reviewer` counts what carries it.

The roles of a piece of work are kept as one text, `role:lead role:reviewer`, sorted.
"""

import re
from collections.abc import Iterable

from headgate.core.key_patterns import ROLE
from headgate.core.quantities import shown
from headgate.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}\Z")
_MOST = 8


def parse_roles(said: object) -> str:
    """The roles that were said: a list of them, or a text of several; each once, in order."""
    names = said.split() if isinstance(said, str) else said
    if names is None:
        return ""
    if not isinstance(names, Iterable):
        raise UsageError(f"bad role {shown(said)}: expected a name such as reviewer")
    found = {_parse(name) for name in names}
    if len(found) > _MOST:
        raise UsageError(f"{len(found)} roles: at most {_MOST} are allowed")
    return " ".join(sorted(found))


def _parse(said: object) -> str:
    name = said.strip().lower().removeprefix(ROLE) if isinstance(said, str) else ""
    if not _NAME.match(name):
        raise UsageError(
            f"bad role {shown(said)}: expected a name of at most 40 letters, digits and . _ -, "
            "as in reviewer"
        )
    return f"{ROLE}{name}"


def role_names(roles: str) -> tuple[str, ...]:
    """The names in a text of roles, without what marks them as such."""
    return tuple(role.removeprefix(ROLE) for role in roles.split(" ")) if roles else ()


def uses(key: str, roles: str) -> str:
    """What work uses: its key, and its roles."""
    return f"{key} {roles}" if roles else key
