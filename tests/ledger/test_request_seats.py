"""Seats for the requests of an agent, which holds the seat of its machine itself."""

from typing import Any

from headgate.core.admission.pools import Declared
from headgate.core.answers.signals import ACCEPTED, Signal
from headgate.core.times import Ms, Seconds
from headgate.ledger import release
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals
from headgate.ledger.queries import deadlocks, status_and_queue
from headgate.ledger.queries.forecast import forecast
from headgate.ledger.transaction.rows import WITHOUT_HOST, LeaseRow
from tests.ledger.test_cases import World


def request(world: World, key: str = "a/x", **more: Any) -> int:  # noqa: ANN401
    return world.ask(key, lender=WITHOUT_HOST, **more)


def row(world: World, id: int) -> LeaseRow:
    found = world.read(lambda ledger: ledger.tx.lease(id))
    assert found is not None
    return found


def test_requests_take_no_seat_of_their_machine(world: World) -> None:
    """An agent with four requests at once takes one seat of `host` and four of the model."""
    world.pools({"host": 1, "a": 4})
    agent = world.ask("")
    requests = [request(world) for _ in range(5)]
    assert world.held() == [agent, *requests[:4]]
    assert (world.use("host"), world.use("a")) == (1, 4)
    assert row(world, requests[0]).machine == ""
    assert row(world, requests[0]).is_request


def test_a_request_that_waits_is_let_in_by_a_request_that_ends(world: World) -> None:
    """Seats of the model go round, however full the machine is and whoever waits for it."""
    world.pools({"host": 1, "a": 1})
    agent = world.ask("")
    first, second = request(world), request(world)
    other = world.ask("")
    assert [(one.id, one.position, one.pool) for one in world.queue()] == [
        (second, 1, "a"),
        (other, 1, "host"),
    ]
    world.release(first)
    assert world.held() == [agent, second]
    assert world.waiting() == [other]
    assert world.pool("host").queued == 1
    assert world.pool("a").queued == 0


def test_a_request_does_not_wait_for_those_who_wait_for_the_machine(world: World) -> None:
    """Work that waits for a seat of `host` passes no request, and is passed by none."""
    world.pools({"host": 1, "a": 2})
    agent = world.ask("")
    heavy = world.ask("a/x")
    asked = request(world)
    assert world.held() == [agent, asked]
    assert world.waiting() == [heavy]
    world.release(agent)
    assert world.held() == [heavy, asked]


def test_agents_and_requests_share_the_seats_of_a_model(world: World) -> None:
    """What counts as an agent and what counts as a request never add up to more than the cap."""
    world.pools({"a": 2})
    agent = world.ask("a/x")
    asked = [request(world, since=n) for n in (3, 2, 1)]
    assert world.held() == [agent, asked[0]]
    world.release(agent)
    assert world.held() == [asked[0], asked[2]], "the order is by when the prompt began"


def test_nobody_is_told_of_each_request(world: World) -> None:
    """Requests are let in, end and leave the line without events: there are thousands of them."""
    world.pools({"a": 1})
    first, second = request(world), request(world)
    world.run(lambda ledger: release.withdraw(ledger, second))
    world.release(first)
    assert world.held() == []
    assert world.read(lambda ledger: ledger.tx.events(-1, 100, 0)) == []


def test_a_request_that_ends_with_its_process_is_an_incident(world: World) -> None:
    """Seats that were taken back from the dead are told of, also a request's."""
    world.pools({"a": 1})
    lost = request(world, member="q")
    world.liveness.end("q")
    world.tidy()
    assert world.held() == []
    events = world.read(lambda ledger: ledger.tx.events(-1, 100, lost))
    assert [one.kind for one in events] == ["lost"]


def test_a_request_that_was_broken_off_rests(world: World) -> None:
    """Upstream goes on with what it had accepted for as long as that usually takes."""
    world.pools({}, a=Declared(limit=1, cooldown=Ms(100)))
    first = request(world)
    world.now += 10_000
    world.release(first)
    world.now += 1_000
    second = request(world)
    told = Signal(ACCEPTED)
    world.run(lambda ledger: apply_signals.report(ledger, told, lease=second, key="a/x"))
    world.now += 1_000
    world.run(lambda ledger: release.release(ledger, second, completed=False))
    assert (world.pool("a").in_use, world.pool("a").cooling) == (0, 1)
    world.now += 8_000
    assert world.pool("a").cooling == 1
    world.now += 1_500
    assert world.pool("a").cooling == 0


def test_what_is_shown_of_requests(world: World) -> None:
    """A request borrows from nobody, makes no circle, and its time is not the machine's."""
    world.pools({"host": 1, "a": 1})
    agent = world.ask("")
    first = request(world)
    world.now += 4_000
    world.release(first)
    held, waits = request(world), request(world)
    world.ask("")
    queue = world.read(lambda ledger: status_and_queue.queue(ledger, Seconds(0.0)))
    assert [(one.id, one.borrows) for one in queue.running] == [(agent, None), (held, None)]
    etas = {one.id: (one.pool, one.eta) for one in queue.waiting}
    assert etas[waits] == ("a", 4.0)
    assert [eta for pool, eta in etas.values() if pool == "host"] == [None]
    assert world.read(deadlocks.find) == ()


def test_capacity_and_forecast_of_a_request(world: World) -> None:
    """What a request would find is asked without the seat of the machine."""
    world.pools({"host": 1, "a": 2})
    world.ask("")
    like = Request("a/x", "p", "m", since=Ms(world.now), lender=WITHOUT_HOST)

    def free(lender: int) -> int | None:
        found = world.read(lambda ledger: status_and_queue.capacity(ledger, "a/x", lender=lender))
        return found.free

    assert (free(0), free(WITHOUT_HOST)) == (0, 2)
    found = world.read(lambda ledger: forecast(ledger, [like] * 3))
    assert [one.position for one in found] == [None, None, 1]
    assert [one.pool for one in found[2].reasons] == ["a"]
