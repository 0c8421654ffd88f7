"""Random histories of jobs among those who wait in person, on both stores side by side.

What is true of jobs at every moment is checked from the rows: seats, ends, attempts, reasons.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.core.admission.pools import FAIR, Declared
from headgate.core.jobs.job import Job, Spec, load
from headgate.core.jobs.states import ENDED, Place, State, Timer, Word
from headgate.core.times import Ms, Seconds
from headgate.errors import UsageError
from headgate.gate.worker_jobs import _Finish
from headgate.ledger import dead_members, job_timers, limits_by_hand, release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.cancel import ask_to_end
from headgate.ledger.jobs import by_hand, lifecycle
from headgate.ledger.jobs.lifecycle import Draft
from headgate.ledger.queries import job_queries, status_and_queue
from headgate.ledger.queries.positions_and_etas import Survey
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import Member, Tx
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store.base import Store
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore
from tests.ledger.test_machine import STEADY, Crash, patient, usual
from tests.ledger.yard import BADLY, GONE, REFUSED, WELL

LIMITS = {"host": 4, "a": 2, "a/x": 1, "b": 3, "role:lead": 2}
PER_TASK = {"b": 2, "role:lead": 1}
FAIR_POOLS = {"a"}
POOLS = {"a/x": ("host", "a", "a/x"), "a/y": ("host", "a"), "b/z": ("host", "b"), "": ("host",)}
ENDS = (WELL, WELL, BADLY, REFUSED, GONE, BADLY._replace(session="s"))
picks = st.integers(0, 60)
keys = st.sampled_from(sorted(POOLS))
tasks = st.sampled_from(["", "t", "t", "u"])
roles = st.sampled_from(["", "", "role:lead"])
Do = Callable[[Ledger], object]
T = TypeVar("T")


class JobMachine(RuleBasedStateMachine):
    """Submitters, workers, runners, passers-by and time; each step is a transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10_000_000
        self.liveness = SimulatedLiveness()
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-jobs-"))
        path = self.folder / "store.db"
        self.limits = dict(LIMITS)
        self.totals: Counter[str] = Counter()
        self.again: Counter[int] = Counter()
        """How often each job was had again by hand, and how many attempts it had had then."""
        self.had: dict[int, int] = {}
        self.names = 0
        self.runners: dict[str, str] = {}
        """Runners, each with the worker that had it started."""
        declared = {
            name: Declared(
                limit=limit,
                per_task=PER_TASK.get(name),
                order=FAIR if name in FAIR_POOLS else None,
            )
            for name, limit in LIMITS.items()
        }
        stores: list[Store] = [
            MemoryStore(clock=lambda: self.now),
            SqliteStore(path, synchronous="OFF", clock=lambda: self.now),
        ]
        self.stores = [(store, PoolResolver(declared, STEADY)) for store in stores]
        self.transact(partial(_join, name="p0"))
        self.transact(partial(_join, name="p1"))

    def teardown(self) -> None:
        for store, _ in self.stores:
            store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def transact(self, *several: Do, conclude: Do | None = None) -> list[object]:
        """Do this in one transaction everywhere; all stores must answer alike."""
        answers = []
        for store, resolver in self.stores:
            with store.transaction(write=True) as tx:
                ledger = Ledger(tx, resolver, Ms(self.now), self.liveness, "m")
                said = [_tried(do, ledger) for do in several]
                _close(ledger)
                if conclude is not None:
                    said.append(conclude(ledger))
                    _close(ledger)
                answers.append([*said, sorted(ledger.woken), sorted(ledger.granted)])
        assert answers[0] == answers[1]
        return answers[0]

    def read(self, do: Callable[[Tx], T]) -> T:
        store, _ = self.stores[-1]
        with store.transaction(write=False) as tx:
            return do(tx)

    def known(self, *words: Word) -> list[Job]:
        return self.read(partial(_known, words=words or tuple(Word)))

    def pick(self, pick: int, *words: Word) -> int:
        """The id of some job, or of none at all."""
        known = [row.id for row in self.known(*words)]
        return known[pick % len(known)] if known else 999_999

    def alive(self, *, workers: bool) -> list[str]:
        rows = self.read(lambda tx: tx.members())
        names = [row.id for row in rows if bool(row.works) == workers]
        return [name for name in names if self.liveness.listening(name)]

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    @rule(
        key=keys,
        urgency=st.sampled_from([0, 0, -10, 10]),
        weight=st.sampled_from([1, 1, 1, 2]),
        hold=st.sampled_from([False, False, True]),
        after=st.lists(picks, max_size=2),
        expires=st.sampled_from([None, 1_000, 60_000]),
        retries=st.integers(0, 2),
        attempts=st.integers(1, 4),
        models=st.sampled_from([(), (), ("a/x", "b/z"), ("a/y", "a/x", "b/z")]),
        escalate=st.booleans(),
        crash=st.sampled_from([False, False, False, True]),
        task=tasks,
        roles=roles,
    )
    def submit(  # noqa: PLR0917
        self,
        key: str,
        urgency: int,
        weight: int,
        hold: bool,  # noqa: FBT001 - by name
        after: list[int],
        expires: Ms | None,
        retries: int,
        attempts: int,
        models: tuple[str, ...],
        escalate: bool,  # noqa: FBT001 - by name
        crash: bool,  # noqa: FBT001 - by name
        task: str,
        roles: str,
    ) -> None:
        """Somebody hands in a job; or dies in the middle of it, which leaves no trace."""
        spec = Spec(
            ("agent",),
            "/",
            expires=expires,
            models=models,
            fallback_after=Ms(5_000),
            escalate=escalate,
            retries=retries,
            attempts=attempts,
        )
        key = models[0] if models else key
        weight = 1 if roles or "a/x" in (key, *models) else weight
        needs = tuple(dict.fromkeys(self.pick(one) for one in after if self.known()))
        draft = Draft(
            spec=spec,
            key=key,
            urgency=urgency,
            since=Ms(0),
            weight=weight,
            task=task,
            label="agent",
            after=needs,
            hold=hold,
            roles=roles,
        )
        if crash:
            self._crash(lambda ledger: lifecycle.submit(ledger, draft))
        else:
            self.transact(lambda ledger: lifecycle.submit(ledger, draft))

    def _crash(self, do: Do) -> None:
        for store, resolver in self.stores:
            try:
                with store.transaction(write=True) as tx:
                    ledger = Ledger(tx, resolver, Ms(self.now), self.liveness, "m")
                    do(ledger)
                    _close(ledger)
                    burnt = tx.next_id()
                    raise Crash  # noqa: TRY301 - the process has died
            except Crash:
                with store.transaction(write=True) as tx:
                    while tx.next_id() <= burnt:
                        pass

    @rule(key=keys, pick=picks, urgency=st.sampled_from([0, -10, 10]), task=tasks, roles=roles)
    def ask(self, key: str, pick: int, urgency: int, task: str, roles: str) -> None:
        """Somebody who waits in person asks for a seat."""
        names = [name for name in self.alive(workers=False) if name.startswith("p")]
        if names:
            request = Request(
                key=key,
                member=names[pick % len(names)],
                machine="m",
                urgency=urgency,
                since=Ms(self.now),
                task=task,
                roles=roles,
            )
            self.transact(lambda ledger: admit.ask(ledger, request))

    @rule(pick=picks)
    def go_away(self, pick: int) -> None:
        """Somebody who asked in person gives a seat back, or goes away."""
        rows = self.read(lambda tx: [row.id for row in tx.leases(0, 999) if not row.job])
        rows += self.read(lambda tx: [row.id for n in ("p0", "p1") for row in tx.tickets_of(n)])
        if rows:
            self.transact(partial(release.withdraw, id=rows[pick % len(rows)]))

    @rule()
    def worker(self) -> None:
        """A worker comes."""
        name = self.name("w")
        self.transact(partial(_join, name=name, works=1))

    @rule(pick=picks, noticed=st.booleans())
    def worker_dies(self, pick: int, *, noticed: bool) -> None:
        """A worker is killed; someone notices, at once or later."""
        self._die(self.alive(workers=True), pick, noticed=noticed)

    @rule(pick=picks)
    def worker_stops(self, pick: int) -> None:
        """A worker is told to stop, and gives back what it has not started."""
        names = self.alive(workers=True)
        if names:
            self.transact(partial(_discharge, name=names[pick % len(names)]))

    @rule(pick=picks, wrong=st.sampled_from([False, False, False, True]))
    def begin(self, pick: int, *, wrong: bool) -> None:
        """A runner comes for a job that its worker was given; or for somebody else's."""
        id = self.pick(pick, Word.RUNNING)
        lease = self.read(lambda tx: tx.lease(id))
        if lease is None:
            return
        me, worker = self.name("r"), "p0" if wrong else lease.member
        rows = self.known(Word.RUNNING)
        starting = any(row.id == id and row.state is State.STARTING for row in rows)

        def do(ledger: Ledger) -> bool:
            _join(ledger, name=me)
            return lifecycle.begin(ledger, id, worker, me) is not None

        began = self.transact(do)[0]
        assert began == (starting and not wrong and not lease.cancel)
        self.runners[me] = worker

    @rule(pick=picks, how=st.sampled_from(ENDS), goes_on=st.booleans(), stranger=picks)
    def finish(self, pick: int, how: Any, *, goes_on: bool, stranger: int) -> None:  # noqa: ANN401
        """A runner tells how its job ended, and may go on with the next; or a stranger tells."""
        id = self.pick(pick, Word.RUNNING)
        lease = self.read(lambda tx: tx.lease(id))
        if lease is None:
            return
        before = self.known()
        me = "p1" if stranger == 0 else lease.member
        if me == lease.member and (me not in self.runners or not self.liveness.listening(me)):
            return
        worker = self.runners.get(me, "") if goes_on else ""
        operation = _Finish(me, id, how, worker)
        self.transact(operation.apply, conclude=operation.conclude)
        if stranger == 0:
            assert [row for row in self.known() if row.id == id] == [
                row for row in before if row.id == id
            ]

    @rule(pick=picks, noticed=st.booleans(), lives=st.booleans())
    def runner_dies(self, pick: int, *, noticed: bool, lives: bool) -> None:
        """A runner is killed, alone or with its program."""
        names = [name for name in self.alive(workers=False) if name.startswith("r")]
        self._die(names, pick, noticed=noticed, deaf=lives)

    def _die(self, names: list[str], pick: int, *, noticed: bool, deaf: bool = False) -> None:
        if names:
            (self.liveness.orphan if deaf else self.liveness.end)(names[pick % len(names)])
        if noticed:
            self.tidy()

    @rule(pick=picks)
    def program_ends(self, pick: int) -> None:
        """A program that outlived its runner ends, too."""
        names = sorted(self.liveness.freed_job_leases())
        if names:
            self.liveness.end(names[pick % len(names)])

    @rule(pick=picks)
    def adopt(self, pick: int) -> None:
        """Another runner takes over a job; it must have lost its own."""
        id = self.pick(pick, Word.RUNNING)
        lease, job = self.read(lambda tx: (tx.lease(id), tx.job(id)))
        if lease is None or job is None:
            return
        me = self.name("r")

        def do(ledger: Ledger) -> bool:
            _join(ledger, name=me)
            return lifecycle.adopt(ledger, id, me) is not None

        minded = self.liveness.listening(lease.member)
        assert self.transact(do)[0] == (not minded and job.state is State.RUNNING)
        self.runners[me] = ""

    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        """Somebody cancels a job, in whatever state it is."""
        id = self.pick(pick)
        self.transact(lambda ledger: ask_to_end(ledger, id))
        job, lease = self.read(lambda tx: (tx.job(id), tx.lease(id)))
        if job is not None:
            assert job.state.ended or (lease is not None and lease.cancel)

    @rule(
        pick=picks,
        verb=st.sampled_from(
            [by_hand.hold, by_hand.release_job, by_hand.release_job, by_hand.retry, by_hand.retry]
        ),
    )
    def by_hand(self, pick: int, verb: Callable[..., None]) -> None:
        """Somebody holds a job, lets it go or has it again, whether that makes sense or not."""
        id = self.pick(pick)
        before = self.read(lambda tx: tx.job(id))
        if self.transact(partial(verb, id=id))[0] is None and verb is by_hand.retry:
            assert before is not None
            assert before.state.ended
            self.again[id] += 1
            self.had[id] = before.attempts

    @rule(pick=picks, urgency=st.sampled_from([None, -10, 0, 10]), first=st.booleans())
    def move(self, pick: int, urgency: int | None, *, first: bool) -> None:
        """Somebody gives a job another place."""
        self.transact(partial(by_hand.move, id=self.pick(pick), urgency=urgency, first=first))

    @rule(pool=st.sampled_from(sorted(LIMITS)), limit=st.integers(1, 5))
    def resize(self, pool: str, limit: int) -> None:
        """Somebody sets a limit."""
        self.limits[pool] = limit
        self.transact(partial(limits_by_hand.set_limit, pool=pool, limit=limit))

    @rule(ms=st.sampled_from([1, 1_000, 5_000, 60_000, 700_000]), noticed=st.booleans())
    def advance(self, ms: int, *, noticed: bool) -> None:
        """Time passes; someone notices, or nobody does yet."""
        self.now += ms
        if noticed:
            self.transact(job_timers.tick)

    @rule()
    def age_out(self) -> None:
        """Old jobs are forgotten."""
        before = self.now - 600_000
        self.transact(lambda ledger: job_timers.age_out(ledger, Ms(before)))

    @rule()
    def tidy(self) -> None:
        """Somebody looks up: after that nobody waits who need not."""
        self.transact(_tidy, job_timers.tick)
        for store, resolver in self.stores:
            with store.transaction(write=False) as tx:
                ledger = Ledger(tx, resolver, Ms(self.now), self.liveness, "m")
                assert not Survey(ledger).stuck, "a free seat, an eligible waiter, and no grant"
                members = {row.id for row in tx.members()}
                assert {row.member for row in tx.leases(0, 999)} <= members

    @invariant()
    def stores_agree(self) -> None:
        """Both stores have the same rows, and say the same about them."""
        first, second = (self._all(store, resolver) for store, resolver in self.stores)
        for what, rows in first.items():
            assert second[what] == rows, f"the stores differ in {what}"

    def _all(self, store: Store, resolver: PoolResolver) -> dict[str, Any]:
        with store.transaction(write=False) as tx:
            ledger = Ledger(tx, resolver, Ms(self.now), self.liveness, "m")
            known = _known(tx)
            lines = [row for lane in tx.lanes() for row in tx.page(lane.id, None, 9_999)]
            return {
                "jobs": known,
                "attempts": [tx.attempts(row.id) for row in known],
                "needs": [(tx.needs_of(row.id), tx.needed_by(row.id)) for row in known],
                "due": (tx.next_due(), [row.id for row in tx.due_jobs(Ms(self.now), 9_999)]),
                "leases": tx.leases(0, 9_999),
                "tickets": sorted(row._replace(lane=0) for row in lines),
                "members": tx.members(),
                "events": [row[1:] for row in tx.events(-1, 9_999, 0)],
                "shown": job_queries.some(ledger, known, Seconds(0.0)),
                "aside": job_queries.aside(ledger, Seconds(0.0), 9_999),
                "queue": status_and_queue.queue(ledger, Seconds(0.0), 9_999),
            }

    @invariant()
    def a_job_is_in_one_place(self) -> None:
        """It has a lease exactly while it runs, else at most a ticket, and a reason if neither."""

        def look_at(tx: Tx) -> None:
            for row in _known(tx):
                lease, ticket = tx.lease(row.id), tx.ticket(row.id)
                assert (lease is not None) == (row.state.place is Place.SEATS)
                assert lease is None or (lease.job, lease.key) == (1, row.key)
                assert not (lease and ticket), "it has a ticket and a lease"
                if row.state.ended:
                    assert not ticket
                    assert row.ended
                    assert row.code
                    assert row.text
                    assert not row.due
                    continue
                assert not row.ended
                assert (ticket is not None) == (row.state.place is Place.LINE)
                if ticket is not None:
                    assert row.code == ""
                    assert ticket.order == (row.urgency, row.since, row.id)
                elif row.state.place is Place.ASIDE:
                    assert row.code, "it waits, and nobody knows what for"
                    assert bool(row.due) == (row.state.timer is Timer.RETURNS) or row.expires
                    if row.state is not State.HELD:
                        assert bool(tx.needs_of(row.id)) == (row.state is State.AFTER)
            known = {row.id for row in _known(tx)}
            assert {lease.id for lease in tx.job_leases()} <= known

        self.read(look_at)

    @invariant()
    def each_run_ends_once(self) -> None:
        """As many ends are told as there were runs that ended; attempts are bounded and closed."""

        def look_at(tx: Tx) -> None:
            told = Counter(row.work for row in tx.events(-1, 9_999, 0) if row.kind in ENDED)
            for row in _known(tx):
                assert told[row.id] == self.again[row.id] + row.state.ended
                runs = tx.attempts(row.id)
                assert [run.number for run in runs] == list(range(1, row.attempts + 1))
                going_on = [run for run in runs if not run.ended]
                begun = row.state is State.RUNNING
                assert going_on == (runs[-1:] if begun else [])
                most = load(row.spec).attempts
                assert row.attempts - self.had.get(row.id, 0) <= most
                assert row.parks < most

        self.read(look_at)

    @invariant()
    def limits_hold(self) -> None:
        """Jobs and persons together never exceed a limit, nor grow where it was lowered."""
        totals: Counter[str] = Counter()
        held: Counter[tuple[str, str]] = Counter()
        for lease in self.read(lambda tx: tx.leases(0, 9_999)):
            pools = (*POOLS[lease.key], *lease.roles.split())
            totals.update(dict.fromkeys(pools, lease.weight))
            held.update({(pool, lease.task): lease.weight for pool in pools if pool in PER_TASK})
        for pool, total in totals.items():
            assert total <= max(self.limits[pool], self.totals[pool]), f"{pool} grew to {total}"
        self.totals = totals
        for (pool, task), seats in held.items():
            assert seats <= PER_TASK[pool], f"{task} holds {seats} of {pool}"


def _known(tx: Tx, words: tuple[Word, ...] = tuple(Word)) -> list[Job]:
    return sorted(row for word in words for row in tx.jobs(word, 0, 9_999))


def _tried(do: Do, ledger: Ledger) -> object:
    """What something came to; what is refused changes nothing, as in a real transaction."""
    try:
        return do(ledger)
    except UsageError as error:
        return str(error)


def _close(ledger: Ledger) -> None:
    while ledger.unsettled:
        admit.settle(ledger)
        if ledger.blocked:
            dead_members.remove_dead_members(ledger)


def _join(ledger: Ledger, name: str, works: int = 0) -> None:
    assert isinstance(ledger.liveness, SimulatedLiveness)
    ledger.liveness.join(name)
    ledger.tx.add_member(Member(name, "m", 1, "", ledger.now, works))
    ledger.reconsider()


def _discharge(ledger: Ledger, name: str) -> None:
    ledger.set_works(name, works=False)
    for job in lifecycle.to_start(ledger, name):
        release.release(ledger, job.id, "lost", "its worker was stopped")
    ledger.reconsider()


def _tidy(ledger: Ledger) -> None:
    dead_members.remove_dead_members(ledger)
    ledger.reconsider()


TestJobs = patient(JobMachine.TestCase)
TestJobs.settings = settings(usual, max_examples=120, stateful_step_count=40)
