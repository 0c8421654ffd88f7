"""One suite for every store: what an open transaction promises, through independent connections."""

import contextlib
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

from headgate.core.admission.lease_events import ACCEPTED, PENDING, refused
from headgate.core.admission.pools import PoolRow
from headgate.core.times import Ms
from headgate.ledger.transaction.rows import (
    WITHOUT_HOST,
    HoldHistory,
    LeaseRow,
    Member,
    Rest,
    Ticket,
    Tx,
)
from headgate.store import Store, open_store
from tests.store.far import FarStore
from tests.store.rows import (
    CHANGES,
    STOP,
    change_at_random,
    fill,
    happening,
    lane,
    lease,
    rest,
    said,
    ticket,
)

Connect = Callable[[], Store]
T = TypeVar("T")
MOST_EVENTS = 10_000
SLACK = 100
"""By how many events a store may be late with forgetting."""


class Crash(BaseException):
    """Something that no store expects."""


@pytest.fixture(params=["memory", "sqlite", "far"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return f"memory://{uuid4().hex}" if kind == "memory" else f"sqlite://{tmp_path}/rows.db"


@pytest.fixture
def connect(url: str, kind: str) -> Iterator[Connect]:
    """Opens the same store again and again, each time as someone else would."""
    opened: list[Store] = []

    def another() -> Store:
        path = Path(url.removeprefix("sqlite://"))
        opened.append(FarStore(path, eager=True) if kind == "far" else open_store(url))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


@pytest.fixture
def store(connect: Connect) -> Store:
    return connect()


def read(store: Store, what: Callable[[Tx], T]) -> T:
    with store.transaction(write=False) as tx:
        return what(tx)


def write(store: Store, what: Callable[[Tx], T]) -> T:
    with store.transaction(write=True) as tx:
        return what(tx)


def test_no_id_comes_twice(connect: Connect) -> None:
    """Ids go up by one, through whatever connection, and are not given again once rows are gone."""
    one, other = connect(), connect()
    first = write(one, lambda tx: [tx.next_id(), tx.next_id()])
    second = write(other, lambda tx: [tx.next_id(), tx.next_id()])
    write(one, lambda tx: tx.add_lease(lease(second[-1])))
    write(other, lambda tx: tx.drop_lease(second[-1]))
    third = write(one, lambda tx: tx.next_id())
    assert [*first, *second, third] == [1, 2, 3, 4, 5]


def test_ids_go_on_after_reopening(connect: Connect) -> None:
    """Closing every connection and opening the store again does not begin the ids anew."""
    one = connect()
    assert write(one, lambda tx: [tx.next_id() for _ in range(3)]) == [1, 2, 3]
    one.close()
    assert write(connect(), lambda tx: tx.next_id()) == 4


def test_the_store_has_one_name(connect: Connect) -> None:
    """Every connection sees the same uid."""
    assert len({read(connect(), lambda tx: tx.uid()) for _ in range(3)}) == 1
    assert read(connect(), lambda tx: tx.uid())


def test_rows_stay_when_everyone_has_gone(connect: Connect) -> None:
    """What was committed is there for whoever opens the store next."""
    one = connect()
    write(one, fill)
    before = read(one, said)
    one.close()
    assert read(connect(), said) == before


def test_other_connections_see_what_was_committed(connect: Connect) -> None:
    """A commit through one connection is read through every other."""
    one, other = connect(), connect()
    write(one, fill)
    assert read(other, said) == read(one, said)


@pytest.mark.parametrize("change", CHANGES)
def test_reads_see_own_writes(store: Store, change: str) -> None:
    """Inside its transaction a change is seen at once, just as after the commit."""
    write(store, fill)
    before = read(store, said)
    with store.transaction(write=True) as tx:
        CHANGES[change](tx)
        inside = said(tx)
    assert inside != before
    assert read(store, said) == inside


@pytest.mark.parametrize("error", [ValueError, Crash])
def test_a_failed_transaction_leaves_no_trace(connect: Connect, error: type[BaseException]) -> None:
    """Whatever was changed before an exception is as it was, for everyone, and work goes on."""
    one, other = connect(), connect()
    write(one, fill)
    before = read(one, said)
    for names in (*([name] for name in CHANGES), CHANGES):
        with pytest.raises(error), one.transaction(write=True) as tx:  # noqa: PT012 - the error comes last
            for name in names:
                CHANGES[name](tx)
            said(tx)
            raise error
        assert read(one, said) == before, names
        assert read(other, said) == before, names
    write(other, CHANGES["add_ticket"])
    assert read(one, said) != before


def test_a_failed_transaction_forgets_no_event(store: Store) -> None:
    """At the bound too: a failed transaction's events push out none that were kept."""
    with store.transaction(write=True) as tx:
        for at in range(MOST_EVENTS):
            tx.add_event(happening(at=at))
    before = read(store, lambda tx: tx.events(-1, 10**6, 0))
    with pytest.raises(Crash), store.transaction(write=True) as tx:  # noqa: PT012 - the same
        for _ in range(2 * SLACK):
            tx.add_event(happening("never"))
        raise Crash
    assert read(store, lambda tx: tx.events(-1, 10**6, 0)) == before


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_agree_between_stores(tmp_path: Path, seed: int) -> None:
    """The same random transactions, some of them failing, leave every store saying the same."""
    stores = [open_store("memory://"), open_store(f"sqlite://{tmp_path}/rows.db")]
    dice = random.Random(seed)  # noqa: S311 - repeatable
    try:
        for _ in range(60):
            plan, fails = dice.random(), dice.random() < 0.25
            answers = []
            for one in stores:
                before = read(one, said)
                with contextlib.suppress(Crash), one.transaction(write=True) as tx:
                    again = random.Random(plan)  # noqa: S311 - repeatable
                    start = tx.next_id()
                    for _ in range(again.randrange(1, 12)):
                        change_at_random(tx, again)
                    end = tx.next_id()
                    if fails:
                        raise Crash
                if fails:
                    assert read(one, said) == before
                    used = end - start + 1
                    write(one, partial(_burn_ids, to=start + used))
                answers.append(read(one, said))
            assert answers[0] == answers[1]
    finally:
        for one in stores:
            one.close()


def _burn_ids(tx: Tx, to: int) -> None:
    while tx.next_id() < to:
        pass


def test_lanes_come_and_go(store: Store) -> None:
    """A lane is there while someone waits in it, and knows how many do."""
    with store.transaction(write=True) as tx:
        likes = [
            lane(),
            lane(machine="n"),
            lane("a/y"),
            lane(cls="background"),
            lane(lender=4),
            lane(lender=WITHOUT_HOST),
            lane(view="host=1"),
        ]
        ids = [tx.lane(like) for like in likes]
        assert len(set(ids)) == len(likes)
        assert [tx.lane(like) for like in likes] == ids
        for id in ids:
            tx.add_ticket(ticket(tx.next_id(), id))
        by_name = {one[1:6]: one for one in tx.lanes()}
        assert by_name.keys() == {like[1:6] for like in likes}
        assert {one.waiting for one in by_name.values()} == {1}
        for row in tx.tickets_of("p1"):
            tx.drop_ticket(row.id)
        assert tx.lanes() == []
    with store.transaction(write=True) as tx:
        first = tx.lane(lane())
        for id in (101, 102):
            tx.add_ticket(ticket(id, first))
        assert [one[1:] for one in tx.lanes()] == [lane()._replace(waiting=2)[1:]]
        assert tx.lane_by_id(first) == tx.lanes()[0]
        tx.drop_ticket(101)
        assert [one.waiting for one in tx.lanes()] == [1]
        tx.drop_ticket(102)
        assert tx.lanes() == []
        tx.add_ticket(ticket(103, tx.lane(lane())))
        assert [one[1:] for one in tx.lanes()] == [lane()._replace(waiting=1)[1:]]


def test_a_lane_is_in_order(store: Store) -> None:
    """Urgency, then since, then id; the head is the first and a page goes on after any place."""
    rows = [(0, 5, 1), (0, 5, 2), (-10, 9, 3), (0, 1, 4), (10, 0, 5), (0, -7, 6)]
    with store.transaction(write=True) as tx:
        line = tx.lane(lane())
        for urgency, since, id in rows:
            tx.add_ticket(ticket(id, line, urgency=urgency, since=since))
        ordered = sorted(rows)
        (head,) = tx.page(line, None, 1)
        assert head is not None
        assert head.order == ordered[0]
        assert [row.order for row in tx.page(line, None, 100)] == ordered
        assert [row.order for row in tx.page(line, None, 2)] == ordered[:2]
        assert [row.order for row in tx.page(line, ordered[1], 3)] == ordered[2:5]
        assert tx.page(line, ordered[-1], 3) == []
        assert [row.order for row in tx.page(line, (0, 5, 0), 1)] == [(0, 5, 1)]


def test_a_ticket_comes_back_as_it_went_in(store: Store) -> None:
    """Every field of a ticket is kept; what is not there is None, and dropped only once."""
    with store.transaction(write=True) as tx:
        line = tx.lane(lane())
        row = Ticket(
            7, line, -3, Ms(-(2**52)), Ms(2**52), 3, "täsk", "p1", "läbel", 1, '{"a":1}', 2**40
        )
        tx.add_ticket(row)
        assert tx.ticket(7) == row
        tx.set_overtaken(7, '{"b":2}')
        row = row._replace(overtaken='{"b":2}')
        assert tx.page(line, None, 1) == [tx.ticket(7)] == [row]
        assert tx.drop_ticket(7) == row
        assert tx.drop_ticket(7) is None
        assert tx.ticket(7) is None


def test_rank_is_a_count_of_those_before(store: Store) -> None:  # noqa: C901 - long, but straight
    """Thousands of tickets, ties, several lanes, deletions: a rank is what counting gives."""
    dice = random.Random(7)  # noqa: S311 - repeatable
    model: dict[int, dict[int, tuple[int, int, int]]] = {}
    with store.transaction(write=True) as tx:
        lines = [tx.lane(lane(key)) for key in ("a/x", "a/y", "b/z")]
        for line in lines:
            model[line] = {}
            tx.add_ticket(ticket(10**6 + line, line, urgency=99))

        def add(line: int, id: int, urgency: int, since: int) -> None:
            tx.add_ticket(ticket(id, line, urgency=urgency, since=since))
            model[line][id] = (urgency, since, id)

        def check() -> None:
            for line, rows in model.items():
                ordered = sorted(rows.values())
                probes = dice.sample(ordered, min(40, len(ordered)))
                probes += [(dice.randrange(-3, 4), dice.randrange(60), 0) for _ in range(20)]
                probes += [(-(2**40), 0, 0), (2**40, 0, 0)]
                for order in probes:
                    rank = sum(one < order for one in ordered) + (order > (99, 0, 0))
                    assert tx.rank(line, order) == rank

        for id in range(1, 5_001):
            line = lines[0] if id % 5 else dice.choice(lines)
            add(line, id, dice.choice([0, 0, 0, -2, 2]), dice.randrange(50))
        check()
        for step in range(6):
            for line, rows in model.items():
                doomed = dice.sample(sorted(rows), len(rows) // 2)
                if step % 2:
                    doomed = [one[2] for one in sorted(rows.values())[: len(rows) // 2]]
                for id in doomed:
                    tx.drop_ticket(id)
                    del rows[id]
                for id in range(
                    20_000 + 1_000 * step + 200 * line, 20_150 + 1_000 * step + 200 * line
                ):
                    add(line, id, dice.randrange(-3, 4), dice.randrange(60))
            check()
        for line, rows in model.items():
            assert [row.order for row in tx.page(line, None, 10**6)][:-1] == sorted(rows.values())


def test_rank_when_everyone_came_at_once(store: Store) -> None:
    """Tickets that differ in nothing but their id still have a rank each."""
    with store.transaction(write=True) as tx:
        line = tx.lane(lane())
        for id in range(3_000, 0, -1):
            tx.add_ticket(ticket(id, line, since=1))
        assert [tx.rank(line, (0, 1, id)) for id in range(1, 3_001, 97)] == list(
            range(0, 3_000, 97)
        )
        for id in range(1, 2_501):
            tx.drop_ticket(id)
        assert tx.rank(line, (0, 1, 3_000)) == 499
        assert tx.rank(line, (0, 1, 2_501)) == 0


def test_members_and_their_tickets(store: Store) -> None:
    """A member is found with its tickets, and so is someone else who waits on its machine."""
    with store.transaction(write=True) as tx:
        tx.add_member(Member("p1", "m", 10, "s", Ms(1)))
        tx.add_member(Member("p2", "m", 20, "s", Ms(2)))
        tx.add_member(Member("p2", "m", 21, "s", Ms(3)))
        assert sorted(tx.members()) == [
            Member("p1", "m", 10, "s", Ms(1)),
            Member("p2", "m", 21, "s", Ms(3)),
        ]
        line, far = tx.lane(lane()), tx.lane(lane(machine="far"))
        for id in (3, 1, 2):
            tx.add_ticket(ticket(id, line, member="p1"))
        tx.add_ticket(ticket(4, far, member="p9"))
        assert sorted(row.id for row in tx.tickets_of("p1")) == [1, 2, 3]
        assert tx.tickets_of("p2") == []
        assert [tx.count_tickets_of(name) for name in ("p1", "p2", "p9")] == [3, 0, 1]
        assert tx.waiting_members("m", "p1", 8) == []
        assert set(tx.waiting_members("m", "p2", 8)) == {"p1"}
        assert tx.waiting_members("far", "p1", 8) == ["p9"]
        tx.add_ticket(ticket(5, line, member="p2", urgency=50))
        assert tx.waiting_members("m", "p1", 8) == ["p2"]
        assert tx.waiting_members("m", "p9", 8)[0] == "p2", "the last of the line comes first"
        assert tx.waiting_members("m", "p9", 1) == ["p2"]
        assert tx.count_members() == 2
        tx.drop_member("p1")
        tx.drop_member("p1")
        assert tx.count_members() == 1
        assert [row.id for row in tx.members()] == ["p2"]


def test_some_of_many_members(store: Store) -> None:
    """Members are found by their ids, and by whether they start jobs, the oldest first."""
    with store.transaction(write=True) as tx:
        rows = [Member(f"p{n}", "m", n, "s", Ms(1_000 - n), int(n % 100 == 0)) for n in range(300)]
        for row in rows:
            tx.add_member(row)
    with store.transaction(write=True) as tx:
        assert tx.members(["p7", "p9", "gone"]) == [rows[9], rows[7]]
        assert tx.members([]) == []
        assert tx.members([row.id for row in rows[:200]]) == rows[199::-1]
    with store.transaction(write=True) as tx:
        assert tx.working_members() == [rows[200], rows[100], rows[0]]
        tx.add_member(rows[100]._replace(works=0))
        tx.drop_member("p200")
        assert tx.working_members() == [rows[0]]
        assert tx.members() == [
            *rows[299:200:-1],
            *rows[199:100:-1],
            rows[100]._replace(works=0),
            *rows[99::-1],
        ]
        assert tx.working_members() == [rows[0]]


def test_a_successor_is_found_behind_thousands(store: Store) -> None:
    """Someone else who waits is found however many tickets of one's own stand before theirs."""
    with store.transaction(write=True) as tx:
        line = tx.lane(lane())
        for id in range(1, 1_502):
            tx.add_ticket(ticket(id, line, member="p1"))
        tx.add_ticket(ticket(2_000, line, member="p2"))
        assert tx.waiting_members("m", "p1", 8) == ["p2"]


def test_leases_are_kept_listed_and_dropped_once(store: Store) -> None:
    """A lease comes back field by field; lists go by id; a second drop finds nothing."""
    with store.transaction(write=True) as tx:
        rows = [lease(id, member="p2" if id == 3 else "p1") for id in (5, 3, 9)]
        for row in rows:
            tx.add_lease(row)
        assert tx.leases(0, 10) == sorted(rows)
        assert [row.id for row in tx.leases(3, 1)] == [5]
        assert [row.id for row in tx.leases_of("p2")] == [3]
        assert sorted(row.id for row in tx.leases_of("p1")) == [5, 9]
        changed = rows[0]._replace(chain=3, lender=3, pid=77, cancel=STOP)
        changed = changed._replace(answer=ACCEPTED, tokens=2**40)
        tx.change_lease(changed)
        assert tx.lease(5) == changed
        tx.change_lease(lease(1_000))
        assert tx.lease(1_000) is None
        assert tx.drop_lease(5) == changed
        assert tx.drop_lease(5) is None
        assert tx.lease(5) is None


def test_held_counts_the_unrelated(store: Store) -> None:
    """Seats without a family are counted per machine, key and class; families are listed."""
    with store.transaction(write=True) as tx:
        for id, weight, options in (
            (1, 1, {}),
            (2, 3, {}),
            (3, 1, {"key": "a/y"}),
            (4, 1, {"cls": "background"}),
            (5, 1, {"machine": "n"}),
            (6, 5, {"chain": 6}),
            (7, 2, {"chain": 6, "lender": 6}),
            (8, 2, {"chain": 8}),
        ):
            tx.add_lease(lease(id, weight=weight, **options))
        counts = {row[:3]: (row.seats, row.leases) for row in tx.held()}
        assert counts == {
            ("m", "a/x", "normal"): (4, 2),
            ("m", "a/y", "normal"): (1, 1),
            ("m", "a/x", "background"): (1, 1),
            ("n", "a/x", "normal"): (1, 1),
        }
        assert [row.id for row in tx.family(6)] == [6, 7]
        assert tx.family(0) == []
        assert [(row.chain, row.id) for row in tx.families()] == [(6, 6), (6, 7), (8, 8)]
        tx.drop_lease(1)
        tx.change_lease(lease(2, weight=3, chain=8, lender=8))
        tx.drop_lease(6)
        assert ("m", "a/x", "normal") not in {row[:3] for row in tx.held()}
        assert [(row.chain, row.id) for row in tx.families()] == [(6, 7), (8, 2), (8, 8)]


def test_families_are_listed_by_age(store: Store) -> None:
    """The oldest of a family comes first, also after it was changed or a drop was undone."""
    for id in (4, 5, 6):
        write(store, partial(_add_lease, row=lease(id, chain=4)))
    with pytest.raises(Crash), store.transaction(write=True) as tx:  # noqa: PT012 - the same
        tx.drop_lease(4)
        raise Crash
    assert read(store, lambda tx: [row.id for row in tx.family(4)]) == [4, 5, 6]
    write(store, lambda tx: tx.change_lease(lease(4, chain=4)._replace(pid=1)))
    assert read(store, lambda tx: [row.id for row in tx.family(4)]) == [4, 5, 6]
    assert read(store, lambda tx: [row.id for row in tx.families()]) == [4, 5, 6]


def test_what_upstream_said_to_a_lease_is_kept(store: Store) -> None:
    """An answer and what was used go into the row; what was noted at its start stays as it was."""
    write(store, partial(_add_lease, row=lease(5)))
    assert lease(5).sent
    for answer, tokens in ((ACCEPTED, 3), (refused(Ms(2)), 0), (PENDING, 2**40)):
        row = lease(5)._replace(answer=answer, tokens=tokens)
        write(store, partial(_change_lease, row=row))
        assert read(store, lambda tx: tx.lease(5)) == row
    assert write(store, lambda tx: tx.drop_lease(5)) == row


def test_recent_leases_are_those_granted_later(store: Store) -> None:
    """Granted after a time, not at it, of any family, machine, key or state; ended ones are not."""
    with store.transaction(write=True) as tx:
        rows = [
            lease(1, granted=10),
            lease(2, granted=20, chain=2),
            lease(3, granted=20, chain=2, lender=2, machine="n"),
            lease(4, granted=20, key="b/z", member="p2"),
            lease(5, granted=30)._replace(answer=refused(Ms(2))),
            lease(6, granted=0, lender=WITHOUT_HOST, machine=""),
        ]
        for row in reversed(rows):
            tx.add_lease(row)
        for since, ids in (
            (-1, [1, 2, 3, 4, 5, 6]),
            (0, [1, 2, 3, 4, 5]),
            (10, [2, 3, 4, 5]),
            (19, [2, 3, 4, 5]),
            (20, [5]),
            (30, []),
        ):
            assert sorted(tx.recent(Ms(since))) == [row for row in rows if row.id in ids]
        tx.change_lease(rows[4]._replace(answer=ACCEPTED))
        tx.drop_lease(4)
        assert sorted(tx.recent(Ms(10))) == [rows[1], rows[2], rows[4]._replace(answer=ACCEPTED)]


def test_rests_end_at_their_time(store: Store) -> None:
    """Resting seats are all listed, equal ones too, and forgotten once their time has come."""
    with store.transaction(write=True) as tx:
        for until in (10, 20, 20, 30):
            tx.add_rest(rest("a", 1, until))
        tx.drop_rests(Ms(9))
        assert len(tx.rests()) == 4
        tx.drop_rests(Ms(20))
        assert tx.rests() == [rest("a", 1, 30)]


def test_rests_are_kept_for_longer_than_they_last(store: Store) -> None:
    """It is the end of its keeping that makes a row go, not the end of the rest itself."""
    kept = Rest("ä", 3, Ms(10), Ms(30), Ms(-(2**52)), Ms(2**52), 0)
    with store.transaction(write=True) as tx:
        tx.add_rest(kept)
        tx.add_rest(rest("a", 1, 25))
        tx.drop_rests(Ms(25))
        assert tx.rests() == [kept]
        tx.drop_rests(Ms(29))
        assert tx.rests() == [kept]
        tx.drop_rests(Ms(30))
        assert tx.rests() == []


def _add_lease(tx: Tx, row: LeaseRow) -> None:
    tx.add_lease(row)


def _change_lease(tx: Tx, row: LeaseRow) -> None:
    tx.change_lease(row)


def _learn(tx: Tx, key: str, held: int) -> None:
    tx.learn_hold(key, Ms(held))


def _tune(tx: Tx, row: PoolRow) -> None:
    tx.set_pool_row(row)


def test_history_is_a_mean_that_forgets(store: Store) -> None:
    """The first sixteen holds count alike, later ones weigh a sixteenth; keys are averaged."""
    mean = 0.0
    for count, held in enumerate([1_000 * n for n in range(1, 41)], start=1):
        mean += (held - mean) / min(count, 16)
        write(store, partial(_learn, key="a/x", held=held))
    write(store, lambda tx: tx.learn_hold("a/y", Ms(500)))
    with store.transaction(write=False) as tx:
        assert tx.usual_hold(["a/x"]) == pytest.approx(mean)
        assert tx.usual_hold(["a/x", "a/y", "never"]) == pytest.approx((mean + 500) / 2)
        assert tx.usual_hold(["never"]) is None
        assert tx.known_keys() == ["a/x", "a/y"]
        assert tx.usual_hold([]) is None


def test_history_does_not_depend_on_how_commits_are_grouped(store: Store) -> None:
    """Holds learned in one transaction count as much as those learned one by one."""
    holds = [1_000, 3_000, 9_000, 100, 40_000]
    for held in holds:
        write(store, partial(_learn, key="one by one", held=held))
    with store.transaction(write=True) as tx:
        for held in holds[:4]:
            tx.learn_hold("at once", Ms(held))
    write(store, lambda tx: tx.learn_hold("at once", Ms(holds[4])))
    with store.transaction(write=False) as tx:
        assert tx.usual_hold(["at once"]) == pytest.approx(tx.usual_hold(["one by one"]))


def test_notes_are_remembered(store: Store) -> None:
    """A note is empty until it is set, and then what it was set to last."""
    assert read(store, lambda tx: tx.note("x")) == ""
    write(store, lambda tx: tx.set_note("x", "1"))
    write(store, lambda tx: tx.set_note("x", "ünï\n'\""))
    assert read(store, lambda tx: tx.note("x")) == "ünï\n'\""


def test_what_was_set_by_hand_is_kept(store: Store) -> None:
    """A pool's row is replaced as a whole; numbers stay numbers and words stay words."""
    rows = [
        PoolRow("a", 3),
        PoolRow("b", "unlimited", Ms(0), Ms(2**62), "note"),
        PoolRow("c", None, Ms(5)),
        PoolRow("d", "learn"),
    ]
    for row in (PoolRow("a", "unlimited", Ms(9)), *rows):
        write(store, partial(_tune, row=row))
    found = read(store, lambda tx: tuple(tx.pool_table().rows.values()))
    assert sorted(found) == sorted(rows)
    assert isinstance(found, tuple)


def test_what_was_learned_is_kept_and_forgotten(store: Store) -> None:
    """It needs nothing set by hand beside it, is kept anew like the rest, and goes with the row."""
    for learned in ("[4,0]", '[3,4,[["ü\n"]]]'):
        write(store, partial(_tune, row=PoolRow("a", learned=learned)))
        assert read(store, lambda tx: tuple(tx.pool_table().rows.values())) == (
            PoolRow("a", learned=learned),
        )
    write(store, lambda tx: tx.set_pool_row(PoolRow("a", 5, learned="[5]")))
    write(store, lambda tx: tx.set_pool_row(PoolRow("b", 1)))
    assert sorted(read(store, lambda tx: tuple(tx.pool_table().rows.values()))) == [
        PoolRow("a", 5, learned="[5]"),
        PoolRow("b", 1),
    ]
    write(store, lambda tx: tx.set_pool_row(PoolRow("a", 5)))
    assert sorted(read(store, lambda tx: tuple(tx.pool_table().rows.values()))) == [
        PoolRow("a", 5),
        PoolRow("b", 1),
    ]
    write(store, lambda tx: tx.set_pool_row(PoolRow("a")))
    assert read(store, lambda tx: tuple(tx.pool_table().rows.values())) == (PoolRow("b", 1),)


def test_events_are_found_by_id_and_work(store: Store) -> None:
    """After an id the next ones; the newest without one; of one piece of work if named."""
    with store.transaction(write=True) as tx:
        for number in range(30):
            tx.add_event(happening(f"k{number}", work=number % 3, at=number))
    with store.transaction(write=False) as tx:
        rows = tx.events(-1, 100, 0)
        assert [row.kind for row in rows] == [f"k{n}" for n in range(30)]
        assert [row.at for row in rows] == list(range(30))
        ids = [row.id for row in rows]
        assert ids == sorted(set(ids))
        assert tx.events(-1, 5, 0) == rows[-5:]
        assert tx.events(ids[9], 5, 0) == rows[10:15]
        assert tx.events(ids[-1], 5, 0) == []
        assert tx.events(-1, 100, 2) == rows[2::3]
        assert tx.events(-1, 2, 2) == rows[2::3][-2:]
        assert tx.events(ids[14], 100, 2) == rows[17::3]


def test_events_of_one_work_after_an_id_come_in_order(store: Store) -> None:
    """After an id the next events follow, oldest first, for one piece of work as for all."""
    with store.transaction(write=True) as tx:
        for number in range(10):
            tx.add_event(happening(f"k{number}", work=1))
        ids = [row.id for row in tx.events(-1, 100, 1)]
        assert [row.id for row in tx.events(ids[2], 3, 1)] == ids[3:6]


def test_events_are_bounded(store: Store) -> None:
    """Ten thousand events are kept, the newest; ids go on."""
    for start in range(0, 3 * MOST_EVENTS, 3_000):
        with store.transaction(write=True) as tx:
            for at in range(start, start + 3_000):
                tx.add_event(happening(at=at))
    rows = read(store, lambda tx: tx.events(-1, 10**6, 0))
    assert MOST_EVENTS <= len(rows) <= MOST_EVENTS + SLACK
    assert [row.at for row in rows] == list(range(3 * MOST_EVENTS - len(rows), 3 * MOST_EVENTS))
    assert len({row.id for row in rows}) == len(rows)


def test_events_are_bounded_one_by_one(store: Store) -> None:
    """The bound holds for events that come one per transaction, too."""
    with store.transaction(write=True) as tx:
        for at in range(MOST_EVENTS - 10):
            tx.add_event(happening(at=at))
    for _ in range(2 * SLACK):
        write(store, lambda tx: tx.add_event(happening()))
    assert (
        MOST_EVENTS <= read(store, lambda tx: len(tx.events(-1, 10**6, 0))) <= MOST_EVENTS + SLACK
    )


def test_writers_exclude_each_other(connect: Connect) -> None:
    """Threads with connections of their own: no read-modify-write is lost."""
    threads, rounds = 4, 40
    failures: list[BaseException] = []

    def count(store: Store) -> None:
        try:
            for _ in range(rounds):
                with store.transaction(write=True) as tx:
                    tx.set_note("n", str(int(tx.note("n") or 0) + 1))
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    running = [threading.Thread(target=count, args=(connect(),)) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures
    assert read(connect(), lambda tx: tx.note("n")) == str(threads * rounds)


COUNT = """
import sys
from headgate.store import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with store.transaction(write=True) as tx:
        tx.set_note("n", str(int(tx.note("n") or 0) + 1))
        print(tx.next_id())
store.close()
"""


def test_processes_exclude_each_other(url: str, connect: Connect, kind: str) -> None:
    """Independent processes: no read-modify-write is lost, and no id is given twice."""
    if kind == "memory":
        pytest.skip("a memory store lives in one process")
    connect()
    processes, rounds = 6, 50
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT, url, str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    for process in running:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    ids = []
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        ids += process.communicate(timeout=50)[0].split()
        assert process.returncode == 0
    assert read(connect(), lambda tx: tx.note("n")) == str(processes * rounds)
    assert sorted(map(int, ids)) == list(range(1, processes * rounds + 1))


def test_a_reader_sees_one_moment(connect: Connect, kind: str) -> None:
    """While others write, an open reading transaction goes on seeing what it saw first."""
    reader, writer = connect(), connect()
    write(writer, fill)

    def change() -> None:
        with writer.transaction(write=True) as tx:
            for do in CHANGES.values():
                do(tx)

    thread = threading.Thread(target=change)
    with reader.transaction(write=False) as tx:
        before = said(tx)
        thread.start()
        if kind == "sqlite":
            thread.join()
        assert said(tx) == before
    thread.join()
    assert read(reader, said) != before


def test_a_reader_sees_nothing_unfinished(connect: Connect, kind: str) -> None:
    """What is not committed is seen by nobody else."""
    if kind == "memory":
        pytest.skip("a memory store lets nobody read while someone writes")
    reader, writer = connect(), connect()
    write(writer, fill)
    before = read(reader, said)
    with writer.transaction(write=True) as tx:
        for do in CHANGES.values():
            do(tx)
        assert read(reader, said) == before
    assert read(reader, said) != before


@pytest.mark.parametrize("mean", [float("inf"), -5.0, 1e300])
def test_a_history_that_cannot_be_one_is_none(mean: float) -> None:
    """A mean beyond all bounds says nothing, and the next hold begins anew."""
    odd = HoldHistory(7, mean)
    assert not odd.sound
    assert odd.learn(Ms(400)) == HoldHistory(-3, 2.0).learn(Ms(400)) == HoldHistory(1, 400.0)
