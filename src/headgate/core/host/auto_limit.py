"""How many agents a machine can carry: the limit that `limit = "auto"` stands for.

It is the smaller of two:

- what fits into memory: all of it less a reserve for the system (a quarter, at most 6 GiB), by what
  an agent takes (512 MiB, unless the configuration says otherwise);
- two agents per core. An agent waits for its model most of the time, but what it starts then
  (builds, tests) takes a whole core, and agents that share one time out.

That is what the machine can carry when it is otherwise idle. `pressure` judges whether it is.
"""

from headgate.core.host.pressure import GIB, Host
from headgate.core.quantities import MOST, show_size

AGENT_MEMORY = GIB // 2
_RESERVE = 6 * GIB
_PER_CORE = 2
_FLOOR = GIB


def auto_limit(host: Host, agent_memory: int = AGENT_MEMORY) -> int:
    """How many agents a machine can carry."""
    fit = (host.memory - min(_RESERVE, host.memory // 4)) // max(1, agent_memory)
    return max(1, min(fit, int(host.cores * _PER_CORE), MOST))


def auto_source(host: Host) -> str:
    """Where such a limit comes from, in words."""
    cores = f"{host.cores:.2g}" if host.cores < 10 else f"{host.cores:.0f}"
    return f"auto: {show_size(host.memory)} RAM, {cores} core{'' if host.cores == 1 else 's'}"


def auto_floor(host: Host) -> int:
    """The floor of a machine with such a limit for which no other is said: a twentieth, to 1 GiB.

    Small enough that no machine is below it when idle, enough to log in and end something.
    """
    return min(host.memory // 20, _FLOOR)
