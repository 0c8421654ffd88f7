"""How lanes are kept in columns: the only place that knows.

The columns are those of version 0.1.0, and its processes may hand out seats on the same store. They
know nothing of roles, nor of what one task may hold. So tickets for which that matters stand in
lanes that such a process can read, and never lets anybody out of: as if their own
`HEADGATE_LIMITS` allowed no seat in `host`. What the lane really is stands before that, as the name
of a pool that no key is in, with its lender and its own limit for `host`:

    headgate.role/SHARE+LENDER+HOST+ROLES=1,OTHER LIMITS,host=0

`headgate.task` instead of `headgate.role` has a share of its own, and `headgate.odd` a lender or
limits. Versions that read an allowance of 0 as a damaged text start such work only where nothing
else runs.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from headgate.core.key_patterns import HOST, ROLE
from headgate.core.roles import role_names
from headgate.ledger.transaction.rows import Lane

Alike = tuple[str, str, str, int, str]
_ROLE, _TASK, _ODD = "headgate.role/", "headgate.task/", "headgate.odd/"
_SHUT = f"{HOST}=0"


def read_lane(row: Sequence[Any]) -> Lane:
    """A row of `lane`."""
    id, machine, key, cls, lender, view, waiting = row
    lane = Lane(id=id, machine=machine, key=key, cls=cls, lender=lender, view=view, waiting=waiting)
    return _read_rules(lane) if view.startswith("headgate.") else lane


def alike(lane: Lane) -> Alike:
    """What the tickets of a lane have in common, as columns."""
    if not (lane.roles or lane.share):
        return lane.machine, lane.key, lane.cls, lane.lender, lane.view
    text = _write_rules(lane.lender, lane.view, lane.roles, lane.share)
    return lane.machine, lane.key, lane.cls, 0, text


def in_turn(lane: Lane) -> bool:
    """Whether a lane comes up where `task_lane` says."""
    return bool(lane.share) and not lane.lender and not lane.view


@lru_cache(maxsize=4096)
def _write_rules(lender: int, view: str, roles: str, share: str) -> str:
    kind = _ODD if lender or view else _TASK if share else _ROLE
    host, others = "", []
    for part in view.split(",") if view else ():
        name, _, limit = part.rpartition("=")
        if name == HOST:
            host = limit
        else:
            others.append(part)
    mark = "+".join([f"{kind}{share}", str(lender), host, *role_names(roles)])
    return ",".join([f"{mark}=1", *others, _SHUT])


def _read_rules(lane: Lane) -> Lane:
    """A lane as it really is; as it is kept if that cannot be read."""
    found = _parse(lane.view)
    if found is None:
        return lane
    share, lender, view, roles = found
    return lane._replace(share=share, lender=lane.lender or lender, view=view, roles=roles)


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[str, int, str, str] | None:
    mark, *others = text.split(",")
    share, *said = mark.removesuffix("=1").partition("/")[2].split("+")
    if len(said) < 2 or others[-1:] != [_SHUT] or not said[0].removeprefix("-").isdecimal():
        return None
    lender, host, *roles = said
    limits = [*others[:-1], *([f"{HOST}={host}"] if host else [])]
    view = ",".join(sorted(limits, key=lambda part: part.rpartition("=")[0]))
    return share, int(lender), view, " ".join(f"{ROLE}{name}" for name in roles)
