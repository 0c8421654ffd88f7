"""Who is next, and why the others are not: the line driven in virtual time, on rows in memory."""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.admission.next_in_line import (
    Granted,
    Head,
    Order,
    PassOutcome,
    decisions,
    heads_of,
    too_heavy,
)
from headgate.core.admission.pools import Pool
from headgate.core.admission.seats import Need, Reason, Use, blocked_by, ceiling
from headgate.core.quantities import priority_class
from headgate.core.times import Ms

INTERACTIVE, NORMAL, BACKGROUND = 10, 0, -10


class Work(NamedTuple):
    """A piece of work: a ticket while it waits, a lease once it was let in."""

    id: int
    lane: int
    pools: tuple[str, ...]
    weight: int
    priority: int
    since: int
    overtaken: dict[str, int]

    @property
    def cls(self) -> str:
        return priority_class(self.priority)

    @property
    def order(self) -> Order:
        return (-self.priority, self.since, self.id)


class Line:
    """Tickets, leases and resting seats as rows; each settle counts them anew, as a ledger does."""

    def __init__(self, **limits: int | None) -> None:
        self.pools = {name: Pool(name, limit, "file") for name, limit in limits.items()}
        self.tickets: dict[int, Work] = {}
        self.leases: dict[int, Work] = {}
        self.rests: list[tuple[str, int, int]] = []
        self.now = 0
        self.blocked: dict[int, tuple[Reason, ...]] = {}
        self.kept: dict[str, int] = {}
        self._ids = count(1)
        self._lanes: dict[tuple[object, ...], int] = {}

    def change(self, pool: str, **settings: object) -> None:
        """Set something about a pool."""
        self.pools[pool] = self.pools[pool]._replace(**settings)  # type: ignore[arg-type]

    def ask(
        self,
        *pools: str,
        weight: int = 1,
        priority: int = NORMAL,
        since: int | None = None,
        lane: str = "",
    ) -> int:
        """Join the line, without settling it."""
        cls = priority_class(priority)
        number = self._lanes.setdefault((lane, pools, cls), len(self._lanes))
        since = self.now if since is None else since
        work = Work(next(self._ids), number, pools, weight, priority, since, {})
        self.tickets[work.id] = work
        return work.id

    def release(self, id: int) -> None:
        """Give the seats of a lease back, to rest where a pool has a cooldown."""
        work = self.leases.pop(id)
        for name in work.pools:
            if self.pools[name].cooldown:
                self.rests.append((name, work.weight, self.now + self.pools[name].cooldown))

    def held(self, pool: str) -> int:
        """Seats held by leases in a pool."""
        return sum(work.weight for work in self.leases.values() if pool in work.pools)

    def resting(self, pool: str) -> int:
        """Seats at rest in a pool."""
        return sum(seats for name, seats, until in self.rests if name == pool and until > self.now)

    def free(self, pool: str) -> int:
        """Seats neither held nor resting; a large number without a limit."""
        limit = self.pools[pool].limit
        return 10**9 if limit is None else limit - self.held(pool) - self.resting(pool)

    def settle(self) -> list[int]:
        """Settle the line once; the ids of those who were let in, in that order."""
        use = Use()
        for work in self.leases.values():
            for name in work.pools:
                use.take(name, work.cls, work.weight)
        for name in self.pools:
            use.rest(name, self.resting(name))
        lanes = sorted({work.lane for work in self.tickets.values()})
        outcome = PassOutcome()
        for decision in decisions(heads_of(lanes, self._head), use, Ms(self.now), self._head):
            outcome.add(decision)
            if isinstance(decision, Granted):
                self._grant(decision.head.id)
        for head in outcome.overtaken.values():
            self.tickets[head.id].overtaken.update(head.overtaken)
        self.blocked, self.kept = outcome.blocked, dict(use.kept)
        return [head.id for head in outcome.granted]

    def _grant(self, id: int) -> None:
        work = self.tickets.pop(id)
        for name in work.pools:
            assert work.weight <= self.free(name), f"{name} granted above its limit"
            assert not self.pools[name].paused(Ms(self.now)), f"{name} granted while paused"
        self.leases[id] = work

    def enter(self, *pools: str, weight: int = 1, priority: int = NORMAL, lane: str = "") -> int:
        """Ask and settle; for work that is expected to be let in at once."""
        id = self.ask(*pools, weight=weight, priority=priority, lane=lane)
        assert self.settle() == [id]
        return id

    def codes(self, id: int) -> list[tuple[str, str]]:
        """Why the lane of a ticket was blocked when the line was last settled."""
        return [(reason.code, reason.pool) for reason in self.blocked[self.tickets[id].lane]]

    def first(self, lane: int, after: Order | None = None) -> Work | None:
        """The first ticket of a lane, after a place in the line."""
        waiting = [
            work
            for work in self.tickets.values()
            if work.lane == lane and (after is None or work.order > after)
        ]
        return min(waiting, key=lambda work: work.order, default=None)

    def _head(self, lane: int, after: Order | None = None) -> Head | None:
        work = self.first(lane, after)
        if work is None:
            return None
        needs = tuple(Need(self.pools[name], name, work.weight) for name in work.pools)
        return Head(work.order, lane, work.cls, needs, dict(work.overtaken))


class Client(NamedTuple):
    """Someone who asks again as soon as its work is done: steady load comes from several."""

    pools: tuple[str, ...]
    hold: Callable[[], int]
    weight: int = 1
    priority: int = NORMAL


class Load:
    """Clients that keep a line busy, one completion at a time."""

    def __init__(self, line: Line, clients: Sequence[Client]) -> None:
        self.line = line
        self.done: Counter[str] = Counter()
        self.granted: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._owner: dict[int, Client] = {}
        for client in clients:
            self.ask(client)
        self.settle()

    def ask(self, client: Client) -> int:
        """Let a client join the line."""
        id = self.line.ask(*client.pools, weight=client.weight, priority=client.priority)
        self._owner[id] = client
        return id

    def settle(self) -> None:
        """Settle the line, and let those who were let in begin."""
        for id in self.line.settle():
            self.granted.append((self.line.now, id))
            if id in self._owner:
                heappush(self._ends, (self.line.now + self._owner[id].hold(), id))

    def step(self) -> None:
        """Go to the next completion: its seats are handed on, then its client asks again."""
        self.line.now, id = heappop(self._ends)
        client = self._owner.pop(id)
        self.line.release(id)
        self.done.update(client.pools)
        self.settle()
        self.ask(client)
        self.settle()


def holds(rng: Random, shortest: int, longest: int) -> Callable[[], int]:
    """Random hold times, in milliseconds of virtual time."""
    return lambda: rng.randint(shortest, longest)


def seeded(seed: int) -> Random:
    """Random numbers that are the same in every run."""
    return Random(seed)  # noqa: S311 - a seed, not a secret


# The order of the line

tickets = st.tuples(
    st.integers(-30, 30),  # priority
    st.integers(0, 5),  # since
    st.sampled_from(["one", "two", "three"]),  # lane
)


def served(line: Line) -> list[int]:
    """The order in which all are served when one works at a time."""
    order = []
    while line.tickets:
        (id,) = line.settle()
        order.append(id)
        line.release(id)
    return order


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), min_size=1, max_size=12))
def test_a_lane_is_served_in_order(wanted: list[tuple[int, int]]) -> None:
    """Within a lane: priority, then since when, then arrival."""
    line = Line(a=1)
    ids = [line.ask("a", priority=priority, since=since) for priority, since in wanted]
    ranks = {id: (-wanted[i][0], wanted[i][1], i) for i, id in enumerate(ids)}
    assert served(line) == sorted(ids, key=ranks.__getitem__)


@given(st.lists(tickets, min_size=1, max_size=15))
def test_lanes_are_served_in_one_order(wanted: list[tuple[int, int, str]]) -> None:
    """Across lanes and classes too: priority, then since when, then arrival."""
    line = Line(a=1)
    ids = [line.ask("a", priority=p, since=since, lane=lane) for p, since, lane in wanted]
    ranks = {id: (-wanted[i][0], wanted[i][1], i) for i, id in enumerate(ids)}
    assert served(line) == sorted(ids, key=ranks.__getitem__)


@given(st.lists(tickets, min_size=1, max_size=15), st.integers(1, 8))
def test_a_pass_lets_in_the_first_of_the_line(
    wanted: list[tuple[int, int, str]], limit: int
) -> None:
    """One pass fills every free seat, with those at the front, in their order."""
    line = Line(a=limit)
    for priority, since, lane in wanted:
        line.ask("a", priority=priority, since=since, lane=lane)
    front = [work.id for work in sorted(line.tickets.values(), key=lambda work: work.order)]
    assert line.settle() == front[:limit]


def test_a_blocked_head_closes_its_lane_and_no_other() -> None:
    """Light work waits behind the heavy head of its own lane; another lane's work goes past."""
    line = Line(a=2)
    line.enter("a")
    heavy = line.ask("a", weight=2)
    light = line.ask("a")
    other = line.ask("a", lane="other")
    assert line.settle() == [other]
    assert set(line.tickets) == {heavy, light}


def test_all_seats_or_none() -> None:
    """Work that cannot have all its pools takes a seat in none of them."""
    line = Line(a=1, b=1)
    line.enter("b")
    both = line.ask("a", "b")
    assert line.settle() == []
    assert line.codes(both) == [("pool_full", "b")]
    line.enter("a")


def test_no_limit_is_no_wait() -> None:
    """A pool without a limit lets everything in at once, whatever it weighs."""
    line = Line(a=None)
    wanted = [line.ask("a", weight=weight) for weight in (1, 1_000, 1_000_000)]
    assert line.settle() == wanted


def test_no_pool_is_no_wait() -> None:
    """Work that sits in no pool is let in."""
    line = Line(a=1)
    line.enter("a")
    line.enter()


# A full pool delays nobody else


@pytest.mark.parametrize("seed", range(7))
def test_a_full_pool_never_delays_work_that_does_not_need_it(seed: int) -> None:
    """With A full for ever, B's grants are the same, to the tick, with and without AB in line."""

    def grants(*, crowd: bool) -> list[int]:
        rng = seeded(seed)
        line = Line(a=1, b=rng.randint(1, 3))
        line.enter("a")
        load = Load(line, [Client(("b",), holds(rng, 5, 50))] * rng.randint(2, 6))
        for turn in range(200):
            if crowd and turn % 10 == 0:
                for pools in (("a", "b"), ("b", "a"), ("a",)):
                    line.ask(*pools, priority=turn % 30, since=0)
            load.step()
        return [now for now, _ in load.granted]

    quiet = grants(crowd=False)
    assert len(quiet) > 200
    assert grants(crowd=True) == quiet


def test_a_paused_pool_never_delays_work_that_does_not_need_it() -> None:
    """A starved ticket keeps no seats once one of its pools is paused."""
    line = _starved_line(slow="b", fast="a")
    line.change("a", paused_until=10**6)
    line.release(_holder(line, "b"))
    assert len(line.settle()) == 1


def test_a_pool_that_shrank_below_a_ticket_never_delays_others() -> None:
    """A starved ticket keeps no seats once it weighs more than one of its pools can hold."""
    line = Line(a=2, b=2)
    for pool in ("a", "b"):
        line.enter(pool)
        line.enter(pool)
    heavy = line.ask("a", "b", weight=2)
    for pool in ("a", "a", "b"):  # a is the faster one: seats would be kept in b first
        line.release(_holder(line, pool))
        line.enter(pool)
    line.change("a", limit=1)
    line.ask("b")
    line.release(_holder(line, "b"))
    assert len(line.settle()) == 1
    assert line.codes(heavy)[0] == ("too_heavy", "a")


# Nothing that waits is starved


def _holder(line: Line, pool: str) -> int:
    return next(work.id for work in line.leases.values() if work.pools == (pool,))


def _starved_line(slow: str = "a", fast: str = "b") -> Line:
    """A and B full, their waiters in line, and a ticket for both, overtaken last in the fast."""
    line = Line(a=1, b=1)
    line.enter("a")
    line.enter("b")
    line.ask("a", "b")
    for pool in (slow, fast, fast):
        line.now += 1
        line.ask(pool)
        line.release(_holder(line, pool))
        assert len(line.settle()) == 1
    line.ask("a")
    line.ask("b")
    return line


def test_a_ticket_that_was_overtaken_everywhere_is_next() -> None:
    """Once overtaken in each of its pools, a ticket gets the next seat of each."""
    line = _starved_line()
    both = next(work.id for work in line.tickets.values() if len(work.pools) == 2)
    line.release(_holder(line, "a"))
    assert line.settle() == []
    assert line.kept == {"a": 1, "b": 0}
    line.release(_holder(line, "b"))
    assert line.settle() == [both]


@pytest.mark.parametrize("slow, fast", [("a", "b"), ("b", "a")])
def test_seats_are_kept_in_the_slowest_pool_first(slow: str, fast: str) -> None:
    """The pool that turns over faster goes on working until the slower one has a seat to keep."""
    line = _starved_line(slow, fast)
    for _ in range(5):
        line.release(_holder(line, fast))
        assert len(line.settle()) == 1, "the fast pool turns over while the slow one is awaited"
        line.ask(fast)
    line.release(_holder(line, slow))
    assert line.settle() == []
    line.release(_holder(line, fast))
    (both,) = line.settle()
    assert line.leases[both].pools == ("a", "b")


def test_a_resting_seat_is_no_reason_to_keep_others() -> None:
    """While the slower pool's seat only rests, the faster one goes on working."""
    line = _starved_line(slow="a", fast="b")
    line.change("a", cooldown=50)
    line.release(_holder(line, "a"))
    line.release(_holder(line, "b"))
    assert len(line.settle()) == 1
    line.now += 50
    assert line.settle() == []
    assert line.kept == {"a": 1, "b": 0}


def test_a_pass_begins_with_nothing_kept() -> None:
    """What an earlier pass over the same seats kept is forgotten when the next begins."""
    use = Use()
    use.kept["a"] = 1
    head = Head((0, 0, 1), 1, "normal", (Need(Pool("a", 1, "file"), "a", 1),), {})
    found = decisions([head], use, Ms(0), lambda *_: None)
    assert list(found) == [Granted(head, ())]


def test_a_kept_seat_goes_on_when_its_ticket_leaves() -> None:
    """Seats kept for a ticket that withdraws are handed on at once."""
    line = _starved_line()
    line.release(_holder(line, "a"))
    assert line.settle() == []
    both = next(work.id for work in line.tickets.values() if len(work.pools) == 2)
    del line.tickets[both]
    (id,) = line.settle()
    assert line.leases[id].pools == ("a",)


def test_whoever_meets_a_kept_seat_is_told() -> None:
    """Work held back for a starved ticket has the reason `kept`, with the pool's figures."""
    line = _starved_line()
    line.release(_holder(line, "a"))
    line.settle()
    waiting = next(work for work in line.tickets.values() if work.pools == ("a",))
    assert line.blocked[waiting.lane] == (Reason("kept", "a", 0, 1),)


def test_an_earlier_ticket_may_take_a_kept_seat() -> None:
    """Seats are kept from those who come later in the line, not from those who come first."""
    line = _starved_line()
    line.release(_holder(line, "a"))
    assert line.settle() == []
    line.enter("a", priority=INTERACTIVE)


class Overlap(NamedTuple):
    """Pools under steady single-pool load, and a ticket that needs several of them."""

    limits: dict[str, int]
    speeds: dict[str, tuple[int, int]]
    weight: int = 1


OVERLAPS = {
    "even": Overlap({"a": 2, "b": 2}, {"a": (50, 150), "b": (50, 150)}),
    "one seat each": Overlap({"a": 1, "b": 1}, {"a": (1, 100), "b": (1, 100)}),
    "a fast, b slow": Overlap({"a": 3, "b": 2}, {"a": (1, 9), "b": (500, 2_000)}),
    "a slow, b fast": Overlap({"a": 2, "b": 3}, {"a": (500, 2_000), "b": (1, 9)}),
    "small and large": Overlap({"a": 1, "b": 8}, {"a": (20, 200), "b": (20, 200)}),
    "three pools": Overlap(
        {"a": 2, "b": 1, "c": 3}, {"a": (5, 50), "b": (50, 500), "c": (10, 1_000)}
    ),
    "heavy": Overlap({"a": 4, "b": 4}, {"a": (10, 100), "b": (30, 300)}, weight=3),
    "all of both": Overlap({"a": 3, "b": 3}, {"a": (10, 100), "b": (100, 300)}, weight=3),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", OVERLAPS)
def test_whoever_needs_several_pools_is_not_starved(case: str, seed: int) -> None:
    """Under steady load on each pool alone, a ticket for all is let in after a few completions."""
    limits, speeds, weight = OVERLAPS[case]
    rng = seeded(seed)
    clients = [
        Client((pool,), holds(rng, *speeds[pool]))
        for pool, limit in limits.items()
        for _ in range(limit + rng.randint(1, 4))
    ]
    line = Line(**limits)
    load = Load(line, clients)
    for _ in range(rng.randint(20, 100)):
        load.step()
    ahead = max(sum(work.pools == (pool,) for work in line.tickets.values()) for pool in limits)
    load.done.clear()
    asked = line.now
    id = line.ask(*limits, weight=weight)
    load.settle()
    # First those ahead; then each pool overtakes it once; then its seats are kept, pool by pool,
    # while those it leaves free go on turning over.
    slowest = max(longest for _, longest in speeds.values())
    while id in line.tickets:
        load.step()
        assert min(load.done[pool] for pool in limits) <= ahead + 1 + 2 * weight * len(limits)
        assert line.now - asked <= slowest * (ahead + 1 + weight * len(limits))


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_starved_when_all_kinds_mix(seed: int) -> None:
    """Under steady load of every mix of A, B and C, light and heavy, each wait is bounded."""
    rng = seeded(seed)
    kinds = [("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")]
    clients = [Client(kind, holds(rng, 10, 100), rng.randint(1, 3)) for kind in kinds * 3]
    line = Line(a=3, b=4, c=5)
    load = Load(line, clients)
    for _ in range(1_000):
        load.step()
        oldest = min(work.since for work in line.tickets.values())
        assert line.now - oldest <= 100 * len(clients) * 2
        assert all(seats <= line.free(pool) for pool, seats in line.kept.items())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weight", [2, 3, 4])
def test_a_heavy_ticket_is_not_starved_by_light_ones(weight: int, seed: int) -> None:
    """Under steady light load of another lane, a heavy ticket is let in after a few completions."""
    rng = seeded(seed)
    line = Line(a=4)
    load = Load(line, [Client(("a",), holds(rng, 1, 100))] * 8)
    for _ in range(rng.randint(20, 60)):
        load.step()
    ahead = len(line.tickets)
    load.done.clear()
    id = line.ask("a", weight=weight, lane="heavy")
    load.settle()
    while id in line.tickets:
        load.step()
        assert load.done["a"] <= ahead + 1 + weight


@pytest.mark.parametrize("seed", range(3))
def test_a_pool_with_room_does_not_hide_that_a_ticket_starves(seed: int) -> None:
    """A heavy ticket is not starved in A either if it also needs a pool nobody else uses."""
    rng = seeded(seed)
    line = Line(a=4, own=3)
    load = Load(line, [Client(("a",), holds(rng, 1, 100))] * 8)
    id = line.ask("a", "own", weight=3)
    load.settle()
    while id in line.tickets:
        load.step()
        assert load.done["a"] <= 50


@pytest.mark.parametrize("case", OVERLAPS)
def test_seats_stand_idle_only_for_a_ticket_that_lacks_others(case: str) -> None:
    """A seat is kept only for an earlier ticket that was overtaken and still lacks another."""
    limits, speeds, weight = OVERLAPS[case]
    rng = seeded(0)
    singles = [
        Client((pool,), holds(rng, *speeds[pool]))
        for pool, limit in limits.items()
        for _ in range(limit + 2)
    ]
    line = Line(**limits)
    load = Load(line, [*singles, Client(tuple(limits), holds(rng, 5, 50), weight)])
    idle = 0
    end = 10 * max(longest for _, longest in speeds.values())
    while line.now < end:
        load.step()
        for lane, reasons in line.blocked.items():
            first = line.first(lane)
            for pool in [reason.pool for reason in reasons if reason.code == "kept"]:
                idle += 1
                assert first is not None
                keeper = next(w for w in line.tickets.values() if len(w.pools) > 1)
                assert keeper.order < first.order
                assert pool in keeper.overtaken
                assert any(line.free(name) < weight for name in limits), "else it could begin"
                assert line.kept[pool] <= min(weight, line.free(pool))
    assert idle, "the load is such that seats have to be kept"


# Reserves


@pytest.mark.parametrize(
    "limit, reserve, cls, gets",
    [
        (4, (("interactive", 1),), NORMAL, 3),
        (4, (("interactive", 1),), BACKGROUND, 3),
        (4, (("interactive", 1),), INTERACTIVE, 4),
        (4, (("background", 1),), NORMAL, 3),
        (4, (("background", 1),), INTERACTIVE, 3),
        (4, (("background", 1),), BACKGROUND, 4),
        (4, (("interactive", 1), ("background", 1)), NORMAL, 2),
        (4, (("interactive", 1), ("background", 1)), INTERACTIVE, 3),
        (4, (("interactive", 4),), NORMAL, 1),
        (4, (("interactive", 9),), NORMAL, 1),
        (4, (("interactive", 9),), INTERACTIVE, 4),
        (1, (("interactive", 1),), BACKGROUND, 1),
        (2, (("interactive", 5), ("background", 5)), NORMAL, 1),
    ],
)
def test_a_reserve_is_left_free(
    limit: int, reserve: tuple[tuple[str, int], ...], cls: int, gets: int
) -> None:
    """A class leaves what is reserved for others, but one seat is open to all."""
    line = Line(a=limit)
    line.change("a", reserve=reserve)
    ids = [line.ask("a", priority=cls) for _ in range(limit + 1)]
    assert line.settle() == ids[:gets]
    code = "pool_full" if gets == limit else "reserved"
    assert line.codes(ids[gets]) == [(code, "a")]


@pytest.mark.parametrize("cls", [INTERACTIVE, BACKGROUND])
def test_a_reserved_seat_goes_to_its_class(cls: int) -> None:
    """While others wait for lack of unreserved seats, the class with a reserve walks in."""
    line = Line(a=3)
    line.change("a", reserve=((priority_class(cls), 1),))
    waiting = [line.ask("a") for _ in range(5)]
    assert len(line.settle()) == 2
    assert line.codes(waiting[-1]) == [("reserved", "a")]
    line.enter("a", priority=cls)
    assert line.ask("a", priority=cls)
    assert line.settle() == []
    assert line.codes(waiting[-1]) == [("pool_full", "a")]


def test_a_reserve_that_is_used_is_not_left_free_again() -> None:
    """Once the class holds as much as is reserved for it, others may have the rest."""
    line = Line(a=3)
    line.change("a", reserve=(("interactive", 1),))
    line.enter("a", priority=INTERACTIVE)
    line.enter("a")
    line.enter("a")


def test_a_reserve_that_is_used_in_this_pass_is_not_left_free_again() -> None:
    """Seats given to a class count against its reserve in the very pass that gives them."""
    line = Line(a=3)
    line.change("a", reserve=(("interactive", 1),))
    ids = [line.ask("a", priority=cls) for cls in (INTERACTIVE, NORMAL, NORMAL)]
    assert line.settle() == ids


def test_a_class_beyond_its_reserve_uses_up_nobody_elses() -> None:
    """What one class holds beyond its reserve is not taken from the reserve of another."""
    line = Line(a=4)
    line.change("a", reserve=(("interactive", 1), ("background", 1)))
    line.enter("a", priority=INTERACTIVE)
    line.enter("a", priority=INTERACTIVE)
    line.enter("a")
    id = line.ask("a")
    assert line.settle() == []
    assert line.codes(id) == [("reserved", "a")]


def test_a_reserve_names_those_it_is_for() -> None:
    """The reason says for whom the free seats are, and how many are used of how many."""
    line = Line(a=3)
    line.change("a", reserve=(("interactive", 1), ("normal", 1), ("background", 1)))
    line.enter("a")
    id = line.ask("a")
    assert line.settle() == []
    (reason,) = line.blocked[line.tickets[id].lane]
    assert reason == Reason("reserved", "a", 1, 3, note="interactive, background")


def test_a_starved_ticket_does_not_keep_seats_reserved_for_others() -> None:
    """A seat reserved for background work is given to it, whoever waits before it."""
    line = Line(a=2)
    line.change("a", reserve=(("background", 1),))
    line.enter("a")
    line.ask("a")
    first = line.enter("a", priority=BACKGROUND)
    line.release(first)
    line.enter("a", priority=BACKGROUND)


def test_a_ticket_that_a_reserve_shuts_out_does_not_shut_the_pool() -> None:
    """Work that weighs more than a reserve leaves open never keeps an empty pool empty."""
    line = Line(a=4)
    line.change("a", reserve=(("interactive", 2),))
    line.enter("a", lane="light")
    line.ask("a", weight=3, lane="heavy")
    line.enter("a", lane="light")
    for id in list(line.leases):
        line.release(id)
    assert line.held("a") == 0
    line.enter("a", lane="light")


# Pauses, cooldowns, changed limits


def test_nothing_starts_in_a_paused_pool() -> None:
    """A pause stops every start in its pool, with or without a limit, until its time has come."""
    line = Line(a=5, b=None)
    for pool in ("a", "b"):
        line.change(pool, paused_until=100, pause_note="tea")
    ids = [line.ask("a"), line.ask("b")]
    line.now = 99
    assert line.settle() == []
    for id, pool in zip(ids, ("a", "b"), strict=True):
        (reason,) = line.blocked[line.tickets[id].lane]
        assert reason == Reason("pool_paused", pool, until=Ms(100), note="tea")
    line.now = 100
    assert line.settle() == ids


def test_a_freed_seat_rests() -> None:
    """A freed seat counts as used until its pool's cooldown is over."""
    line = Line(a=1)
    line.change("a", cooldown=50)
    line.release(line.enter("a"))
    id = line.ask("a")
    line.now = 49
    assert line.settle() == []
    assert line.blocked[line.tickets[id].lane] == (Reason("cooling", "a", 1, 1),)
    line.now = 50
    assert line.settle() == [id]


def test_a_changed_cooldown_leaves_resting_seats_alone() -> None:
    """A cooldown applies to the seats freed after it was set."""
    line = Line(a=2)
    one, two = line.enter("a"), line.enter("a")
    line.change("a", cooldown=50)
    line.release(one)
    line.change("a", cooldown=0)
    line.release(two)
    ids = [line.ask("a"), line.ask("a")]
    assert line.settle() == ids[:1]
    line.now = 50
    assert line.settle() == ids[1:]


def test_a_lowered_limit_drains() -> None:
    """Lowering a limit ends nothing; nothing starts until what is used has fallen below it."""
    line = Line(a=3)
    held = [line.enter("a") for _ in range(3)]
    line.change("a", limit=1)
    id = line.ask("a")
    for done in held:
        assert line.settle() == []
        used = line.held("a")
        assert line.blocked[line.tickets[id].lane] == (Reason("pool_full", "a", used, 1),)
        line.release(done)
    assert line.settle() == [id]


@pytest.mark.parametrize("limit, let_in", [(2, 1), (4, 3), (None, 6)])
def test_a_raised_limit_lets_in_at_once(limit: int | None, let_in: int) -> None:
    """Raising a limit lets in as many as now fit; taking it away lets in everyone."""
    line = Line(a=1)
    line.enter("a")
    ids = [line.ask("a") for _ in range(6)]
    assert line.settle() == []
    line.change("a", limit=limit)
    assert line.settle() == ids[:let_in]


# Reasons


@pytest.mark.parametrize(
    "pool, seats, figures, reason",
    [
        (Pool("a", None, ""), 9, (99, 9, 9), None),
        (Pool("a", 4, ""), 1, (3, 0, 0), None),
        (Pool("a", 4, ""), 1, (2, 1, 0), None),
        (Pool("a", 4, ""), 2, (1, 0, 1), None),
        (Pool("a", 4, ""), 0, (9, 9, 9), None),
        (Pool("a", 4, ""), 1, (4, 0, 0), Reason("pool_full", "a", 4, 4)),
        (Pool("a", 4, ""), 3, (2, 0, 0), Reason("pool_full", "a", 2, 4)),
        (Pool("a", 4, ""), 1, (4, 1, 0), Reason("pool_full", "a", 5, 4)),
        (Pool("a", 4, ""), 1, (3, 1, 0), Reason("cooling", "a", 4, 4)),
        (Pool("a", 4, ""), 1, (3, 0, 1), Reason("kept", "a", 3, 4)),
        (Pool("a", 4, ""), 2, (1, 0, 2), Reason("kept", "a", 1, 4)),
        (Pool("a", 4, ""), 5, (0, 0, 0), Reason("too_heavy", "a", 5, 4)),
        (
            Pool("a", 4, "", reserve=(("interactive", 1),)),
            1,
            (3, 0, 0),
            Reason("reserved", "a", 3, 4, note="interactive"),
        ),
        (
            Pool("a", 4, "", reserve=(("interactive", 1),)),
            1,
            (4, 0, 0),
            Reason("pool_full", "a", 4, 4),
        ),
        (Pool("a", 4, "", reserve=(("normal", 4),)), 1, (3, 0, 0), None),
        (
            Pool("a", 4, "", paused_until=Ms(11), pause_note="tea"),
            1,
            (4, 0, 0),
            Reason("pool_paused", "a", until=Ms(11), note="tea"),
        ),
        (Pool("a", 4, "", paused_until=Ms(10)), 1, (0, 0, 0), None),
    ],
)
def test_why_a_pool_says_no(
    pool: Pool, seats: int, figures: tuple[int, int, int], reason: Reason | None
) -> None:
    """A pool says no with the reason that matters most, and the figures behind it."""
    held, resting, kept = figures
    use = Use()
    use.take("a", "normal", held)
    use.rest("a", resting)
    use.kept["a"] = kept
    assert blocked_by(Need(pool, "a", seats), "normal", use, now=Ms(10)) == reason


def test_every_obstacle_is_named() -> None:
    """A ticket that several pools block is told of each of them."""
    line = Line(a=1, b=1, c=1, d=2)
    line.enter("a")
    line.change("b", cooldown=50)
    line.release(line.enter("b"))
    line.change("c", paused_until=50)
    id = line.ask("a", "b", "c", "d")
    assert line.settle() == []
    assert line.codes(id) == [("pool_full", "a"), ("cooling", "b"), ("pool_paused", "c")]


def test_seats_are_counted_where_they_are() -> None:
    """One pool with two places, as host on two machines, is full in one of them only."""
    host = Pool("host", 1, "default")
    use = Use()
    use.take("host@one", "normal", 1)
    assert blocked_by(Need(host, "host@one", 1), "normal", use, Ms(0)) == Reason(
        "pool_full", "host", 1, 1
    )
    assert blocked_by(Need(host, "host@two", 1), "normal", use, Ms(0)) is None


# Properties over anything that may happen

POOLS = ("a", "b", "c")
CLASSES = (INTERACTIVE, NORMAL, BACKGROUND)

some_pools = st.lists(st.sampled_from(POOLS), min_size=1, max_size=3, unique=True).map(
    lambda names: tuple(sorted(names))
)
asks = st.tuples(
    st.just("ask"),
    some_pools,
    st.integers(1, 4),
    st.sampled_from(CLASSES),
    st.integers(0, 3),
)
plain_asks = st.tuples(
    st.just("ask"), some_pools, st.integers(1, 2), st.just(NORMAL), st.integers(0, 3)
)
releases = st.tuples(st.just("release"), st.integers(0, 20))
leaves = st.tuples(st.just("leave"), st.integers(0, 20))
changes = st.one_of(
    st.tuples(st.just("limit"), st.sampled_from(POOLS), st.integers(1, 5) | st.none()),
    st.tuples(st.just("pause"), st.sampled_from(POOLS), st.integers(0, 30)),
    st.tuples(st.just("cooldown"), st.sampled_from(POOLS), st.integers(0, 30)),
    st.tuples(
        st.just("reserve"),
        st.sampled_from(POOLS),
        st.dictionaries(
            st.sampled_from(["interactive", "normal", "background"]), st.integers(0, 5)
        ),
    ),
    st.tuples(st.just("tick"), st.integers(1, 20)),
)
Step = tuple[object, ...]
anything = st.lists(st.one_of(asks, asks, asks, releases, releases, leaves, changes), max_size=60)
small_limits = st.fixed_dictionaries({name: st.integers(1, 4) | st.none() for name in POOLS})


def play(line: Line, step: Step) -> None:
    """Do one thing that may happen to a line."""
    match step:
        case ("ask", tuple() as pools, int() as weight, int() as priority, int() as back):
            line.ask(*pools, weight=weight, priority=priority, since=max(0, line.now - back))
        case ("release", int() as n) if line.leases:
            line.release(sorted(line.leases)[n % len(line.leases)])
        case ("leave", int() as n) if line.tickets:
            del line.tickets[sorted(line.tickets)[n % len(line.tickets)]]
        case ("limit", str() as pool, int() | None as limit):
            line.change(pool, limit=limit)
        case ("pause", str() as pool, int() as time):
            line.change(pool, paused_until=line.now + time)
        case ("cooldown", str() as pool, int() as time):
            line.change(pool, cooldown=time)
        case ("reserve", str() as pool, dict() as seats):
            line.change(pool, reserve=tuple(sorted(seats.items())))
        case ("tick", int() as time):
            line.now += time
        case _:
            pass


@given(small_limits, anything)
def test_no_grant_is_ever_above_a_limit(limits: dict[str, int | None], steps: list[Step]) -> None:
    """Whatever happens, each grant leaves all its pools at or below the limits of that moment."""
    line = Line(**limits)
    for step in steps:
        before = {name: line.free(name) for name in POOLS}
        play(line, step)
        line.settle()  # its grants check themselves against the rows
        if step[0] in {"ask", "tick"}:
            for name in POOLS:
                assert line.free(name) >= min(0, before[name]), "only a lowered limit is exceeded"


@given(small_limits, anything)
def test_nothing_waits_without_a_true_reason(
    limits: dict[str, int | None], steps: list[Step]
) -> None:
    """After a pass each lane with a waiter is blocked, for reasons that its pools bear out."""
    line = Line(**limits)
    for step in steps:
        play(line, step)
        line.settle()
        assert line.blocked.keys() == {work.lane for work in line.tickets.values()}
        for lane, reasons in line.blocked.items():
            first = line.first(lane)
            if too_heavy(reasons):  # all of them are, and the last one's reason is told
                while first and (later := line.first(lane, first.order)):
                    first = later
            while first and not too_heavy(reasons) and _never_fits(line, first):
                first = line.first(lane, first.order)
            assert first is not None
            assert reasons
            for reason in reasons:
                assert reason.pool in first.pools
                _check(line, first, reason)


def _never_fits(line: Line, work: Work) -> bool:
    pools = (line.pools[name] for name in work.pools)
    open_ = [p for p in pools if p.limit is not None and not p.paused(Ms(line.now))]
    return any(work.weight > ceiling(pool, work.cls) for pool in open_)


def _check(line: Line, work: Work, reason: Reason) -> None:
    """Whether the rows bear a reason out; seats may have been taken since it was found."""
    pool = line.pools[reason.pool]
    if reason.code == "pool_paused":
        assert reason.until == pool.paused_until
        assert pool.paused(Ms(line.now))
        return
    assert not pool.paused(Ms(line.now))
    assert pool.limit is not None
    if reason.code == "too_heavy":
        assert reason.used == work.weight > ceiling(pool, work.cls) == reason.limit
        return
    assert pool.limit == reason.limit
    match reason.code:
        case "pool_full":
            assert pool.limit - line.held(pool.name) < work.weight <= pool.limit
        case "cooling":
            assert line.free(pool.name) < work.weight
            assert line.resting(pool.name) > 0
        case "reserved":
            assert any(seats and cls != work.cls for cls, seats in pool.reserve)
            assert reason.used <= pool.limit - work.weight
        case "kept":
            assert line.kept[pool.name] > 0
            assert reason.used <= pool.limit - work.weight
        case _:
            pytest.fail(f"unknown reason {reason}")
    assert reason.used <= line.held(pool.name) + line.resting(pool.name)


@given(small_limits, anything)
@example(
    limits={"a": 3, "b": 1, "c": None},
    steps=[
        *[("ask", ("a",), 1, INTERACTIVE, 0)] * 3,  # 1, 2, 3 fill a
        ("ask", ("b",), 1, INTERACTIVE, 0),  # 4 fills b
        ("ask", ("a", "b"), 1, NORMAL, 0),  # 5 waits for both
        *[("ask", ("a",), 1, BACKGROUND, 0), ("release", 0)],  # 6 overtakes it in a
        *[("ask", ("b",), 1, BACKGROUND, 0), ("release", 2)],  # 7 overtakes it in b
        *[("ask", ("a",), 1, BACKGROUND, 0)] * 2,  # 8, 9 wait for a
        ("limit", "a", 5),  # two free: one is kept for 5, 8 gets the other
    ],
)
def test_one_pass_is_enough(limits: dict[str, int | None], steps: list[Step]) -> None:
    """Settling again at once lets nobody in."""
    line = Line(**limits)
    for step in steps:
        play(line, step)
        line.settle()
        assert line.settle() == []


@given(small_limits, st.lists(st.one_of(plain_asks, plain_asks, releases, leaves), max_size=60))
def test_a_lane_never_changes_its_order(limits: dict[str, int | None], steps: list[Step]) -> None:
    """Whoever is let in was the first of its lane that fits, and no free seat is left idle."""
    line = Line(**limits)
    for step in steps:
        play(line, step)
        before = dict(line.tickets)
        granted = line.settle()
        for id in granted:
            work = before[id]
            rivals = [
                other
                for other in before.values()
                if other.lane == work.lane and not _never_fits(line, other)
            ]
            assert all(other.id in granted for other in rivals if other.order < work.order)
        for lane in {before[id].lane for id in granted}:
            orders = [before[id].order for id in granted if before[id].lane == lane]
            assert all(earlier < later for earlier, later in pairwise(orders))
        if not line.kept:
            for work in line.tickets.values():
                first = line.first(work.lane)
                assert first is not None
                assert any(line.free(name) < first.weight for name in first.pools)


@given(small_limits, anything)
def test_a_line_that_nobody_feeds_runs_dry(
    limits: dict[str, int | None], steps: list[Step]
) -> None:
    """When all who work finish and no pool is paused or reserved, everyone who fits is served."""
    line = Line(**limits)
    for step in steps:
        if step[0] != "reserve":
            play(line, step)
        line.settle()
    for name, pool in line.pools.items():
        limit = None if pool.limit is None else max(4, pool.limit)
        line.change(name, paused_until=None, limit=limit)
    for _ in range(len(line.tickets) + 1):
        line.settle()
        for id in list(line.leases):
            line.release(id)
        line.now += 100
    line.settle()
    assert line.tickets == {}


def test_a_ticket_too_heavy_for_a_lowered_limit_stands_aside() -> None:
    """Lighter tickets behind it are let in, and it is once the limit is high enough again."""
    line = Line(a=2)
    holder = line.enter("a")
    heavy = line.ask("a", weight=2)
    light = line.ask("a")
    line.change("a", limit=1)
    line.release(holder)
    assert line.settle() == [light]
    assert line.codes(heavy) == [("too_heavy", "a")]
    line.release(light)
    line.change("a", limit=2)
    assert line.settle() == [heavy]
