"""A sorted list of a million places in which one can insert, remove and count in microseconds."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from fnmatch import fnmatchcase

from headgate.core.admission.next_in_line import Order
from headgate.ledger.transaction.rows import Lane

_CHUNK = 512


class Ordered:
    """Places in a line, kept in sorted chunks."""

    def __init__(self) -> None:
        self._chunks: list[list[Order]] = []
        self._firsts: list[Order] = []

    def add(self, order: Order) -> None:
        """Insert a place."""
        if not self._chunks:
            self._chunks.append([order])
            self._firsts.append(order)
            return
        at = max(0, bisect_right(self._firsts, order) - 1)
        chunk = self._chunks[at]
        insort(chunk, order)
        self._firsts[at] = chunk[0]
        if len(chunk) > _CHUNK:
            half = len(chunk) // 2
            self._chunks.insert(at + 1, chunk[half:])
            self._firsts.insert(at + 1, chunk[half])
            del chunk[half:]

    def remove(self, order: Order) -> None:
        """Remove a place that is there."""
        at = bisect_right(self._firsts, order) - 1
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, order)]
        if chunk:
            self._firsts[at] = chunk[0]
        else:
            del self._chunks[at]
            del self._firsts[at]

    def first(self) -> Order | None:
        """The smallest place."""
        return self._firsts[0] if self._firsts else None

    def marks(self) -> list[Order]:
        """Places that at most a few hundred others lie between."""
        return list(self._firsts)

    def rank(self, order: Order) -> int:
        """How many places are smaller than this one."""
        at = bisect_right(self._firsts, order) - 1
        if at < 0:
            return 0
        return sum(map(len, self._chunks[:at])) + bisect_left(self._chunks[at], order)

    def after(self, order: Order | None, most: int) -> list[Order]:
        """Up to so many places greater than this one."""
        if not self._chunks:
            return []
        at = 0 if order is None else max(0, bisect_right(self._firsts, order) - 1)
        found: list[Order] = []
        while at < len(self._chunks) and len(found) < most:
            chunk = self._chunks[at]
            start = 0 if order is None else bisect_right(chunk, order)
            found.extend(chunk[start : start + most - len(found)])
            at += 1
        return found


def in_order(
    places: Iterable[tuple[Order, Lane]],
    after: Order | None,
    globs: tuple[str, ...],
    *,
    jobs: bool,
) -> list[tuple[Order, Lane]]:
    """Those of some lanes that come after a place in the line, in order."""
    return sorted(
        (order, lane)
        for order, lane in places
        if (after is None or order > after)
        and (jobs or lane.machine)
        and (not globs or any(fnmatchcase(lane.key, one) for one in globs))
    )
