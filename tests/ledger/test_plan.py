"""A dry run says what would happen, and changes nothing."""

import random
from functools import partial
from pathlib import Path

import pytest

from headgate.core.admission.pools import Declared
from headgate.core.display.snapshots import explain
from headgate.core.times import Ms
from headgate.errors import TooHeavyError
from headgate.ledger import limits_by_hand
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries import status_and_queue
from headgate.ledger.queries.forecast import Forecast, forecast
from headgate.ledger.transaction.ledger import Ledger
from headgate.store.memory import MemoryStore
from tests.ledger.test_cases import World
from tests.ledger.yard import Yard

OPUS, SONNET = "anthropic/claude-opus-4-6", "anthropic/claude-sonnet-4-6"


def want(key: str = "a/x", priority: int = 0, member: str = "r", **more: int | str) -> Request:
    return Request(key, member, "m", urgency=-priority, **more)  # type: ignore[arg-type]


def plan(world: World, *requests: Request) -> list[Forecast]:
    return world.read(lambda ledger: forecast(ledger, requests))


def starts(world: World, *requests: Request) -> list[bool]:
    return [not one.reasons for one in plan(world, *requests)]


def codes(world: World, *requests: Request) -> list[str]:
    return [one.reasons[0].code if one.reasons else "" for one in plan(world, *requests)]


def test_opus_is_deferred_and_sonnet_is_not(world: World) -> None:
    """Of six opus and ten sonnet candidates under a cap of 4 on opus, two opus ones wait."""
    world.pools({"anthropic/claude-opus-*": 4})
    found = plan(world, *[want(OPUS)] * 6, *[want(SONNET)] * 10)
    assert [bool(one.reasons) for one in found] == [False] * 4 + [True] * 2 + [False] * 10
    assert {one.reasons[0].code for one in found[4:6]} == {"pool_full"}
    assert [one.position for one in found[4:6]] == [1, 2]


def test_the_order_is_that_of_the_line(world: World) -> None:
    """Priority first, then since, then the order in which they were given."""
    world.pools({"a": 1})
    assert starts(world, want(), want(priority=5), want(priority=9)) == [False, False, True]
    assert starts(world, want(since=9), want(since=7), want(since=8)) == [False, True, False]
    assert starts(world, want(), want(since=7)) == [False, True]
    positions = [one.position for one in plan(world, want(since=9), want(since=7), want(since=8))]
    assert positions == [2, None, 1]


def test_nobody_who_waits_is_passed(world: World) -> None:
    """A seat that will be free for somebody who waits is not promised to another."""
    world.pools({"a": 1})
    first = world.ask(since=1)
    world.ask(since=2)
    world.ask(since=3)
    assert [one.position for one in plan(world, want(), want())] == [3, 4]
    assert [one.position for one in plan(world, want(priority=1))] == [1]
    assert [one.position for one in plan(world, want(since=2))] == [2]
    world.run(lambda ledger: limits_by_hand.pause(ledger, "a", Ms(1_000)))
    world.release(first)
    world.now += 2_000  # the pause is over, and nobody has looked since
    assert starts(world, want()) == [False]
    assert starts(world, want(priority=1)) == [True]


def test_the_dead_do_not_count(world: World) -> None:
    """A process that has ended keeps nobody waiting, even before it is buried."""
    world.pools({"a": 1})
    world.run(lambda ledger: limits_by_hand.pause(ledger, "a", Ms(1_000)))
    world.ask(member="q")
    world.now += 2_000
    assert starts(world, want()) == [False]
    world.liveness.end("q")
    assert starts(world, want()) == [True]


def test_a_heavy_one_holds_up_its_lane_only(world: World) -> None:
    """Lighter ones of the same lane do not pass it; other keys do."""
    world.pools({"a": 3, "a/x": 2})
    found = codes(world, want(), want(weight=2), want(), want("a/y"), want(weight=4))
    assert found == ["", "pool_full", "pool_full", "", "too_heavy"]


def test_what_can_never_fit_has_no_position(world: World) -> None:
    """It would be refused, not queued."""
    world.pools({"a": 3})
    (found,) = plan(world, want(weight=4))
    assert (found.reasons[0].code, found.position, found.eta) == ("too_heavy", None, None)


def test_a_view_counts_for_those_who_have_it(world: World) -> None:
    """Limits from the environment beat the others, wider or narrower."""
    world.pools({"a": 2})
    assert starts(world, *[want(view="a=3")] * 4) == [True, True, True, False]
    assert starts(world, *[want(view="a/x=1")] * 2) == [True, False]
    world.ask("a/x")
    assert starts(world, want(view="a/x=1")) == [False]


def test_paused_reserved_and_apart(world: World) -> None:
    """Pauses, reserves and a distance between starts have their say."""
    world.pools(
        {},
        b=Declared(limit=2, reserve=(("interactive", 1),)),
        c=Declared(limit=9, spacing=Ms(5_000)),
    )
    assert codes(world, want("b/x"), want("b/x")) == ["", "reserved"]
    assert codes(world, want("b/x"), want("b/x", 10)) == ["", ""]
    assert codes(world, want("c/x"), want("c/x")) == ["", "spacing"]
    world.run(lambda ledger: limits_by_hand.pause(ledger, "c", Ms(60_000)))
    (found,) = plan(world, want("c/x"))
    assert (found.reasons[0].code, found.eta) == ("pool_paused", 60_000)


def test_the_expected_time_counts_those_that_would_start(world: World) -> None:
    """With every seat planned away, the next is free when the first of them is done."""
    world.pools({"a": 2})
    for _ in range(3):
        id = world.ask()
        world.now += 10_000
        world.release(id)
    etas = [one.eta for one in plan(world, *[want()] * 5)]
    assert etas == [None, None, 10_000, 10_000, 20_000]


def test_a_child_borrows_once(world: World) -> None:
    """Of what a program under a lease would start, the first sits in its seat, no other does."""
    world.pools({"host": 1})
    parent = world.ask()
    assert starts(world, *[want(lender=parent)] * 2) == [True, False]


def starve(yard: Yard) -> int:
    """Have a job that needs both seats of a pool be passed once; one seat is free since."""
    yard.pools({"a": 2})
    yard.worker()
    first, second = yard.ask(), yard.ask()
    job = yard.submit(weight=2)
    later = yard.ask("a/y", since=yard.now + 1)
    yard.release(first)
    assert yard.held() == [second, later]
    yard.release(second)
    return job


@pytest.mark.parametrize("key", ["a/x", "a/z"])
def test_a_seat_kept_for_a_job_is_kept(yard: Yard, key: str) -> None:
    """Whoever comes after a starved job is deferred, in the lane of its key or another."""
    job = starve(yard)
    (found,) = plan(yard, want(key))
    assert (found.reasons[0].code, found.position) == ("kept", 2)
    id = yard.run(lambda ledger: admit.ask(ledger, want(key, since=yard.now)))
    assert yard.waiting() == [job, id]
    assert yard.read(partial(status_and_queue.capacity, key=key)).code == "kept"


def test_a_job_that_nobody_starts_holds_nobody_up(yard: Yard) -> None:
    """Without a worker on this machine, what was kept for the job is there for others."""
    starve(yard)
    yard.die("w")
    assert starts(yard, want()) == [True]
    id = yard.run(lambda ledger: admit.ask(ledger, want(since=yard.now)))
    assert id in yard.held()


def test_a_job_of_the_same_key_is_no_lane_mate(yard: Yard) -> None:
    """A job that waits for two seats and was never passed holds up jobs, not a light run."""
    yard.pools({"a": 2})
    yard.worker()
    yard.ask()
    yard.submit(weight=2)
    assert starts(yard, want()) == [True]
    assert yard.read(partial(status_and_queue.capacity, key="a/x")).code is None
    assert starts(yard, want(member="")) == [False]


def test_a_heavy_child_counts_for_its_own_class(world: World) -> None:
    """Seats that it borrowed are of its class, too, and so those reserved for it are in use."""
    world.pools({}, b=Declared(limit=4, reserve=(("background", 2),)))
    parent = world.ask("b/x")
    child = want("b/x", -10, weight=2, lender=parent)
    requests = [child, want("b/x", since=world.now + 1), want("b/x", since=world.now + 1)]
    assert starts(world, *requests) == [True, True, True]
    ids = world.run(lambda ledger: [admit.ask(ledger, one) for one in requests])
    assert set(world.held()) == {parent, *ids}


def test_a_child_counts_once_in_a_pool_that_only_a_view_names(world: World) -> None:
    """What a child has borrowed is not taken twice in the eyes of those who have the view."""
    world.pools({})
    parent = world.ask("b/z")
    requests = [want("b/z", lender=parent, since=1), want("b/z", view="b/z=2", since=2)]
    assert starts(world, *requests) == [True, True]
    ids = world.run(lambda ledger: [admit.ask(ledger, one) for one in requests])
    assert set(world.held()) == {parent, *ids}


def test_who_would_leave_the_line_is_not_ahead(world: World) -> None:
    """Of two who wait and of whom one would be let in first, one is ahead."""
    world.pools({"a": 1})
    world.run(lambda ledger: limits_by_hand.pause(ledger, "a", Ms(1_000)))
    world.ask(since=1)
    world.ask(since=2)
    world.now += 2_000
    assert [one.position for one in plan(world, want())] == [2]


@pytest.mark.parametrize("seed", range(15))
def test_it_is_what_would_happen(seed: int, tmp_path: Path) -> None:
    """Whatever runs and waits: asking for all of them at once has the outcome that was planned."""
    world = World(lambda clock: MemoryStore(clock=clock))
    chance = random.Random(seed)  # noqa: S311 - picks cases
    keys = ["a/x", "a/y", "b/x", "b/y", ""]
    world.pools({name: chance.randint(1, 5) for name in ("host", "a", "b", "*/x", "a/y")})
    for _ in range(chance.randint(0, 25)):
        world.now += chance.randint(0, 5)
        held = world.held()
        if held and chance.random() < 0.3:
            world.release(chance.choice(held))
        else:
            view = chance.choice(["", "", "", "a=2,b/y=1"])
            weight = chance.choice([1, 1, 1, 2])
            try:
                world.ask(chance.choice(keys), chance.choice("pq"), weight=weight, view=view)
            except TooHeavyError:
                continue
    world.now += 1
    requests = [
        want(
            chance.choice(keys),
            chance.choice([-10, 0, 0, 0, 10]),
            weight=chance.choice([1, 1, 2]),
            since=chance.choice([0, 0, world.now - 3]) or world.now,
        )
        for _ in range(chance.randint(1, 12))
    ]
    before = rows(world)
    planned = plan(world, *requests)
    assert rows(world) == before
    order = sorted(range(len(requests)), key=lambda n: (requests[n].urgency, requests[n].since, n))

    def ask_all(ledger: Ledger) -> dict[int, int]:
        return {
            admit.ask(ledger, requests[n]): n
            for n in order
            if not planned[n].reasons or planned[n].position
        }

    ids = world.run(ask_all)
    let_in = set(world.held())
    assert {n for id, n in ids.items() if id in let_in} == {
        n for n, one in enumerate(planned) if not one.reasons
    }
    for row in world.queue():
        if row.id in ids:  # it may be held up by more than it was when its turn came
            one = planned[ids[row.id]]
            said = "; ".join(explain(reason, Ms(world.now)) for reason in one.reasons)
            assert one.position == row.position or said != row.reason


def rows(world: World) -> list[object]:
    """All that the store holds."""

    def look(ledger: Ledger) -> list[object]:
        tx = ledger.tx
        lanes = tx.lanes()
        tickets = [tx.page(lane.id, None, 1_000) for lane in lanes]
        events = tx.events(0, 10_000, 0)
        return [
            lanes,
            tickets,
            tx.leases(0, 1_000),
            tx.rests(),
            tuple(tx.pool_table().rows.values()),
            tx.members(),
            events,
        ]

    return world.read(look)
