"""Lanes and tickets. The lanes are asked for once, and so is the front of each."""

from bisect import insort
from operator import attrgetter

from headgate.core.admission.next_in_line import Order
from headgate.ledger.transaction.rows import Lane, Ticket
from headgate.store.sql_rows.session import Row, Session

FRONT = 2
"""How many tickets at the front of a lane are asked for together: who is next, and who then."""
_BEFORE_ALL = (-(2**62), -(2**62), -(2**62))
_ORDER = attrgetter("order")


def read_lane(row: Row) -> Lane:
    """A row of `lane`."""
    id, machine, key, cls, lender, view, waiting = row
    return Lane(id=id, machine=machine, key=key, cls=cls, lender=lender, view=view, waiting=waiting)


def _alike(lane: Lane) -> tuple[str, str, str, int, str]:
    """What the tickets of a lane have in common."""
    return lane.machine, lane.key, lane.cls, lane.lender, lane.view


class LineRows(Session):
    """Who waits, where, and in which order."""

    def begin(self) -> None:
        """Remember nothing of any transaction before."""
        super().begin()
        self._lanes: dict[int, Lane] | None = None
        self._alike: dict[tuple[str, str, str, int, str], int] = {}
        self._fronts: dict[int, list[Ticket]] = {}
        self._whole: set[int] = set()
        """Lanes whose front is all there is of them."""
        self._tickets: dict[int, Ticket | None] = {}

    def _known_lanes(self) -> dict[int, Lane]:
        if self._lanes is None:
            self._keep_lanes([read_lane(row) for row in self._ask("lanes")])
        assert self._lanes is not None  # noqa: S101 - for the type checker
        return self._lanes

    def _keep_lanes(self, lanes: list[Lane]) -> None:
        self._lanes = {lane.id: lane for lane in lanes}
        self._alike = {_alike(lane): lane.id for lane in lanes}

    def lanes(self) -> list[Lane]:
        return list(self._known_lanes().values())

    def lane(self, like: Lane) -> int:
        lanes, alike = self._known_lanes(), _alike(like)
        found = self._alike.get(alike)
        if found is None:
            found = max(lanes, default=0) + 1
            lanes[found] = like._replace(id=found, waiting=0, jobs=False)
            self._alike[alike] = found
            self._fronts[found] = []
            self._whole.add(found)
            self._change("add_lane", found, *alike)
        return found

    def lane_by_id(self, lane: int) -> Lane:
        return self._known_lanes()[lane]

    def add_ticket(self, row: Ticket) -> None:
        lane = self._known_lanes()[row.lane]
        self._known_lanes()[row.lane] = lane._replace(waiting=lane.waiting + 1)
        self._tickets[row.id] = row
        front = self._fronts.get(row.lane)
        if front is not None and (
            row.lane in self._whole or (front and row.order < front[-1].order)
        ):
            insort(front, row, key=_ORDER)
        self._change("add_ticket", *row)

    def drop_ticket(self, id: int) -> Ticket | None:
        row = self.ticket(id)
        if row is None:
            return None
        self._tickets[id] = None
        lanes = self._known_lanes()
        lane = lanes[row.lane]
        if lane.waiting > 1:
            lanes[row.lane] = lane._replace(waiting=lane.waiting - 1)
        else:
            del lanes[row.lane], self._alike[_alike(lane)]
        front = self._fronts.get(row.lane)
        if front is not None:
            self._fronts[row.lane] = [one for one in front if one.id != id]
        self._change("drop_ticket", id, row.lane, *row.order)
        return row

    def ticket(self, id: int) -> Ticket | None:
        if id not in self._tickets:
            rows = self._ask("ticket", id)
            self._tickets[id] = Ticket._make(rows[0]) if rows else None
        return self._tickets[id]

    def page(self, lane: int, after: Order | None, most: int) -> list[Ticket]:
        front = self._fronts.get(lane)
        if front is not None:
            known = front if after is None else [one for one in front if one.order > after]
            if len(known) >= most or lane in self._whole:
                return known[:most]
        asked = max(most, FRONT)
        found = [
            Ticket._make(row) for row in self._ask("page", lane, *(after or _BEFORE_ALL), asked)
        ]
        if after is None:
            self._keep_front(lane, found, whole=len(found) < asked)
        elif front is not None and front and front[-1].order == after:
            self._keep_front(lane, [*front, *found], whole=len(found) < asked)
        return found[:most]

    def _keep_front(self, lane: int, found: list[Ticket], *, whole: bool) -> None:
        self._fronts[lane] = found
        self._tickets.update((one.id, one) for one in found)
        if whole:
            self._whole.add(lane)
        else:
            self._whole.discard(lane)

    def rank(self, lane: int, order: Order) -> int:
        if lane in self._whole:
            return sum(one.order < order for one in self._fronts[lane])
        return self._number("rank", lane, *order)

    def marks(self, lane: int) -> list[Order]:
        return [(urgency, since, id) for urgency, since, id in self._ask("marks", lane)]

    def set_overtaken(self, id: int, overtaken: str) -> None:
        row = self.ticket(id)
        if row is None:
            return
        changed = row._replace(overtaken=overtaken)
        self._tickets[id] = changed
        front = self._fronts.get(row.lane)
        if front is not None:
            self._fronts[row.lane] = [changed if one.id == id else one for one in front]
        self._change("set_overtaken", overtaken, id)

    def waiting_members(self, machine: str, besides: str, most: int) -> list[str]:
        if self._lanes is not None and all(
            lane.machine != machine for lane in self._lanes.values()
        ):
            return []
        rows = self._ask("waiting_members", besides, most, machine, most)
        return [str(row[0]) for row in reversed(rows)]

    def tickets_of(self, member: str) -> list[Ticket]:
        return [Ticket._make(row) for row in self._ask("tickets_of", member)]

    def count_tickets_of(self, member: str) -> int:
        return self._number("count_tickets_of", member)
