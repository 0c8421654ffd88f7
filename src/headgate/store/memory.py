"""Rows in the memory of one process: for programs that need no one else, and for tests."""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext

from headgate.core.admission.next_in_line import Order
from headgate.core.admission.pools import PoolRow
from headgate.core.times import Ms
from headgate.ledger.transaction.pool_table import PoolTable
from headgate.ledger.transaction.rows import (
    FEW_LANES,
    EventRow,
    Expected,
    Held,
    HoldHistory,
    Lane,
    LeaseRow,
    Member,
    Rest,
    TaskHeld,
    Ticket,
    oldest_first,
)
from headgate.store.memory_remote import MemoryRemoteRows
from headgate.store.memory_shares import MemoryShareRows
from headgate.store.sorted_places import Ordered, in_order


class MemoryStore:
    """A store that ends with its process. A transaction that fails is undone step by step."""

    instant = True
    at_rest = nullcontext()
    """No other process waits for this one."""
    far = False
    shared = False
    folder = None
    schema = 0

    def __init__(self, name: str = "", *, clock: Callable[[], int] | None = None) -> None:
        self.url = f"memory://{name}"
        self._clock = clock
        self._offset = time.time_ns() - time.monotonic_ns()
        self.rows = _Rows()
        self._transaction = _Transaction(self.rows)

    def now(self) -> Ms:
        """Milliseconds that pass like time, from what the wall clock said at the beginning."""
        if self._clock:
            return Ms(self._clock())
        return Ms((time.monotonic_ns() + self._offset) // 1_000_000)

    def transaction(self, *, write: bool) -> "_Transaction":
        """Open a transaction, one at a time."""
        return self._transaction

    def close(self) -> None:
        """Nothing to let go of."""


class _Transaction:
    """Holds off the others, and undoes all of it if anything goes wrong."""

    def __init__(self, rows: "_Rows") -> None:
        self._rows = rows
        self._lock = threading.RLock()

    def __enter__(self) -> "_Rows":
        self._lock.acquire()
        return self._rows

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._rows.forget_undo()
            else:
                self._rows.undo_all()
        finally:
            self._lock.release()


class _Rows(MemoryRemoteRows, MemoryShareRows):
    """All tables, and what undoes the changes of the transaction that is open."""

    def __init__(self) -> None:
        super().__init__()
        self._uid = os.urandom(4).hex()
        self._last_id = 0
        self._last_event = 0
        self._notes: dict[str, str] = {}
        self._pools = PoolTable()
        self._lane_ids: dict[tuple[object, ...], int] = {}
        self._lanes: dict[int, Lane] = {}
        self._busy: dict[int, None] = {}
        self._lines: dict[int, Ordered] = {}
        self._tickets: dict[int, Ticket] = {}
        self._heads = Ordered()
        """The first ticket of each lane, but for those of single tasks."""
        self._dues: dict[int, tuple[int, Ms]] = {}
        """Where the lanes of single tasks come up: at or before their first tickets' turns."""
        self._apart: set[int] = set()
        self._overtaken: set[int] = set()
        self._heavy: Counter[int] = Counter()
        self._by_member: dict[tuple[str, str], int] = {}
        self._leases: dict[int, LeaseRow] = {}
        self._held: dict[tuple[str, str, str, str], tuple[int, int]] = {}
        self._chained: dict[int, None] = {}
        self._rests: list[Rest] = []
        self._history: dict[str, HoldHistory] = {}
        self._members: dict[str, Member] = {}
        self._events: deque[EventRow] = deque()

    def undo_all(self) -> None:
        """Take back every change of the open transaction, last first."""
        steps, self._undo = self._undo, []
        for function, arguments in reversed(steps):
            function(*arguments)
        self._undo.clear()

    def forget_undo(self) -> None:
        """Make the changes stay."""
        self._undo.clear()
        while len(self._events) > self._kept.events:
            self._events.popleft()
        self.forget_old_requests()

    def expect(self, expected: Expected) -> None:
        """Nothing is far away here."""

    def uid(self) -> str:
        return self._uid

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def note(self, name: str) -> str:
        return self._notes.get(name, "")

    def set_note(self, name: str, text: str) -> None:
        self._set(self._notes, name, text)

    def pool_table(self) -> PoolTable:
        return self._pools

    def set_pool_row(self, row: PoolRow) -> None:
        before = self._pools.put(row.name, None if row.says_nothing else row)
        self._undo.append((self._pools.put, (row.name, before)))

    def lanes(self) -> list[Lane]:
        return [self._lanes[id] for id in self._busy]

    def few_lanes(self) -> list[Lane] | None:
        return self.lanes() if len(self._busy) <= FEW_LANES else None

    def lanes_in_order(
        self, after: Order | None, globs: tuple[str, ...], most: int, *, jobs: bool
    ) -> list[tuple[Order, Lane]]:
        found: list[tuple[Order, Lane]] = []
        start = after
        while len(found) < most:
            orders = self._heads.after(after, most)
            places = [(order, self._lanes[self._tickets[order[2]].lane]) for order in orders]
            found += in_order(places, None, globs, jobs=jobs)
            if len(orders) < most:
                break
            after = orders[-1]
        if self._dues:
            dues = [((*due, id), self._lanes[id]) for id, due in self._dues.items()]
            busy = [(due, lane) for due, lane in dues if lane.id in self._busy]
            found = sorted(found + in_order(busy, start, globs, jobs=jobs))
        return found[:most]

    def lanes_apart(self) -> list[Lane]:
        ids = {self._tickets[id].lane for id in self._overtaken}
        return [self._lanes[id] for id in {*ids, *self._apart}]

    def heaviest(self) -> int:
        return max(self._heavy, default=1)

    def machines(self) -> list[str]:
        return sorted({machine for machine, _ in self._by_member}) if self._by_member else []

    def lane(self, like: Lane) -> int:
        rules = (like.lender, like.view, like.roles, like.share)
        alike = (like.machine, like.key, like.cls, *rules)
        found = self._lane_ids.get(alike)
        if found is None:
            found = len(self._lane_ids) + 1
            self._lane_ids[alike] = found
            self._lanes[found] = like._replace(id=found)
            self._lines[found] = Ordered()
        return found

    def lane_by_id(self, lane: int) -> Lane | None:
        return self._lanes[lane] if lane in self._busy else None

    def _wait(self, row: Ticket, change: int) -> None:
        lane = self._lanes[row.lane]
        lane = lane._replace(waiting=lane.waiting + change)
        self._lanes[row.lane] = lane
        if lane.waiting:
            self._busy[row.lane] = None
            if lane.lender or lane.view:
                self._apart.add(row.lane)
        else:
            self._busy.pop(row.lane, None)
            self._apart.discard(row.lane)
        who = (lane.machine, row.member)
        left = self._by_member.get(who, 0) + change
        if left:
            self._by_member[who] = left
        else:
            self._by_member.pop(who, None)
        if row.weight > 1:
            self._heavy[row.weight] += change
            if not self._heavy[row.weight]:
                del self._heavy[row.weight]

    def _move_head(self, before: Order | None, after: Order | None) -> None:
        """Keep the order of lanes, after a lane has got another first ticket."""
        if before != after:
            if before is not None:
                self._heads.remove(before)
            if after is not None:
                self._heads.add(after)

    def add_ticket(self, row: Ticket) -> None:
        self._undo.append((self._remove_ticket, (row,)))
        self._insert_ticket(row)

    def _insert_ticket(self, row: Ticket) -> None:
        self._tickets[row.id] = row
        line = self._lines[row.lane]
        before = line.first()
        line.add(row.order)
        if self._lanes[row.lane].share:
            due = (row.urgency, row.since)
            self._dues[row.lane] = min(due, self._dues.get(row.lane, due))
        else:
            self._move_head(before, line.first())
        self._wait(row, +1)
        if row.overtaken:
            self._overtaken.add(row.id)

    def _remove_ticket(self, row: Ticket) -> None:
        del self._tickets[row.id]
        line = self._lines[row.lane]
        before = line.first()
        line.remove(row.order)
        if not self._lanes[row.lane].share:
            self._move_head(before, line.first())
        elif line.first() is None:
            self._dues.pop(row.lane, None)
        self._wait(row, -1)
        self._overtaken.discard(row.id)

    def drop_ticket(self, id: int) -> Ticket | None:
        row = self._tickets.get(id)
        if row is not None:
            self._undo.append((self._insert_ticket, (row,)))
            self._remove_ticket(row)
        return row

    def ticket(self, id: int) -> Ticket | None:
        return self._tickets.get(id)

    def page(self, lane: int, after: Order | None, most: int) -> list[Ticket]:
        return [self._tickets[order[2]] for order in self._lines[lane].after(after, most)]

    def rank(self, lane: int, order: Order) -> int:
        return self._lines[lane].rank(order)

    def marks(self, lane: int) -> list[Order]:
        return self._lines[lane].marks()

    def set_overtaken(self, id: int, overtaken: str) -> None:
        row = self._tickets[id]
        self._undo.append((self._mark_overtaken, (row,)))
        self._mark_overtaken(row._replace(overtaken=overtaken))

    def _mark_overtaken(self, row: Ticket) -> None:
        self._tickets[row.id] = row
        if row.overtaken:
            self._overtaken.add(row.id)
        else:
            self._overtaken.discard(row.id)

    def waiting_members(self, machine: str, besides: str, most: int) -> list[str]:
        others = [who for where, who in self._by_member if where == machine and who != besides]
        return others[::-1][:most]

    def tickets_of(self, member: str) -> list[Ticket]:
        return [row for row in self._tickets.values() if row.member == member]

    def count_tickets_of(self, member: str) -> int:
        return sum(count for (_, who), count in self._by_member.items() if who == member)

    def add_lease(self, row: LeaseRow) -> None:
        self._undo.append((self._remove_lease, (row.id,)))
        self._insert_lease(row)

    def _insert_lease(self, row: LeaseRow) -> None:
        self._leases[row.id] = row
        if row.chain:
            self._chained[row.id] = None
        else:
            self._hold(row, +1)

    def _remove_lease(self, id: int) -> None:
        row = self._leases.pop(id)
        if row.chain:
            del self._chained[id]
        else:
            self._hold(row, -1)

    def _hold(self, row: LeaseRow, change: int) -> None:
        group = (row.machine, row.key, row.cls, row.roles)
        seats, leases = self._held.get(group, (0, 0))
        if leases + change:
            self._held[group] = (seats + change * row.weight, leases + change)
        else:
            self._held.pop(group, None)

    def drop_lease(self, id: int) -> LeaseRow | None:
        row = self._leases.get(id)
        if row is not None:
            self._undo.append((self._insert_lease, (row,)))
            self._remove_lease(id)
            self.drop_remote_request(id)
        return row

    def lease(self, id: int) -> LeaseRow | None:
        return self._leases.get(id)

    def _is_known(self, work: int) -> bool:
        return work in self._tickets or super()._is_known(work)

    def _has_lease(self, id: int) -> bool:
        return id in self._leases

    def leases(self, after: int, most: int) -> list[LeaseRow]:
        return [self._leases[id] for id in sorted(self._leases) if id > after][:most]

    def leases_of(self, member: str) -> list[LeaseRow]:
        found = [row for row in self._leases.values() if row.member == member]
        return sorted(found, key=lambda row: row.id)

    def family(self, chain: int) -> list[LeaseRow]:
        return [row for row in self.families() if row.chain == chain]

    def families(self) -> list[LeaseRow]:
        if not self._chained:
            return []
        return sorted((self._leases[id] for id in self._chained), key=lambda r: (r.chain, r.id))

    def recent(self, since: Ms) -> list[LeaseRow]:
        return [row for row in self._leases.values() if row.granted > since]

    def job_leases(self) -> list[LeaseRow]:
        return [self._leases[id] for id in sorted(self._leases) if self._leases[id].job]

    def held(self) -> list[Held]:
        return [
            Held(machine=machine, key=key, cls=cls, seats=seats, leases=leases, roles=roles)
            for (machine, key, cls, roles), (seats, leases) in self._held.items()
        ]

    def held_by_task(self) -> list[TaskHeld]:
        found: Counter[tuple[str, str, str, str]] = Counter()
        for row in self._leases.values():
            if not row.chain:
                found[row.machine, row.key, row.roles, row.task] += row.weight
        return [TaskHeld._make((*group, seats)) for group, seats in found.items()]

    def set_due(self, lane: int, urgency: int, due: Ms) -> None:
        if lane in self._dues:
            self._set(self._dues, lane, (urgency, due))

    def change_lease(self, row: LeaseRow) -> None:
        if self.drop_lease(row.id) is not None:
            self.add_lease(row)

    def rests(self) -> list[Rest]:
        return self._rests

    def add_rest(self, row: Rest) -> None:
        self._undo.append((self._put_rests, (self._rests,)))
        self._rests = [*self._rests, row]

    def drop_rests(self, until: Ms) -> None:
        if any(row.keep <= until for row in self._rests):
            self._undo.append((self._put_rests, (self._rests,)))
            self._rests = [row for row in self._rests if row.keep > until]

    def _put_rests(self, rests: list[Rest]) -> None:
        self._rests = rests

    def learn_hold(self, key: str, held: Ms) -> None:
        self._set(self._history, key, self._history.get(key, HoldHistory()).learn(held))

    def usual_hold(self, keys: Iterable[str]) -> float | None:
        rows = (self._history.get(key) for key in keys)
        known = [row.mean for row in rows if row is not None and row.sound]
        return sum(known) / len(known) if known else None

    def known_keys(self) -> list[str]:
        return sorted(key for key in self._history if key)

    def add_member(self, row: Member) -> None:
        self._set(self._members, row.id, row)

    def drop_member(self, id: str) -> None:
        self._pop(self._members, id)
        self._forget_remote(id)

    def count_members(self) -> int:
        return len(self._members)

    def member(self, id: str) -> Member | None:
        return self._members.get(id)

    def members(self, among: Collection[str] | None = None) -> list[Member]:
        return oldest_first(
            row for row in self._members.values() if among is None or row.id in among
        )

    def working_members(self) -> list[Member]:
        return oldest_first(row for row in self._members.values() if row.works)

    def add_event(self, row: EventRow) -> None:
        self._last_event += 1
        self._events.append(row._replace(id=self._last_event))
        self._undo.append((self._events.pop, ()))

    def events(self, after: int, most: int, work: int) -> list[EventRow]:
        rows = [row for row in self._events if row.id > after and work in (0, row.work)]
        return rows[max(0, len(rows) - most) :] if after < 0 else rows[:most]
