"""Timeouts that get in each other's way: one that is shorter than another that it contains."""

from collections.abc import Iterator

from headgate.core.display.snapshots import PoolStatus
from headgate.core.key_patterns import matches
from headgate.core.pattern_overlap import covers
from headgate.core.quantities import show_duration, show_seconds
from headgate.core.times import Ms, ms
from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, ok, warning

_LONGER = "make max_hold longer: it is meant for what hangs"


def check(facts: Facts) -> list[Finding]:
    """All that does not go together."""
    pools = facts.status.pools
    found = [*_jobs(facts, pools)]
    for pool in pools:
        found += [*_pool(facts, pool), *_nested(pool, pools), *_pace(facts, pool)]
    for name, said in facts.config.pools.items():
        hold = said.max_hold
        if hold and said.usage and said.usage.every >= hold:
            text = f"{name}: usage is read every {show_duration(said.usage.every)}"
            text += f", but work ends after {show_duration(hold)}"
            found.append(warning("usage_every", text, "read it more often; 2s is usual"))
    return found or [ok("times", "no timeout is shorter than another that it contains")]


def _pool(facts: Facts, pool: PoolStatus) -> Iterator[Finding]:
    """A pool's `max_hold` contains its work, the end of that, and the rest of its seats."""
    if not pool.max_hold:
        return
    hold, grace = ms(pool.max_hold), facts.config.grace
    ends = f"{pool.pool}: work is ended after {show_duration(hold)} (max_hold)"
    if grace >= hold:
        text = f"{ends}, but may then take {show_duration(grace)} to end (grace)"
        yield warning("grace", text, "make grace shorter, or max_hold longer")
    if pool.cooldown_ms >= hold:
        text = f"{ends}, and its seat then rests for {show_duration(pool.cooldown_ms)} (cooldown)"
        yield warning("cooldown", text, "2s is a usual cooldown")
    for key, usual in _usual(facts, pool):
        if usual >= hold:
            text = f"{ends}, but {key} usually takes {show_duration(usual)}"
            yield warning("max_hold", text, _LONGER)
    for key, ended in facts.seen.overdue.items():
        if matches(pool.pool, key):
            of = max(ended, facts.seen.started.get(key, 0))
            make = warning if ended * 4 >= of else note
            yield make(
                "overdue", f"{ends}, as happened to {ended} of {of} of {key} lately", _LONGER
            )


def _nested(pool: PoolStatus, pools: tuple[PoolStatus, ...]) -> Iterator[Finding]:
    """The shortest `max_hold` of all pools that work sits in is the one that counts."""
    if not pool.max_hold:
        return
    shorter = [
        (other.max_hold, other.pool)
        for other in pools
        if other.max_hold and other.max_hold < pool.max_hold and covers(other.pool, pool.pool)
    ]
    if shorter:
        hold, name = min(shorter)
        text = f"{pool.pool}: its max_hold of {show_seconds(pool.max_hold)} never counts"
        text += f", for all of its work also sits in {name}, which ends it after "
        yield warning(
            "max_hold_shadowed",
            f"{text}{show_seconds(hold)}",
            f"make that of {name} longer, or drop this one",
        )


def _pace(facts: Facts, pool: PoolStatus) -> Iterator[Finding]:
    """Rests and distances between starts that keep seats from being used."""
    for key, usual in _usual(facts, pool):
        if pool.limit is not None and pool.cooldown_ms > usual and pool.cooldown_ms > 5_000:
            text = f"{pool.pool}: seats rest for {show_duration(pool.cooldown_ms)} (cooldown)"
            text += f" after work of {key} that usually takes {show_duration(usual)}"
            yield note("cooldown_long", text, "2s is a usual cooldown")
        if pool.spacing_ms and pool.limit and pool.spacing_ms * (pool.limit - 1) > usual:
            most = int(usual // pool.spacing_ms) + 1
            text = f"{pool.pool}: with {show_duration(pool.spacing_ms)} between starts (spacing)"
            text += f" and {show_duration(usual)} for {key}, about {most} of its {pool.limit} seats"
            yield note("spacing", f"{text} are ever in use", "make spacing shorter")


def _usual(facts: Facts, pool: PoolStatus) -> list[tuple[str, Ms]]:
    seen = facts.seen.keys.items()
    return [(key, usual) for key, usual in seen if usual and matches(pool.pool, key)]


def _jobs(facts: Facts, pools: tuple[PoolStatus, ...]) -> Iterator[Finding]:
    """What is said of jobs, where anything is: how long they may be silent, and run."""
    jobs = facts.config.jobs
    limits = jobs.limits
    named = (
        ("patience", limits.patience),
        ("stale_after", limits.stale_after),
        ("message_stale_after", limits.message_stale_after),
        ("max_runtime", limits.max_runtime),
    )
    chain = [(name, limit) for name, limit in named if limit]
    for n, (inner, shorter) in enumerate(chain):
        for outer, longer in chain[n + 1 :]:
            if longer <= shorter:
                text = f"jobs: {outer} is {show_duration(longer)}, so {inner} never counts, "
                text += f"which is {show_duration(shorter)}"
                yield warning("job_terms", text, f"make {outer} longer, or {inner} shorter")
    runtime = limits.max_runtime
    for pool in pools:
        if runtime and pool.max_hold and ms(pool.max_hold) < runtime:
            text = (
                f"jobs: max_runtime is {show_duration(runtime)}, but {pool.pool} ends work after "
            )
            text += f"{show_seconds(pool.max_hold)} (max_hold)"
            yield warning("job_terms", text, "make the two agree")
    expires = jobs.expires
    for pool in pools:
        if expires and pool.paused and pool.paused_until is not None:
            left = ms(pool.paused_until - facts.status.at)
            if left > expires:
                text = f"jobs expire after {show_duration(expires)} in line, but {pool.pool} is "
                text += f"paused for {show_duration(left)}"
                yield warning("job_terms", text, f"headgate resume '{pool.pool}'")
