"""Small histories, each of which once went wrong or nearly did."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from headgate.core.admission.pools import Declared
from headgate.core.display.snapshots import PoolStatus
from headgate.core.times import Ms, Seconds
from headgate.ledger import dead_members, limits_by_hand, release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import Member
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store import Store
from tests.ledger.test_machine import STEADY

T = TypeVar("T")


def _join(ledger: Ledger, row: Member) -> None:
    ledger.tx.add_member(row)


class World:
    """A store, its pools and its members; every call is a transaction with its closing steps."""

    def __init__(self, open_it: Callable[[Callable[[], int]], Store]) -> None:
        self.now = 1_000_000
        self.liveness = SimulatedLiveness()
        self.store = open_it(lambda: self.now)
        self.resolver = PoolResolver({}, STEADY)
        for member in ("p", "q", "r"):
            self.liveness.join(member)
            row = Member(member, "m", 1, "", Ms(0))
            self.run(partial(_join, row=row))

    def pools(self, limits: dict[str, int], **more: Declared) -> None:
        named = {name: Declared(limit=limit) for name, limit in limits.items()}
        self.resolver.declare({"host": Declared(limit=99), **named, **more}, STEADY)

    def run(self, do: Callable[[Ledger], T]) -> T:
        with self.store.transaction(write=True) as tx:
            ledger = Ledger(tx, self.resolver, Ms(self.now), self.liveness, "m")
            result = do(ledger)
            while ledger.unsettled:
                admit.settle(ledger)
                if ledger.blocked:
                    dead_members.remove_dead_members(ledger)
        return result

    def read(self, do: Callable[[Ledger], T]) -> T:
        with self.store.transaction(write=False) as tx:
            return do(Ledger(tx, self.resolver, Ms(self.now), self.liveness, "m"))

    def ask(self, key: str = "a/x", member: str = "p", machine: str = "m", **more: Any) -> int:  # noqa: ANN401
        request = Request(key, member, machine, **{"since": self.now, **more})
        return self.run(lambda ledger: admit.ask(ledger, request))

    def release(self, id: int) -> bool:
        return self.run(lambda ledger: release.release(ledger, id))

    def tidy(self) -> None:
        def sweep(ledger: Ledger) -> None:
            dead_members.remove_dead_members(ledger)
            ledger.reconsider()

        self.run(sweep)

    def held(self) -> list[int]:
        return self.read(lambda ledger: [row.id for row in ledger.tx.leases(0, 1_000)])

    def waiting(self) -> list[int]:
        return [row.id for row in self.queue()]

    def queue(self) -> tuple[Any, ...]:
        return self.read(lambda ledger: status_and_queue.queue(ledger, Seconds(0.0))).waiting

    def pool(self, name: str) -> PoolStatus:
        status = self.read(lambda ledger: status_and_queue.status(ledger, Seconds(0.0)))
        return next(one for one in status.pools if one.pool == name)

    def use(self, name: str) -> int:
        return self.pool(name).in_use


def test_one_release_lets_one_in(world: World) -> None:
    """A seat given back as the first thing in a transaction is counted off once, not twice."""
    world.pools({"host": 1})
    first, second, third = (world.ask() for _ in range(3))
    world.release(first)
    assert world.held() == [second]
    assert world.waiting() == [third]


def test_a_seat_of_a_pool_that_only_a_view_names_is_handed_on(world: World) -> None:
    """A pool that only HEADGATE_LIMITS knows is counted off like the others."""
    world.pools({})
    first, second = (world.ask(view="a/x=1") for _ in range(2))
    assert world.waiting() == [second]

    def swap(ledger: Ledger) -> None:
        status_and_queue.queue(ledger, Seconds(0.0))
        release.release(ledger, first)

    world.run(swap)
    assert world.held() == [second]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_view_counts_work_of_those_who_do_not_share_it(world: World, *, at_once: bool) -> None:
    """Seats taken a moment ago by work without the view count in the pool that only it names."""
    world.pools({})
    plain = Request("b/z", "p", "m", since=Ms(1))
    viewing = Request("b/z", "q", "m", since=Ms(2), view="b/z=1")
    if not at_once:
        world.run(lambda ledger: limits_by_hand.pause(ledger, "host", None))
    first, second = world.run(lambda ledger: [admit.ask(ledger, one) for one in (plain, viewing)])
    world.run(lambda ledger: limits_by_hand.resume(ledger, "host"))
    assert world.held() == [first]
    assert world.waiting() == [second]


def test_one_lender_lends_to_one_of_two_lanes(world: World) -> None:
    """Two children that waited in different lanes do not both get the one seat of their parent."""
    world.pools({"host": 1})
    parent = world.ask()
    world.run(lambda ledger: limits_by_hand.pause(ledger, "host", None))
    first = world.ask("a/y", lender=parent)
    second = world.ask("a/z", lender=parent)
    world.run(lambda ledger: limits_by_hand.resume(ledger, "host"))
    assert world.held() == [parent, first]
    assert world.waiting() == [second]
    assert world.use("host") == 1


def test_a_seat_is_lent_on_only_by_its_last_borrower(world: World) -> None:
    """While a grandchild lives on after its parent, the grandparent's seat is still in use."""
    world.pools({"host": 1})
    parent = world.ask()
    child = world.ask(lender=parent)
    grandchild = world.ask(lender=child)
    world.release(child)
    other = world.ask(lender=parent)
    assert world.held() == [parent, grandchild]
    assert world.waiting() == [other]
    world.release(grandchild)
    assert world.held() == [parent, other]


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
def test_a_family_counts_once(world: World, depth: int) -> None:
    """However deep runs nest, they share one seat, and it is free once the last of them is gone."""
    world.pools({"host": 1})
    family = [world.ask()]
    for _ in range(depth):
        family.append(world.ask(lender=family[-1]))
    waits = world.ask(member="q")
    assert world.held() == family
    assert world.use("host") == 1
    for id in family[:-1]:
        world.release(id)
        assert world.waiting() == [waits]
        assert world.use("host") == 1
    world.release(family[-1])
    assert world.held() == [waits]


def test_a_heavier_child_asks_only_for_the_difference(world: World) -> None:
    """A child of weight three under a parent of weight two takes and gives back one seat."""
    world.pools({"host": 4})
    parent = world.ask(weight=2)
    child = world.ask(lender=parent, weight=3)
    assert world.use("host") == 3
    world.release(child)
    assert world.use("host") == 2
    child = world.ask(lender=parent, weight=3)
    world.release(parent)
    assert world.use("host") == 3


def test_a_borrower_counts_for_its_own_class(world: World) -> None:
    """A reserve is used up by whoever takes its seat, borrower or not, in any transaction."""
    world.pools({}, b=Declared(limit=3, reserve=(("interactive", 1),)))
    parent = world.ask("a/x")
    world.ask("b/z", lender=parent, urgency=-10)
    normal = world.ask("b/z", member="q", weight=2)
    assert normal in world.held()


def test_only_the_freed_part_of_a_family_rests(world: World) -> None:
    """A cooldown applies to seats that nobody of the family goes on using."""
    world.pools({}, a=Declared(limit=5, cooldown=Ms(1_000)))
    parent = world.ask()
    child = world.ask(lender=parent, weight=3)

    def cooling() -> int:
        return world.pool("a").cooling

    world.release(child)
    assert (world.use("a"), cooling()) == (1, 2)
    world.release(parent)
    assert (world.use("a"), cooling()) == (0, 3)


def test_an_orphaned_lease_outlives_its_ticket(world: World) -> None:
    """A member whose process ended leaves the line, and keeps the seats its programs use."""
    world.pools({"host": 1})
    held = world.ask()
    world.ask()
    world.liveness.orphan("p")
    other = world.ask(member="q")
    assert world.held() == [held]
    assert world.waiting() == [other]
    world.liveness.end("p")
    world.tidy()
    assert world.held() == [other]


def test_a_dead_holder_is_noticed_by_whoever_asks(world: World) -> None:
    """Nobody waits for the seat of the dead: the next to ask gets it in the same transaction."""
    world.pools({"host": 1})
    world.ask()
    world.liveness.end("p")
    mine = world.ask(member="q")
    assert world.held() == [mine]


def test_the_dead_in_line_hold_nobody_up(world: World) -> None:
    """A dead waiter at the head of its lane, and more behind it, are passed by at once."""
    world.pools({"host": 1})
    first = world.ask(member="q")
    for _ in range(3):
        world.ask(member="p")
    mine = world.ask(member="r")
    world.liveness.end("p")
    world.release(first)
    assert world.held() == [mine]
    assert world.waiting() == []


def test_positions_are_the_same_however_one_asks(world: World) -> None:
    """Where only a view names a pool, all ahead count whose work would sit in it."""
    world.pools({"host": 2})
    world.ask("b/z")
    heavy = world.ask("b/z", weight=2)
    mine = world.ask("b/z", view="b/z=1")
    by_list = {row.id: row.position for row in world.queue()}
    one_by_one = world.read(
        lambda ledger: status_and_queue.waiting(ledger, [heavy, mine], Seconds(0.0))
    )
    assert by_list == {id: row.position for id, row in one_by_one.items()} == {heavy: 1, mine: 2}


def test_positions_agree_when_nothing_blocks_any_more(world: World) -> None:
    """Between the end of a pause and the moment someone notices, the line is still in order."""
    world.run(lambda ledger: limits_by_hand.unset_limit(ledger, "host"))
    world.run(lambda ledger: limits_by_hand.pause(ledger, "host", Ms(100)))
    ids = [world.ask() for _ in range(3)]
    world.now += 1_000
    by_list = {row.id: row.position for row in world.queue()}
    one_by_one = world.read(lambda ledger: status_and_queue.waiting(ledger, ids, Seconds(0.0)))
    assert (
        by_list
        == {id: row.position for id, row in one_by_one.items()}
        == {id: index for index, id in enumerate(ids, start=1)}
    )


def test_a_lane_is_not_held_up_by_what_can_never_fit(world: World) -> None:
    """A ticket that a lowered limit can never hold does not block the lighter ones behind."""
    world.pools({"a": 3})
    first = world.ask(weight=3)
    heavy = world.ask(weight=3)
    light = world.ask(weight=1)
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 2))
    world.release(first)
    assert world.held() == [light]
    assert [(row.id, row.code) for row in world.queue()] == [(heavy, "too_heavy")]
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 3))
    world.release(light)
    assert world.held() == [heavy]


def test_a_borrower_is_too_heavy_only_for_what_it_lacks(world: World) -> None:
    """Work that fits with the help of its parent's seats waits for room, and is not too heavy."""
    world.pools({"host": 3})
    parent = world.ask()
    other = world.ask(member="q", weight=2)
    child = world.ask(lender=parent, weight=3)
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "host", 2))
    assert [(row.id, row.code) for row in world.queue()] == [(child, "pool_full")]
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "host", 3))
    world.release(other)
    assert world.held() == [parent, child]


def test_unset_lets_everyone_in(world: World) -> None:
    """Lifting a limit lets all who wait for it in, and restoring it ends nothing."""
    world.pools({"a": 1})
    ids = [world.ask() for _ in range(5)]
    world.run(lambda ledger: limits_by_hand.unset_limit(ledger, "a"))
    assert world.held() == ids
    world.run(lambda ledger: limits_by_hand.restore(ledger, "a"))
    late = world.ask()
    assert world.held() == ids
    for id in ids[:4]:
        world.release(id)
        assert world.waiting() == [late]
    world.release(ids[4])
    assert world.held() == [late]


def test_a_raised_limit_lets_in_as_many(world: World) -> None:
    """Raising a limit by two lets two of those who wait in, at once."""
    world.pools({"a": 1})
    ids = [world.ask() for _ in range(5)]
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 3))
    assert world.held() == ids[:3]


def test_a_new_pool_counts_what_runs_already(world: World) -> None:
    """A limit set for a pattern that nobody named before counts the leases that match it."""
    world.pools({})
    ids = [world.ask() for _ in range(3)]
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "a/*", 3))
    late = world.ask()
    assert world.waiting() == [late]
    world.release(ids[0])
    assert world.held() == [*ids[1:], late]


def test_a_cooldown_without_a_limit_imposes_none(world: World) -> None:
    """Seats freed where no limit is do not rest; once there is one, those freed afterwards do."""
    world.pools({})
    world.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "a", Ms(1_000)))
    world.release(world.ask())
    world.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 1))
    first = world.ask()
    assert world.held() == [first]
    world.release(first)
    waits = world.ask()
    assert world.queue()[0].code == "cooling"
    world.now += 1_000
    world.tidy()
    assert world.held() == [waits]


def test_a_changed_cooldown_leaves_resting_seats_alone(world: World) -> None:
    """A seat rests as long as was said when it was freed."""
    world.pools({"a": 1})
    world.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "a", Ms(1_000)))
    world.release(world.ask())
    world.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "a", Ms(0)))
    waits = world.ask()
    assert world.waiting() == [waits]
    world.now += 999
    world.tidy()
    assert world.waiting() == [waits]
    world.now += 1
    world.tidy()
    assert world.held() == [waits]
