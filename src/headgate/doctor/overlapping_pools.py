"""Pools that never count, that count apart what may be one, or that fit nothing."""

import re
from collections.abc import Iterable

from headgate.core.display.snapshots import PoolStatus
from headgate.core.key_patterns import HOST, matches
from headgate.core.likely_slips import meant_pool
from headgate.core.pattern_overlap import covers, overlap
from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, warning

_VERSION = re.compile(r"[-.:@]?[0-9*?][-.:@0-9*?]*\Z")
_MOST_NAMED = 8


def check(facts: Facts) -> list[Finding]:
    """All that names and limits tell, and what was seen so far."""
    pools = facts.status.pools
    limited = [pool for pool in pools if pool.limit is not None]
    keys = list(facts.seen.keys)
    found = [_shadow(pool, limited) for pool in limited]
    found += [_idle(pool, pools, keys) for pool in pools if pool.source not in {"default", "none"}]
    return [one for one in found if one] + _apart(limited) + _uncovered(pools, keys)


def _shadow(pool: PoolStatus, limited: list[PoolStatus]) -> Finding | None:
    """A limit that can never be reached, for another is reached first by the same work."""
    if pool.pool == HOST or pool.limit is None:
        return None
    tighter = [
        (most, other.pool)
        for other in limited
        if other.pool != pool.pool
        and covers(other.pool, pool.pool)
        and (most := _most(other)) is not None
        and (most < pool.limit or (most == pool.limit and _first(other.pool, pool.pool)))
    ]
    if not tighter:
        return None
    most, name = min(tighter)
    text = f"{pool.pool}: its limit of {pool.limit} is never reached"
    text += f", for all of its work also sits in {name}, which takes {most}"
    if pool.source == "default":
        return note("shadowed", text)
    lower = f"lower it to below {most}, or " if most > 1 else ""
    return warning("shadowed", text, f"{lower}raise {name}")


def _first(one: str, other: str) -> bool:
    """Of two pools for the same keys, only one is superfluous."""
    return not covers(other, one) or one < other


def _most(pool: PoolStatus) -> int | None:
    """What the limit of a pool can become by itself; None if there is no telling."""
    if pool.source == "learned" or pool.limit is None:
        return None
    return max(pool.limit, pool.auto_reduced_from or 0)


def _idle(pool: PoolStatus, pools: Iterable[PoolStatus], keys: list[str]) -> Finding | None:
    """A pool that fits no key that was ever seen: perhaps its name is a slip of the pen."""
    name = pool.pool
    if name == HOST or any(matches(name, key) for key in keys):
        return None
    others = [other.pool for other in pools if other.pool != name]
    meant = meant_pool(name, others, keys)
    if meant == f"*/{name}" and not any(matches(meant, key) for key in keys):
        text = f"{name}: a name without / is a provider, and this looks like a model"
        return warning("fits_nothing", text, f"did you mean {meant}?")
    if meant:
        fitting = [key for key in keys if matches(meant, key)]
        if meant.startswith("*/") and fitting:
            meant = f"{_provider(fitting)}{meant[1:]}"
        seen = f", but some fits {meant}" if fitting else ""
        text = f"{name}: no work so far fits it{seen}"
        return warning("fits_nothing", text, f"did you mean {meant}?")
    if keys and not any(overlap(name, other) for other in others if other != HOST):
        return note("fits_nothing", f"{name}: neither work so far nor another pool fits it")
    return None


def _provider(keys: list[str]) -> str:
    """The provider of these keys, or any if they have several."""
    found = {key.partition("/")[0] for key in keys}
    return found.pop() if len(found) == 1 else "*"


def _apart(limited: list[PoolStatus]) -> list[Finding]:
    """Versions of one model whose limits add up, where a provider may count them as one."""
    families: dict[tuple[str, str], list[PoolStatus]] = {}
    for pool in limited:
        provider, slash, model = pool.pool.partition("/")
        family = _VERSION.sub("", model)
        if slash and family:
            families.setdefault((provider, family), []).append(pool)
    found = []
    for (provider, family), pools in families.items():
        apart = [p for p in pools if not any(overlap(p.pool, o.pool) for o in pools if o is not p)]
        total = sum(pool.limit or 0 for pool in apart)
        if len(apart) < 2 or _joined(apart, total, limited):
            continue
        names = ", ".join(f"{pool.pool} ({pool.limit})" for pool in apart)
        text = f"{names} have no pool in common, so {total} may run at once"
        advice = "if the account counts them as one: headgate limits set "
        found.append(note("disjoint", text, f"{advice}'{provider}/{family}*' N"))
    return found


def _joined(apart: list[PoolStatus], total: int, limited: list[PoolStatus]) -> bool:
    return any(
        (most := _most(other)) is not None
        and most < total
        and other.pool != HOST
        and all(covers(other.pool, pool.pool) for pool in apart)
        for other in limited
    )


def _uncovered(pools: Iterable[PoolStatus], keys: list[str]) -> list[Finding]:
    """Keys in use that nothing but the machine bounds, though nobody said that it be so."""
    named = [pool for pool in pools if pool.pool != HOST and pool.source != "none"]
    bare = [key for key in keys if not any(matches(pool.pool, key) for pool in named)]
    if not bare:
        return []
    more = f" and {len(bare) - _MOST_NAMED} more" if len(bare) > _MOST_NAMED else ""
    text = f"in use, with no limit but the machine's: {', '.join(bare[:_MOST_NAMED])}{more}"
    advice = f"if its provider has one: headgate limits set '{bare[0].partition('/')[0]}' N"
    return [note("uncovered", text, f"{advice}, or learn for N")]
