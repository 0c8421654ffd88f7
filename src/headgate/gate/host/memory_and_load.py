"""Reads how much memory, how many cores and what load this machine has.

In a container that is what its control groups allow, its own and those above it: `memory.max`,
`memory.high` and `cpu.max` (version 2), or `memory.limit_in_bytes` and `cpu.cfs_quota_us` (version
1). Page cache counts as free, as it does in the kernel's own MemAvailable. Where there is no /proc,
psutil tells.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from headgate.core.admission.seats import Reason
from headgate.core.host import pressure
from headgate.core.host.pressure import Host, PressureLimits
from headgate.core.key_patterns import HOST
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.store.machine_and_clock import pid_space

_EVERY = Seconds(1.0)
_ROOT = Path("/")
_CACHED = ("inactive_file", "active_file", "slab_reclaimable")
_MOST_TEXT = 65_536


class HostGauge:
    """Looks at most once a second, and remembers."""

    def __init__(self, root: Path = _ROOT) -> None:
        self.space = pid_space()
        self._root = root
        self._next = 0.0
        self._seen: Host | None = None

    def look(self) -> Host | None:
        """How it is now, or was less than a second ago; None if it cannot be told."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY
            self._seen = read(self._root)
        return self._seen


def strained(
    pressure_limits: PressureLimits | None, host: Host | None, *, danger: bool = False
) -> Reason | None:
    """Why nothing more may start; or, with `danger`, why what runs already is in danger."""
    if pressure_limits is None or host is None:
        return None
    found = (
        pressure.in_danger(pressure_limits, host)
        if danger
        else pressure.judge(pressure_limits, host)
    )
    return Reason(found.code, HOST, note=found.note) if found else None


def read(root: Path = _ROOT, cpus: int | None = None) -> Host | None:
    """The figures of this machine, below another root for a test; None if there are none."""
    total, free = _memory(root)
    if not total:
        return None
    cores = float(cpus or _cpus())
    for group in _groups(root):
        most = group.most()
        if most is not None and most < total:
            total = most
        if most is not None:
            free = min(free, max(0, most - group.used()))
        cores = min(cores, group.cores() or cores)
    return Host(total, min(free, total), cores, _load(root, cpus or os.cpu_count() or 1))


def _cpus() -> int:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _memory(root: Path) -> tuple[int, int]:
    """All of the machine's memory, and what of it could be had now."""
    found = {}
    for line in _text(root / "proc" / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in {"MemTotal", "MemAvailable"}:
            found[name] = _number(rest.removesuffix("kB").strip()) or 0
    if len(found) == 2:
        return found["MemTotal"] * 1_024, found["MemAvailable"] * 1_024
    if root != _ROOT:
        return 0, 0
    import psutil

    memory = psutil.virtual_memory()
    return memory.total, memory.available


def _load(root: Path, cpus: int) -> float | None:
    """The load of the last minute per core of the whole machine, for all of it is counted in."""
    text = _text(root / "proc" / "loadavg")
    try:
        load = float(text.split()[0]) if text else os.getloadavg()[0]
    except (ValueError, OSError, IndexError):
        return None
    return load / cpus if 0 <= load < 1e9 else None


class _Group(NamedTuple):
    """One control group of this process, for memory, for processor time, or for both."""

    folder: Path
    new: bool

    def most(self) -> int | None:
        """The memory it may take, in bytes; None if it may take all."""
        names = ("memory.max", "memory.high") if self.new else ("memory.limit_in_bytes",)
        found = (_number(_text(self.folder / name)) for name in names)
        # Version 1 has no word for "no limit" but the largest number of pages there could be.
        return min((size for size in found if size is not None and size < 2**60), default=None)

    def used(self) -> int:
        """The memory it has taken, less what can be dropped at any time."""
        current = "memory.current" if self.new else "memory.usage_in_bytes"
        used = _number(_text(self.folder / current)) or 0
        before = "" if self.new else "total_"
        for line in _text(self.folder / "memory.stat").splitlines():
            name, _, size = line.partition(" ")
            if name.startswith(before) and name.removeprefix(before) in _CACHED:
                used -= _number(size) or 0
        return max(0, used)

    def cores(self) -> float | None:
        """How many processors' worth of time it may take; None if it may take all."""
        if self.new:
            quota, _, period = _text(self.folder / "cpu.max").strip().partition(" ")
        else:
            quota = _text(self.folder / "cpu.cfs_quota_us")
            period = _text(self.folder / "cpu.cfs_period_us")
        share, whole = _number(quota), _number(period)
        return share / whole if share and whole and share > 0 and whole > 0 else None


def _groups(root: Path) -> Iterator[_Group]:
    """The control groups of this process and all above them, as far as they can be seen.

    Inside a container the path that the kernel tells may be the one outside; what does not exist
    is skipped, and the container's own group is what is mounted at the top.
    """
    mounted = root / "sys" / "fs" / "cgroup"
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            tops = [(mounted, True), (mounted / "unified", True)]
        else:
            kinds = {"memory", "cpu"} & set(names.split(","))
            tops = [(mounted / folder, False) for folder in {names, *kinds} if kinds]
        parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
        for top, new in tops:
            for depth in range(len(parts), -1, -1):
                folder = top.joinpath(*parts[:depth])
                if folder.is_dir():
                    yield _Group(folder, new)


def _text(path: Path) -> str:
    """What a small file says; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_TEXT).decode("ascii", "replace")
    except (OSError, ValueError):
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 25 else None
