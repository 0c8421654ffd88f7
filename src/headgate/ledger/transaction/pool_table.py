"""The rows of pools, and which of them have changed since somebody last looked."""

from collections.abc import Iterable, Mapping

from headgate.core.admission.pools import PoolRow

_REMEMBERED = 1_000
"""How many changes are remembered; who has not looked for longer looks at everything."""


class PoolTable:
    """What the store remembers of each pool. Lives as long as its store, and counts changes."""

    def __init__(self) -> None:
        self.rows: dict[str, PoolRow] = {}
        self.version = 0
        """How many changes there were."""
        self._changed: list[str] = []

    def get(self, name: str) -> PoolRow | None:
        """The row of a pool, if it has one."""
        return self.rows.get(name)

    def put(self, name: str, row: PoolRow | None) -> PoolRow | None:
        """Keep a row, or none; returns what was there before."""
        before = self.rows.get(name)
        if row is None:
            self.rows.pop(name, None)
        else:
            self.rows[name] = row
        if row != before:
            self.version += 1
            self._changed.append(name)
            if len(self._changed) > 2 * _REMEMBERED:
                del self._changed[:_REMEMBERED]
        return before

    def replace(self, rows: Mapping[str, PoolRow]) -> None:
        """Keep these rows and no others."""
        for name in [name for name in self.rows if name not in rows]:
            self.put(name, None)
        for name, row in rows.items():
            self.put(name, row)

    def changed_since(self, version: int) -> Iterable[str] | None:
        """The names of those changed since; None if that is too long ago to tell."""
        changes = self.version - version
        if changes > len(self._changed):
            return None
        return self._changed[len(self._changed) - changes :] if changes else ()
