"""The pools as the configuration and the store have them, kept from one transaction to the next."""

from collections.abc import Mapping

from headgate.core.admission.pool_set import PoolSet, lay_over
from headgate.core.admission.pools import AUTO, DEFAULTS, NOTHING, Declared
from headgate.core.key_patterns import HOST
from headgate.ledger.transaction.interface import Gauge
from headgate.ledger.transaction.pool_table import PoolTable


class PoolResolver:
    """Resolves the settings into a `PoolSet`; returns the last one while nothing has changed."""

    def __init__(
        self,
        declared: Mapping[str, Declared],
        defaults: Declared = NOTHING,
        gauge: Gauge | None = None,
    ) -> None:
        self._table: PoolTable | None = None
        self._version = 0
        self.gauge = gauge
        """How to tell what this machine has."""
        self.declare(declared, defaults)

    def declare(self, declared: Mapping[str, Declared], defaults: Declared = NOTHING) -> None:
        """Use another configuration from now on."""
        self._declared = declared
        self._defaults = defaults
        self._observed = {name: said.observe for name, said in declared.items() if said.observe}
        self._pool_set: PoolSet | None = None

    @property
    def last(self) -> PoolSet | None:
        """The last `PoolSet`; None since the configuration changed."""
        return self._pool_set

    def observed(self) -> dict[str, tuple[str, ...]]:
        """The pools that count programs which never asked, and how to know these."""
        return self._observed

    def has_usage_source(self) -> bool:
        """Whether any pool says where upstream's own count can be read."""
        return any(said.usage is not None for said in self._declared.values())

    def pool_set(self, table: PoolTable) -> PoolSet:
        """The pools, given the rows set by hand."""
        known, version = self._pool_set, self._version
        self._version = table.version
        if known is not None and table is self._table:
            if version == table.version:
                return known
            changed = table.changed_since(version)
            if changed is not None:
                for name in set(changed):
                    exists = name in self._declared or name in DEFAULTS or name in table.rows
                    known.changed(name, exists=exists)
                return known
        self._table = table
        said = self._declared.get(HOST)
        needed = said is not None and said.limit == AUTO and self.gauge is not None
        host = self.gauge.look() if needed and self.gauge else None
        self._pool_set = lay_over(self._declared, table.rows, self._defaults, host)
        return self._pool_set
