"""Which processes of a lease are the agent itself, and which are tools that it has started.

An agent trusts the certificates of its tap. A tool may not: its connections stay closed. The agent
is whatever has the executable of a process whose command line its profile knows. A script that only
starts the program proper, as `node codex.js` starts `codex`, is not the agent.
"""

import os
from collections.abc import Callable, Sequence

from headgate.core.named_tuple import NamedTuple
from headgate.gate.liveness.process_marks import carriers
from headgate.wire.connection_owner import parent_of

IsAgent = Callable[[Sequence[str]], bool]
"""Whether a command line starts the agent."""


class _Process(NamedTuple):
    pid: int
    parent: int
    executable: str
    is_agent: bool


class OwnProgram:
    """Tells an agent from its tools."""

    def __init__(self, mark: str, is_agent: IsAgent) -> None:
        self._mark = mark
        self._is_agent = is_agent

    def runs_in(self, pid: int) -> bool:
        """Whether a process of the lease is the agent itself."""
        executable = _executable(pid)
        return bool(executable) and executable in self._executables()

    def _executables(self) -> set[str]:
        """The agent's executables."""
        found = [self._look(pid) for pid in carriers([self._mark]).get(self._mark, ())]
        processes = {one.pid: one for one in found if one.executable}
        agents = [one for one in processes.values() if one.is_agent]
        if not agents:  # it has changed its command line: whatever was started first
            return {one.executable for one in processes.values() if one.parent not in processes}
        parents = (processes.get(one.parent, one) for one in agents)
        starters = {
            parent.pid
            for one, parent in zip(agents, parents, strict=True)
            if parent.is_agent and parent.executable != one.executable
        }
        return {one.executable for one in agents if one.pid not in starters}

    def _look(self, pid: int) -> _Process:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - hot
                words = file.read().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            words = [""]
        return _Process(pid, parent_of(pid), _executable(pid), self._is_agent(words))


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - as above
    except OSError:
        return ""
