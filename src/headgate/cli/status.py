"""What is in use, pool by pool, and what runs and waits in all."""

from argparse import ArgumentParser, Namespace
from typing import Any

from headgate.cli import draw
from headgate.cli.common import open_anyway, print_json
from headgate.core.amounts import show_duration
from headgate.core.views import PoolStatus, Status

BY_HAND = "resumed by hand"
SOURCES = {
    "default": "default",
    "file": "file",
    "hand": "set by hand",
    "environment": "HEADGATE_LIMITS",
    "none": "",
}
"""Where a limit comes from, in the words of people."""

_COLUMNS = (
    ("pool", "shrinks"),
    ("", ""),
    ("used", "right"),
    ("free", "right"),
    ("cooling", "right"),
    ("queued", "right"),
    ("state", "shrinks"),
    ("limit from", "shrinks"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `status` takes."""
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Show all pools."""
    with open_anyway(args) as gate:
        status = gate.status()
    if args.json:
        print_json(as_json(status))
    else:
        draw.show(lines(status, draw.pen()))
    return 0


def as_json(status: Status) -> dict[str, Any]:
    """The status, with times as text."""
    return {
        "pools": [pool_json(pool) for pool in status.pools],
        "running": status.running,
        "waiting": status.waiting,
        "unlimited": status.unlimited,
        "at": draw.iso(status.at),
    }


def pool_json(pool: PoolStatus) -> dict[str, Any]:
    """One pool; `paused_until` says when, or that somebody has to resume it."""
    until = None
    if pool.paused:
        until = BY_HAND if pool.paused_until is None else draw.iso(pool.paused_until)
    return {**pool._asdict(), "paused_until": until, "free": pool.free}


def lines(status: Status, pen: draw.Pen) -> list[str]:
    """The status for people."""
    pools = sorted(status.pools, key=lambda pool: (pool.pool != "host", pool.pool))
    rows = [_row(pool, status.at, pen) for pool in pools if _matters(pool)]
    drawn = draw.table(_COLUMNS, rows, pen)
    if status.unlimited:
        counts = (f"{draw.clean(key)} x{n}" for key, n in sorted(status.unlimited.items()))
        drawn += ["", draw.clip(f"without a limit: {', '.join(counts)}", pen.width)]
    return [*drawn, "", _summary(status)]


def _matters(pool: PoolStatus) -> bool:
    """Whether a pool does anything; one that was restored or has but a cooldown does not."""
    return pool.source != "none" or pool.paused or pool.notice is not None


def _row(pool: PoolStatus, at: float, pen: draw.Pen) -> tuple[draw.Cell, ...]:
    used = f"{pool.in_use}" if pool.limit is None else f"{pool.in_use}/{pool.limit}"
    return (
        pool.pool,
        draw.bar(pool.limit, pool.in_use, pool.cooling, pen),
        used,
        "" if pool.free is None else pool.free,
        pool.cooling or "",
        pool.queued or "",
        _state(pool, at),
        "" if pool.source == "default" else SOURCES.get(pool.source, pool.source),
    )


def _state(pool: PoolStatus, at: float) -> draw.Cell:
    parts = []
    if pool.paused and pool.paused_until is None:
        parts.append("paused until resumed")
    elif pool.paused and pool.paused_until is not None:
        parts.append(f"paused for {show_duration((pool.paused_until - at) * 1000)}")
    if pool.limit is None:
        parts.append("no limit")
    elif pool.in_use > pool.limit:
        parts.append(f"drains to {pool.limit}")
    if pool.auto_reduced:
        parts.append(f"reduced from {pool.auto_reduced_from}")
    if pool.notice:
        parts.append(pool.notice)
    return ((", ".join(parts), "yellow"),)


def _summary(status: Status) -> str:
    if status.running or status.waiting:
        return f"{status.running} running, {status.waiting} waiting"
    return "Nothing runs and nothing waits. To start something: headgate run -m KEY -- CMD"
