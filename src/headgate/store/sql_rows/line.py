"""Lanes and tickets. The lanes are asked for once, and so is the front of each."""

from bisect import insort
from operator import attrgetter

from headgate.core.admission.next_in_line import Order
from headgate.core.times import Ms
from headgate.ledger.transaction.rows import FEW_LANES, Lane, Ticket
from headgate.store.lane_codec import Alike, alike, in_turn, read_lane
from headgate.store.sorted_places import in_order
from headgate.store.sql_rows.session import Session, firsts

FRONT = 2
"""How many tickets at the front of a lane are asked for together: who is next, and who then."""
_BEFORE_ALL = (-(2**62), -(2**62), -(2**62))
_ORDER = attrgetter("order")


class LineRows(Session):
    """Who waits, where, and in which order."""

    def forget(self) -> None:
        """Remember nothing of any transaction before."""
        super().forget()
        self._lanes: dict[int, Lane | None] = {}
        """Those that were asked for; None for one that is not there."""
        self._all_lanes = False
        """Whether that is all of them."""
        self._many_lanes = False
        self._alike: dict[Alike, int] = {}
        self._last_lane: int | None = None
        self._fronts: dict[int, list[Ticket]] = {}
        self._whole: set[int] = set()
        """Lanes whose front is all there is of them."""
        self._tickets: dict[int, Ticket | None] = {}

    def forget_dropped_lanes(self) -> None:
        """Let the numbers of lanes that are gone be given again."""
        self._lanes = {id: lane for id, lane in self._lanes.items() if lane is not None}
        self._last_lane = None

    def _known_lanes(self) -> list[Lane]:
        return [lane for lane in self._lanes.values() if lane is not None]

    def _keep_lanes(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            self._keep_lane(lane)
        self._all_lanes = True

    def _keep_lane(self, lane: Lane) -> Lane:
        self._lanes[lane.id] = lane
        self._alike[alike(lane)] = lane.id
        return lane

    def lanes(self) -> list[Lane]:
        if not self._all_lanes:
            self._lanes.clear()
            self._keep_lanes([read_lane(row) for row in self._ask("lanes")])
        return self._known_lanes()

    def lanes_in_order(
        self, after: Order | None, globs: tuple[str, ...], most: int, *, jobs: bool
    ) -> list[tuple[Order, Lane]]:
        if self._all_lanes:
            fronts = [(self.page(lane.id, None, 1), lane) for lane in self._known_lanes()]
            places = [(front[0].order, lane) for front, lane in fronts if front]
            return in_order(places, after, globs, jobs=jobs)[:most]
        place, wanted = after or _BEFORE_ALL, int(jobs)
        some, four = ("some_", (*globs, "", "", "")[:4]) if globs else ("", ())
        rows = self._ask(f"{some}lanes_in_order", *place, wanted, *four, most)
        in_turn = self._ask(f"{some}lanes_in_turn", *place, wanted, *four, most)
        if in_turn:
            rows = sorted([*rows, *in_turn])[:most]
        return [(row[:3], self._keep_lane(read_lane(row[3:]))) for row in rows]

    def lanes_apart(self) -> list[Lane]:
        if not self._all_lanes:
            return [self._keep_lane(read_lane(row)) for row in self._ask("lanes_apart")]
        return [
            lane
            for lane in self._known_lanes()
            if lane.lender or lane.view or self._overtaken(lane)
        ]

    def _overtaken(self, lane: Lane) -> bool:
        return any(one.overtaken for one in self.page(lane.id, None, FRONT))

    def heaviest(self) -> int:
        return self._number("heaviest")

    def machines(self) -> list[str]:
        if self._all_lanes and not self._lanes:
            return []
        if self.few_lanes() is not None or self._all_lanes:
            return sorted({lane.machine for lane in self._known_lanes()})
        return firsts(self._ask("machines"))

    def few_lanes(self) -> list[Lane] | None:
        if not self._all_lanes and not self._many_lanes:
            rows = self._ask("first_lanes", FEW_LANES + 1)
            if len(rows) > FEW_LANES:
                self._many_lanes = True
            else:
                self._lanes.clear()
                self._keep_lanes([read_lane(row) for row in rows])
        known = self._known_lanes() if self._all_lanes else []
        return known if self._all_lanes and len(known) <= FEW_LANES else None

    def lane(self, like: Lane) -> int:
        self.few_lanes()
        columns = alike(like)
        found = self._alike.get(columns)
        if found is None and not self._all_lanes:
            rows = self._ask("lane_like", *columns)
            found = self._keep_lane(read_lane(rows[0])).id if rows else None
        if found is None:
            found = self._next_lane()
            self._keep_lane(like._replace(id=found, waiting=0, jobs=False))
            self._fronts[found] = []
            self._whole.add(found)
            self._change("add_lane", found, *columns)
        return found

    def _next_lane(self) -> int:
        if self._last_lane is None:
            self._last_lane = (
                max(self._lanes, default=0) if self._all_lanes else self._number("last_lane")
            )
        self._last_lane += 1
        return self._last_lane

    def lane_by_id(self, lane: int) -> Lane | None:
        self.few_lanes()
        if lane not in self._lanes and not self._all_lanes:
            rows = self._ask("lane", lane)
            self._lanes[lane] = None
            for row in rows:
                self._keep_lane(read_lane(row))
        return self._lanes.get(lane)

    def add_ticket(self, row: Ticket) -> None:
        lane = self.lane_by_id(row.lane)
        assert lane is not None  # noqa: S101 - whoever adds a ticket has asked for its lane
        self._lanes[row.lane] = lane._replace(waiting=lane.waiting + 1)
        self._tickets[row.id] = row
        front = self._fronts.get(row.lane)
        if front is not None and (
            row.lane in self._whole or (front and row.order < front[-1].order)
        ):
            insort(front, row, key=_ORDER)
        self._change("add_ticket", *row)
        if in_turn(lane):
            self._change("lane_due", row.lane, row.urgency, row.since)

    def set_due(self, lane: int, urgency: int, due: Ms) -> None:
        self._change("set_due", urgency, due, lane, urgency, due)

    def drop_ticket(self, id: int) -> Ticket | None:
        row = self.ticket(id)
        lane = self.lane_by_id(row.lane) if row is not None else None
        if row is None or lane is None:
            return None
        self._tickets[id] = None
        if lane.waiting > 1:
            self._lanes[row.lane] = lane._replace(waiting=lane.waiting - 1)
        else:
            self._lanes[row.lane] = None
            self._alike.pop(alike(lane), None)
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
        if self._all_lanes and all(lane.machine != machine for lane in self._known_lanes()):
            return []
        rows = self._ask("waiting_members", besides, most, machine, most)
        return [str(row[0]) for row in reversed(rows)]

    def tickets_of(self, member: str) -> list[Ticket]:
        return [Ticket._make(row) for row in self._ask("tickets_of", member)]

    def count_tickets_of(self, member: str) -> int:
        return self._number("count_tickets_of", member)
