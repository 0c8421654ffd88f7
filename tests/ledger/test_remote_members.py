"""Clients on other machines: counted until they are fenced, by the store's clock alone."""

from functools import partial
from typing import Any

import pytest

from headgate.core.display.snapshots import Past, Running
from headgate.core.times import Ms, Seconds
from headgate.errors import FencedError, UsageError
from headgate.ledger import dead_members, remote_members
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries import status_and_queue
from headgate.ledger.remote_members import Standing
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import FENCE, Hearing, RemoteMember
from tests.ledger.test_cases import World

ONE, OTHER = "remote-1", "remote-2"


def join(world: World, id: str = ONE, fence: Ms | None = FENCE) -> None:
    row = RemoteMember(id, "laptop", "p", "", Ms(0), fence)
    world.run(lambda ledger: remote_members.join(ledger, row, "0.2.0", 9))


def hear(world: World, id: str = ONE) -> None:
    world.run(lambda ledger: remote_members.hear(ledger, id, "p"))


def ask(world: World, key: str, member: str = ONE, **more: Any) -> int:  # noqa: ANN401
    request = Request("a/x", member, "far", **more)
    return world.run(lambda ledger: remote_members.ask(ledger, request, key, "same"))


def standing(world: World, member: str = ONE) -> Standing:
    return world.read(lambda ledger: remote_members.standing(ledger, member))


def state(world: World, id: int) -> str:
    found = world.read(lambda ledger: status_and_queue.why(ledger, id, Seconds(0.0)))
    assert isinstance(found, Running)
    return found.state


def last(world: World, id: int) -> str:
    found = world.read(lambda ledger: status_and_queue.why(ledger, id, Seconds(0.0)))
    assert isinstance(found, Past)
    return found.events[-1].event


@pytest.fixture
def world(world: World) -> World:
    world.pools({"a": 1})
    return world


def test_a_silent_client_is_counted_until_its_fence_and_its_margin_are_over(world: World) -> None:
    """First suspect, which changes nothing; then its seats go to the next in line, in its order."""
    join(world)
    lease = ask(world, "k")
    waits = world.ask()
    world.now += 30_000
    world.tidy()
    assert state(world, lease) == "running"
    world.now += 1
    world.tidy()
    assert state(world, lease) == "suspect"
    world.now += 569_999 + 32_000
    world.tidy()
    assert world.held() == [lease]
    world.now += 1
    world.tidy()
    assert world.held() == [waits]
    assert last(world, lease) == "lost"


def test_who_is_heard_of_is_never_fenced(world: World) -> None:
    """However long it holds; and who comes back from being suspect is as before."""
    join(world)
    lease = ask(world, "k")
    for _ in range(10):
        world.now += 599_000
        world.tidy()
        assert state(world, lease) == "suspect"
        hear(world)
        assert state(world, lease) == "running"
    assert world.held() == [lease]


def test_who_comes_back_after_its_fence_finds_nothing(world: World) -> None:
    """Also if nobody has looked meanwhile: what it had is freed in that moment, and goes on."""
    join(world)
    ask(world, "k")
    waits = world.ask()
    world.now += 700_000
    assert world.read(lambda ledger: ledger.hearing(ONE)) is Hearing.FENCED

    def come_back(ledger: Ledger) -> None:
        with pytest.raises(FencedError):
            remote_members.hear(ledger, ONE, "p")

    world.run(come_back)
    assert world.held() == [waits]
    assert standing(world) == Standing({}, {})
    with pytest.raises(FencedError):
        hear(world)


def test_never_is_never(world: World) -> None:
    """Such a client is counted for years, until somebody says that it is gone."""
    join(world, fence=None)
    lease = ask(world, "k")
    with pytest.raises(UsageError, match="was heard of 0ms ago"):
        world.run(lambda ledger: dead_members.free(ledger, lease))
    world.now += 3 * 365 * 24 * 3_600_000
    world.tidy()
    assert world.held() == [lease]
    assert world.run(lambda ledger: dead_members.free(ledger, lease))
    assert world.held() == []
    assert standing(world).holds == {}


def test_a_fence_of_its_own(world: World) -> None:
    """Each client has its own; half of a short one makes suspect."""
    join(world, fence=Ms(2_000))
    join(world, OTHER)
    lease = ask(world, "k")
    world.now += 1_001
    assert state(world, lease) == "suspect"
    world.now += 3_100
    world.tidy()
    assert world.held() == []
    assert world.read(lambda ledger: ledger.hearing(OTHER)) is Hearing.HEARD


def test_a_silent_client_that_waits_stands_aside_and_keeps_its_place(world: World) -> None:
    """Others are let in meanwhile; when it is heard of again it is first."""
    join(world)
    first = world.ask()
    waits = ask(world, "k")
    behind = world.ask()
    world.now += 31_000
    assert world.queue()[0].code == "pool_full"
    world.release(first)
    assert world.held() == [behind]
    hear(world)
    world.release(behind)
    assert world.held() == [waits]


def test_a_silent_client_says_why_it_waits(world: World) -> None:
    """It could start, but nobody would be there."""
    join(world)
    first = world.ask()
    ask(world, "k")
    world.now += 31_000
    world.release(first)
    assert [one.code for one in world.queue()] == ["client_silent"]
    hear(world)
    assert world.waiting() == []


def test_who_asks_again_under_its_key_gets_what_it_has(world: World) -> None:
    """A place or a lease; another request under the key is refused; a freed one is asked anew."""
    join(world)
    first, second = ask(world, "k"), ask(world, "l")
    assert [ask(world, "k"), ask(world, "l")] == [first, second]
    assert standing(world).waits == {second: "l"}
    assert {id: held.key for id, held in standing(world).holds.items()} == {first: "k"}
    with pytest.raises(UsageError, match="another request"):
        world.run(lambda ledger: remote_members.ask(ledger, Request("a/y", ONE, "far"), "k", "x"))
    world.release(first)
    assert list(standing(world).holds) == [second]
    assert ask(world, "k") == second + 1


def test_a_ticket_that_somebody_dropped_comes_back_to_its_place(world: World) -> None:
    """Who asks again under the key of one that is gone without a word has its id and its place."""
    join(world)
    first = world.ask()
    mine = ask(world, "k", since=Ms(world.now))
    world.now += 1
    behind = world.ask()
    world.run(lambda ledger: ledger.drop_ticket(mine))
    assert ask(world, "k", since=Ms(world.now - 1)) == mine
    assert world.waiting() == [mine, behind]
    world.release(first)
    assert world.held() == [mine]


def test_who_leaves_gives_all_back(world: World) -> None:
    """Its seats, its places, its rows; who is told so twice is not surprised."""
    join(world)
    first, second, third = ask(world, "k"), ask(world, "l"), world.ask()
    for _ in range(2):
        world.run(lambda ledger: remote_members.leave(ledger, ONE))
    assert world.held() == [third]
    assert world.waiting() == []
    assert (last(world, first), last(world, second)) == ("released", "withdrawn")
    assert world.read(lambda ledger: ledger.tx.member(ONE)) is None
    assert world.read(lambda ledger: ledger.tx.remote_member(ONE)) is None


def test_nobody_ends_what_is_anothers(world: World) -> None:
    """Neither a ticket nor a lease."""
    join(world)
    join(world, OTHER)
    first, second = ask(world, "k"), ask(world, "l")
    for id in (first, second, 99):
        end = partial(remote_members.withdraw_or_release, member=OTHER, id=id, completed=True)
        assert world.run(end) is False
    assert world.held() == [first]
    assert world.waiting() == [second]


def test_what_passes_while_the_machine_is_off_is_no_silence(world: World) -> None:
    """Nobody has seen how long that was; the silence begins with the first look afterwards."""
    join(world)
    lease = ask(world, "k")

    def restart(ledger: Ledger) -> None:
        row = ledger.tx.remote_member(ONE)
        assert row is not None
        ledger.tx.keep_remote_member(row._replace(boot="the boot before"))

    world.run(restart)
    world.now += 10**9
    world.tidy()
    assert state(world, lease) == "running"
    world.now += 632_001
    world.tidy()
    assert world.held() == []


def test_a_client_without_its_row_is_counted(world: World) -> None:
    """Who may be alive is alive: only certainty frees a seat."""
    join(world)
    lease = ask(world, "k")
    world.run(lambda ledger: ledger.tx.add_member(ledger.tx.members()[-1]._replace(id=OTHER)))
    assert OTHER not in world.read(dead_members.find_dead)
    assert world.held() == [lease]


def test_a_kill_of_all_that_is_local_changes_nothing_for_it(world: World) -> None:
    """Nobody serves it for a while: it is counted all the same."""
    join(world)
    lease, waits = ask(world, "k"), ask(world, "l")
    for member in "pqr":
        world.liveness.end(member)
    world.tidy()
    assert world.held() == [lease]
    assert world.waiting() == [waits]
