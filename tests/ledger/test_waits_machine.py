"""Random histories of jobs and of leases that wait for them, on both stores side by side."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from headgate.core.jobs.job import Spec
from headgate.core.jobs.states import Word
from headgate.core.times import Ms
from headgate.ledger.admission import count_apart
from headgate.ledger.jobs import lifecycle, waits
from headgate.ledger.jobs.lifecycle import Draft
from headgate.ledger.queries import deadlocks
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow
from tests.ledger.test_jobs_machine import POOLS, JobMachine, _join, picks
from tests.ledger.test_machine import patient, usual


class WaitMachine(JobMachine):
    """Submitters, workers, runners, and programs under leases that wait for jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, tuple[str, int, list[int]]] = {}
        """What is waited for, by number: by whom, under which lease, for which jobs."""
        self.worker()

    @rule(pick=picks, jobs=st.lists(picks, min_size=1, max_size=3))
    def wait(self, pick: int, jobs: list[int]) -> None:
        """A program under some lease begins to wait for some jobs, in a process of its own."""
        leases = self.read(lambda tx: [row.id for row in tx.leases(0, 999)])
        if not leases or not self.known():
            return
        self._wait(leases[pick % len(leases)], list(dict.fromkeys(self.pick(one) for one in jobs)))

    @rule(pick=picks)
    def child(self, pick: int) -> None:
        """A program under some lease submits a job like itself, and begins to wait for it."""
        leases = self.read(lambda tx: tx.leases(0, 999))
        if leases:
            lease = leases[pick % len(leases)]
            draft = Draft(Spec(("agent",), "/"), lease.key, 0, Ms(0), lease.weight, label="agent")
            job = self.transact(lambda ledger: lifecycle.submit(ledger, draft))[0]
            assert isinstance(job, int)
            self._wait(lease.id, [job])

    def _wait(self, lease: int, ids: list[int]) -> None:
        self.now += 1
        member, number = self.name("q"), self.names

        def do(ledger: Ledger) -> bool:
            _join(ledger, name=member)
            return waits.begin(ledger, member, number, lease, ids)

        if self.transact(do)[0]:
            self.waiting[number] = (member, lease, ids)
        else:  # somebody found out in the meantime that its process has ended
            assert self.read(lambda tx: tx.lease(lease)) is None

    @rule(pick=picks)
    def wait_ends(self, pick: int) -> None:
        """It has waited for long enough, or all have ended."""
        if self.waiting:
            number = sorted(self.waiting)[pick % len(self.waiting)]
            member, _, _ = self.waiting.pop(number)

            def do(ledger: Ledger) -> None:
                waits.end(ledger, member, number)
                count_apart.count_apart(ledger)

            self.transact(do)

    @rule(pick=picks, noticed=st.booleans())
    def waiter_dies(self, pick: int, *, noticed: bool) -> None:
        """A process that waits is killed."""
        members = sorted(member for member, _, _ in self.waiting.values())
        self._die(members, pick, noticed=noticed)

    @rule()
    def all_are_new(self) -> None:
        """No process of version 0.1.0 is there any more."""

        def do(ledger: Ledger) -> None:
            for row in ledger.tx.members():
                ledger.tx.add_member(row._replace(version="0.2.0", schema=5))

        self.transact(do)

    @rule(pick=picks)
    def look_again(self, pick: int) -> None:
        """A process that waits looks whether all is as it should be."""
        id = self.pick(pick, Word.QUEUED)

        def do(ledger: Ledger) -> bool:
            waits.put_into_lanes(ledger, id)
            deadlocks.tell(ledger)
            return waits.misplaced(ledger, id)

        assert self.transact(do)[0] is False

    @invariant()
    def limits_hold(self) -> None:
        """Of a family the heaviest counts; the sum never exceeds a limit, nor grows beyond it."""
        totals: Counter[str] = Counter()
        for pool in self.limits:
            for family in self._families():
                here = [row.weight for row in family if pool in POOLS[row.key]]
                totals[pool] += max(here, default=0)
            grown = f"{pool} grew to {totals[pool]}"
            assert totals[pool] <= max(self.limits[pool], self.totals[pool]), grown
        self.totals = totals

    @invariant()
    def one_works_at_a_time(self) -> None:
        """Of those who lend and borrow only one works; who has been left alone counts anew."""
        for family in self._families():
            segments: list[list[LeaseRow]] = []
            for row in sorted(family, key=lambda one: (one.granted, one.id)):
                if segments and self._waits(row.lender, row.id):
                    segments[-1].append(row)
                else:
                    segments.append([row])
            for segment in segments:
                working = [row.id for row in segment if not self._waits(row.id)]
                assert len(working) <= 1, f"{working} work with the same seats"

    def _families(self) -> list[list[LeaseRow]]:
        found: dict[int, list[LeaseRow]] = {}
        for row in self.read(lambda tx: tx.leases(0, 9_999)):
            found.setdefault(row.chain or -row.id, []).append(row)
        return list(found.values())

    def _waits(self, lease: int, job: int = 0) -> bool:
        """Whether a lease waits for a job, or for any."""
        unfinished = {row.id for row in self.known() if not row.state.ended}
        needs = self.read(lambda tx: {id: set(tx.needs_of(id)) for id in unfinished})
        for member, waiting, jobs in self.waiting.values():
            if waiting == lease and self.liveness.listening(member):
                wanted = set(jobs) & unfinished
                while more := set().union(*(needs[id] for id in wanted)) & unfinished - wanted:
                    wanted |= more
                if wanted and (not job or job in wanted):
                    return True
        return False

    @invariant()
    def stores_find_the_same_deadlocks(self) -> None:
        """And each of them is of leases that wait."""
        found = []
        for store, resolver in self.stores:
            with store.transaction(write=False) as tx:
                ledger = Ledger(tx, resolver, Ms(self.now), self.liveness, "m")
                found.append(deadlocks.find(ledger))
        assert found[0] == found[1]
        for one in found[0]:
            assert all(self._waits(step.lease) for step in one.steps)


TestWaits = patient(WaitMachine.TestCase)
TestWaits.settings = settings(usual, max_examples=60, stateful_step_count=40)
