"""Which machine this is, in which boot, and a clock that its processes share and nobody sets."""

import os
import sys
import time
from functools import lru_cache
from pathlib import Path

from headgate.core.times import Ms, Seconds, ms

_START = 19
_KERNEL_FILE = 65_536
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_TIMEX = 512
"""More bytes than the kernel tells of its clock. All are zero: it is asked and not told."""
_TIME_ERROR = 5


@lru_cache(maxsize=1)
def machine_id() -> str:
    """A name for this machine since it was started: the same in all of its containers."""
    if sys.platform == "linux":
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text()[:13]
        except OSError:
            pass
    return _darwin_boot() or os.uname().nodename


def _darwin_boot() -> str:
    import ctypes

    try:
        sysctl = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError):
        return ""
    size = ctypes.c_size_t(64)
    text = ctypes.create_string_buffer(64)
    failed = sysctl(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    return "" if failed else text.value.decode()[:13]


def uptime_ms() -> Ms:
    """Milliseconds since the machine was started."""
    return Ms(time.clock_gettime_ns(_CLOCK) // 1_000_000)


def wall_ms() -> Ms:
    """What the wall clock shows; anybody may set it."""
    return Ms(time.time_ns() // 1_000_000)


def synchronised() -> bool:
    """Whether the kernel says that the wall clock follows a time server (Linux)."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX))
    except (AttributeError, OSError):
        return False
    return 0 <= state < _TIME_ERROR


@lru_cache(maxsize=1)
def pid_space() -> str:
    """Which processes this one can see: containers have process numbers of their own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def process_fields(pid: int) -> list[str]:
    """What Linux tells of a process, from its state on (see proc(5)); nothing if it does not."""
    return read_kernel_file(f"/proc/{pid}/stat").rpartition(")")[2].split()


def read_kernel_file(path: str) -> str:
    """What the kernel shows in a small file, at once; empty if it is not there.

    Names of processes and groups may be any bytes.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _KERNEL_FILE).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def process_start(pid: int) -> int:
    """When a process was started, as the kernel tells it; 0 if there is none.

    With the number of the process it names it for good: numbers are used again, moments are not. On
    Linux it counts clock ticks since the machine was started, which nobody can set.
    """
    if sys.platform == "linux":
        fields = process_fields(pid)
        return int(fields[_START]) if fields else 0
    import psutil

    try:
        return ms(Seconds(psutil.Process(pid).create_time()))
    except psutil.Error:
        return 0
