"""What is in use, pool by pool, and what runs and waits in all."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import open_anyway, print_json
from headgate.core.display.snapshots import PoolStatus, Status, UpstreamStatus
from headgate.core.quantities import show_duration, show_seconds
from headgate.core.times import Seconds

SOURCES = {
    "default": "default",
    "file": "file",
    "hand": "set by hand",
    "learned": "learned",
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
        from headgate.core.display import json_shapes, old_json_names

        print_json(json_shapes.document(json_shapes.status(status)), old_json_names.STATUS)
    else:
        terminal.show(lines(status, terminal.pen()))
    return 0


def lines(status: Status, pen: terminal.Pen) -> list[str]:
    """The status for people."""
    pools = sorted(status.pools, key=lambda pool: (pool.pool != "host", pool.pool))
    rows = [_row(pool, status.at, pen) for pool in pools if _matters(pool)]
    drawn = terminal.table(_COLUMNS, rows, pen)
    notes = [f"{pool.pool}: {note}" for pool in pools for note in _notes(pool)]
    if notes:
        drawn += ["", *(line for note in notes for line in terminal.wrap(note, pen.width))]
    if status.unlimited:
        counts = (f"{terminal.clean(key)} x{n}" for key, n in sorted(status.unlimited.items()))
        drawn += ["", terminal.clip(f"without a limit: {', '.join(counts)}", pen.width)]
    return [*drawn, "", _summary(status)]


def _matters(pool: PoolStatus) -> bool:
    """Whether a pool does anything; one that was restored or has but a cooldown does not."""
    return (
        pool.source != "none"
        or pool.paused
        or pool.probing
        or pool.auto_reduced
        or pool.upstream is not None
        or bool(pool.strain or pool.notice or pool.foreign or rates(pool))
    )


def _notes(pool: PoolStatus) -> list[str]:
    """What people should know about a pool that is too long for a table."""
    upstream = pool.upstream.note if pool.upstream else ""
    return [note for note in (pool.notice, upstream) if note]


def rates(pool: PoolStatus) -> list[str]:
    """What a pool lets start in a while."""
    found = [f"{n} {name}" for n, name in ((pool.rpm, "rpm"), (pool.tpm, "tpm")) if n]
    spacing = f"starts {show_duration(pool.spacing_ms)} apart"
    return [*found, spacing] if pool.spacing_ms else found


def _row(pool: PoolStatus, at: Seconds, pen: terminal.Pen) -> tuple[terminal.Cell, ...]:
    used = f"{pool.in_use}" if pool.limit is None else f"{pool.in_use}/{pool.limit}"
    return (
        pool.pool,
        terminal.bar(pool.limit, pool.in_use, _taken_besides(pool), pen),
        used,
        "" if pool.free is None else pool.free,
        pool.cooling or "",
        pool.queued or "",
        _state(pool, at),
        "" if pool.source == "default" else SOURCES.get(pool.source, pool.source),
    )


def _taken_besides(pool: PoolStatus) -> int:
    """Seats that are not to be had although no work of ours is in them."""
    if pool.upstream is not None and pool.upstream.fresh:
        return max(0, pool.upstream.estimate - pool.in_use)
    return pool.foreign + pool.cooling


def _state(pool: PoolStatus, at: Seconds) -> terminal.Cell:
    """What is out of the ordinary, then what is merely so."""
    odd, plain = _odd(pool, at), _plain(pool)
    return ((", ".join((*odd, *plain)), "yellow" if odd else ""),)


def _odd(pool: PoolStatus, at: Seconds) -> list[str]:
    parts = []
    if pool.paused and pool.paused_until is None:
        parts.append("paused until resumed")
    elif pool.paused and pool.paused_until is not None:
        parts.append(f"paused for {show_seconds(pool.paused_until - at)}")
    if pool.next_start is not None:
        used_up = "" if pool.short_of == "spacing" else f"{pool.short_of} used up, "
        parts.append(f"{used_up}next start in {show_seconds(pool.next_start - at)}")
    if pool.strain:
        parts.append(pool.strain.removeprefix(f"{pool.pool} has "))
    if pool.limit is not None and pool.in_use > pool.limit:
        parts.append(f"drains to {pool.limit}")
    if pool.auto_reduced:
        parts.append(f"reduced from {pool.auto_reduced_from}")
    if pool.upstream is not None and pool.upstream.problem:
        parts.append(f"no usage reading: {pool.upstream.problem}")
    if pool.upstream is not None and pool.upstream.low_priority:
        parts.append("low priority")
    return parts


def _plain(pool: PoolStatus) -> list[str]:
    parts = []
    if pool.bounded_by and pool.free == 0 and pool.own_free != 0:
        parts.append(f"{pool.bounded_by} has no room")
    if pool.limit is None:
        parts += rates(pool) or (["no limit"] if pool.upstream is None else [])
    if pool.probing:
        parts.append("probing")
    if pool.upstream is not None and not pool.upstream.problem:
        parts.append(_count(pool.upstream))
    if pool.foreign:
        parts.append(f"{pool.foreign} outside headgate")
    return parts


def _count(upstream: UpstreamStatus) -> str:
    """The provider's own count, and how old it is."""
    if upstream.in_use is None or upstream.age is None:
        return "usage not read yet"
    limit = "" if upstream.limit is None else f"/{upstream.limit}"
    return f"upstream {upstream.in_use:g}{limit}, {show_seconds(upstream.age)} old"


def _summary(status: Status) -> str:
    if status.total_running or status.total_waiting:
        return f"{status.total_running} running, {status.total_waiting} waiting"
    return "Nothing runs and nothing waits. To start something: headgate run -m KEY -- CMD"
