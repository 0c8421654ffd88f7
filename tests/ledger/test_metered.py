"""What is shown of an agent's requests: on the wall clock, and for as long as its work is known."""

from headgate.core.display.snapshots import Metered, Running
from headgate.core.times import Ms, Seconds
from headgate.ledger.queries import metered, status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.test_cases import World
from tests.ledger.yard import WELL, Yard
from tests.store.rows import request

WALL = Seconds(2_000.0)
"""What the wall clock says when the store's says a million milliseconds."""


def asked(world: World, work: int, *, at: int, refused: int = 0) -> None:
    row = request(refused=refused)._replace(at=Ms(at))
    world.run(lambda ledger: ledger.tx.add_requests(work, [row]))


def shown(world: World, work: int, most: int = 5) -> Metered | None:
    return world.read(lambda ledger: metered.metered(ledger, work, WALL, most))


def test_requests_are_shown_on_the_wall_clock(world: World) -> None:
    """Times in seconds since the epoch, durations in seconds, the last ones in their order."""
    work = world.ask()
    world.run(lambda ledger: ledger.tx.keep_meter(work, "wire", "it says so", ""))
    for second in range(4):
        asked(world, work, at=990_000 + second * 1_000, refused=second % 2)
    found = shown(world, work, 2)
    assert found is not None
    assert (found.meter, found.reason, found.requests, found.refused) == (
        "wire",
        "it says so",
        4,
        2,
    )
    assert (found.waited, found.took, found.input_tokens) == (8.0, 0.28, 4_000)
    assert [one.at for one in found.last_requests] == [1_992.0, 1_993.0]
    assert [one.waited for one in found.last_requests] == [0.0, 4.0]
    assert shown(world, work + 1) is None


def test_they_outlive_the_lease(world: World) -> None:
    """What a `run` came to is known when it has ended, and so is what its wire writes last."""
    work = world.ask()
    world.run(lambda ledger: ledger.tx.keep_meter(work, "wire", "it says so", ""))
    asked(world, work, at=1_000_000)
    world.release(work)
    asked(world, work, at=1_000_000)
    found = shown(world, work)
    assert found is not None
    assert (found.meter, found.requests) == ("wire", 2)


def test_what_runs_is_shown_with_its_requests(world: World) -> None:
    """How many are on their way, and since when the oldest; not of others, nor when none is."""
    one, two = world.ask(), world.ask()
    world.run(lambda ledger: ledger.tx.set_in_flight(one, 3, Ms(940_000)))

    def look(ledger: Ledger) -> tuple[Running, ...]:
        running = status_and_queue.queue(ledger, WALL).running
        return metered.with_requests(ledger, running, WALL)

    found = {work.id: (work.in_flight, work.oldest_request) for work in world.read(look)}
    assert found == {one: (3, 1_940.0), two: (None, None)}
    world.run(lambda ledger: ledger.tx.set_in_flight(one, 0, Ms(0)))
    assert {work.in_flight for work in world.read(look)} == {None}


def test_a_job_takes_them_along(yard: Yard) -> None:
    """They are known while the job is, and forgotten with it."""
    yard.pools({"a": 1})
    yard.worker()
    job = yard.submit()
    yard.begin(job)
    asked(yard, job, at=1_000_000)
    yard.finish(job, WELL)
    assert shown(yard, job) is not None
    yard.run(lambda ledger: ledger.tx.drop_job(job))
    assert shown(yard, job) is None
