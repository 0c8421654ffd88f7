"""What is in use, pool by pool, and what runs and waits in all."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import open_anyway, print_json
from headgate.core.display.snapshots import PoolStatus, Status, UpstreamStatus
from headgate.core.quantities import show_duration, show_seconds
from headgate.core.times import Seconds
from headgate.errors import UsageError

SOURCES = {
    "default": "default",
    "file": "file",
    "hand": "set by hand",
    "learned": "learned",
    "environment": "HEADGATE_LIMITS",
    "project": "headgate.toml",
    "none": "",
}
"""Where a limit comes from, in the words of people."""

_FEW_IDLE = 5
"""Up to so many idle pools are not worth folding."""
_COLUMNS = (
    ("pool", "name"),
    ("", ""),
    ("used", "right"),
    ("free", "right"),
    ("cooling", "right?"),
    ("queued", "right"),
    ("state", "shrinks"),
    ("limit from", "shrinks?"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `status` takes."""
    parser.add_argument(
        "-w", "--watch", action="store_true", help="draw it again each second, in place, until q"
    )
    parser.add_argument("--pool", metavar="POOL", help="only this pool, and those that cover it")
    parser.add_argument("--all", action="store_true", help="do not fold the pools that are idle")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Show all pools."""
    if args.watch and args.json:
        raise UsageError("--watch is for people, and --json for programs: give one of them")
    with open_anyway(args) as gate:
        if args.watch:
            from headgate.cli.shared.watch import watch

            return watch(
                lambda pen: lines(_of_pool(gate.status(), args.pool), pen, whole=args.all),
                "headgate status",
            )
        status = _of_pool(gate.status(), args.pool)
    if args.json:
        from headgate.core.display import json_shapes, old_json_names

        print_json(json_shapes.document(json_shapes.status(status)), old_json_names.STATUS)
    else:
        terminal.show(lines(status, terminal.pen(), whole=args.all))
    return 0


def _of_pool(status: Status, name: str | None) -> Status:
    """The status of one pool and of those that cover it; of all if none is named."""
    if name is None:
        return status
    from headgate.core.key_patterns import parse_pattern
    from headgate.core.pattern_overlap import covers

    pool = parse_pattern(name)
    if all(found.pool != pool for found in status.pools):
        raise UsageError(f"there is no pool {pool}; headgate limits lists them")
    kept = tuple(found for found in status.pools if covers(found.pool, pool))
    return status._replace(pools=kept, unlimited={})


def lines(status: Status, pen: terminal.Pen, *, whole: bool = True) -> list[str]:
    """The status for people; the pools that are idle are folded unless all are wanted."""
    pools = sorted(
        filter(_matters, status.pools),
        key=lambda one: (one.pool != "host", terminal.natural(one.pool)),
    )
    idle = [] if whole else [pool for pool in pools if _is_idle(pool)]
    folded = idle if len(idle) > _FEW_IDLE else []
    pools = [pool for pool in pools if pool not in folded]
    rows = [_row(pool, status.at, pen) for pool in pools]
    drawn = terminal.table(_COLUMNS, rows, pen)
    if pen.width is not None and any(pool.limit is not None for pool in pools):
        drawn.append(_legend(pen))
    if folded:
        names = ", ".join(terminal.clean(pool.pool) for pool in folded)
        drawn += ["", terminal.clip(f"{len(folded)} idle (--all shows them): {names}", pen.width)]
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


def _is_idle(pool: PoolStatus) -> bool:
    """Whether there is nothing to say of a pool but its limit."""
    busy = pool.in_use or pool.queued or pool.cooling or pool.foreign or pool.probing
    return not (busy or pool.pool == "host" or pool.notice or _odd(pool, Seconds(0)))


def _legend(pen: terminal.Pen) -> str:
    used, rest, free = tuple(pen.blocks)
    text = f"{used} in use  {rest} cooling, or taken by others  {free} free"
    return pen.paint(terminal.clip(text, pen.width), "dim")


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
    taken = pool.in_use + pool.foreign
    used = f"{taken}" if pool.limit is None else f"{taken}/{pool.limit}"
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
