"""Which setting wins: what is said about each pool, in layers, and what follows from it.

    HEADGATE_LIMITS   beats   set by hand   beats   the configuration file   beats   the defaults

A pool exists as soon as any layer mentions it. HEADGATE_LIMITS belongs to whoever asks: it travels
with each ticket as a *view*, so that all processes decide alike about it, whatever their own
environment says. So do the limits of a project's own file, which only tighten.
"""

from collections.abc import Mapping
from functools import lru_cache

from headgate.core.admission.pools import (
    AUTO,
    COOLDOWN,
    DEFAULTS,
    FAIR,
    LEARN,
    NOTHING,
    OFF,
    OLDEST,
    ORDERS,
    UNLIMITED,
    Declared,
    Pool,
    PoolRow,
    UnreadableNotice,
)
from headgate.core.host.auto_limit import AGENT_MEMORY, auto_floor, auto_limit, auto_source
from headgate.core.host.pressure import Host, PressureLimits
from headgate.core.key_patterns import HOST, is_pattern, parse_pattern
from headgate.core.learning.control_law import begin
from headgate.core.quantities import FOREVER, LONGEST_MS, MOST, parse_limit, shown
from headgate.core.rate_limits import Rates
from headgate.core.stored_text.formats import Unreadable, whole
from headgate.core.stored_text.stored_values import LEARNED, fixed
from headgate.core.times import NO_TIME, Ms
from headgate.errors import ConfigError, UsageError

_LONG_COOLDOWN = Ms(120_000)
"""How long a freed seat rests where nobody knows for how long it should."""


def resolve(
    name: str,
    declared: Declared | None,
    row: PoolRow | None,
    defaults: Declared = NOTHING,
    host: Host | None = None,
) -> Pool:
    """Lay what was set by hand over the file, and the file over the defaults.

    `host` is what the machine has, for a limit that follows from it.
    """
    pool = _pool(name, declared, row, defaults)
    return _hosted(pool, declared, row, host) if name == HOST and declared is not None else pool


_AT_MOST = "<"
"""What begins a limit in a view that only tightens. Version 0.1.0 takes it for unreadable."""


class AtMost(int):
    """A limit of a project's own file: it can tighten a pool, and never widen it."""


PROJECT = "project"
"""The source of a limit that a project's own file says."""


def seen_under(name: str, pool: Pool | None, limit: int | str) -> Pool:
    """A pool as seen by someone whose HEADGATE_LIMITS, or project, gives it this limit."""
    if isinstance(limit, AtMost):
        return _tightened(pool or Pool(name, None, PROJECT), int(limit))
    number = limit if isinstance(limit, int) else None
    return (pool or Pool(name, None, "environment"))._replace(
        limit=number,
        source="environment",
        most=number,
        learned=None,
        adapt=OFF,
        unread=(),
        fixed=False,
    )


def _tightened(pool: Pool, most: int) -> Pool:
    """A pool with at most so many seats; what it has learned goes on to hold back, not to try."""
    if pool.limit is not None and pool.limit <= most:
        return pool
    return pool._replace(limit=most, source=PROJECT, most=most, adapt=OFF)


def _hosted(pool: Pool, said: Declared, row: PoolRow | None, host: Host | None) -> Pool:
    """The pool of a machine, with what only such a pool can say."""
    floor, expected = said.memory_floor, said.agent_memory or 0
    if said.limit == AUTO:
        expected = expected or AGENT_MEMORY
        limit = DEFAULTS[HOST].limit
        number = limit if isinstance(limit, int) else None
        source = "default"
        if host is not None:
            number, source = auto_limit(host, expected), auto_source(host)
            floor = auto_floor(host) if floor is None else floor
        pool = pool._replace(configured_limit=number)
        if row is None or row.limit is None:
            pool = pool._replace(limit=number, most=number, source=source)
    pressure_limits = PressureLimits(floor or 0, said.load_ceiling or 0.0, expected)
    return (
        pool._replace(pressure_limits=pressure_limits)
        if pressure_limits.memory_floor or pressure_limits.load_ceiling
        else pool
    )


def _pool(name: str, declared: Declared | None, row: PoolRow | None, defaults: Declared) -> Pool:
    default = DEFAULTS.get(name, NOTHING)
    declared = declared or NOTHING
    kept = row or PoolRow(name)
    row, unread = sound(kept) if row else (kept, ())
    limit: int | str | None = None
    source = "none"
    for layer, said in (("default", default.limit), ("file", declared.limit)):
        if said is not None:
            limit, source = said, layer
    configured = limit if isinstance(limit, int) else None
    if row.limit is not None:
        limit, source = row.limit, "hand"
    most = limit if isinstance(limit, int) else None
    adapt = OFF if name == HOST else declared.adapt or defaults.adapt or LEARN
    learned = None
    stays = row.limit != kept.limit
    if adapt != OFF and (most is not None or limit == LEARN):
        found = LEARNED.read(row.learned)
        if isinstance(found, Unreadable):
            stays, learned = True, fixed(min(found.first or 1, most or MOST))
            unread = (*unread, _unread_limit(found, learned.limit))
        elif stays:
            learned = fixed(most or 1)
        else:
            learned = found if found and found.base == (most or 0) else begin(most)
            if found is not None and learned is not found:
                # What was sent before belongs to an older epoch, and is no news of this limit.
                learned = learned._replace(epoch=found.epoch + 1)
    return Pool(
        name=name,
        limit=learned.limit if learned else most,
        source="learned" if limit == LEARN else source,
        configured_limit=configured,
        cooldown=_cooldown(name, adapt, declared, row, defaults),
        max_hold=declared.max_hold,
        reserve=declared.reserve or (),
        paused_until=row.paused_until,
        pause_note=row.pause_note,
        most=most,
        adapt=adapt,
        learned=learned,
        usage=declared.usage,
        observe=declared.observe or (),
        rates=Rates(declared.rpm or 0, declared.tpm or 0, declared.spacing or NO_TIME),
        unread=unread,
        fixed=stays,
        warned_limit=declared.warned_limit or defaults.warned_limit,
        per_task=_per_task(declared, row),
        order=row.order or declared.order or OLDEST,
    )


def _per_task(declared: Declared, row: PoolRow) -> int | None:
    said = declared.per_task if row.per_task is None else row.per_task
    return said if isinstance(said, int) else None


def _unread_limit(found: Unreadable, limit: int) -> UnreadableNotice:
    saved = "no limit could" if found.first is None else f"a limit of {found.first} could"
    instead = f"{limit} seat{'' if limit == 1 else 's'}; {saved} be saved from it"
    return UnreadableNotice("what was learned", found.text, found.why, instead)


def sound(row: PoolRow) -> tuple[PoolRow, tuple[UnreadableNotice, ...]]:
    """A row with a careful value wherever it has one that no version known here has written."""
    unread = []
    odd = "no such value is known here"
    if not (row.limit in (None, UNLIMITED, LEARN) or _within(row.limit, 1, MOST)):
        unread.append(UnreadableNotice("the limit set by hand", repr(row.limit), odd, "1 seat"))
        row = row._replace(limit=1)
    if not (row.cooldown is None or _within(row.cooldown, 0, LONGEST_MS)):
        instead = "freed seats rest for 2m"
        unread.append(
            UnreadableNotice("the cooldown set by hand", repr(row.cooldown), odd, instead)
        )
        row = row._replace(cooldown=_LONG_COOLDOWN)
    if not (row.paused_until is None or _within(row.paused_until, -FOREVER, FOREVER)):
        instead = f"it is paused until somebody says: headgate resume '{row.name}'"
        unread.append(
            UnreadableNotice(
                what="the end of its pause",
                text=repr(row.paused_until),
                why=odd,
                instead=instead,
                stays=False,
            )
        )
        row = row._replace(paused_until=FOREVER)
    if not (row.per_task in (None, UNLIMITED) or _within(row.per_task, 1, MOST)):
        what = "the most per task set by hand"
        unread.append(UnreadableNotice(what, repr(row.per_task), odd, "1 seat for each task"))
        row = row._replace(per_task=1)
    if row.order not in (None, *ORDERS):
        instead = "tasks take turns"
        unread.append(UnreadableNotice("the order set by hand", repr(row.order), odd, instead))
        row = row._replace(order=FAIR)
    return row, tuple(unread)


def _within(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _cooldown(name: str, adapt: str, declared: Declared, row: PoolRow, defaults: Declared) -> Ms:
    for said in (row.cooldown, declared.cooldown, None if name == HOST else defaults.cooldown):
        if said is not None:
            return said
    return NO_TIME if adapt == OFF else COOLDOWN


def parse_view(text: str, where: str = "HEADGATE_LIMITS") -> str:
    """Check a list such as `host=5,anthropic/claude-opus-*=4` and bring it into one form."""
    whole_text = f" ({where} is {shown(text)})"
    limits: dict[str, int | str] = {}
    for part in text.replace("\n", ",").replace(";", ",").split(","):
        if not part.strip():
            continue
        name, equals, number = part.partition("=")
        if not equals:
            raise ConfigError(
                f"{where}: {shown(part.strip())} has no '='; expected POOL=LIMIT, …{whole_text}"
            )
        try:
            pattern = parse_pattern(name)
            word = number.strip().lower()
            most = word.removeprefix(_AT_MOST)
            limit = UNLIMITED if word == UNLIMITED else parse_limit(most)
            limit = f"{_AT_MOST}{limit}" if most != word else limit
        except UsageError as error:
            raise ConfigError(f"{where}: in {shown(part.strip())}: {error}{whole_text}") from None
        if limits.get(pattern, limit) != limit:
            raise ConfigError(
                f"{where}: {pattern} is given twice, as {limits[pattern]} and {limit}{whole_text}"
            )
        limits[pattern] = limit
    return ",".join(f"{name}={limit}" for name, limit in sorted(limits.items()))


def with_project(view: str, limits: Mapping[str, int]) -> str:
    """A view with the limits of a project laid under it: HEADGATE_LIMITS beats them."""
    said = [part for part in view.split(",") if part]
    named = {part.rpartition("=")[0] for part in said}
    more = (f"{name}={_AT_MOST}{n}" for name, n in limits.items() if name not in named)
    return ",".join(sorted([*said, *more]))


ALONE: Mapping[str, int | str] = {HOST: 1}
"""What counts in place of a view that cannot be read: to start when nothing else runs here."""


@lru_cache(maxsize=256)
def read_view(view: str) -> Mapping[str, int | str]:
    """The limits in a view that parse_view has made; `ALONE` if they cannot be read."""
    limits: dict[str, int | str] = {}
    for part in view.split(",") if view else ():
        name, _, said = part.rpartition("=")
        number = whole(said.removeprefix(_AT_MOST), MOST)
        limit = UNLIMITED if said == UNLIMITED else number
        if not limit or not is_pattern(name):
            return ALONE
        limits[name] = AtMost(limit) if said.startswith(_AT_MOST) else limit
    return limits
