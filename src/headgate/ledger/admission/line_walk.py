"""Which lanes a pass looks at: those out of which somebody may be let in, not all of them.

There may be ten thousand lanes. After every transaction the line is settled, so only those can be
let in who wait for something that has changed since (`LineChanges`). If there are only a few lanes,
a pass looks at all of them. If there are many, it looks, in the order of the line,

- at lanes that have another first ticket, and at those which do not follow the usual rules: with a
  lender, with a view, or with a ticket that was overtaken and may have seats kept for it;
- at the first few lanes of the line: whoever is overtaken there remembers it;
- and from there on at lanes that need what was freed.

It ends where nothing is left to be had: a pool that has no seat for the lightest work of any class
has none for anybody, and all work of a machine sits in its pool `host`.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from headgate.core.admission import next_in_line
from headgate.core.admission.next_in_line import Closed, Follow, Head, Order, Turn, heads_of
from headgate.core.admission.seats import Need, Use, blocked_by, had_room
from headgate.core.key_patterns import HOST, ROLE, as_glob
from headgate.core.quantities import CLASSES
from headgate.core.times import Ms
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.line_changes import LineChanges
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import Lane

FRONT = 8
"""At how many lanes of a long line a pass looks first; who is overtaken there remembers it."""
_FEW, _MANY = 4, 256
_GLOBS = 4
"""For how many pools at once a store can be asked who waits for them."""


class LineWalk:
    """The heads of lanes in order, as far as a pass has to look."""

    def __init__(self, ledger: Ledger, use: Use, follow: Follow, changes: LineChanges) -> None:
        self.lanes: dict[int, Lane] = {}
        """Those that were looked at."""
        self._ledger = ledger
        self._use = use
        self._follow = follow
        self._changes = changes
        self._closed: set[str] = set()
        """Places that have no seat for anybody any more."""
        self._wanted: set[str] = set()
        self._turns: dict[int, Turn] = {}
        self._jobs = bool(ledger.workers())

    def heads(self, more: Iterable[Lane] = ()) -> Iterator[Head | Closed]:
        """The first tickets, in order; also of some more lanes, which may be empty so far."""
        few = self._ledger.tx.few_lanes()
        if few is not None:
            self.lanes = {lane.id: lane for lane in (*map(self._ledger.local, few), *more)}
            yield from heads_of(self.lanes, self._follow)
            return
        ready: list[tuple[Turn, Head]] = []
        for lane in (*self._apart(), *more):
            yield from self._look_at(lane, ready)
        fits = self._any_fits([head for _, head in ready])
        self._wanted = self._scarce([head for _, head in ready])
        if not fits and not self._changes.everywhere and not self._wanted:
            return
        for bound, lane in self._in_order(front=fits):
            earliest = _earliest_turn(bound, lane)
            while ready and ready[0][0] < earliest:
                yield from self._give(ready)
            yield from self._look_at(lane, ready)
        while ready:
            yield from self._give(ready)

    def note_turn(self, head: Head) -> None:
        """Note when a task's lane comes up."""
        self._turns[head.lane] = head.turn

    def keep_turns(self) -> None:
        """Have these lanes come up when it is their turn; few lanes are all looked at anyway."""
        if self._turns and self._ledger.tx.few_lanes() is None:
            for lane, (urgency, due, *_) in self._turns.items():
                self._ledger.tx.set_due(lane, urgency, Ms(due))

    def _look_at(self, lane: Lane, ready: list[tuple[Turn, Head]]) -> Iterator[Closed]:
        """Have the first ticket of a lane come up in its turn, once."""
        if lane.id in self.lanes:
            return
        self.lanes[lane.id] = lane
        found = self._follow(lane.id, None)
        if isinstance(found, Head):
            heappush(ready, (found.turn, found))
        elif found is not None:
            yield Closed(lane.id, found)

    def _give(self, ready: list[tuple[Turn, Head]]) -> Iterator[Head]:
        _, head = heappop(ready)
        yield head
        for need in head.needs:  # now it has its seats, or it does not get them
            if need.seats > 0 and not self.lanes[head.lane].view:
                self._look_whether_closed(need)

    def _apart(self) -> list[Lane]:
        ledger = self._ledger
        changed = [ledger.tx.lane_by_id(id) for id in sorted(self._changes.lanes)]
        found = [lane for lane in changed if lane is not None] + ledger.tx.lanes_apart()
        return [ledger.local(lane) for lane in found]

    def _any_fits(self, heads: list[Head]) -> bool:
        """Whether any of these has room, or stands aside. If not, a pass lets nobody in."""
        now = self._ledger.now
        found = (next_in_line.obstacles(head, self._use, now) for head in heads)
        return any(not reasons or next_in_line.too_heavy(reasons) for reasons in found)

    def _in_order(self, *, front: bool) -> Iterator[tuple[Order, Lane]]:
        """Lanes in order, each with a place that its first ticket does not come before.

        At the front of the line even if nothing is left there, because somebody may be overtaken.
        """
        after: Order | None = None
        if front or not self._all_closed():
            page = self._page(after, (), FRONT)
            yield from page
            if len(page) < FRONT:
                return
            after = page[-1][0]
        freed = self._wanted
        globs = () if self._changes.everywhere or HOST in freed else tuple(map(as_glob, freed))
        if len(globs) > _GLOBS or any(name.startswith(ROLE) for name in freed):
            globs = ()  # nobody can be asked for by role
        wanted = bool(freed) or self._changes.everywhere
        size = _FEW
        while wanted and not self._all_closed():
            page = self._page(after, globs, size)
            yield from (one for one in page if not self._is_closed(one[1]))
            if len(page) < size:
                return
            after, size = page[-1][0], min(4 * size, _MANY)
            if not self._changes.everywhere and HOST not in freed:
                wanted = any(
                    place(name, self._ledger.machine) not in self._closed for name in freed
                )

    def _page(
        self, after: Order | None, globs: tuple[str, ...], most: int
    ) -> list[tuple[Order, Lane]]:
        ledger = self._ledger
        found = ledger.tx.lanes_in_order(after, globs, most, jobs=self._jobs)
        return [(bound, ledger.local(lane)) for bound, lane in found]

    def _scarce(self, apart: list[Head]) -> set[str]:
        """The pools that somebody may have waited for, of those that seats were freed in."""
        ledger, found = self._ledger, set()
        heaviest = 0
        kept: dict[str, int] = {}
        """At most so many seats may be kept for those who were overtaken."""
        for need in (need for head in apart if head.overtaken for need in head.needs):
            kept[need.place] = kept.get(need.place, 0) + need.seats
        for (name, machine), seats in self._changes.freed().items():
            pool = ledger.pool_set.pools.get(name)
            if pool is None:
                continue
            ledger.look_up([pool])
            heaviest = heaviest or ledger.tx.heaviest()
            where = place(name, machine)
            if pool.per_task is not None or not had_room(
                pool, where, seats + heaviest + kept.get(where, 0), self._use
            ):
                found.add(name)
        return found

    def _all_closed(self) -> bool:
        """Whether nobody can be let in on any machine where somebody waits."""
        ledger = self._ledger
        pool = ledger.pool_set.pools[HOST]
        machines = {machine or ledger.machine for machine in ledger.tx.machines()}
        return all(
            self._look_whether_closed(Need(pool, place(HOST, machine), 1)) for machine in machines
        )

    def _look_whether_closed(self, need: Need) -> bool:
        if need.place not in self._closed:
            lightest = Need(need.pool, need.place, 1)
            now = self._ledger.now
            if all(blocked_by(lightest, cls, self._use, now) for cls in CLASSES):
                self._closed.add(need.place)
        return need.place in self._closed

    def _is_closed(self, lane: Lane) -> bool:
        """Whether nothing can be let in out of a lane that follows the usual rules."""
        if not self._closed:
            return False
        names = self._ledger.pool_set.names_of(lane.uses)
        return any(place(name, lane.host) in self._closed for name in names)


def _earliest_turn(place: Order, lane: Lane) -> Turn:
    """The turn that the first ticket of a lane does not come before."""
    urgency, since, id = place
    return (urgency, since, 0, 0) if lane.share else (urgency, since, since, id)
