"""Show, set and unset limits and cooldowns. What is set is kept, and counts at once everywhere."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from headgate.cli.shared import pool_advice, terminal
from headgate.cli.shared.open_gate import open_gate, print_json, say
from headgate.cli.status import SOURCES
from headgate.core.admission.pools import LEARN, OFF, OLDEST
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import PoolStatus, Status
from headgate.core.key_patterns import HOST, ROLE, parse_pattern
from headgate.core.quantities import parse_duration, parse_limit, show_duration, show_seconds
from headgate.core.times import Seconds, seconds
from headgate.errors import UsageError
from headgate.gate import Gate

COLUMNS = (
    ("pool", "name"),
    ("limit", "right"),
    ("was", "right?"),
    ("from", "shrinks?"),
    ("configured", "right?"),
    ("adapts", "shrinks?"),
    ("next probe", "shrinks?"),
    ("cooldown", "right?"),
    ("lag", "right?"),
    ("rpm", "right?"),
    ("tpm", "right?"),
    ("spacing", "right?"),
    ("max hold", "right?"),
    ("reserve", "shrinks?"),
    ("per task", "right?"),
    ("order", "shrinks?"),
)


_GET = "print a pool's limit and nothing else; none if it has none"


def arguments(parser: ArgumentParser) -> None:
    """What `limits` takes."""
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    get = actions.add_parser("get", help=_GET, description=_GET, allow_abbrev=False)
    get.add_argument("pool", metavar="POOL", help="its name, as shown by headgate limits")
    get.add_argument("--json", action="store_true", help="print it as JSON")
    for name, does, value, means in (
        ("set", "set a pool's limit", "N", "how many at once, or learn: find it out"),
        ("unset", "lift a pool's limit", "", ""),
        ("cooldown", "set how long freed seats rest", "DUR", "how long, as in 2s"),
        ("per-task", "set the most that one task may hold", "N", "how many, or off"),
        ("order", "set who is next", "ORDER", "oldest, or fair: the tasks take turns"),
        ("restore", "forget what was set by hand, and what was learned", "", ""),
    ):
        action = actions.add_parser(name, help=does, description=does, allow_abbrev=False)
        action.add_argument(
            "pool",
            metavar="POOL",
            help="host, PROVIDER, or PROVIDER/MODEL in which * stands for any text",
        )
        if value:
            action.add_argument("value", metavar=value, help=means)
        if name != "restore":
            pool_advice.add_new(action)


def run(args: Namespace) -> int:
    """Show the limits, or change one and say what is true now."""
    if args.action is None:
        with open_gate(args) as gate:
            status = gate.status()
        if args.json:
            pools = [json_shapes.settings(pool) for pool in status.pools]
            print_json(json_shapes.document({"pools": pools}))
        else:
            terminal.show(lines(status.pools, terminal.pen(), status.at))
        return 0
    pool = parse_pattern(args.pool)
    with open_gate(args) as gate:
        if args.action == "get":
            return _get(gate, pool, as_json=args.json)
        before = gate.status()
        if args.action == "restore":
            _find(before, pool)
        else:
            pool_advice.refuse_slip(gate, before, pool, new=args.new)
        _change(gate, args.action, pool, getattr(args, "value", ""), before)
    return 0


def _get(gate: Gate, pool: str, *, as_json: bool) -> int:
    """Print a pool's limit alone, for scripts; what else bounds it is told beside."""
    status = gate.status()
    found = _find(status, pool)
    if as_json:
        print_json(json_shapes.document(json_shapes.settings(found)))
    else:
        terminal.show(["none" if found.limit is None else str(found.limit)])
    if bounds := pool_advice.bounds(status, pool):
        say(f"{pool}: {bounds}")
    return 0


def _find(status: Status, pool: str) -> PoolStatus:
    for found in status.pools:
        if found.pool == pool:
            return found
    raise UsageError(f"there is no pool {pool}; headgate limits lists them")


def _change(gate: Gate, action: str, pool: str, value: str, before: Status) -> None:
    new = is_new(before, pool)
    did = _do(gate, action, pool, value, before)
    status = gate.status()
    after = next((found for found in status.pools if found.pool == pool), None)
    if after is None:
        say(f"{did}: nothing is said about it any more")
        return
    if action == "restore":
        did += f": {_as_words(after)}"
    elif action == "set" and after.source == "learned":
        did += f"; {_as_learner(after)}"
    elif after.limit is None and action == "cooldown":
        did += "; it has no limit, so this applies once it has one"
    say(f"{did}{_drains(after)}{new}")
    if after.source == "environment" and action != "cooldown":
        said = "no limit" if after.limit is None else after.limit
        say(f"HEADGATE_LIMITS is set in this shell and beats that: here {pool} has {said}")
    if action in {"set", "unset"} and (bounds := pool_advice.bounds(status, pool)):
        say(f"note: {bounds}")


def _do(gate: Gate, action: str, pool: str, value: str, before: Status) -> str:
    """Change it; says what was done."""
    match action:
        case "set":
            return f"{pool} {_set(gate, pool, value, before)} now{_was(before, pool)}"
        case "unset":
            gate.unset_limit(pool)
            return f"{pool} has no limit now{_was(before, pool)}"
        case "cooldown":
            rest = parse_duration(value, "cooldown")
            gate.set_cooldown(pool, seconds(rest))
            return f"seats of {pool} freed from now on rest for {show_duration(rest)}"
        case "per-task":
            most = None if value.strip().lower() == OFF else parse_limit(value, "per-task")
            gate.set_per_task(pool, most)
            return f"one task may hold {'any number' if most is None else most} of {pool} now"
        case "order":
            gate.set_order(pool, value.strip().lower())
            return f"the order of {pool} is {value.strip().lower()} now"
        case _:
            gate.restore(pool)
            return f"{pool} is as configured again{_forgotten(before, pool)}"


def _set(gate: Gate, pool: str, value: str, before: Status) -> str:
    if value.strip().lower() != LEARN:
        limit = parse_limit(value)
        gate.set_limit(pool, limit)
        return f"has a limit of {limit}"
    if pool == HOST:
        raise UsageError(
            "bad limit 'learn': host has nobody to learn it from, for no machine refuses an agent; "
            "set a number"
        )
    for found in before.pools:
        if found.pool == pool and found.adapt != LEARN and found.source != "environment":
            raise UsageError(
                f"bad limit 'learn': {pool} has adapt = \"{found.adapt}\" in the configuration, "
                'with which no limit is found; change that to "learn" first'
            )
    gate.set_limit(pool, LEARN)
    return "learns its limit"


def is_new(status: Status, pool: str) -> str:
    """What to add for a pool that nothing has mentioned so far: it may be a slip of the pen."""
    if any(found.pool == pool for found in status.pools):
        return ""
    if pool.startswith(ROLE):
        return " (a new pool: it takes in all work with such a role)"
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


def _forgotten(before: Status, pool: str) -> str:
    for found in before.pools:
        if found.pool == pool and (found.auto_reduced or found.next_probe or found.probing):
            return ", and what it learned is forgotten"
    return ""


def _as_learner(pool: PoolStatus) -> str:
    if pool.adapt == LEARN:
        return f"it begins with {pool.limit}"
    return f'but the configuration has adapt = "{pool.adapt}" for it, with which no limit is found'


def _as_words(pool: PoolStatus) -> str:
    limit = "no limit" if pool.limit is None else f"limit {pool.limit}"
    if pool.source == "learned" and pool.limit is not None:
        limit = f"a limit that it learns, {pool.limit} to begin with"
    rest = show_duration(pool.cooldown_ms) if pool.cooldown_ms else "none"
    return f"{limit}, cooldown {rest}"


def lines(pools: Iterable[PoolStatus], pen: terminal.Pen, at: Seconds) -> list[str]:
    """The limits for people, at this moment."""
    return terminal.table(COLUMNS, [row(pool, at) for pool in in_order(pools)], pen)


def in_order(pools: Iterable[PoolStatus]) -> list[PoolStatus]:
    """The machine first, then the others by name."""
    return sorted(pools, key=lambda pool: (pool.pool != HOST, terminal.natural(pool.pool)))


def row(pool: PoolStatus, at: Seconds) -> tuple[terminal.Cell, ...]:
    """A pool's settings, and what it has learned, under COLUMNS."""
    known = {None, pool.limit, pool.auto_reduced_from}
    lag = pool.upstream.lag_ms if pool.upstream else None
    return (
        pool.pool,
        "none" if pool.limit is None else pool.limit,
        pool.auto_reduced_from or "",
        SOURCES.get(pool.source, pool.source),
        "" if pool.configured_limit in known else pool.configured_limit or "",
        "" if pool.adapt == OFF or pool.limit is None else pool.adapt,
        _next_probe(pool, at),
        show_duration(pool.cooldown_ms) if pool.cooldown_ms else "",
        "" if lag is None else show_duration(lag),
        pool.rpm or "",
        pool.tpm or "",
        show_duration(pool.spacing_ms) if pool.spacing_ms else "",
        "" if pool.max_hold is None else show_seconds(pool.max_hold),
        ", ".join(f"{seats} {name}" for name, seats in pool.reserve.items()),
        pool.per_task or "",
        "" if pool.order == OLDEST else pool.order,
    )


def _next_probe(pool: PoolStatus, at: Seconds) -> str:
    if pool.probing:
        return "now"
    return "" if pool.next_probe is None else f"in {show_seconds(pool.next_probe - at)}"
