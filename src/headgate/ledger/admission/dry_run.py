"""What settling the line now would do, with some in it who might come. Nothing is written.

The same pass as `admit.settle`, over the same tickets, on a copy of the count. It is repeated until
it lets nobody in any more; what it then says of those who wait is what they would hear.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from headgate.core.admission import next_in_line, seats
from headgate.core.admission.next_in_line import Granted, Head, Order, PassOutcome
from headgate.core.admission.seats import Reason
from headgate.core.named_tuple import NamedTuple
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.admission.line_walk import LineWalk
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.line_changes import LineChanges
from headgate.ledger.transaction.rows import Lane

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
        self.outcome = PassOutcome()
        self.lost: set[str] = set()
        """Members found gone, whose tickets would be dropped."""
        self._ledger = ledger
        self._most = None if requests else _FAR
        self._read: dict[int, _Heads] = {}
        self._read_to: dict[int, Order] = {}
        self._exhausted: set[int] = set()
        self._new: dict[int, _Heads] = {}
        self._lent: set[int] = set()
        self._everywhere = LineChanges()
        self._everywhere.look_everywhere()
        use = ledger.use
        for view in {one.view for one in requests}.union(row.view for row in self.lanes.values()):
            ledger.under(view)  # so that pools which only it names are counted
        self.use = use.copy()
        self.newcomers = self._join(requests) if requests else []
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
        made: dict[tuple[object, ...], tuple[Head, Reason | None]] = {}
        found = []
        for n, one in enumerate(requests):
            who = (one.member, one.machine, one.lender, one.view)
            same = (one.uses, one.cls, one.weight, one.tokens, one.task, who)
            if same not in made:
                made[same] = self._like(one, known)
            head, refused = made[same]
            order = (one.urgency, one.since or self._ledger.now, _NEW + n)
            head = head._replace(order=order, overtaken={})
            found.append(Newcomer(one, head, refused))
            if refused is None:
                self._new.setdefault(head.lane, _Heads()).heads.append(head)
        for new in self._new.values():
            new.heads.sort()
        return found

    def _like(self, request: Request, known: dict[Lane, int]) -> tuple[Head, Reason | None]:
        """Whoever makes such a request, at the head of its lane, and why it would be refused."""
        like = admit.lane_of(self._ledger, request)
        id = known.setdefault(like, -1 - len(known))
        lane = self.lanes.setdefault(id, like._replace(id=id))
        head = admit.head_of(self._ledger, lane, request.weight, request.tokens, task=request.task)
        return head, refusal(head)

    def _pass(self) -> bool:
        """Go through the line once; whether anybody would be let in."""
        self.outcome = outcome = PassOutcome()
        walk = LineWalk(self._ledger, self.use, self._follow, self._everywhere)
        line = walk.heads([self.lanes[id] for id, some in self._new.items() if some.heads])
        there = partial(admit.absent, self._ledger)
        now, follow = self._ledger.now, self._follow
        for decision in next_in_line.decisions(line, self.use, now, follow, there):
            outcome.add(decision)
            if isinstance(decision, Granted):
                head = decision.head
                self.granted[head.id] = head
                if head.lender:
                    self._lent.add(head.lender)
                self._ledger.count_grant(self.use, head, self.lanes[head.lane])
        if not outcome.granted:
            return False
        for some in (*self._read.values(), *self._new.values()):
            some.leave_out(self.granted)
        return True

    def _follow(self, lane: int, after: Order | None) -> Head | Reason | None:
        """The next of a lane: who waits there, or a newcomer that comes before."""
        row = self.lanes[lane]
        if row.jobs and not self._ledger.workers():
            return admit.NO_WORKER
        waits = self._waiting(row, after) if lane > 0 else None  # else nobody stands there yet
        new = self._new[lane].after(after) if lane in self._new else None
        head = min(waits, new) if waits and new else waits or new
        if head is None:
            return None
        self.take_over(head)
        return head.unaided() if head.lender in self._lent else head

    def take_over(self, head: Head) -> None:
        """Bring into this count what was looked up for somebody."""
        for need in (*head.needs, *head.alone):
            self.use.take_over(self._ledger.use, need.place)

    def _waiting(self, lane: Lane, after: Order | None) -> Head | None:
        """The next who waits in a lane; those read before are not read again."""
        read = self._read.get(lane.id)
        if read is None:
            read = self._read[lane.id] = _Heads()
        while (head := read.after(after)) is None:
            if lane.id in self._exhausted or (after is not None and self._far):
                return None
            found = admit.next_head(
                self._ledger, lane, self._read_to.get(lane.id), lost=self.lost.add
            )
            if isinstance(found, Head):
                read.heads.append(found)
                self._read_to[lane.id] = found.order
            else:
                self._exhausted.add(lane.id)
        return head


class _Heads:
    """Some of a lane in order, and how far a pass has come with them."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self._at = 0

    def after(self, order: Order | None) -> Head | None:
        """The first after a place in the line; within a pass the places only go up."""
        while order is not None and self._at < len(self.heads):
            if self.heads[self._at].order > order:
                break
            self._at += 1
        return self.heads[self._at] if self._at < len(self.heads) else None

    def leave_out(self, granted: Mapping[int, Head]) -> None:
        """Begin again, without those who were let in."""
        self.heads = [head for head in self.heads if head.order[2] not in granted]
        self._at = 0


_NOBODY = _Heads()


def refusal(head: Head) -> Reason | None:
    """Why whoever asks for this would be refused: no waiting helps it."""
    for need in head.needs:
        most = seats.ceiling(need.pool, head.cls)
        if need.seats > most:
            return Reason("too_heavy", need.pool.name, need.seats, most)
    return None
