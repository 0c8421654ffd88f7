"""Tickets that waited before tasks were told apart get to the lanes of their tasks."""

from headgate.core.admission.pools import FAIR, Declared
from headgate.ledger.admission import task_lanes
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.test_cases import World


def crowd(world: World, tasks: int) -> list[int]:
    """One holds `a`, and two of each task wait in one lane."""
    world.pools({"a": 1})
    return [world.ask(task=f"t{number % tasks}") for number in range(1 + 2 * tasks)]


def shares(world: World) -> list[str]:
    return world.read(lambda ledger: [lane.share for lane in ledger.tx.lanes()])


def test_a_transaction_moves_so_many_and_no_more(world: World) -> None:
    """The first come first; what is left is told, and comes with the next."""
    _, *waiting = crowd(world, 3)
    world.pools({}, a=Declared(limit=1, per_task=1))
    assert shares(world) == [""]
    left = [world.run(lambda ledger: task_lanes.sort_out(ledger, 4)) for _ in range(2)]
    assert left == [True, False]
    assert len(set(shares(world))) == 3
    assert "" not in shares(world)
    assert world.waiting() == waiting


def test_it_is_known_when_none_are_left(world: World) -> None:
    """Before, while some are left, and after; and again once the pools have changed."""

    def unsorted(ledger: Ledger) -> bool:
        return task_lanes.unsorted(ledger)

    crowd(world, 2)
    assert not world.read(unsorted)
    world.pools({}, a=Declared(limit=1, order=FAIR))
    assert world.read(unsorted)
    world.run(lambda ledger: task_lanes.sort_out(ledger, 3))
    assert world.read(unsorted)
    world.run(task_lanes.sort_out)
    assert not world.read(unsorted)


def test_who_was_behind_another_task_gets_in(world: World) -> None:
    """The first of the lane is held back by its own task only, once they are told apart."""
    world.pools({"a": 1})
    world.ask(task="t")
    second, other = world.ask(task="t"), world.ask(task="u")
    world.pools({}, a=Declared(limit=3, per_task=1))
    world.tidy()
    assert world.waiting() == [second, other]
    world.run(task_lanes.sort_out)
    assert world.waiting() == [second]
