"""Show, set and unset limits and cooldowns. What is set is kept, and counts at once everywhere."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from headgate.cli import draw
from headgate.cli.common import open_gate, print_json, say
from headgate.cli.status import SOURCES
from headgate.core.amounts import parse_duration, parse_limit, show_duration
from headgate.core.keys import parse_pattern
from headgate.core.views import PoolStatus, Status
from headgate.errors import UsageError
from headgate.gate import Gate

_COLUMNS = (
    ("pool", "shrinks"),
    ("limit", "right"),
    ("from", ""),
    ("configured", "right"),
    ("cooldown", "right"),
    ("max hold", "right"),
    ("reserve", "shrinks"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `limits` takes."""
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    for name, does, value, means in (
        ("set", "set a pool's limit", "N", "how many seats"),
        ("unset", "lift a pool's limit", "", ""),
        ("cooldown", "set how long freed seats rest", "DUR", "as in 2s"),
        ("restore", "forget what was set by hand", "", ""),
    ):
        action = actions.add_parser(name, help=does, description=does, allow_abbrev=False)
        action.add_argument("pool", metavar="POOL", help="host, PROVIDER, or PROVIDER/MODEL with *")
        if value:
            action.add_argument("value", metavar=value, help=means)


def run(args: Namespace) -> int:
    """Show the limits, or change one and say what is true now."""
    if args.action is None:
        with open_gate(args) as gate:
            pools = gate.status().pools
        show(pools, as_json=args.json)
        return 0
    pool = parse_pattern(args.pool)
    with open_gate(args) as gate:
        _change(gate, args.action, pool, getattr(args, "value", ""))
    return 0


def _change(gate: Gate, action: str, pool: str, value: str) -> None:
    before = gate.status()
    new = is_new(before, pool)
    match action:
        case "set":
            limit = parse_limit(value)
            gate.set_limit(pool, limit)
            did = f"{pool} has a limit of {limit} now{_was(before, pool)}"
        case "unset":
            gate.unset_limit(pool)
            did = f"{pool} has no limit now{_was(before, pool)}"
        case "cooldown":
            rest = parse_duration(value, "cooldown")
            gate.set_cooldown(pool, rest / 1000)
            did = f"seats of {pool} freed from now on rest for {show_duration(rest)}"
        case _:
            if new:
                raise UsageError(f"there is no pool {pool}; headgate limits lists them")
            gate.restore(pool)
            did = f"{pool} is as configured again"
    after = next((found for found in gate.status().pools if found.pool == pool), None)
    if after is None:
        say(f"{pool} is as configured again: nothing is said about it any more")
        return
    if action == "restore":
        did += f": {_as_words(after)}"
    elif after.limit is None and action == "cooldown":
        did += "; it has no limit, so this applies once it has one"
    say(f"{did}{_drains(after)}{new}")
    if after.source == "environment" and action != "cooldown":
        said = "no limit" if after.limit is None else after.limit
        say(f"HEADGATE_LIMITS is set in this shell and beats that: here {pool} has {said}")


def is_new(status: Status, pool: str) -> str:
    """What to add for a pool that nothing has mentioned so far: it may be a slip of the pen."""
    if any(found.pool == pool for found in status.pools):
        return ""
    return f" (a new pool: it takes in all work whose {'key' if '/' in pool else 'provider'} fits)"


def _was(before: Status, pool: str) -> str:
    for found in before.pools:
        if found.pool == pool and found.source not in {"environment", "none"}:
            return f" (it had {'none' if found.limit is None else found.limit})"
    return ""


def _drains(pool: PoolStatus) -> str:
    if pool.limit is None or pool.in_use <= pool.limit:
        return ""
    return f"; {pool.in_use} are in use, so it drains, nothing is ended"


def _as_words(pool: PoolStatus) -> str:
    limit = "no limit" if pool.limit is None else f"limit {pool.limit}"
    rest = show_duration(pool.cooldown_ms) if pool.cooldown_ms else "none"
    return f"{limit}, cooldown {rest}"


def show(pools: Iterable[PoolStatus], *, as_json: bool) -> None:
    """Print the limits of these pools."""
    if as_json:
        print_json({"pools": [limits_json(pool) for pool in pools]})
    else:
        draw.show(lines(pools, draw.pen()))


def limits_json(pool: PoolStatus) -> dict[str, Any]:
    """A pool's settings."""
    names = ("pool", "limit", "source", "configured_limit", "cooldown_ms", "max_hold", "reserve")
    return {name: getattr(pool, name) for name in names}


def lines(pools: Iterable[PoolStatus], pen: draw.Pen) -> list[str]:
    """The limits for people."""
    rows: list[tuple[draw.Cell, ...]] = [
        (
            pool.pool,
            "none" if pool.limit is None else pool.limit,
            SOURCES.get(pool.source, pool.source),
            "" if pool.configured_limit in {None, pool.limit} else pool.configured_limit or "",
            show_duration(pool.cooldown_ms) if pool.cooldown_ms else "",
            "" if pool.max_hold is None else show_duration(pool.max_hold * 1000),
            ", ".join(f"{seats} {name}" for name, seats in pool.reserve.items()),
        )
        for pool in sorted(pools, key=lambda pool: (pool.pool != "host", pool.pool))
    ]
    return draw.table(_COLUMNS, rows, pen)
