"""A pass over a long line lets the same in as one that looks at every lane."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headgate.core.admission.pools import FAIR, OLDEST, Declared
from headgate.core.times import Ms
from headgate.errors import TooHeavyError
from headgate.ledger import limits_by_hand, release
from headgate.ledger.admission import admit, line_walk
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries.positions_and_etas import Survey
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import WITHOUT_HOST, Lane
from headgate.store import memory
from headgate.store.memory import MemoryStore
from headgate.store.sql_rows import line
from headgate.store.sqlite import SqliteStore
from tests.ledger.test_cases import World
from tests.ledger.yard import Yard

KEYS = [f"{provider}/{model}" for provider in "abcd" for model in ("x", "y", "z[1m]", "w")]
SHARED = {
    "*/w": Declared(limit=5, per_task=2),
    "d/x": Declared(order=FAIR),
    "role:*": Declared(limit=5, order=FAIR),
    "role:lead": Declared(limit=3, per_task=1),
}
"""Pools that tell tasks apart."""
Do = Callable[[Ledger], Any]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many lanes are so few that a pass looks at all of them."""

    def set_it(number: int) -> None:
        monkeypatch.setattr(memory, "FEW_LANES", number)
        monkeypatch.setattr(line, "FEW_LANES", number)

    return set_it


def city(store: Any) -> Yard:  # noqa: ANN401 - any store
    """Pools of every kind, narrow enough for a long line."""
    it = Yard(store)
    it.pools(
        {"a": 3, "*/x": 2, "b/y": 1, "c/z[1m]": 1, "d/*": 4},
        host=Declared(limit=9, reserve=(("interactive", 2),)),
        c=Declared(limit=4, cooldown=Ms(50)),
        b=Declared(limit=3, spacing=Ms(20)),
        **SHARED,
    )
    it.worker()
    return it


def steps(chance: random.Random, held: list[int], line: list[int]) -> Do:
    """Something that may happen in a transaction."""
    key, weight = chance.choice(KEYS), chance.choice((1, 1, 1, 1, 2, 3))
    urgency, since = chance.choice((0, 0, 0, 10, -10)), Ms(chance.randrange(1_000_000))
    view = chance.choice(("",) * 8 + ("host=12", "a=1,d=2"))
    lender = chance.choice([0] * 6 + [WITHOUT_HOST] * 2 + held[:1])
    roles = chance.choice(("", "", "", "role:dev", "role:dev role:lead"))
    request = Request(
        key=key,
        member="p",
        machine=chance.choice(("m", "m", "m", "n")),
        weight=weight,
        urgency=urgency,
        since=since,
        view=view,
        lender=lender,
        task=chance.choice(("t", "t", "u", "v")),
        roles=roles,
    )
    pool, limit = chance.choice(("a", "d/*", "host", "b/y")), chance.randrange(1, 12)

    def ask(ledger: Ledger) -> None:
        with suppress(TooHeavyError):
            admit.ask(ledger, request)

    kinds: list[Do] = [ask] * 10
    kinds += [lambda ledger: release.release(ledger, chance_of(held))] * 5 if held else []
    kinds += [lambda ledger: release.withdraw(ledger, chance_of(line))] if line else []
    kinds += [
        lambda ledger: limits_by_hand.set_limit(ledger, pool, limit),
        lambda ledger: limits_by_hand.set_order(ledger, pool, FAIR if limit % 2 else OLDEST),
        lambda ledger: limits_by_hand.set_per_task(ledger, pool, limit % 3 or None),
        lambda ledger: ledger.reconsider(),
    ]
    picked = chance.random()

    def chance_of(ids: list[int]) -> int:
        return ids[int(picked * len(ids))]

    return chance.choice(kinds)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_same_are_let_in(
    seed: int,
    kind: str,
    tmp_path: Path,
    few: Callable[[int], None],
    monkeypatch: Any,  # noqa: ANN401
) -> None:
    """Leases, tickets and who was overtaken are the same, where the whole line is its front."""
    monkeypatch.setattr(line_walk, "FRONT", 10_000)
    chance = random.Random(seed)  # noqa: S311 - a history to repeat

    def store(clock: Callable[[], int]) -> Any:  # noqa: ANN401
        if kind == "memory":
            return MemoryStore(clock=clock)
        return SqliteStore(tmp_path / "walk.db", clock=clock, synchronous="OFF")

    plain, walking = city(lambda clock: MemoryStore(clock=clock)), city(store)
    waited = 0
    for turn in range(150):
        held, waiting = plain.held(), [row.id for row in tickets(plain)]
        do = steps(random.Random(f"{seed}/{turn}"), held, waiting)  # noqa: S311
        for it, number in ((plain, 10_000), (walking, 0)):
            few(number)
            it.run(do)
        seen = [
            (it.held(), [row._replace(lane=0) for row in tickets(it)]) for it in (plain, walking)
        ]
        assert seen[0] == seen[1], f"turn {turn}"
        waited += bool(seen[0][1])
        if chance.random() < 0.3:
            passed = chance.choice((5, 30, 60))
            for it, number in ((plain, 10_000), (walking, 0)):
                few(number)
                it.now += passed
                it.run(lambda ledger: ledger.reconsider())
    assert waited > 75, "hardly anybody has to wait"


@pytest.mark.parametrize("seed", range(6))
def test_nobody_waits_who_need_not(
    seed: int, few: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little of the line a pass looks at, one that looks at all of it lets nobody in."""
    monkeypatch.setattr(line_walk, "FRONT", 1)
    it = city(lambda clock: MemoryStore(clock=clock))
    for turn in range(200):
        few(0)
        it.run(steps(random.Random(f"{seed}/{turn}"), it.held(), [row.id for row in tickets(it)]))  # noqa: S311
        few(10_000)
        stuck = it.read(lambda ledger: [head.id for head in Survey(ledger).dry.let_in()])
        assert not stuck, f"turn {turn}"


def tickets(it: Yard) -> list[Any]:
    """Everyone who waits, in order."""
    return it.read(
        lambda ledger: sorted(
            (row for lane in ledger.lanes() for row in ledger.tx.page(lane.id, None, 10_000)),
            key=lambda row: row.order,
        )
    )


def test_who_came_at_one_moment_is_not_all_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seat is given to the first of two hundred keys without a look at all of the others."""
    world.pools({}, host=Declared(limit=1))
    holder = world.ask("a/holder")
    waiting = [world.ask(f"a/m{number}") for number in range(200)]
    looked: list[int] = []
    look = admit.next_head

    def counted(ledger: Ledger, lane: Lane, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
        looked.append(lane.id)
        return look(ledger, lane, *rest, **named)

    monkeypatch.setattr(admit, "next_head", counted)
    world.release(holder)
    assert world.read(lambda ledger: ledger.tx.lease(waiting[0])) is not None
    assert 0 < len(looked) < 50
