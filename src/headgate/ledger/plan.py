"""A dry run of the line: what would be granted if these requests were made now. Nothing is written.

The pass is that of `line.settle`, over everybody who waits and all who might: in the order of the
line, each by the rule of admission, each counting those before it. Whoever waits already is let
in or left waiting on the way, as he would be, so nobody is passed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headgate.core import line
from headgate.core.keys import matches
from headgate.core.line import Head, Need, Order, Reason
from headgate.core.pools import read_view
from headgate.ledger import admit
from headgate.ledger.admit import Request
from headgate.ledger.ledger import Ledger
from headgate.ledger.look import Survey
from headgate.ledger.outlook import place
from headgate.ledger.rows import Lane

_NEW = 2**62
"""Where the ids of those begin who do not stand in the line yet: after all others."""
_PAGE = 1_000
_Line = tuple[str, str, str, int, str]
"""What makes a lane: machine, key, class, lender, view."""


class Forecast(NamedTuple):
    """What would become of a request: let in if there are no reasons against it."""

    reasons: tuple[Reason, ...] = ()
    position: int | None = None
    eta: int | None = None


def forecast(ledger: Ledger, requests: Sequence[Request]) -> list[Forecast]:
    """What would become of each of these requests if all were made now."""
    walk = _Walk(ledger, {one.view for one in requests})
    orders = [(one.urgency, one.since or ledger.now, _NEW + n) for n, one in enumerate(requests)]
    ahead = _Ahead(ledger, len({order[:2] for order in orders}))
    found = [Forecast()] * len(requests)
    for n in sorted(range(len(requests)), key=orders.__getitem__):
        found[n] = walk.ask(requests[n], orders[n], ahead)
    return [
        one._replace(eta=walk.survey.eta(one.reasons[0], one.position)) if one.position else one
        for one in found
    ]


class _Walk:
    """One pass over the line, in which seats are only taken."""

    def __init__(self, ledger: Ledger, views: set[str]) -> None:
        self.survey = Survey(ledger)
        self._ledger = ledger
        self._use = ledger.use
        self._use.kept.clear()
        self._closed: dict[_Line, tuple[Reason, ...]] = {}
        self._deferred: dict[str, int] = {}
        self._lent: set[int] = set()
        self._needs: dict[tuple[str, int, int, int, str], tuple[Need, ...]] = {}
        lanes = self.survey.lanes.values()
        views = views.union(lane.view for lane in lanes)
        self._viewed = {name for view in views for name in read_view(view)}
        self._queue = [head for lane in lanes if (head := self._next(lane))]
        heapify(self._queue)

    def ask(self, request: Request, order: Order, ahead: "_Ahead") -> Forecast:
        """What would become of the next request, all before it having been asked about."""
        self._go_on(order)
        needs = self._needs_of(request)
        for need in needs:
            most = line.ceiling(need.pool, request.cls)
            if need.pool.limit is not None and need.seats > most:  # it would be refused
                return Forecast((Reason("too_heavy", need.pool.name, need.seats, most),))
        lane = (request.machine, request.key, request.cls, request.lender, request.view)
        reasons = self._closed.get(lane) or self._decide(
            Head(order, 0, request.cls, needs, {}), lane, request.weight
        )
        if not reasons:
            begun = self.survey.begun
            begun[request.key] = begun.get(request.key, 0) + 1
            return Forecast()
        position = 1 + max(
            ahead.count(reason.pool, request.machine, order)
            + self._deferred.get(place(reason.pool, request.machine), 0)
            for reason in reasons
        )
        for need in needs:
            self._deferred[need.place] = self._deferred.get(need.place, 0) + 1
        return Forecast(reasons, position)

    def _go_on(self, until: Order) -> None:
        """Look at those who wait, up to a place in the line."""
        while self._queue and self._queue[0].order < until:
            head = heappop(self._queue)
            row = self.survey.lanes[head.lane]
            lane = (row.machine, row.key, row.cls, row.lender, row.view)
            if lane in self._closed:
                continue
            ticket = self._ledger.tx.ticket(head.id)
            if ticket is None:
                continue
            if row.lender in self._lent:
                head = admit.make_head(self._ledger, row._replace(lender=0), ticket)
            self._decide(head, lane, ticket.weight)
            following = self._next(row, head.order) if lane not in self._closed else None
            if following is not None:
                heappush(self._queue, following)

    def _decide(self, head: Head, lane: _Line, weight: int) -> tuple[Reason, ...]:
        """Let a head in, or close its lane; one that is too heavy stands aside."""
        now = self._ledger.now
        reasons = line.obstacles(head, self._use, now)
        if reasons:
            if not line.too_heavy(reasons):
                self._closed[lane] = reasons
                line.keep_seats(head, self._use, now)
            return reasons
        machine, key, cls, lender, _ = lane
        for need in head.needs:
            self._use.let_in(need, cls, now)
        for name in self._viewed.difference(need.pool.name for need in head.needs):
            if matches(name, key):  # a pool that only another's view names
                self._use.take(place(name, machine), cls, weight)
        if lender:
            self._lent.add(lender)
        return ()

    def _needs_of(self, request: Request) -> tuple[Need, ...]:
        lender = 0 if request.lender in self._lent else request.lender
        same = (request.key, request.weight, request.tokens, lender, request.view)
        found = self._needs.get(same)
        if found is None:
            found, _ = self._ledger.needs(
                request.key,
                request.machine,
                request.weight,
                lender=lender,
                view=request.view,
                tokens=request.tokens,
            )
            self._needs[same] = found
        return found

    def _next(self, lane: Lane, after: Order | None = None) -> Head | None:
        """The first ticket of a lane, after a place in the line, whose process still lives."""
        while rows := self._ledger.tx.page(lane.id, after, 1):
            if self._ledger.census.listening(rows[0].member):
                return admit.make_head(self._ledger, lane, rows[0])
            after = rows[0].order
        return None


class _Ahead:
    """How many of those who wait already stand before a place in the line.

    Lanes that are not much longer than there are places to ask about are read once.
    """

    def __init__(self, ledger: Ledger, places: int) -> None:
        self._ledger = ledger
        self._short = max(_PAGE, 20 * places)
        self._orders: dict[int, list[Order]] = {}
        self._merged: dict[str, tuple[list[Order], list[Lane]]] = {}
        self._counted: dict[tuple[str, int, int], int] = {}

    def count(self, pool: str, machine: str, order: Order) -> int:
        """How many stand there in the line for a pool."""
        where = place(pool, machine)
        same = (where, *order[:2])
        found = self._counted.get(same)
        if found is None:
            orders, long = self._line(pool, where)
            found = bisect_left(orders, order)
            found += sum(self._ledger.tx.rank(lane.id, order) for lane in long)
            self._counted[same] = found
        return found

    def _line(self, pool: str, where: str) -> tuple[list[Order], list[Lane]]:
        """Everybody in the line for a place, in order, and the lanes too long for that."""
        found = self._merged.get(where)
        if found is None:
            lanes = [
                lane
                for lane in self._ledger.active_lanes()
                if matches(pool, lane.key) and place(pool, lane.machine) == where
            ]
            short = [lane for lane in lanes if lane.waiting <= self._short]
            orders = sorted(order for lane in short for order in self._read(lane))
            found = (orders, [lane for lane in lanes if lane.waiting > self._short])
            self._merged[where] = found
        return found

    def _read(self, lane: Lane) -> list[Order]:
        if lane.id not in self._orders:
            found: list[Order] = []
            while rows := self._ledger.tx.page(lane.id, found[-1] if found else None, _PAGE):
                found += [row.order for row in rows]
            self._orders[lane.id] = found
        return self._orders[lane.id]
