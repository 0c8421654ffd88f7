"""What is said about a pool, in layers, and what follows from it.

    HEADGATE_LIMITS   beats   set by hand   beats   the configuration file   beats   the defaults

A pool exists as soon as any layer mentions it. HEADGATE_LIMITS belongs to whoever asks: it travels
with each ticket as a *view*, so that all processes decide alike about it, whatever their own
environment says.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from headgate.core.amounts import parse_limit
from headgate.core.keys import HOST, matches, parse_pattern
from headgate.errors import ConfigError, UsageError

UNLIMITED = "unlimited"


class Declared(NamedTuple):
    """What the configuration says about one pool; None where it says nothing."""

    limit: int | str | None = None
    cooldown: int | None = None
    max_hold: int | None = None
    reserve: tuple[tuple[str, int], ...] | None = None


class Tuned(NamedTuple):
    """What the store remembers about one pool: set by hand while running, or learned."""

    name: str
    limit: int | str | None = None
    cooldown: int | None = None
    paused_until: int | None = None
    pause_note: str = ""

    @property
    def says_nothing(self) -> bool:
        """Whether there is no need to remember it."""
        return self.limit is None and self.cooldown is None and self.paused_until is None


class Pool(NamedTuple):
    """A pool as it stands: every layer applied. Times are in milliseconds."""

    name: str
    limit: int | None
    source: str
    configured_limit: int | None = None
    cooldown: int = 0
    max_hold: int | None = None
    reserve: tuple[tuple[str, int], ...] = ()
    paused_until: int | None = None
    pause_note: str = ""

    def paused(self, now: int) -> bool:
        """Whether nothing may start in this pool at this moment."""
        return self.paused_until is not None and self.paused_until > now


DEFAULTS: Mapping[str, Declared] = {HOST: Declared(limit=3), "*/claude-opus-*": Declared(limit=4)}


class Book:
    """Every pool there is at this moment, and which of them a piece of work sits in."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self.pools = dict(sorted(pools.items()))
        self._of: dict[str, tuple[Pool, ...]] = {}
        self._views: dict[str, Book] = {}

    def of(self, key: str) -> tuple[Pool, ...]:
        """The pools that work with this key sits in, by name."""
        found = self._of.get(key)
        if found is None:
            found = tuple(pool for name, pool in self.pools.items() if matches(name, key))
            self._of[key] = found
        return found

    def under(self, view: str) -> "Book":
        """The same pools as seen by someone whose HEADGATE_LIMITS is this."""
        if not view:
            return self
        found = self._views.get(view)
        if found is None:
            pools = dict(self.pools)
            for name, limit in read_view(view).items():
                seen = pools.get(name) or Pool(name, None, "environment")
                number = limit if isinstance(limit, int) else None
                pools[name] = seen._replace(limit=number, source="environment")
            found = self._views[view] = Book(pools)
        return found


def book(declared: Mapping[str, Declared], tuned: Iterable[Tuned]) -> Book:
    """Lay what was set by hand over the file, and the file over the defaults."""
    by_hand = {row.name: row for row in tuned}
    names = {*DEFAULTS, *declared, *by_hand}
    return Book({name: _pool(name, declared.get(name), by_hand.get(name)) for name in names})


def _pool(name: str, declared: Declared | None, tuned: Tuned | None) -> Pool:
    default = DEFAULTS.get(name, Declared())
    declared = declared or Declared()
    tuned = tuned or Tuned(name)
    limit: int | str | None = None
    source = "none"
    for layer, said in (("default", default.limit), ("file", declared.limit)):
        if said is not None:
            limit, source = said, layer
    configured = limit if isinstance(limit, int) else None
    if tuned.limit is not None:
        limit, source = tuned.limit, "hand"
    cooldown = declared.cooldown if tuned.cooldown is None else tuned.cooldown
    return Pool(
        name=name,
        limit=limit if isinstance(limit, int) else None,
        source=source,
        configured_limit=configured,
        cooldown=cooldown or 0,
        max_hold=declared.max_hold,
        reserve=declared.reserve or (),
        paused_until=tuned.paused_until,
        pause_note=tuned.pause_note,
    )


def parse_view(text: str, where: str = "HEADGATE_LIMITS") -> str:
    """Check a list such as `host=5,anthropic/claude-opus-*=4` and bring it into one form."""
    limits: dict[str, int | str] = {}
    for part in text.replace("\n", ",").replace(";", ",").split(","):
        if not part.strip():
            continue
        name, equals, number = part.partition("=")
        if not equals:
            raise ConfigError(f"{where}: {part.strip()!r} has no '='; expected POOL=LIMIT, …")
        try:
            pattern = parse_pattern(name)
            word = number.strip().lower()
            limit = UNLIMITED if word == UNLIMITED else parse_limit(number.strip())
        except UsageError as error:
            raise ConfigError(f"{where}: in {part.strip()!r}: {error}") from None
        if limits.get(pattern, limit) != limit:
            raise ConfigError(
                f"{where}: {pattern} is given twice, as {limits[pattern]} and {limit}"
            )
        limits[pattern] = limit
    return ",".join(f"{name}={limit}" for name, limit in sorted(limits.items()))


@lru_cache(maxsize=256)
def read_view(view: str) -> Mapping[str, int | str]:
    """The limits in a view that parse_view has made."""
    pairs = (part.rpartition("=") for part in view.split(",") if part)
    return {name: UNLIMITED if said == UNLIMITED else int(said) for name, _, said in pairs}
