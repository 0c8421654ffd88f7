"""Nobody starves: who needs several seats is served though others keep snapping them up."""

import heapq
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.admission.pools import UNLIMITED, Declared
from headgate.core.times import Ms
from headgate.ledger import dead_members, release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import Member
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store.memory import MemoryStore
from tests.ledger.test_machine import STEADY

LEFT, RIGHT, BOTH = "a/other", "b/x", "a/x"
"""The pool `a` takes the first and the last, the pool `*/x` the second and the last."""


class Traffic:
    """Steady load in virtual time: whenever work ends, more of its kind is waiting."""

    def __init__(self, limits: dict[str, int]) -> None:
        self.now = 1_000
        self.store = MemoryStore(clock=lambda: self.now)
        declared = {"host": Declared(limit=UNLIMITED)}
        declared |= {name: Declared(limit=n) for name, n in limits.items()}
        self.resolver = PoolResolver(declared, STEADY)
        self.liveness = SimulatedLiveness("p")
        self.ends: list[tuple[int, int]] = []
        self.granted: list[tuple[int, str]] = []
        self.hold: dict[str, Callable[[], int]] = {}
        self.refill: list[tuple[str, int, int]] = []
        self._run(lambda ledger: ledger.tx.add_member(Member("p", "m", 1, "", Ms(0))))

    def _run(self, do: Callable[[Ledger], object]) -> None:
        with self.store.transaction(write=True) as tx:
            ledger = Ledger(tx, self.resolver, Ms(self.now), self.liveness, "m")
            do(ledger)
            while ledger.unsettled:
                admit.settle(ledger)
                if ledger.blocked:
                    dead_members.remove_dead_members(ledger)
        for lease in ledger.granted.values():
            self.granted.append((lease.id, lease.key))
            heapq.heappush(self.ends, (self.now + self.hold[lease.key](), lease.id))

    def ask(self, key: str, weight: int = 1, urgency: int = 0) -> int:
        request = Request(key, "p", "m", weight=weight, urgency=urgency, since=Ms(self.now))
        ids: list[int] = []
        self._run(lambda ledger: ids.append(admit.ask(ledger, request)))
        return ids[0]

    def load(self, key: str, hold: Callable[[], int], waiting: int = 3, weight: int = 1) -> None:
        """Keep so many waiting for this key from now on; each holds its seats for so long."""
        self.hold[key] = hold
        self.refill.append((key, waiting, weight))
        self._fill_up()

    def _fill_up(self) -> None:
        for key, waiting, weight in self.refill:
            while True:
                with self.store.transaction(write=False) as tx:
                    there = sum(lane.waiting for lane in tx.lanes() if lane.key == key)
                if there >= waiting:
                    break
                self.ask(key, weight)

    def step(self) -> None:
        """Let time pass until the next piece of work ends."""
        self.now, id = heapq.heappop(self.ends)
        self._run(lambda ledger: release.release(ledger, id))
        self._fill_up()

    def grants_until(self, id: int, most: int) -> int:
        """How many others are let in before this ticket is."""
        before = len(self.granted)
        while id not in {one for one, _ in self.granted[before:]}:
            others = len(self.granted) - before
            assert others <= most, f"{others} others were let in first"
            self.step()
        return [one for one, _ in self.granted[before:]].index(id)


@pytest.mark.parametrize("weight", [1, 2])
@pytest.mark.parametrize("limits", [{"a": 2, "*/x": 2}, {"a": 3, "*/x": 2}])
@pytest.mark.parametrize("left, right", [(10, 11), (10, 95), (95, 10)])
def test_who_needs_both_pools_is_served(
    limits: dict[str, int], left: int, right: int, weight: int
) -> None:
    """Two pools under steady load that never free a seat together: the one who needs both gets in.

    The bound: in the slower pool a few turns, and in the faster one as many as fit into these.
    """
    traffic = Traffic(limits)
    starts = iter(range(0, 10_000, 7))
    traffic.load(LEFT, lambda: left + next(starts) % left)
    traffic.load(RIGHT, lambda: right + next(starts) % right)
    traffic.hold[BOTH] = lambda: 5
    for _ in range(20):
        traffic.step()
    ratio = max(left, right) // min(left, right) + 1
    most = 2 * (sum(limits.values()) + weight) * (ratio + 1)
    traffic.grants_until(traffic.ask(BOTH, weight), most)


def test_many_who_need_both_are_served_in_order() -> None:
    """Those who need both pools get in one after the other, in the order in which they came."""
    traffic = Traffic({"a": 2, "*/x": 2})
    starts = iter(range(0, 100_000, 7))
    traffic.load(LEFT, lambda: 10 + next(starts) % 10)
    traffic.load(RIGHT, lambda: 10 + next(starts) % 11)
    traffic.hold[BOTH] = lambda: 10
    ids = [traffic.ask(BOTH) for _ in range(8)]
    for _ in range(400):
        traffic.step()
    served = [id for id, key in traffic.granted if key == BOTH]
    assert served == ids


def test_the_heavy_is_served_among_the_light() -> None:
    """Single seats are freed one by one and wanted at once: who needs all of them gets them."""
    traffic = Traffic({"a": 4})
    starts = iter(range(0, 10_000, 7))
    traffic.load(LEFT, lambda: 10 + next(starts) % 10)
    traffic.hold[BOTH] = lambda: 5
    for _ in range(10):
        traffic.step()
    assert traffic.grants_until(traffic.ask(BOTH, weight=4), most=12) <= 12


def test_a_pool_that_nobody_gets_into_costs_the_other_nothing() -> None:
    """While one pool is stuck, the other's seats are not kept idle for who needs both."""
    traffic = Traffic({"a": 2, "*/x": 1})
    traffic.load(RIGHT, lambda: 1_000_000, waiting=1)
    traffic.load(LEFT, lambda: 10)
    traffic.hold[BOTH] = lambda: 5
    waits = traffic.ask(BOTH)
    before = len(traffic.granted)
    for _ in range(100):
        traffic.step()
        with traffic.store.transaction(write=False) as tx:
            busy = sum(row.seats for row in tx.held() if row.key == LEFT)
        assert busy == 2, "a seat was kept idle on behalf of a pool that is stuck"
    assert len(traffic.granted) == before + 100
    assert waits not in {id for id, _ in traffic.granted}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_nobody_starves_whatever_the_load(data: st.DataObject) -> None:
    """Any limits, weights and times of holding: everyone gets in before time has run out.

    In each pool that is short, all seats turn over within the longest hold; then the next pool's.
    """
    limits = {"a": data.draw(st.integers(1, 4)), "*/x": data.draw(st.integers(1, 4))}
    longest = data.draw(st.sampled_from([3, 20, 100]))
    dice = data.draw(st.randoms(use_true_random=False))
    traffic = Traffic(limits)
    for key, pool in ((LEFT, "a"), (RIGHT, "*/x")):
        weight = data.draw(st.integers(1, limits[pool]))
        traffic.load(key, lambda: dice.randint(1, longest), weight=weight)
    traffic.hold[BOTH] = lambda: dice.randint(1, longest)
    for _ in range(10):
        traffic.step()
    asked = traffic.now
    id = traffic.ask(BOTH, weight=data.draw(st.integers(1, min(limits.values()))))
    while id not in {one for one, _ in traffic.granted}:
        assert traffic.now - asked <= 8 * longest, "it is being starved"
        traffic.step()
