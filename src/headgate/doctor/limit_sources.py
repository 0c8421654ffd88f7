"""What each pool's limit is, and where it comes from."""

from headgate.core.display.snapshots import PoolStatus, Status
from headgate.core.key_patterns import HOST
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds
from headgate.doctor.facts import Facts
from headgate.doctor.finding import NOTE, OK, WARNING, Finding, warning

_SOURCES = {
    "default": "by default",
    "file": "from the configuration",
    "hand": "set by hand",
    "learned": "learned",
    "environment": "from HEADGATE_LIMITS",
    "project": "from this project's headgate.toml",
    "none": "",
}


def check(facts: Facts) -> list[Finding]:
    """One finding for each pool, and one for all that is kept about it and cannot be read."""
    status = facts.status
    pools = sorted(status.pools, key=lambda pool: (pool.pool != HOST, pool.pool))
    unread = [
        warning("unreadable", f"{pool.pool}: {words}")
        for pool in pools
        for words in pool.unreadable
    ]
    return [_pool(pool, status) for pool in pools] + unread


def _pool(pool: PoolStatus, status: Status) -> Finding:
    source = _SOURCES.get(pool.source, pool.source)
    said = "no limit" if pool.limit is None else f"{pool.limit}"
    parts = [f"{pool.pool}: {' '.join(filter(None, (said, source)))}"]
    level, advice = OK, ""
    if pool.configured_limit is not None and pool.source in {"hand", "environment"}:
        parts.append(f"where the configuration says {pool.configured_limit}")
        if pool.source == "hand" and pool.configured_limit != pool.limit:
            level, advice = NOTE, f"to go by it again: headgate limits restore '{pool.pool}'"
    if pool.auto_reduced:
        parts.append(f"reduced from {pool.auto_reduced_from} after a 429")
        level, advice = NOTE, _recovers(pool)
    if pool.limit is not None and pool.in_use > pool.limit:
        parts.append(f"{pool.in_use} in use, so it drains")
        level = NOTE
    if pool.upstream is not None:
        parts.append("bounded by the provider's own count")
        if pool.upstream.problem:
            parts.append(f"which cannot be read: {pool.upstream.problem}")
            level, advice = WARNING, "until it can, the pool goes by its limit and the last count"
    if pool.paused:
        level = NOTE
        advice = f"to let it go on: headgate resume '{pool.pool}'"
        parts.append(_paused(pool, status.at))
    return Finding(level, "limit", ", ".join(parts), advice)


def _paused(pool: PoolStatus, at: Seconds) -> str:
    if pool.paused_until is None:
        return "paused until it is resumed"
    return f"paused for {show_seconds(pool.paused_until - at)}"


def _recovers(pool: PoolStatus) -> str:
    if pool.adapt == "learn":
        return "it is tried again by itself"
    return f"when the trouble is over: headgate limits restore '{pool.pool}'"
