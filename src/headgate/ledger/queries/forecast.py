"""What would become of some requests if all were made now: verdicts, positions, times.

Who would be let in is found by the dry run. Nothing is written.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress

from headgate.core.admission.next_in_line import Head, Order, Turn
from headgate.core.admission.pools import FAIR
from headgate.core.admission.seats import Reason
from headgate.core.admission.turns import TaskLine, ahead_in_turn
from headgate.core.key_patterns import matches
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.admission.admit import Request
from headgate.ledger.admission.dry_run import DryRun
from headgate.ledger.queries.positions_and_etas import Survey
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import Lane
from headgate.ledger.transaction.task_shares import share_of

_PAGE = 1_000
_EARLIEST = -(2**62)


class Forecast(NamedTuple):
    """What would become of a request: let in if there are no reasons against it."""

    reasons: tuple[Reason, ...] = ()
    position: int | None = None
    eta: Ms | None = None


def forecast(ledger: Ledger, requests: Sequence[Request]) -> list[Forecast]:
    """What would become of each of these requests if all were made now."""
    survey = Survey(ledger, requests)
    fates = survey.fates()
    waits = [bool(fate) and not _too_heavy(fate) for fate in fates]
    newcomers = survey.dry.newcomers
    ahead = _Ahead(ledger, survey.dry, [one.head for one in compress(newcomers, waits)])
    found = []
    for newcomer, reasons, waiting in zip(newcomers, fates, waits, strict=True):
        if not waiting:
            found.append(Forecast(reasons))  # it would be let in, or refused
            continue
        machine, order = newcomer.request.machine, newcomer.head.order
        share = survey.dry.lanes[newcomer.head.lane].share
        before = [ahead.of(reason, machine, order, share) for reason in reasons]
        position = 1 + max(before)
        eta = survey.eta(reasons[0], position, newcomer.request.task)
        found.append(Forecast(reasons, position, eta))
    return found


def _too_heavy(reasons: tuple[Reason, ...]) -> bool:
    """Whether a request would be too heavy, now or after earlier requests borrowed seats."""
    return "too_heavy" in [reason.code for reason in reasons]


class _Ahead:
    """How many would stand before a place in the line: of those who wait, and of the newcomers.

    Lanes that are not much longer than there are places to ask about are read once.
    """

    def __init__(self, ledger: Ledger, dry: DryRun, newcomers: list[Head]) -> None:
        self._ledger = ledger
        self._dry = dry
        self._newcomers = newcomers
        places = {head.order[:2] for head in newcomers}
        self._short = max(_PAGE, 20 * len(places))
        self._orders: dict[int, list[Order]] = {}
        self._merged: dict[tuple[str, str | None], _Line] = {}
        self._ranks: dict[tuple[str, str | None, int, int], int] = {}
        self._served = {
            (where, share_of(task)): at
            for (where, task), at in {**ledger.use.turns, **dry.use.turns}.items()
        }
        """When tasks had their last turn, with those that would be let in."""
        self._leaving = self._find_leaving()

    def of(self, reason: Reason, machine: str, order: Order, share: str) -> int:
        """How many would stand there in the line that a reason is about."""
        pool = self._ledger.pool_set.pools.get(reason.pool)
        if not share or pool is None or not pool.tells_tasks_apart:
            return self.count(reason.pool, machine, order)
        if reason.code == "task_full":
            return self.count(reason.pool, machine, order, share)
        if pool.order != FAIR:
            return self.count(reason.pool, machine, order)
        return self._in_turn(reason.pool, machine, order, share)

    def _in_turn(self, pool: str, machine: str, order: Order, share: str) -> int:
        """The same where tasks take turns."""
        where = place(pool, machine)
        start, end = (order[0], _EARLIEST, 0), (order[0] + 1, _EARLIEST, 0)
        shares = {
            lane.share
            for lane in self._dry.lanes.values()
            if matches(pool, lane.uses) and place(pool, lane.host) == where
        }
        urgent = {one: self.count(pool, machine, start, one) for one in shares}
        others = [
            TaskLine(
                first=self._first_turn(pool, where, start, one),
                waiting=self.count(pool, machine, end, one) - urgent[one],
            )
            for one in shares - {share}
        ]
        mine = self._first_turn(pool, where, start, share)
        own = self.count(pool, machine, order, share) - urgent[share]
        return sum(urgent.values()) + ahead_in_turn(mine, own, others)

    def _first_turn(self, pool: str, where: str, start: Order, share: str) -> Turn:
        """When a task comes up for the first time that is not let in at once."""
        line = self._known(pool, where, share)
        found = line.orders[bisect_left(line.orders, start) :]
        gone = set(line.leaving)
        stays = next((order for order in found if order not in gone), None)
        for lane in line.long:
            first = self._ledger.tx.page(lane, start, 1)
            stays = min([row.order for row in first] + ([stays] if stays else []), default=None)
        if stays is None:
            return (*start, 0)
        served = self._served.get((where, share), NO_TIME)
        return stays[0], max(stays[1], served), stays[1], stays[2]

    def _known(self, pool: str, where: str, share: str | None) -> "_Line":
        known = self._merged.get((where, share))
        if known is None:
            known = self._merged[where, share] = self._line(pool, where, share)
        return known

    def count(self, pool: str, machine: str, order: Order, share: str | None = None) -> int:
        """How many would stand there in the line for a pool; or of one task."""
        where = place(pool, machine)
        line = self._known(pool, where, share)
        same = (where, share, *order[:2])
        if same not in self._ranks:
            self._ranks[same] = sum(self._ledger.tx.rank(lane, order) for lane in line.long)
        staying = bisect_left(line.orders, order) + self._ranks[same]
        return staying - bisect_left(line.leaving, order)

    def _line(self, pool: str, where: str, share: str | None) -> "_Line":
        """Everybody in the line for a place, in order, and the lanes too long for that."""
        lanes = {
            lane.id: lane
            for lane in self._dry.lanes.values()
            if matches(pool, lane.uses)
            and place(pool, lane.host) == where
            and share in {None, lane.share}
        }
        long = [id for id, lane in lanes.items() if lane.waiting > self._short]
        orders = [
            order
            for lane in lanes.values()
            if 0 < lane.waiting <= self._short
            for order in self._read(lane)
        ]
        orders += [head.order for head in self._newcomers if head.lane in lanes]
        leaving = [order for lane, order in self._leaving if lane in lanes]
        return _Line(sorted(orders), sorted(leaving), long)

    def _find_leaving(self) -> list[tuple[int, Order]]:
        """Those who stand in the line and would not any more: let in, or found gone."""
        found = [(head.lane, head.order) for head in self._dry.let_in()]
        for member in self._dry.lost:
            found += [(row.lane, row.order) for row in self._ledger.tx.tickets_of(member)]
        return found

    def _read(self, lane: Lane) -> list[Order]:
        if lane.id not in self._orders:
            found: list[Order] = []
            while rows := self._ledger.tx.page(lane.id, found[-1] if found else None, _PAGE):
                found += [row.order for row in rows]
            self._orders[lane.id] = found
        return self._orders[lane.id]


class _Line(NamedTuple):
    """Those who stand in the line for a place, and who of them would leave it."""

    orders: list[Order]
    leaving: list[Order]
    long: list[int]
