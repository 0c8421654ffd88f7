"""Programs that carry a lease's mark in their environment, wherever they ended up.

An inherited pipe is dropped by programs that close what they do not know (the children of Node and
Python programs have lost it); the environment is passed on by nearly all. A program that has shed
both is out of sight.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from headgate.core.times import Seconds
from headgate.gate.liveness.open_pipes import NO_ROOM
from headgate.ledger.transaction.rows import LeaseRow

MARK = "HEADGATE_LEASE"
NO_LEASE = "none"
"""The mark of workers and what they are made of: they belong to no lease, whoever started them."""
_JOB = "HEADGATE_JOB"
_PROC = Path("/proc")


def carriers(marks: Collection[str]) -> dict[str, list[int]]:
    """Which living processes carry which of these marks."""
    if not marks:
        return {}
    found: dict[str, list[int]] = {}
    for pid, mark in _marked():
        if mark in marks:
            found.setdefault(mark, []).append(pid)
    return found


def _marked() -> Iterator[tuple[int, str]]:
    if (_PROC / "self" / "environ").exists():
        return _marked_in_proc()
    return _marked_by_psutil()


def _marked_in_proc() -> Iterator[tuple[int, str]]:
    wanted = f"{MARK}=".encode()
    for name in os.listdir(_PROC):  # noqa: PTH208 - called within a transaction
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - as above
                environment = file.read()
        except OSError as error:
            if error.errno in NO_ROOM:  # not to be taken for "it carries no mark"
                raise
            continue
        if wanted in environment:
            for entry in environment.split(b"\0"):
                if entry.startswith(wanted):
                    yield int(name), entry[len(wanted) :].decode(errors="replace")
                    break


def _marked_by_psutil() -> Iterator[tuple[int, str]]:
    import psutil

    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK)
        except (psutil.Error, OSError):
            continue
        if mark and process.status() != psutil.STATUS_ZOMBIE:
            yield process.pid, mark


class Users(Protocol):
    """Tells which processes have inherited a member's life."""

    def users(self, members: Collection[str]) -> dict[str, list[int]]:
        """The processes that keep these members alive."""


def programs(registry: Users, lease: LeaseRow, mark: str) -> set[int]:
    """All processes that a lease's program still has: by its mark, and by a pipe it inherited."""
    return programs_of(registry, {mark: lease})[mark]


def programs_of(registry: Users, leases: Mapping[str, LeaseRow]) -> dict[str, set[int]]:
    """The same for several leases, by their marks: all processes are looked at once."""
    carried = carriers(leases)
    lives = {mark: {lease.member, lease.life} - {""} for mark, lease in leases.items()}
    users = registry.users({member for members in lives.values() for member in members})
    return {
        mark: {*carried.get(mark, ()), *(pid for one in members for pid in users.get(one, ()))}
        for mark, members in lives.items()
    }


def end(
    find: Callable[[], Collection[int]],
    grace: Seconds,
    *,
    patience: Seconds = Seconds(5),
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """End programs: ask them to stop, and after `grace` seconds make them. False if any is left.

    They are looked for again and again: a program on its way out may start others. The grace begins
    when the first was asked: to find them may take longer than that on a busy machine.
    """
    deadline = clock() + grace
    asked: set[int] = set()
    while clock() < deadline + patience:
        pids = set(find())
        if not pids:
            return True
        if not asked:
            deadline = clock() + grace
        forced = clock() >= deadline
        ask_to_end(pids if forced else pids - asked, forced=forced)
        asked |= pids
        time.sleep(0.02)
    return not find()


def ask_to_end(pids: Iterable[int], *, forced: bool) -> None:
    """Ask processes to end, or make them. One that is stopped goes on, or it could not hear it."""
    from signal import SIGKILL, SIGTERM

    for pid in sorted(pids):  # parents first, by their numbers
        if forced:
            _signal(pid, SIGKILL)
        else:
            _signal(pid, SIGTERM)
            let_go_on(pid)


def let_go_on(pid: int) -> None:
    """Let a process go on if it is stopped, as by Ctrl-Z."""
    from signal import SIGCONT

    _signal(pid, SIGCONT)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it may have become somebody else's
        os.kill(pid, number)


def family(pid: int, job: str | None = None) -> set[int]:
    """A process and everything it has started, as far as parents are known.

    Not what others have started: workers shed every lease, and orphans of their jobs may have
    become ours. They are told from the programs of our own job, which is this process's by default.
    """
    import psutil

    own = os.environ.get(_JOB, "") if job is None else job
    try:
        process = psutil.Process(pid)
        children: dict[int, list[psutil.Process]] = {}
        for one in process.children(recursive=True):
            with suppress(psutil.Error):
                children.setdefault(one.ppid(), []).append(one)
    except psutil.Error:
        return set()
    found, line = set(), [process]
    while line:
        one = line.pop()
        if one.is_running() and not _zombie(one):
            found.add(one.pid)
        line += [child for child in children.get(one.pid, ()) if not _of_others(child, own)]
    return found


def _of_others(process: "psutil.Process", own_job: str) -> bool:  # type: ignore[name-defined]  # noqa: F821
    """Whether a process is a worker, a runner, or the program of another job."""
    import psutil

    try:
        environment: dict[str, str] = process.environ()
    except (psutil.Error, OSError):
        return False
    return environment.get(MARK) == NO_LEASE or environment.get(_JOB, own_job) != own_job


def _zombie(process: "psutil.Process") -> bool:  # type: ignore[name-defined]  # noqa: F821
    import psutil

    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True
