"""What this machine and this Python can do for headgate."""

import os
import platform
import sys
from collections.abc import Iterator

from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, ok, warning

_FEW, _USUAL = 256, 1024
_GET_SUBREAPER = 37


def check(_: Facts) -> list[Finding]:
    """Everything that does not depend on the store."""
    system = f"{platform.system()} {platform.release()}".strip()
    found = [ok("python", f"Python {platform.python_version()} on {system}")]
    return [*found, *descriptors(_soft_limit()), *_kernel()]


def descriptors(soft: int | None) -> Iterator[Finding]:
    """Whether a process may open enough files: it has two for each member that it watches."""
    if soft is None or soft >= _USUAL:
        return
    make = warning if soft <= _FEW else note
    text = f"a process may open only {soft} files, and who keeps watch needs one for each member"
    yield make("open_files", text, f"ulimit -n {4 * _USUAL}")


def _soft_limit() -> int | None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _kernel() -> Iterator[Finding]:
    if sys.platform != "linux":
        text = "this system has no subreapers: a program that drops its pipe and its environment"
        yield note("no_subreaper", f"{text} is lost sight of")
        return
    if _has_pidfd() and _has_subreaper():
        yield ok(
            "kernel",
            "ends of processes are told at once (pidfd), and orphans are seen (subreaper)",
        )
        return
    if not _has_pidfd():
        text = "no pidfd: the end of an orphaned agent is noticed within a second, not at once"
        yield note("no_pidfd", text, "needs Linux 5.3, and a sandbox that allows it")
    if not _has_subreaper():
        text = "no subreaper: a program that drops its pipe and its environment is lost sight of"
        yield note("no_subreaper", text, "needs Linux 3.4, and a sandbox that allows prctl")


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _has_subreaper() -> bool:
    import ctypes

    answer = ctypes.c_int()
    try:
        return bool(ctypes.CDLL(None).prctl(_GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False
