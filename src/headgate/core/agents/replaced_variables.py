"""What a wire has replaced in an agent's environment, so that it can be put back.

A `headgate run` inside a metered agent is work of its own, and a worker that is started there
outlives the agent: neither may ask at the agent's address. So the agent carries what was there
before in one variable.
"""

import json
from collections.abc import Mapping

VARIABLE = "HEADGATE_REPLACED"


def remember(replaced: Mapping[str, str], before: Mapping[str, str]) -> str:
    """The value of the variable. What an outer wire has replaced counts, not what it has set."""
    outer = _read(before)
    said = {name: before.get(name) for name in replaced}
    return json.dumps({**said, **outer}, separators=(",", ":"))


def put_back(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment as it was before any wire."""
    before = _read(environment)
    gone = {VARIABLE, *before}
    kept = {name: value for name, value in environment.items() if name not in gone}
    return {**kept, **{name: value for name, value in before.items() if value is not None}}


def _read(environment: Mapping[str, str]) -> dict[str, str | None]:
    try:
        said = json.loads(environment.get(VARIABLE) or "{}")
    except ValueError:
        return {}
    if not isinstance(said, dict):
        return {}
    return {str(name): value if isinstance(value, str) else None for name, value in said.items()}
