"""Random histories of the line, on both stores side by side, against a plain model of it."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate.core.admission.lease_events import PENDING
from headgate.core.admission.pools import FAIR, UNLIMITED, Declared
from headgate.core.times import Ms, Seconds
from headgate.errors import TooHeavyError
from headgate.ledger import dead_members, limits_by_hand, release
from headgate.ledger.admission import admit
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import LeaseRow, Member, Tx
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore
from tests.ledger import model
from tests.ledger.model import COOLDOWNS, KEYS, LIMITS, RESERVE, VIEWS, Model

DAY = 86_400_000
STEADY = Declared(adapt="off")
"""The defaults of pools that learn nothing: their limits stay, freed seats are free at once."""
CLASSES = {-10: "interactive", 0: "normal", 10: "background"}
DECLARED = {
    pool: Declared(
        limit=UNLIMITED if limit is None else limit,
        cooldown=COOLDOWNS.get(pool),
        reserve=tuple(RESERVE.get(pool, {}).items()),
        per_task=model.PER_TASK.get(pool),
        order=FAIR if pool in model.FAIR else None,
    )
    for pool, limit in LIMITS.items()
}


class Crash(Exception):
    """The process died in the middle of a transaction."""


class Op(NamedTuple):
    """One thing to do inside a transaction; `pick` chooses among what there is at that moment."""

    kind: str
    pool: str = "host"
    number: int = 0
    pick: int = 0
    key: str = ""
    urgency: int = 0
    weight: int = 1
    ago: int = 0
    view: str = ""
    lender: int | None = None
    tokens: int = 0
    request: bool = False
    task: str = ""
    roles: str = ""


picks = st.integers(0, 40)
pools = st.sampled_from(sorted(LIMITS))


def op(*kinds: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    values = st.fixed_dictionaries(fields)
    return st.tuples(st.sampled_from(kinds), values).map(lambda made: Op(made[0], **made[1]))


asks = op(
    "ask",
    pick=picks,
    key=st.sampled_from(sorted(KEYS)),
    urgency=st.sampled_from([0, -10, 10]),
    weight=st.integers(1, 3),
    ago=st.sampled_from([0, 0, 1, 1_000, DAY, -1_000]),
    view=st.sampled_from(["", "", "", *sorted(VIEWS)]),
    lender=st.sampled_from([None, None, None, -1, -2, -3]) | picks,
    tokens=st.sampled_from([0, 0, 700]),
    request=st.sampled_from([False, False, True]),
    task=st.sampled_from(["", "t1", "t2", "t3"]),
    roles=st.sampled_from(["", "", *sorted(model.ROLES)]),
)
releases = op("release", pick=picks)
withdrawals = op("withdraw", pick=picks)
resizes = op("resize", pool=pools, number=st.integers(1, 6))
others = st.one_of(
    op("unset", "restore", "resume", pool=pools),
    op("cooldown", pool=pools, number=st.sampled_from([0, 1, 700, DAY])),
    op("pause", pool=pools, number=st.sampled_from([-1, 1, 900, DAY])),
    op("join", pick=picks),
    op("tidy"),
)
ops = st.one_of(asks, asks, releases, withdrawals, resizes, others)


class Machine(RuleBasedStateMachine):
    """The same history on every store and in the model; all must agree after each step."""

    kinds: tuple[str, ...] = ("memory",)

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(now=10 * DAY)
        self.wall = 1_800_000_000.0
        self.liveness = SimulatedLiveness()
        self.machines: dict[str, str] = {}
        self.views: dict[int, str] = {}
        self.totals: dict[str, int] = {}
        self.settled = False
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-machine-"))
        self.stores = [(self._open(kind), PoolResolver(DECLARED, STEADY)) for kind in self.kinds]
        for pick in range(3):
            self.transact([Op("join", pick=pick)])

    def _open(self, kind: str) -> Store:
        def clock() -> int:
            return self.model.now

        if kind == "memory":
            return MemoryStore(clock=clock)
        return SqliteStore(self.folder / "store.db", synchronous="OFF", clock=clock)

    def teardown(self) -> None:
        for store, _ in self.stores:
            store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @rule(op=asks)
    def ask(self, op: Op) -> None:
        self.transact([op])

    @rule(op=asks)
    def ask_again(self, op: Op) -> None:
        self.transact([op])

    @rule(op=releases)
    def release(self, op: Op) -> None:
        self.transact([op])

    @rule(op=releases)
    def release_twice(self, op: Op) -> None:
        self.transact([op, op])

    @rule(op=withdrawals)
    def withdraw(self, op: Op) -> None:
        self.transact([op])

    @rule(op=asks)
    def withdraw_after_grant(self, op: Op) -> None:
        self.transact([op])
        self.transact([Op("withdraw_last")])

    @rule(parent=asks, child=asks, sibling=asks, pool=pools)
    def siblings(self, parent: Op, child: Op, sibling: Op, pool: str) -> None:
        """Two children of one parent wait, and may start at the same moment."""
        self.transact([parent])
        self.transact([Op("pause", pool=pool, number=-1)])
        lender = len(self.model.leases)
        self.transact([child._replace(lender=lender)])
        self.transact([sibling._replace(lender=lender)])
        self.transact([Op("resume", pool=pool)])

    @rule(nested=st.lists(asks, min_size=2, max_size=4), pick=picks, late=asks)
    def nest(self, nested: list[Op], pick: int, late: Op) -> None:
        """Runs inside runs; one of them ends, and another starts one more."""
        held = len(self.model.leases)
        self.transact([nested[0]._replace(lender=None)])
        for op in nested[1:]:
            self.transact([op._replace(lender=len(self.model.leases))])
        born = len(self.model.leases) - held
        if born > 1:
            ended = self.model.leases[held + pick % born].id
            self.transact([Op("release_id", number=ended)])
            self.transact([late._replace(lender=1 + held + pick // 5 % (born - 1))])

    @rule(op=resizes)
    def resize(self, op: Op) -> None:
        self.transact([op])

    @rule(op=others)
    def change(self, op: Op) -> None:
        self.transact([op])

    @rule(several=st.lists(ops, min_size=2, max_size=5))
    def batch(self, several: list[Op]) -> None:
        """Group commit: what many want, in one transaction."""
        self.transact(several)

    @rule(asked=st.lists(asks, min_size=1, max_size=3), freed=st.lists(releases, min_size=1))
    def turn_over(self, asked: list[Op], freed: list[Op]) -> None:
        """Some ask and some leave in one transaction, whose count must follow."""
        self.transact([*asked, *freed[:3]])

    @rule(several=st.lists(ops, min_size=1, max_size=4))
    def crash(self, several: list[Op]) -> None:
        """A transaction that fails leaves no trace."""
        imagined = deepcopy(self.model)
        machines = dict(self.machines)
        resolved = [self._resolve(imagined, op) for op in several]
        for store, resolver in self.stores:
            before = self._rows(store, resolver)
            with suppress(Crash), store.transaction(write=True) as tx:
                self._run(self._ledger(store, resolver, tx), resolved)
                raise Crash
            assert self._rows(store, resolver) == before
            with store.transaction(write=True) as tx:
                while tx.next_id() < imagined.ids + 1:
                    pass
        self.model.ids = imagined.ids + 1
        self.machines = machines

    @rule(pick=picks, at_once=st.booleans())
    def kill(self, pick: int, *, at_once: bool) -> None:
        """A member and all of its programs end; someone notices, at once or later."""
        member = self._member(pick, self.model.members)
        if member is None:
            return
        self.model.dead.add(member)
        self.liveness.end(member)
        self.settled = False  # whoever stood behind it may get in, once somebody notices
        waits = any(one.member == member for one in self.model.tickets)
        holds = any(one.member == member for one in self.model.leases)
        if at_once or (waits and holds):
            self.transact([Op("tidy")])

    @precondition(lambda self: self.model.leases)
    @rule(pick=picks, at_once=st.booleans())
    def orphan(self, pick: int, *, at_once: bool) -> None:
        """A member's own process ends, and the programs that use its seats live on."""
        member = self.model.leases[pick % len(self.model.leases)].member
        if member in self.model.dead:
            return
        self.model.deaf.add(member)
        self.liveness.orphan(member)
        self.settled = False
        if at_once:
            self.transact([Op("tidy")])

    @rule(ms=st.sampled_from([1, 250, 500, 1_000, 60_000, DAY]), noticed=st.booleans())
    def advance(self, ms: int, *, noticed: bool) -> None:
        """Time passes; the watchman notices, or nobody does yet."""
        self.model.now += ms
        self.settled = False
        if noticed:
            self.transact([Op("tidy")])

    @rule(days=st.sampled_from([-1, 1]))
    def jump(self, days: int) -> None:
        """Somebody sets the wall clock: only what is shown of times may change."""
        self.wall += days * DAY / 1000

    def _member(self, pick: int, among: Iterable[str]) -> str | None:
        names = sorted(set(among) - self.model.dead)
        return names[pick % len(names)] if names else None

    def _resolve(self, to: Model, op: Op) -> Op:  # noqa: C901 - a case for each kind
        """Apply an operation to the model; returns it with its choice made."""
        match op.kind:
            case "join":
                name = f"p{len(self.machines):02}"
                self.machines[name] = ("m1", "m1", "m2")[op.pick % 3]
                to.members.add(name)
                return op._replace(key=name)
            case "ask":
                return self._resolve_ask(to, op)
            case "release" | "release_id" | "withdraw" | "withdraw_last":
                now = [one.id for one in to.leases] + [one.id for one in to.tickets]
                known = now if now and op.pick % 4 else range(1, to.ids + 2)
                id = to.ids if op.kind == "withdraw_last" else known[op.pick // 4 % len(known)]
                id = op.number or id
                kind = "release" if op.kind.startswith("release") else "withdraw"
                result = to.release(id) if kind == "release" else to.withdraw(id)
                return op._replace(kind=kind, number=id, key=str(result))
            case "resize":
                to.limits[op.pool] = op.number
            case "unset":
                to.limits[op.pool] = "unlimited"
            case "restore":
                to.limits[op.pool] = to.cooldowns[op.pool] = None
            case "cooldown":
                to.cooldowns[op.pool] = op.number
            case "pause":
                to.pauses[op.pool] = model.FOREVER if op.number < 0 else to.now + op.number
            case "resume":
                if to.pauses.pop(op.pool, None) is None:
                    return op
            case _:
                to.sweep()
        to.unsettled = True
        return op

    def _resolve_ask(self, to: Model, op: Op) -> Op:
        able = sorted(to.members - to.dead - to.deaf)
        if not able:
            to.sweep()
            to.unsettled = True
            return Op("tidy")
        member = able[op.pick % len(able)]
        lender = 0
        if op.request:
            lender = model.REQUEST
        elif op.lender is not None:
            known = [999_999, *(one.id for one in to.leases)]
            lender = known[op.lender % len(known)]
        ticket = model.Ticket(
            to.ids + 1,
            op.urgency,
            to.now - op.ago,
            member,
            self.machines[member],
            op.key,
            CLASSES[op.urgency],
            op.weight,
            lender,
            op.view,
            op.tokens,
            op.task,
            op.roles,
        )
        said = op._replace(pool=member, lender=lender, number=ticket.id)
        if to.too_heavy(ticket):
            return said._replace(number=0)
        to.ids += 1
        to.ask(ticket)
        return said

    def transact(self, several: list[Op]) -> None:
        """Do this in one transaction everywhere, and compare."""
        self.model.granted = []
        resolved = [self._resolve(self.model, op) for op in several]
        self.settled = self.model.unsettled
        self.model.close()
        expected = [ticket.id for ticket in self.model.granted]
        dead_removed = any(op.kind == "tidy" for op in several)
        for store, resolver in self.stores:
            with store.transaction(write=True) as tx:
                ledger = self._ledger(store, resolver, tx)
                self._run(ledger, resolved)
                living = set(expected) & {lease.id for lease in tx.leases(0, 10_000)}
                assert set(ledger.granted) >= living
        self.views |= {ticket.id: ticket.view for ticket in self.model.granted}
        resized = any(op.kind in ("resize", "unset", "restore") for op in several)
        self._check_growth(lowered_midway=resized and len(several) > 1)
        self._check_order()
        if dead_removed:
            self._check_living()

    def _ledger(self, store: Store, resolver: PoolResolver, tx: Tx) -> Ledger:
        return Ledger(tx, resolver, store.now(), self.liveness, "m1")

    def _run(self, ledger: Ledger, resolved: list[Op]) -> None:
        """What a transaction does: every operation, then the closing steps."""
        for op in resolved:
            try:
                self._apply(ledger, op)
            except TooHeavyError:
                assert (op.kind, op.number) == ("ask", 0), f"{op} was refused"
        while ledger.unsettled:
            admit.settle(ledger)
            if ledger.blocked:
                dead_members.remove_dead_members(ledger)

    def _apply(self, ledger: Ledger, op: Op) -> None:  # noqa: C901 - a case for each kind
        match op.kind:
            case "join":
                row = Member(op.key, self.machines[op.key], 1, "", ledger.now)
                self.liveness.join(op.key)
                ledger.tx.add_member(row)
            case "ask":
                request = admit.Request(
                    key=op.key,
                    member=op.pool,
                    machine=self.machines[op.pool],
                    weight=op.weight,
                    urgency=op.urgency,
                    since=Ms(ledger.now - op.ago),
                    view=op.view,
                    lender=op.lender or 0,
                    tokens=op.tokens,
                    task=op.task,
                    roles=op.roles,
                )
                assert admit.ask(ledger, request) == op.number
            case "release":
                assert str(release.release(ledger, op.number)) == op.key
            case "withdraw":
                assert str(release.withdraw(ledger, op.number)) == op.key
            case "resize":
                limits_by_hand.set_limit(ledger, op.pool, op.number)
            case "unset":
                limits_by_hand.unset_limit(ledger, op.pool)
            case "restore":
                limits_by_hand.restore(ledger, op.pool)
            case "cooldown":
                limits_by_hand.set_cooldown(ledger, op.pool, Ms(op.number))
            case "pause":
                limits_by_hand.pause(ledger, op.pool, None if op.number < 0 else Ms(op.number))
            case "resume":
                limits_by_hand.resume(ledger, op.pool)
            case _:
                dead_members.remove_dead_members(ledger)
                ledger.reconsider()

    def _rows(self, store: Store, resolver: PoolResolver) -> dict[str, Any]:
        """All rows and everything that is said about them."""
        with store.transaction(write=False) as tx:
            ledger = self._ledger(store, resolver, tx)
            lines = [(lane, row) for lane in tx.lanes() for row in tx.page(lane.id, None, 1_000)]
            heads = [admit.make_head(ledger, lane, row) for lane, row in lines]
            tickets = [row for _, row in lines]
            ids = [row.id for row in tickets]
            return {
                "leases": tx.leases(0, 10_000),
                "held": sorted(tx.held()),
                "families": sorted(tx.families()),
                "tickets": sorted(row._replace(lane=0) for row in tickets),
                "overtaken": {head.id: head.overtaken for head in heads},
                "rests": sorted(row for row in tx.rests() if row.until > ledger.now),
                "pool_rows": sorted(tx.pool_table().rows.values()),
                "events": sorted(row[1:] for row in tx.events(-1, 1_000, 0)),
                "members": sorted(tx.members()),
                "waiting": status_and_queue.waiting(ledger, ids, Seconds(self.wall)),
                "queue": status_and_queue.queue(ledger, Seconds(self.wall), 10_000),
                "status": [
                    status_and_queue.status(ledger, Seconds(self.wall), view) for view in VIEWS
                ],
                "capacity": [status_and_queue.capacity(ledger, key) for key in KEYS],
            }

    @invariant()
    def all_agree(self) -> None:
        """Every store has the rows of the model, and says the same about them."""
        first, *others = (self._rows(store, resolver) for store, resolver in self.stores)
        for other in others:
            for table, rows in first.items():
                assert other[table] == rows, f"{self.kinds} differ in {table}"
        self._check_rows(first)
        self._check_spots(first)
        self._check_status(first)

    def _check_rows(self, rows: dict[str, Any]) -> None:
        plain = sorted(self.model.leases, key=lambda one: one.id)
        assert [row.id for row in rows["leases"]] == [one.id for one in plain]
        for row, one in zip(rows["leases"], plain, strict=True):
            assert {name: getattr(row, name) for name in vars(one)} == vars(one)
            assert (row.sent, row.answer) == ("", PENDING), "it learns, and was told not to"
        tickets = [
            (row.id, row.order, row.member, row.tokens, rows["overtaken"][row.id])
            for row in rows["tickets"]
        ]
        assert tickets == [
            (one.id, one.order, one.member, one.tokens, one.overtaken)
            for one in sorted(self.model.tickets, key=lambda one: one.id)
        ]
        resting = [rest for rest in self.model.rests if rest.until > self.model.now]
        assert rows["rests"] == sorted(resting)

    def _check_spots(self, rows: dict[str, Any]) -> None:
        """Position and reason are the same however one asks, and those of the model."""
        spots = self.model.spots()
        gone = self.model.dead | self.model.deaf
        lost = {one.id for one in self.model.tickets if one.member in gone}
        queue = {row.id: row for row in rows["queue"].waiting}
        assert list(queue) == list(spots), "the queue is not in the order of the line"
        assert queue == rows["waiting"]
        for id, (position, reasons) in spots.items():
            row = queue[id]
            if reasons:
                assert (row.position, row.code, row.pool) == (position, *reasons[0])
                assert row.reason.count("; ") == len(reasons) - 1
            else:
                assert row.code == "next"
                waits = self.settled and id not in lost
                assert not waits, "a free seat, an eligible waiter, and no grant"

    def _check_status(self, rows: dict[str, Any]) -> None:
        for pool in rows["status"][0].pools:
            if pool.pool in LIMITS:
                where = model.place(pool.pool, "m1")
                assert pool.in_use == self.model.held(where)
                assert pool.cooling == self.model.resting(where)
                assert pool.limit == self.model.limit(pool.pool)
                assert pool.paused == self.model.paused(pool.pool)

    def _check_growth(self, *, lowered_midway: bool) -> None:
        """Counted from rows: never above a limit, and where it was lowered, never growing."""
        store, _ = self.stores[-1]
        with store.transaction(write=False) as tx:
            leases, rests = tx.leases(0, 10_000), tx.rests()
        self._check_tasks(leases)
        totals: dict[str, int] = {}
        families: dict[tuple[int, str], int] = {}
        for lease in leases:
            for pool in model.pools_of(lease):
                where = model.place(pool, lease.machine)
                family = (lease.chain or -lease.id, where)
                families[family] = max(families.get(family, 0), lease.weight)
        for (_, where), seats in families.items():
            totals[where] = totals.get(where, 0) + seats
        for rest in rests:
            if rest.until > self.model.now:
                totals[rest.place] = totals.get(rest.place, 0) + rest.seats
        for where, total in totals.items():
            pool = where.partition("@")[0]
            limit = self.model.limit(pool)
            by_view = any(pool in VIEWS[ticket.view] for ticket in self.model.granted)
            exempt = by_view or lowered_midway
            if limit is not None and total > limit and not exempt:
                assert total <= self.totals.get(where, 0), f"{where} grew to {total}/{limit}"
        self.totals = totals

    def _check_tasks(self, leases: list[LeaseRow]) -> None:
        """Counted from rows: no task holds more of a pool than it may; what is lent is lent."""
        held: Counter[tuple[str, str]] = Counter()
        for lease in leases:
            for pool in () if lease.chain else model.pools_of(lease):
                held[pool, lease.task] += lease.weight
        for (pool, task), seats in held.items():
            assert seats <= model.PER_TASK.get(pool, seats), f"{task} has {seats} of {pool}"

    def _check_order(self) -> None:
        """Nobody was let in past an earlier ticket of its lane, and a family is one line."""
        for granted in self.model.granted:
            for ticket in self.model.tickets:
                aside = (
                    ticket.id > granted.id or granted.lender or self.model.too_heavy(ticket)
                )  # came later, took nobody's seat but its parent's, or can never fit
                assert ticket.lane != granted.lane or aside or ticket.order > granted.order
        store, _ = self.stores[-1]
        with store.transaction(write=False) as tx:
            families = sorted(tx.families(), key=lambda row: (row.chain, row.id))
        for older, younger in pairwise(families):
            if older.chain == younger.chain:
                assert younger.lender >= older.id, "two leases use the same borrowed seat"

    def _check_living(self) -> None:
        """No lease and no ticket without a living member after a sweep."""
        for store, _ in self.stores:
            with store.transaction(write=False) as tx:
                members = {row.id for row in tx.members()}
                holders = {row.member for row in tx.leases(0, 10_000)}
                assert all(self.liveness.alive(member) for member in members)
                assert holders <= members


class OnBoth(Machine):
    """Memory and SQLite in lockstep."""

    kinds = ("memory", "sqlite")


usual = settings(
    deadline=None,
    derandomize=False,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.explain},  # explaining traces every line, twenty times slower
)

patient = pytest.mark.timeout(300)  # finding the shortest history of a failure takes its time
TestMemoryAgainstModel = patient(Machine.TestCase)
TestMemoryAgainstModel.settings = settings(usual, max_examples=200, stateful_step_count=30)
TestStoresAgainstModel = patient(OnBoth.TestCase)
TestStoresAgainstModel.settings = settings(usual, max_examples=80, stateful_step_count=25)
