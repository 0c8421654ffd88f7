"""What a transaction remembers of its rows is what the tables say, in whatever order it is asked.

The same random calls go to the rows of a store in memory, to those of an SQLite file, and to those
of an SQLite file that are made to forget all they remember before every call.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.core.admission.lease_events import (
    ACCEPTED,
    PENDING,
    EndCause,
    EndRequest,
    refused,
    relief,
)
from headgate.core.admission.pools import PoolRow
from headgate.core.jobs.states import State, Word
from headgate.core.times import Ms
from headgate.ledger.transaction.rows import Expected, Member, Tx
from headgate.store import open_store
from headgate.store.sql_rows import SqlRows
from tests.store.rows import (
    KEYS,
    MEMBERS,
    attempt,
    happening,
    job,
    lane,
    lease,
    request,
    rest,
    ticket,
)

CANCELS = (None, EndRequest(EndCause.CANCEL, "stop"), relief("no memory"))
ANSWERS = (PENDING, ACCEPTED, refused(Ms(50)))
Call = Callable[[Tx], object]


def _lane_of(tx: Tx, like: tuple[str, ...]) -> int:
    return tx.lane(lane(like[0], like[1]))


def _known(tx: Tx, like: tuple[str, ...]) -> int | None:
    found = [one.id for one in tx.lanes() if (one.key, one.cls) == like and one.waiting]
    return found[0] if found else None


class Calls:
    """Random calls. Each is made once and then done to every store."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a test
        self.next = 0

    def some(self) -> Call:
        name = self.rng.choice([one for one in dir(self) if one.startswith("do_")])
        return getattr(self, name)()  # type: ignore[no-any-return]

    def id(self) -> int:
        return self.rng.randrange(1, self.next + 2)

    def new(self) -> int:
        self.next += 1
        return self.next

    def like(self) -> tuple[str, ...]:
        return self.rng.choice(KEYS[:2]), self.rng.choice(("normal", "background"))

    def order(self) -> tuple[int, int, int] | None:
        rng = self.rng
        return rng.choice([None, (0, rng.randrange(6), self.id()), (rng.randrange(2), 0, 0)])

    def do_add_ticket(self) -> Call:
        id, like, rng = self.new(), self.like(), self.rng
        urgency, since, member = rng.randrange(2), rng.randrange(6), rng.choice(MEMBERS)

        def call(tx: Tx) -> None:
            where = _lane_of(tx, like)
            tx.add_ticket(ticket(id, where, urgency=urgency, since=since, member=member))

        return call

    do_add_ticket_2 = do_add_ticket
    do_add_ticket_3 = do_add_ticket

    def do_drop_ticket(self) -> Call:
        id = self.id()
        return lambda tx: (row := tx.drop_ticket(id)) and row._replace(lane=0)

    do_drop_ticket_2 = do_drop_ticket
    do_drop_ticket_3 = do_drop_ticket

    def do_drop_first(self) -> Call:
        like = self.like()

        def call(tx: Tx) -> object:
            found = _known(tx, like)
            rows = tx.page(found, None, 1) if found else []
            return [tx.drop_ticket(row.id)._replace(lane=0) for row in rows]  # type: ignore[union-attr]

        return call

    def do_ticket(self) -> Call:
        id = self.id()
        return lambda tx: (row := tx.ticket(id)) and row._replace(lane=0)

    def do_page(self) -> Call:
        like, after, most = self.like(), self.order(), self.rng.randrange(1, 5)

        def call(tx: Tx) -> object:
            found = _known(tx, like)
            return found and [row._replace(lane=0) for row in tx.page(found, after, most)]

        return call

    do_page_2 = do_page
    do_page_3 = do_page

    def do_walk(self) -> Call:
        like, most = self.like(), self.rng.randrange(1, 4)

        def call(tx: Tx) -> object:
            found, after, seen = _known(tx, like), None, []
            while found and (rows := tx.page(found, after, most)):
                seen += [row.id for row in rows]
                after = rows[-1].order
            return seen

        return call

    def do_rank(self) -> Call:
        like, order = self.like(), self.order() or (0, 0, 0)

        def call(tx: Tx) -> object:
            found = _known(tx, like)
            return found and tx.rank(found, order)

        return call

    def do_overtake(self) -> Call:
        id, text = self.id(), self.rng.choice(("", "a", "b"))

        def call(tx: Tx) -> None:
            if tx.ticket(id) is not None:
                tx.set_overtaken(id, text)

        return call

    def do_lanes(self) -> Call:
        return lambda tx: sorted(one[1:] for one in tx.lanes() if one.waiting)

    def do_of(self) -> Call:
        who = self.rng.choice(MEMBERS)
        return lambda tx: (
            sorted(row.id for row in tx.tickets_of(who)),
            tx.count_tickets_of(who),
            bool(tx.waiting_members("m", who, 1)),
            sorted(row.id for row in tx.leases_of(who)),
        )

    def do_add_lease(self) -> Call:
        id, rng = self.new(), self.rng
        row = lease(
            id,
            key=rng.choice(KEYS),
            weight=rng.randrange(1, 4),
            chain=rng.choice((0, 0, id, max(1, id - 1))),
            member=rng.choice(MEMBERS),
            granted=rng.randrange(10),
        )
        return lambda tx: tx.add_lease(row)

    do_add_lease_2 = do_add_lease

    def do_drop_lease(self) -> Call:
        id = self.id()
        return lambda tx: tx.drop_lease(id)

    def do_change_lease(self) -> Call:
        id, rng = self.id(), self.rng
        new = {
            "member": rng.choice(MEMBERS),
            "chain": rng.choice((0, id)),
            "pid": rng.randrange(9),
            "cancel": rng.choice(CANCELS),
            "answer": rng.choice(ANSWERS),
            "tokens": rng.randrange(9),
        }
        names = rng.sample(sorted(new), 2)

        def call(tx: Tx) -> None:
            row = tx.lease(id)
            if row is not None:
                tx.change_lease(row._replace(**{name: new[name] for name in names}))  # type: ignore[arg-type]

        return call

    do_change_lease_2 = do_change_lease

    def do_lease(self) -> Call:
        id = self.id()
        return lambda tx: tx.lease(id)

    def do_leases(self) -> Call:
        after, since = self.id(), self.rng.randrange(-1, 10)
        return lambda tx: (
            tx.leases(after, 5),
            sorted(tx.held()),
            tx.families(),
            tx.family(after),
            sorted(tx.recent(Ms(since))),
            tx.job_leases(),
        )

    def do_recent(self) -> Call:
        since = self.rng.randrange(-1, 10)
        return lambda tx: sorted(tx.recent(Ms(since)))

    def do_held(self) -> Call:
        return lambda tx: sorted(tx.held())

    def do_families(self) -> Call:
        return lambda tx: tx.families()

    def do_rest(self) -> Call:
        row = rest(self.rng.choice("ab"), 1, self.rng.randrange(9))
        return lambda tx: tx.add_rest(row)

    def do_drop_rests(self) -> Call:
        until = self.rng.randrange(9)
        return lambda tx: tx.drop_rests(Ms(until))

    def do_rests(self) -> Call:
        return lambda tx: sorted(tx.rests())

    def do_note(self) -> Call:
        name, text = self.rng.choice("xy"), self.rng.choice(("", "1", "2"))
        return lambda tx: tx.set_note(name, text)

    def do_notes(self) -> Call:
        return lambda tx: (tx.note("x"), tx.note("y"))

    def do_tune(self) -> Call:
        rng = self.rng
        row = PoolRow(rng.choice("abc"), rng.choice((None, 1, 2)), learned=rng.choice(("", "[1]")))
        return lambda tx: tx.set_pool_row(row)

    def do_tuned(self) -> Call:
        return lambda tx: sorted(tx.pool_table().rows.values(), key=lambda row: row.name)

    def do_learn_hold(self) -> Call:
        key, held = self.rng.choice(KEYS), self.rng.randrange(100)
        return lambda tx: tx.learn_hold(key, Ms(held))

    def do_usual_hold(self) -> Call:
        keys = self.rng.choices(KEYS, k=2)
        return lambda tx: tx.usual_hold(keys)

    def do_member(self) -> Call:
        rng = self.rng
        row = Member(
            rng.choice(MEMBERS), "m", 1, "s", Ms(rng.randrange(3)), rng.randrange(2), 7, "1", 4
        )
        return lambda tx: tx.add_member(row)

    def do_members(self) -> Call:
        some = self.rng.choice((None, MEMBERS[:1], MEMBERS))
        return lambda tx: tx.members(some)

    def do_working_members(self) -> Call:
        return lambda tx: tx.working_members()

    def do_drop_member(self) -> Call:
        who = self.rng.choice(MEMBERS)
        return lambda tx: tx.drop_member(who)

    def do_event(self) -> Call:
        work = self.id()
        return lambda tx: tx.add_event(happening(work=work))

    def do_events(self) -> Call:
        work = self.rng.choice((0, self.id()))
        return lambda tx: [row[1:] for row in tx.events(-1, 5, work)]

    def do_add_job(self) -> Call:
        id, state = self.new(), self.rng.choice(list(State))
        row = job(id, state, due=self.rng.randrange(9), ended=7 if state.ended else 0)
        return lambda tx: tx.add_job(row)

    def do_change_job(self) -> Call:
        id, state = self.id(), self.rng.choice(list(State))
        new = job(id, state, due=self.rng.randrange(9), ended=7 if state.ended else 0)
        new = new._replace(weight=1, spec="{}", task="another")
        return lambda tx: tx.change_job(new)

    def do_drop_job(self) -> Call:
        id = self.id()
        return lambda tx: tx.drop_job(id)

    def do_job(self) -> Call:
        id = self.id()
        return lambda tx: (tx.job(id), tx.attempts(id), tx.needs_of(id), tx.needed_by(id))

    def do_jobs(self) -> Call:
        word, after = self.rng.choice(list(Word)), self.rng.choice((-1, self.id()))
        return lambda tx: (
            [row.id for row in tx.jobs(word, after, 3)],
            tx.count_jobs(word),
            [row.id for row in tx.aside(4)],
            tx.count_aside(),
            [row.id for row in tx.due_jobs(Ms(5), 4)],
            tx.next_due(),
            tx.old_jobs(Ms(8), 4),
        )

    def do_after(self) -> Call:
        one, two, drop = self.id(), self.id(), self.rng.random() < 0.4
        return lambda tx: (tx.drop_after if drop else tx.add_after)(one, two)

    def do_attempt(self) -> Call:
        row = attempt(self.id(), self.rng.randrange(1, 3), ended=self.rng.randrange(2))
        return lambda tx: tx.keep_attempt(row)

    def do_requests(self) -> Call:
        id, row, many = self.id(), request(refused=self.rng.randrange(2)), self.rng.randrange(3)
        return lambda tx: tx.add_requests(id, [row] * many)

    def do_requests_of(self) -> Call:
        id, most = self.id(), self.rng.randrange(1, 4)
        return lambda tx: (
            [row[1:] for row in tx.requests_of(id, most)],
            tx.metered(id),
            tx.in_flight(),
        )

    def do_meter(self) -> Call:
        id, meter = self.id(), self.rng.choice(("agent", "wire"))
        return lambda tx: tx.keep_meter(id, meter, "why", "hint")

    def do_in_flight(self) -> Call:
        id, count = self.id(), self.rng.randrange(3)
        return lambda tx: tx.set_in_flight(id, count, Ms(3))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_is_what_the_tables_say(tmp_path: Path, seed: int) -> None:
    """Every answer is the same, whatever was asked and written before it in the transaction."""
    _compare(tmp_path, seed, lambda step: step == 0)


def test_it_may_be_told_at_any_time_what_to_expect(tmp_path: Path) -> None:
    """`expect` in the middle of a transaction changes no answer."""
    for seed in range(4):
        _compare(tmp_path, seed, lambda _: True)


@pytest.mark.parametrize("seed", range(6))
def test_what_others_wrote_and_what_was_undone_is_known(tmp_path: Path, seed: int) -> None:
    """Two connections take turns and some transactions fail: every answer is the same."""
    _compare(tmp_path, seed, lambda step: step == 0, others=True)


def _compare(
    tmp_path: Path, seed: int, expects: Callable[[int], bool], *, others: bool = False
) -> None:
    calls = Calls(seed)
    memory = open_store(f"memory://remembered-{tmp_path}-{seed}")
    kept = [open_store(f"sqlite://{tmp_path}/kept-{seed}.db") for _ in range(1 + others)]
    asked = open_store(f"sqlite://{tmp_path}/asked-{seed}.db")
    for _ in range(25):
        fails = others and calls.rng.random() < 0.2
        with (
            suppress(_Failed),
            memory.transaction(write=True) as one,
            calls.rng.choice(kept).transaction(write=True) as two,
            asked.transaction(write=True) as three,
        ):
            assert isinstance(two, SqlRows)
            assert isinstance(three, SqlRows)
            for step in range(calls.rng.randrange(5, 60)):
                if expects(step) and calls.rng.random() < (0.04 if step else 0.5):
                    ids = frozenset({calls.id(), calls.id()})
                    since, notes = calls.rng.randrange(-1, 10), frozenset({"x"})
                    two.expect(Expected(leases=ids, jobs=ids, notes=notes, since=Ms(since)))
                three.finish()
                three.forget()
                call = calls.some()
                said = [call(tx) for tx in (one, two, three)]
                assert said[0] == said[2], (seed, step, call.__qualname__)
                assert said[1] == said[2], (seed, step, call.__qualname__)
            if fails:
                raise _Failed
    for store in (memory, *kept, asked):
        store.close()


class _Failed(Exception):
    """A transaction that is undone."""
