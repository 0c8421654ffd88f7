"""What people are told when they name a pool: that it is a slip, or that another one is tighter."""

from argparse import ArgumentParser

from headgate.core.display.snapshots import PoolStatus, Status
from headgate.core.key_patterns import HOST
from headgate.core.likely_slips import meant_pool
from headgate.core.pattern_overlap import covers
from headgate.errors import UsageError
from headgate.gate import Gate


def add_new(parser: ArgumentParser) -> None:
    """The option that makes a pool whose name looks like a slip."""
    parser.add_argument(
        "--new", action="store_true", help="make it, although its name is so like another one"
    )


def refuse_slip(gate: Gate, status: Status, pool: str, *, new: bool) -> None:
    """Refuse to make a pool whose name is probably a slip of the pen."""
    if new or any(found.pool == pool for found in status.pools):
        return
    meant = meant_pool(pool, (found.pool for found in status.pools), gate.known_keys())
    if meant:
        raise UsageError(
            f"there is no pool {pool}, and no work so far fits it; did you mean {meant}? "
            "To make it all the same, add --new"
        )


def tighter(status: Status, pool: str) -> list[PoolStatus]:
    """The pools in which all of a pool's work sits too, and which take less: the least first."""
    own = next((found for found in status.pools if found.pool == pool), None)
    if own is None or pool == HOST:
        return []
    found = [
        other
        for other in status.pools
        if other.pool != pool
        and other.limit is not None
        and (own.limit is None or other.limit < own.limit)
        and covers(other.pool, pool)
    ]
    return sorted(found, key=lambda other: (other.limit or 0, other.pool))


def bounds(status: Status, pool: str) -> str:
    """What else keeps a pool from its limit, as a sentence; empty if nothing does."""
    others = tighter(status, pool)
    if not others:
        return ""
    least = others[0]
    names = " and ".join(f"{other.pool} ({other.limit})" for other in others)
    return (
        f"all of its work also sits in {names}, so no more than {least.limit} of it run at once; "
        f"to raise that: headgate limits set {quoted(least.pool)} N"
    )


def quoted(pool: str) -> str:
    """A pool's name as a shell takes it."""
    return f"'{pool}'" if any(sign in pool for sign in "*?[") else pool
