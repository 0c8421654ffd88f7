"""Random signals, kills, restarts and changes of mind, on both stores side by side."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from headgate.core.admission.lease_events import PENDING
from headgate.core.admission.pools import LEARN, Declared
from headgate.core.answers.signals import (
    ACCEPTED,
    CONCURRENCY,
    OVERLOADED,
    QUOTA,
    RATE,
    Reading,
    Signal,
)
from headgate.core.key_patterns import matches
from headgate.core.learning.control_law import Learned
from headgate.core.learning.usage_readings import Sight
from headgate.core.stored_text.stored_values import SIGHT, read_sent
from headgate.core.times import Ms
from headgate.ledger import dead_members, limits_by_hand, release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals, upstream_state
from headgate.ledger.queries.positions_and_etas import Survey
from headgate.ledger.transaction import outside_use
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow, Member
from tests.ledger.test_learning import DAY, HOUR, MINUTE, SOURCE, Lab

CONFIGS: tuple[dict[str, Declared], ...] = (
    {
        "a": Declared(limit=4, cooldown=Ms(2_000)),
        "a/x": Declared(limit="learn", cooldown=Ms(0)),
        "d": Declared(limit=3, cooldown=Ms(700), adapt="step-down"),
        "o": Declared(limit=2, adapt="off"),
        "u": Declared(limit=4, cooldown=Ms(2_000), usage=SOURCE._replace(margin=1)),
    },
    {
        "a": Declared(limit=2, cooldown=Ms(2_000)),
        "a/x": Declared(limit=3, cooldown=Ms(0)),
        "d": Declared(limit=4, cooldown=Ms(700)),
        "o": Declared(limit=2),
        "u": Declared(limit="learn", usage=SOURCE),
    },
)
POOLS = tuple(CONFIGS[0])
KEYS = ("a/x", "a/x", "a/y", "d/z", "o/z", "u/z", "u/z")
REFUSALS = (CONCURRENCY, CONCURRENCY, RATE, QUOTA, OVERLOADED)
RETRY = (None, *map(Ms, (0, 0, 1, 900, 5_000, HOUR, 400 * DAY)))
picks = st.integers(0, 30)


class Shot(NamedTuple):
    """All rows that matter here, and what follows from them."""

    learned: dict[str, Learned | None]
    limits: dict[str, int | None]
    most: dict[str, int | None]
    pauses: dict[str, int]
    leases: dict[int, LeaseRow]
    tickets: tuple[Any, ...]
    rests: tuple[Any, ...]
    notes: dict[str, str]
    fresh: frozenset[str]
    stuck: bool
    events: int


def shoot(ledger: Ledger) -> Shot:
    tx, pools = ledger.tx, {name: ledger.pool_set.pools[name] for name in POOLS}
    survey = Survey(ledger)
    rows = [row for lane in tx.lanes() for row in tx.page(lane.id, None, 999)]
    return Shot(
        {name: pool.learned for name, pool in pools.items()},
        {name: pool.limit for name, pool in pools.items()},
        {name: pool.most for name, pool in pools.items()},
        {name: pool.paused_until or 0 for name, pool in pools.items()},
        {row.id: row for row in tx.leases(0, 999)},
        tuple(sorted(row._replace(lane=0) for row in rows)),
        tuple(sorted(row for row in tx.rests() if row.until > ledger.now)),
        {
            f"{kind}:{name}": tx.note(f"{kind}:{name}")
            for kind in ("usage", "pace")
            for name in POOLS
        },
        frozenset(ledger.use.upstream),
        survey.stuck,
        len(tx.events(-1, 9_999, 0)),
    )


def report(id: int, kind: str, retry: Ms | None = None) -> Callable[[Ledger], Any]:
    return lambda ledger: apply_signals.report(ledger, Signal(kind, retry), lease=id)


def given_back(id: int) -> Callable[[Ledger], Any]:
    return lambda ledger: release.release(ledger, id)


def resume(pool: str) -> Callable[[Ledger], Any]:
    return lambda ledger: limits_by_hand.resume(ledger, pool)


def restore(pool: str) -> Callable[[Ledger], Any]:
    return lambda ledger: limits_by_hand.restore(ledger, pool)


def withdraw(id: int) -> Callable[[Ledger], Any]:
    return lambda ledger: release.withdraw(ledger, id)


def seats(shot: Shot, pool: str, *, besides: frozenset[int] = frozenset()) -> int:
    """Held and cooling, counted from rows."""
    held = sum(
        row.weight
        for row in shot.leases.values()
        if matches(pool, row.key) and row.id not in besides
    )
    resting = sum(row.seats for row in shot.rests if row.place == pool)
    return held if pool in shot.fresh else held + resting


class Machine(RuleBasedStateMachine):
    """The same on every store; what CONTROL promises is checked after every transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-learning-"))
        self.labs = [Lab(kind, self.folder) for kind in ("memory", "sqlite")]
        self.config = 0
        self.explored = dict.fromkeys(POOLS, 2)
        self.regime = dict.fromkeys(POOLS, 0)
        """The last lease that was granted before a person changed the pool's limit."""
        self.members = ["p", "q", "r"]
        for lab in self.labs:
            lab.declare(**CONFIGS[0])

    @initialize()
    def begin(self) -> None:
        self.shot = self._shoot()
        self.set_at: dict[str, int] = {}
        """By pool: when somebody last set its limit. What is sent in that moment is no news."""

    def teardown(self) -> None:
        if hasattr(self, "shot"):
            self._everybody_gets_in()
        for lab in self.labs:
            lab.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _shoot(self) -> Shot:
        first, second = (lab.read(shoot) for lab in self.labs)
        for name, one, other in zip(Shot._fields, first, second, strict=True):
            assert one == other, f"the stores differ in {name}"
        return first

    def transact(
        self, do: Callable[[Ledger], Any], *, person: str = "", single: bool = True
    ) -> tuple[Shot, Shot]:
        """Do it everywhere; returns what was before and what is after."""
        before = self.shot
        results = [lab.run(do) for lab in self.labs]
        assert results[0] == results[1]
        self.shot = after = self._shoot()
        for pool in POOLS:
            if person in (pool, "*"):
                self.regime[pool] = max([self.regime[pool], *before.leases, *after.leases])
            else:
                assert after.pauses[pool] >= before.pauses[pool]
            self._check_bounds(pool, after)
            if single:
                self._check_grants(pool, before, after)
        assert not after.stuck, "a free seat, an eligible waiter, and no grant"
        return before, after

    def _check_bounds(self, pool: str, shot: Shot) -> None:
        it, limit, most = shot.learned[pool], shot.limits[pool], shot.most[pool]
        if limit is None or it is None:
            assert limit == most
            return
        levels = [
            mark.level
            for row in shot.leases.values()
            for name, mark in read_sent(row.sent) or ()
            if name == pool
        ]
        self.explored[pool] = max(self.explored[pool], *levels, most or 0, 2)
        assert it.limit == limit
        assert 1 <= limit <= (self.explored[pool] if most is None else most)
        probes = [
            row.id
            for row in shot.leases.values()
            if row.id > self.regime[pool] and row.answer == PENDING
            for name, mark in read_sent(row.sent) or ()
            if name == pool and mark.probe and mark.epoch == it.epoch
        ]
        assert len(probes) <= 1
        assert set(probes) <= {it.probe} or not it.probe

    def _check_grants(self, pool: str, before: Shot, after: Shot) -> None:
        """Whoever came in found room: L+1 at the most, or an empty pool."""
        new = frozenset(id for id in after.leases if id not in before.leases)
        mine = [after.leases[id] for id in new if matches(pool, after.leases[id].key)]
        limit = after.limits[pool]
        if not mine or limit is None:
            return
        total = seats(after, pool)
        room = limit + (after.learned[pool] is not None)
        alone = len(mine) == 1 and not seats(after, pool, besides=new)
        assert total <= room or alone, f"{pool} grew to {total}/{limit}"
        assert after.pauses[pool] <= self.labs[0].now, "let in during a pause"

    @rule(key=st.sampled_from(KEYS), weight=st.sampled_from([1, 1, 1, 1, 2, 3]), pick=picks)
    def ask(self, key: str, weight: int, pick: int) -> None:
        self.transact(self._ask(key, weight, pick))

    @rule(key=st.sampled_from(KEYS), several=st.integers(2, 6))
    def herd(self, key: str, several: int) -> None:
        for pick in range(several):
            self.transact(self._ask(key, 1, pick))

    def _ask(self, key: str, weight: int, pick: int) -> Callable[[Ledger], int]:
        ceilings = [most for pool, most in self.shot.most.items() if most and matches(pool, key)]
        request = Request(
            key,
            self.members[pick % len(self.members)],
            "m",
            weight=min([weight, *ceilings]),
            urgency=(0, 0, -10)[pick % 3],
            since=Ms(self.labs[0].now),
        )
        return lambda ledger: admit.ask(ledger, request)

    def _lease(self, pick: int) -> int:
        known = sorted(self.shot.leases)
        return known[pick // 8 % len(known)] if known and pick % 8 else 10_000 + pick

    @rule(pick=picks)
    def accept(self, pick: int) -> None:
        """Only the probe's own acceptance raises a limit, to its own level."""
        id = self._lease(pick)
        row = self.shot.leases.get(id)
        before, after = self.transact(report(id, ACCEPTED))
        if row is None:
            assert after == before
            return
        for pool, was in before.learned.items():
            now = after.learned[pool]
            if was is None or now is None:
                continue
            assert now.epoch == was.epoch
            assert now.refusals == was.refusals
            if now.limit != was.limit:
                mark = f"{pool}={was.epoch}/{now.limit}/"
                silent = [lease for lease in before.leases.values() if lease.answer == PENDING]
                assert any(mark in lease.sent for lease in silent), "nobody was at that level"
                assert mark not in row.sent or row.answer == PENDING
                assert now.limit > was.limit

    @rule()
    def accept_all(self) -> None:
        for id in sorted(self.shot.leases):
            self.transact(report(id, ACCEPTED))

    @rule(kind=st.sampled_from(REFUSALS), pick=picks, retry=st.sampled_from(RETRY))
    def refuse(self, kind: str, pick: int, retry: Ms | None) -> None:
        self._refuse(kind, self._lease(pick), retry)

    @rule(pick=picks, retry=st.sampled_from(RETRY))
    def refuse_twice(self, pick: int, retry: Ms | None) -> None:
        """The same refusal told again is an echo."""
        id = self._lease(pick)
        self._refuse(CONCURRENCY, id, retry)
        between = self.shot.learned
        self._refuse(CONCURRENCY, id, retry)
        for pool, was in between.items():
            now = self.shot.learned[pool]
            if was is not None and now is not None:
                assert now._replace(probe=0, refusals=0) == was._replace(probe=0, refusals=0)

    @rule(retry=st.sampled_from(RETRY), backwards=st.booleans())
    def incident(self, retry: Ms | None, *, backwards: bool) -> None:
        """All that is in flight is refused, one after the other, in either order."""
        epochs = {pool: it.epoch for pool, it in self.shot.learned.items() if it}
        known = set(self.shot.leases)
        for id in sorted(known, reverse=backwards):
            if self.shot.leases[id].answer == PENDING:
                self._refuse(CONCURRENCY, id, retry)
        came = set(self.shot.leases) - known
        for pool, it in self.shot.learned.items():
            if it is not None and pool in epochs:
                mixed = any(matches(pool, self.shot.leases[id].key) for id in came)
                assert it.epoch <= epochs[pool] + 1 or mixed, "one incident, several cuts"

    def _refuse(self, kind: str, id: int, retry: Ms | None) -> None:
        row = self.shot.leases.get(id)
        before, after = self.transact(report(id, kind, retry))
        if row is None:
            assert after == before, "a lease that is gone said something"
            return
        cuts = 0
        for pool, was in before.learned.items():
            now = after.learned[pool]
            if was is None or now is None:
                continue
            assert now.limit <= was.limit, "a refusal raised a limit"
            assert 0 <= now.epoch - was.epoch <= 1
            cuts += now.epoch - was.epoch
            if kind != CONCURRENCY:
                assert now._replace(probe=0) == was._replace(probe=0)
            stale = f"{pool}=" in row.sent and f"{pool}={was.epoch}/" not in row.sent
            if stale and row.answer == PENDING:
                assert now._replace(probe=0) == was._replace(
                    probe=0, heard=now.heard, refusals=now.refusals
                )
            fresh = f"{pool}={was.epoch}/" in row.sent and row.answer == PENDING
            fresh = fresh and row.granted > self.set_at.get(pool, -1)
            if kind == CONCURRENCY and fresh and now.refusals > was.refusals:
                assert now.epoch == was.epoch + 1, "a cut was impossible"
        assert cuts <= 1

    @rule(kind=st.sampled_from(REFUSALS), pool=st.sampled_from(POOLS), retry=st.sampled_from(RETRY))
    def refuse_pool(self, kind: str, pool: str, retry: Ms | None) -> None:
        """A refusal that nobody ties to a request."""
        before, after = self.transact(
            lambda ledger: apply_signals.report(ledger, Signal(kind, retry), pool=pool)
        )
        for name, was in before.learned.items():
            now = after.learned[name]
            assert was is None or now is None or now.limit <= was.limit
            if name != pool or kind != CONCURRENCY:
                assert was is None or now is None or now._replace(probe=0) == was._replace(probe=0)

    @rule(
        used=st.none() | st.floats(0, 8) | st.integers(0, 8).map(float),
        limit=st.none() | st.integers(1, 9),
        ago=st.sampled_from([0, 0, 300, 20_000]),
        closed=st.sampled_from([None, None, None, 1, HOUR]),
    )
    def usage(self, used: float | None, limit: int | None, ago: int, closed: int | None) -> None:
        """A reading, failed, late or odd: no limit moves, and a failed one never widens."""
        reading = None if used is None else Reading(used, limit, closed_for=closed)

        def record(ledger: Ledger) -> None:
            upstream_state.record(
                ledger, "u", reading, asked=Ms(ledger.now - ago), problem="" if reading else "x"
            )

        seen = self.labs[0].read(lambda ledger: outside_use.sight(ledger, "u"))
        if limit is not None:  # where nobody gave a limit, upstream's own is a beginning
            self.explored["u"] = max(self.explored["u"], limit)
        before, after = self.transact(record)
        for pool, was in before.learned.items():
            now = after.learned[pool]
            if was is None or now is None or now._replace(probe=0) == was._replace(probe=0):
                continue
            assert pool == "u"
            assert after.most["u"] is None
            assert not was.bars
            assert was.limit < now.limit == limit
        late = self.labs[0].now - ago < seen.at
        new = set(after.leases) - set(before.leases)
        if reading is None or late:
            kept = SIGHT.read(after.notes["usage:u"])
            assert isinstance(kept, Sight)
            assert (kept.reading, kept.at) == (seen.reading, seen.at)
            limit_now = after.limits["u"]
            if new and limit_now is not None:
                assert seats(after, "u") <= limit_now + 1

    @rule(pick=picks, again=st.booleans())
    def release(self, pick: int, *, again: bool) -> None:
        id = self._lease(pick)
        known = id in self.shot.leases
        self.transact(given_back(id))
        assert id not in self.shot.leases
        if again or not known:
            before, after = self.transact(given_back(id))
            assert after == before, "released twice"

    @rule(pick=picks)
    def kill(self, pick: int) -> None:
        """A process and its programs end; nothing is learned from that."""
        member = self.members[pick % len(self.members)]
        for lab in self.labs:
            lab.liveness.end(member)

        def tidy(ledger: Ledger) -> None:
            dead_members.remove_dead_members(ledger)
            ledger.reconsider()

        before, after = self.transact(tidy)
        for pool, was in before.learned.items():
            now = after.learned[pool]
            assert was is None or now is None or now._replace(probe=0) == was._replace(probe=0)
        for lab in self.labs:
            lab.liveness.join(member)
            row = Member(member, "m", 1, "", Ms(0))
            lab.run(lambda ledger, row=row: ledger.tx.add_member(row))  # type: ignore[misc]

    @rule(ms=st.sampled_from([1, 500, 2_000, 5_000, 30_000, MINUTE, 10 * MINUTE, HOUR, DAY]))
    def advance(self, ms: int) -> None:
        """Time passes, in one jump; silence may raise a limit where somebody reports."""
        heard = {pool: it.heard for pool, it in self.shot.learned.items() if it}
        for lab in self.labs:
            lab.now += ms

        def tidy(ledger: Ledger) -> None:
            ledger.reconsider()

        before, after = self.transact(tidy)
        for pool, was in before.learned.items():
            now = after.learned[pool]
            if was is not None and now is not None and now.limit != was.limit:
                assert heard[pool]
                assert now.limit > was.limit

    @rule()
    def restart(self) -> None:
        """Everything is closed and opened again: nothing has changed."""
        for lab in self.labs:
            lab.restart()
        assert self._shoot() == self.shot

    @rule()
    def reload(self) -> None:
        """Another configuration counts from now on."""
        self.config = 1 - self.config
        for lab in self.labs:
            lab.declare(**CONFIGS[self.config])
        self.explored = {
            pool: max(most, self.shot.most[pool] or 0) for pool, most in self.explored.items()
        }
        self.transact(lambda ledger: ledger.reconsider(), person="*")

    @rule(
        pool=st.sampled_from(POOLS),
        what=st.sampled_from(["set", "set", "unset", "restore", "pause", "resume", "learn"]),
        number=st.integers(1, 5),
    )
    def person(self, pool: str, what: str, number: int) -> None:
        """Somebody takes matters into their own hands."""

        def change(ledger: Ledger) -> None:
            match what:
                case "set":
                    limits_by_hand.set_limit(ledger, pool, number)
                case "learn" if ledger.pool_set.pools[pool].adapt == LEARN:
                    limits_by_hand.set_limit(ledger, pool, LEARN)
                case "unset":
                    limits_by_hand.unset_limit(ledger, pool)
                case "restore":
                    limits_by_hand.restore(ledger, pool)
                case "pause":
                    limits_by_hand.pause(ledger, pool, Ms(number * 1_000))
                case _:
                    limits_by_hand.resume(ledger, pool)

        _, after = self.transact(change, person=pool)
        if what not in {"pause", "resume"}:
            self.set_at[pool] = self.labs[0].now
        if what == "set":
            assert after.limits[pool] == number

    @rule(data=st.data(), count=st.integers(2, 5))
    def batch(self, data: st.DataObject, count: int) -> None:
        """Group commit: several answers, ends and wishes in one transaction."""
        several: list[Callable[[Ledger], Any]] = []
        for _ in range(count):
            pick = data.draw(picks)
            id = self._lease(pick)
            kind = data.draw(st.sampled_from(["ask", "release", ACCEPTED, *REFUSALS]))
            if kind == "ask":
                several.append(self._ask(data.draw(st.sampled_from(KEYS)), 1, pick))
            elif kind == "release":
                several.append(given_back(id))
            else:
                several.append(report(id, kind, data.draw(st.sampled_from(RETRY))))
        self.transact(lambda ledger: [do(ledger) for do in several], single=False)

    def _everybody_gets_in(self) -> None:
        """Once upstream is well and everybody ends in time, nobody waits for ever."""
        for pool in POOLS:
            self.transact(resume(pool), person=pool)
            self.transact(restore(pool), person=pool)
        heaviest = min(most for most in self.shot.most.values() if most)
        for ticket in self.shot.tickets:
            if ticket.weight > heaviest:  # somebody lowered the limit for good
                self.transact(withdraw(ticket.id))
        for _ in range(3 * len(self.shot.tickets) + 3):
            if not self.shot.tickets:
                break
            for id in sorted(self.shot.leases):
                self.transact(given_back(id))
            self.advance(DAY)
            self.usage(0.0, None, 0, None)
            for id in sorted(self.shot.leases):
                self.transact(report(id, ACCEPTED))
        assert not self.shot.tickets, "somebody waits for ever"


TestLearning = pytest.mark.timeout(300)(Machine.TestCase)
TestLearning.settings = settings(
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.explain},
    max_examples=int(os.environ.get("HEADGATE_EXAMPLES", "60")),
    stateful_step_count=30,
)
