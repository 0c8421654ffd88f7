"""Every pool there is, and which of them a piece of work sits in.

There may be ten thousand, of which a decision concerns three: a pool is made when somebody asks for
it, and which pools a key sits in is looked up, not searched for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.core.admission.pools import DEFAULTS, NOTHING, Declared, Pool, PoolRow
from headgate.core.admission.seats import Need
from headgate.core.admission.setting_precedence import read_view, resolve, seen_under
from headgate.core.host.pressure import Host
from headgate.core.key_patterns import HOST, NO_KEY, is_wild, matches
from headgate.core.times import Ms

_NAMES_KEPT = 20_000
"""For how many keys it is remembered which pools they sit in."""


class PoolNames:
    """The names of some pools. Finds those that a key matches without trying every one.

    They may come on top of `others`, which are not copied.
    """

    def __init__(self, names: Iterable[str] = (), others: "PoolNames | None" = None) -> None:
        self._exact: set[str] = set()
        self._wild: dict[str, set[str]] = {}
        """Those with wildcards, by provider; by nothing if that has some itself."""
        self._others = others
        self._of: dict[str, tuple[str, ...]] = {}
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        if name in self._exact or name in self._wild.get(_provider(name), ()):
            return True
        return self._others is not None and name in self._others

    def __iter__(self) -> Iterator[str]:
        wild = [name for names in self._wild.values() for name in names]
        return iter(sorted([*self._exact, *wild, *(self._others or ())]))

    def __len__(self) -> int:
        wild = sum(map(len, self._wild.values()))
        return len(self._exact) + wild + len(self._others or ())

    def add(self, name: str) -> None:
        """One more."""
        if name not in self:
            same = self._wild.setdefault(_provider(name), set()) if is_wild(name) else self._exact
            same.add(name)
            self._of.clear()

    def discard(self, name: str) -> None:
        """One less."""
        if name in self:
            self._exact.discard(name)
            self._wild.get(_provider(name), set()).discard(name)
            self._of.clear()

    def of(self, uses: str) -> tuple[str, ...]:
        """The names that match what work uses, in order."""
        found = self._of.get(uses)
        if found is None:
            key, _, roles = uses.partition(" ")
            provider = key.partition("/")[0]
            exact = {HOST} if key == NO_KEY else {HOST, key, provider}
            if roles:
                exact.update(roles.split(" "))
            tried = (*self._wild.get(provider, ()), *self._wild.get("", ()))
            wild = [name for name in dict.fromkeys(tried) if matches(name, uses)]
            others = self._others.of(uses) if self._others is not None else ()
            found = tuple(sorted([*(exact & self._exact), *wild, *others]))
            if len(self._of) >= _NAMES_KEPT:
                self._of.clear()
            self._of[uses] = found
        return found


def _provider(name: str) -> str:
    """The provider that a name is about; nothing if it can be any."""
    provider = name.partition("/")[0]
    return "" if is_wild(provider) else provider


class Pools(Mapping[str, Pool]):
    """Pools by name, in order; each is made when it is first asked for."""

    def __init__(self, names: PoolNames, make: Callable[[str], Pool]) -> None:
        self.names = names
        self.made: dict[str, Pool] = {}
        self.unread: dict[str, Pool] = {}
        """Those of them about which something is kept that cannot be read."""
        self.probing: dict[str, Pool] = {}
        """Those of them that have a probe out."""
        self.sharing: dict[str, Pool] = {}
        """Those of them that tell tasks apart."""
        self._make = make

    def __getitem__(self, name: str) -> Pool:
        found = self.made.get(name)
        if found is None:
            if name not in self.names:
                raise KeyError(name)
            found = self.made[name] = self._make(name)
            if found.unread:
                self.unread[name] = found
            if found.learned is not None and found.learned.probe:
                self.probing[name] = found
            if found.tells_tasks_apart:
                self.sharing[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def forget(self, name: str) -> None:
        """Make a pool anew when it is next asked for."""
        self.made.pop(name, None)
        self.unread.pop(name, None)
        self.probing.pop(name, None)
        self.sharing.pop(name, None)


class PoolSet:
    """Every pool there is at this moment, and which of them a piece of work sits in."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self.pools = (
            pools if isinstance(pools, Pools) else Pools(PoolNames(pools), pools.__getitem__)
        )
        self.needs: dict[tuple[str, str, int], tuple[Need, ...]] = {}
        """What work needs that borrows nothing, by key, machine and weight (`Ledger.needs`)."""
        self._of: dict[str, tuple[Pool, ...]] = {}
        self.sorted_out = False
        """Whether all were found in lanes of their own tasks, since it last changed."""
        self._apart: dict[str, bool] = {}
        self._views: dict[str, PoolSet] = {}
        self._beyond: dict[str, frozenset[str]] = {}
        self._notable: set[str] | None = None

    @property
    def unread(self) -> tuple[Pool, ...]:
        """Those asked for so far about which something is kept that cannot be read."""
        return tuple(self.pools.unread.values()) if self.pools.unread else ()

    def names_of(self, uses: str) -> tuple[str, ...]:
        """The names of the pools that work which uses this sits in."""
        return self.pools.names.of(uses)

    def of(self, uses: str) -> tuple[Pool, ...]:
        """The pools that work which uses this sits in, by name."""
        found = self._of.get(uses)
        if found is None:
            found = self._of[uses] = tuple([self.pools[name] for name in self.names_of(uses)])
        return found

    def tells_tasks_apart(self, uses: str) -> bool:
        """Whether any pool that such work sits in cares whom it is for."""
        found = self._apart.get(uses)
        if found is None:
            found = self._apart[uses] = any(pool.tells_tasks_apart for pool in self.of(uses))
        return found

    def notable(self) -> list[Pool]:
        """The pools to which time, upstream or others do something, beside our own seats.

        The first call makes every pool; from then on the answer is kept up to date.
        """
        if self._notable is None:
            self._notable = {name for name, pool in self.pools.items() if pool.notable}
        return [self.pools[name] for name in sorted(self._notable)]

    def changed(self, name: str, *, exists: bool) -> None:
        """Something else is said about a pool, or nothing any more."""
        if exists:
            self.pools.names.add(name)
        else:
            self.pools.names.discard(name)
        self.pools.forget(name)
        self.needs.clear()
        self._of.clear()
        self._apart.clear()
        self.sorted_out = False
        self._views.clear()
        self._beyond.clear()
        if self._notable is not None:
            if exists and self.pools[name].notable:
                self._notable.add(name)
            else:
                self._notable.discard(name)

    def max_hold(self, uses: str) -> Ms | None:
        """How long work that uses this may hold its seats: the shortest of its pools counts."""
        for pool in self.of(uses):
            if pool.max_hold:
                return min(pool.max_hold for pool in self.of(uses) if pool.max_hold)
        return None

    def beyond(self, view: str) -> frozenset[str]:
        """The pools that only somebody's HEADGATE_LIMITS names."""
        found = self._beyond.get(view)
        if found is None:
            names = self.pools.names
            found = frozenset(name for name in read_view(view) if name not in names)
            self._beyond[view] = found
        return found

    def under(self, view: str) -> "PoolSet":
        """The same pools as seen by someone whose HEADGATE_LIMITS is this."""
        if not view:
            return self
        found = self._views.get(view)
        if found is None:
            limits, pools = read_view(view), self.pools
            names = PoolNames(self.beyond(view), pools.names)

            def make(name: str) -> Pool:
                pool = pools.get(name)
                return seen_under(name, pool, limits[name]) if name in limits else pools[name]

            found = self._views[view] = PoolSet(Pools(names, make))
        return found


def resolve_pools(
    declared: Mapping[str, Declared],
    rows: Iterable[PoolRow],
    defaults: Declared = NOTHING,
    host: Host | None = None,
) -> PoolSet:
    """The pools that the configuration, the store and the defaults name.

    `host` is what the machine has, for a limit that follows from it.
    """
    return lay_over(declared, {row.name: row for row in rows}, defaults, host)


def lay_over(
    declared: Mapping[str, Declared],
    rows: Mapping[str, PoolRow],
    defaults: Declared,
    host: Host | None,
) -> PoolSet:
    """The same, with rows that may change: whoever changes one says so (`PoolSet.changed`)."""

    def make(name: str) -> Pool:
        return resolve(name, declared.get(name), rows.get(name), defaults, host)

    return PoolSet(Pools(PoolNames({*DEFAULTS, *declared, *rows}), make))
