"""What the kernel tells of a member's process by its number: for when its pipe says nothing.

Process numbers are used again, so one counts only together with the moment at which the process was
started. And they count only where the member was given its number: in our own pid namespace, since
the machine was last started.
"""

import os
import re
import sys
from pathlib import Path

from headgate.ledger.transaction.rows import Member
from headgate.store.machine_and_clock import (
    machine_id,
    pid_space,
    process_fields,
    process_start,
    read_kernel_file,
)
from headgate.store.pipe_has_reader import has_reader

_BOOT = re.compile(r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}")
"""What `machine_id` tells of a boot; what it falls back to is the name of a machine."""
_STATE, _THREADS = 0, 17
_CGROUPS = "/sys/fs/cgroup"


def in_sight(member: Member) -> bool:
    """Whether a member's process number means the same process to us as to the member."""
    known = pid_space() or sys.platform != "linux"
    return bool(known) and member.pid_space == pid_space() and member.machine == machine_id()


def is_running(member: Member) -> bool | None:
    """Whether a member's process runs; None if that cannot be told from here."""
    here = machine_id()
    if member.machine != here and _BOOT.fullmatch(member.machine) and _BOOT.fullmatch(here):
        return False  # the machine was restarted since: the tables are shared by one machine only
    if not in_sight(member) or not 0 < member.pid < 2**31:
        return None
    try:
        os.kill(member.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's by now, or the member has become that user
        pass
    fields = process_fields(member.pid)
    if fields and fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1:
        return False
    started = process_start(member.pid)
    if not started or not member.started:  # hidden from us, or of a version that did not tell
        return None
    return started == member.started


def is_stopped(member: Member) -> bool | None:
    """Whether a member's process is stopped, or its container is paused; None if unseen."""
    fields = process_fields(member.pid) if in_sight(member) else []
    if not fields:
        return None
    return fields[_STATE] in "Tt" or _is_frozen(member.pid)


def _is_frozen(pid: int) -> bool:
    """Whether the control group of a process is frozen, where that can be read."""
    for line in read_kernel_file(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        group = path[1:]  # empty for the root, which cannot be frozen
        if group and not controllers:
            places = (f"{_CGROUPS}/{group}", f"{_CGROUPS}/unified/{group}")
            if any("frozen 1" in read_kernel_file(f"{place}/cgroup.events") for place in places):
                return True
        elif group and "freezer" in controllers.split(","):
            state = read_kernel_file(f"{_CGROUPS}/freezer/{group}/freezer.state")
            return state.strip() == "FROZEN"
    return False


def is_listening(folder: Path, member: Member) -> bool:
    """Whether a member's own process is there, as far as it can be seen."""
    told = has_reader(folder / f"{member.id}.wake")
    if told is None:
        return in_sight(member) and is_running(member) is not False
    return told
