"""How many come before a place in the line of a pool where tasks take turns."""

from collections.abc import Sequence

from headgate.core.admission.next_in_line import Order, Turn
from headgate.core.admission.turns import TaskLine, ahead_in_turn
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Lane

_EARLIEST = -(2**62)
_NEVER: Turn = (2**62, 0, 0, 0)


class Turns:
    """The lines of tasks at one moment; of each lane it is asked once how many wait."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lines: dict[tuple[str, int, int], TaskLine] = {}

    def ahead(self, where: str, lanes: Sequence[Lane], share: str, order: Order) -> int:
        """How many of some lanes come before a ticket of a task that stands at a place.

        It follows from the turns in this one pool, and those of other priorities take none.
        """
        urgency = order[0]
        start = (urgency, _EARLIEST, 0)
        place = more_urgent = 0
        own: Turn = _NEVER
        tasks: dict[str, TaskLine] = {}
        for lane in lanes:
            before = self._rank(lane, start)
            more_urgent += before
            line = self._line(where, lane, urgency)
            if lane.share == share:
                place += self._rank(lane, order) - before
                own = min(own, line.first)
            else:
                name = lane.share or str(lane.id)
                known = tasks.get(name, TaskLine(_NEVER, 0))
                tasks[name] = TaskLine(
                    first=min(known.first, line.first), waiting=known.waiting + line.waiting
                )
        return more_urgent + ahead_in_turn(own, place, tasks.values())

    def _rank(self, lane: Lane, order: Order) -> int:
        return self._ledger.tx.rank(lane.id, order) if lane.id > 0 else 0

    def _line(self, where: str, lane: Lane, urgency: int) -> TaskLine:
        """Those of one priority in a lane."""
        known = self._lines.get((where, lane.id, urgency))
        if known is None:
            known = self._lines[where, lane.id, urgency] = self._look(where, lane, urgency)
        return known

    def _look(self, where: str, lane: Lane, urgency: int) -> TaskLine:
        start: Order = (urgency, _EARLIEST, 0)
        end: Order = (urgency + 1, _EARLIEST, 0)
        waiting = self._rank(lane, end) - self._rank(lane, start)
        if waiting <= 0:
            return TaskLine(_NEVER, 0)
        (ticket,) = self._ledger.tx.page(lane.id, start, 1)
        served = self._ledger.tx.turn(where, ticket.task)
        return TaskLine((urgency, max(ticket.since, served), ticket.since, ticket.id), waiting)
