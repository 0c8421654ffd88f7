"""How much one machine can carry: a limit from what it has, and when nothing more is to start.

Figures come in, an answer goes out; who reads the figures is `gate/host/memory_and_load.py`.

The limit of `limit = "auto"` is the smaller of two:

- what fits into memory: all of it less a reserve for the system (a quarter, at most 6 GiB), by what
  an agent takes (512 MiB, unless the configuration says otherwise);
- two agents per core. An agent waits for its model most of the time, but what it starts then
  (builds, tests) takes a whole core, and agents that share one time out.

It says what the machine can carry when it is otherwise idle. Whether it is, the floor watches:
below it nothing more starts. A program that has just started has not taken its memory yet, so for a
while what it is expected to take counts as taken; else a burst would be let in on the same memory.
"""

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import MOST, show_size
from headgate.core.times import Ms

GIB = 2**30
AGENT_MEMORY = GIB // 2
WARM_UP = Ms(10_000)
"""For so many milliseconds what has started is expected to take its memory yet."""
_RESERVE = 6 * GIB
_PER_CORE = 2
_FLOOR = GIB

MEMORY_LOW = "memory_low"
LOAD_HIGH = "load_high"
CODES = frozenset({MEMORY_LOW, LOAD_HIGH})


class Host(NamedTuple):
    """What there is on this machine, or in the part of it that we are confined to."""

    memory: int
    """Bytes that all programs together may take."""
    free: int
    """Bytes that could be had now without pushing anything out."""
    cores: float
    load: float | None = None
    """The load of the last minute, per core; None where nobody tells."""


class PressureLimits(NamedTuple):
    """When nothing more may start on a machine. 0 stands for never."""

    memory_floor: int = 0
    load_ceiling: float = 0.0
    agent_memory: int = 0
    """What a program is expected to take that has just started; 0 if nobody has said."""


class Pressure(NamedTuple):
    """Why nothing more may start: a code, and the figures in words."""

    code: str
    note: str


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


def judge(limits: PressureLimits, host: Host, starting: int = 0) -> Pressure | None:
    """Why nothing more may start while so many are just starting; None if something may."""
    ahead = starting * limits.agent_memory
    floor = limits.memory_floor
    if floor and host.free - ahead < floor:
        less = ""
        if ahead and host.free >= floor:
            less = f" less {show_size(ahead)} for {starting} that just started"
        vain = f", which is more than it has in all ({show_size(host.memory)})"
        more = vain if floor > host.memory else ""
        note = f"{show_size(host.free)} free{less}, below its floor of {show_size(floor)}{more}"
        return Pressure(MEMORY_LOW, note)
    if limits.load_ceiling and host.load is not None and host.load > limits.load_ceiling:
        said = f"a load of {host.load:.1f} per core, above its ceiling of {limits.load_ceiling:g}"
        return Pressure(LOAD_HIGH, said)
    return None


def in_danger(limits: PressureLimits, host: Host) -> Pressure | None:
    """Whether memory is so low that what runs already is in danger: below half of the floor."""
    if not limits.memory_floor or host.free * 2 >= limits.memory_floor:
        return None
    half = show_size(limits.memory_floor // 2)
    return Pressure(MEMORY_LOW, f"{show_size(host.free)} free, below half of its floor ({half})")
