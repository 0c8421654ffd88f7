"""When nothing more is to start on a machine, because its memory or its load is at the limit.

Figures come in, an answer goes out; who reads the figures is `gate/host/memory_and_load.py`.

A program that has just started has not taken its memory yet. So for a while what it is expected to
take counts as taken; else a burst would be let in on the same memory.
"""

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_size
from headgate.core.times import Ms

GIB = 2**30
WARM_UP = Ms(10_000)
"""For so many milliseconds what has started is expected to take its memory yet."""

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
