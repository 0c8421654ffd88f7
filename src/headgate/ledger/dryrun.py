"""What settling the line now would do, with some in it who might come. Nothing is written.

The same pass as `admit.settle`, over the same tickets, on a copy of the count. It is repeated until
it lets nobody in any more; what it then says of those who wait is what they would hear.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headgate.core import line, seats
from headgate.core.line import Granted, Head, Order, Outcome
from headgate.core.seats import Reason
from headgate.ledger import admit
from headgate.ledger.admit import Request
from headgate.ledger.ledger import Ledger
from headgate.ledger.rows import Lane

_NEW = 2**62
"""Where the ids of newcomers begin: they arrive after all others."""
_FAR = 1_000
"""How many grants a look follows up; who waits beyond them is shown as if it were next."""


class Newcomer(NamedTuple):
    """Somebody who might come, and why it would be refused, if it would."""

    request: Request
    head: Head
    refused: Reason | None


class DryRun:
    """What would become of everyone in the line, and of those who might come."""

    def __init__(self, ledger: Ledger, requests: Sequence[Request] = ()) -> None:
        self.lanes = {lane.id: lane for lane in ledger.lanes()}
        self.granted: dict[int, Head] = {}
        """Who would be let in, by id."""
        self.outcome = Outcome()
        self.lost: set[str] = set()
        """Members found gone, whose tickets would be dropped."""
        self._ledger = ledger
        self._most = None if requests else _FAR
        self._read: dict[int, list[Head]] = {}
        self._read_to: dict[int, Order] = {}
        self._exhausted: set[int] = set()
        self._new: dict[int, list[Head]] = {}
        self._lent: set[int] = set()
        use = ledger.use
        for view in {one.view for one in requests}.union(row.view for row in self.lanes.values()):
            ledger.under(view)  # so that pools which only it names are counted
        self.use = use.copy()
        self.newcomers = self._join(requests)
        """Those who might come, in the order in which they were given."""
        while self._pass() and not self._far:
            pass

    def let_in(self) -> Iterator[Head]:
        """Those who wait already and would be let in."""
        return (head for id, head in self.granted.items() if id < _NEW)

    @property
    def _far(self) -> bool:
        return self._most is not None and len(self.granted) >= self._most

    def _join(self, requests: Sequence[Request]) -> list[Newcomer]:
        """Put newcomers into their lanes, existing ones or their own."""
        known = {lane._replace(id=0, waiting=0): lane.id for lane in self.lanes.values()}
        made: dict[tuple[int, int, int], Head] = {}
        found = []
        for n, request in enumerate(requests):
            like = admit.lane_of(request)
            id = known.setdefault(like, -1 - len(known))
            if id not in self.lanes:
                self.lanes[id] = like._replace(id=id)
                self._exhausted.add(id)  # nobody stands there
            lane = self.lanes[id]
            same = (id, request.weight, request.tokens)
            if same not in made:
                made[same] = admit.head_of(self._ledger, lane, (0, 0, 0), *same[1:])
            order = (request.urgency, request.since or self._ledger.now, _NEW + n)
            head = made[same]._replace(order=order, overtaken={})
            refused = refusal(head)
            found.append(Newcomer(request, head, refused))
            if refused is None:
                self._new.setdefault(id, []).append(head)
        for heads in self._new.values():
            heads.sort()
        return found

    def _pass(self) -> bool:
        """Go through the line once; whether anybody would be let in."""
        self.outcome = outcome = Outcome()
        for decision in line.decisions(self.lanes, self.use, self._ledger.now, self._follow):
            outcome.add(decision)
            if isinstance(decision, Granted):
                head = decision.head
                self.granted[head.id] = head
                if head.lender:
                    self._lent.add(head.lender)
                self._ledger.count_grant(self.use, head, self.lanes[head.lane])
        for heads in (*self._read.values(), *self._new.values()):
            heads[:] = [head for head in heads if head.id not in self.granted]
        return bool(outcome.granted)

    def _follow(self, lane: int, after: Order | None) -> Head | Reason | None:
        """The next of a lane: who waits there, or a newcomer that comes before."""
        row = self.lanes[lane]
        if row.jobs and not self._ledger.workers():
            return admit.NO_WORKER
        waits, new = self._waiting(row, after), _after(self._new.get(lane, []), after)
        head = min(waits, new) if waits and new else waits or new
        return head.unaided() if head is not None and head.lender in self._lent else head

    def _waiting(self, lane: Lane, after: Order | None) -> Head | None:
        """The next who waits in a lane; those read before are not read again."""
        heads = self._read.setdefault(lane.id, [])
        while (head := _after(heads, after)) is None:
            if lane.id in self._exhausted or (after is not None and self._far):
                return None
            found = admit.next_head(
                self._ledger, lane, self._read_to.get(lane.id), lost=self.lost.add
            )
            if isinstance(found, Head):
                heads.append(found)
                self._read_to[lane.id] = found.order
            else:
                self._exhausted.add(lane.id)
        return head


def _after(heads: list[Head], after: Order | None) -> Head | None:
    at = 0 if after is None else bisect_right(heads, after, key=_order)
    return heads[at] if at < len(heads) else None


def _order(head: Head) -> Order:
    return head.order


def refusal(head: Head) -> Reason | None:
    """Why whoever asks for this would be refused: no waiting helps it."""
    for need in head.needs:
        most = seats.ceiling(need.pool, head.cls)
        if need.pool.limit is not None and need.seats > most:
            return Reason("too_heavy", need.pool.name, need.seats, most)
    return None
