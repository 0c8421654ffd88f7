"""A world with jobs: what submitters, workers, runners and time do, one transaction each."""

from functools import partial
from typing import Any

from headgate.core.display.snapshots import JobStatus
from headgate.core.jobs.job import AttemptOutcome, End, Job, Spec
from headgate.core.times import Seconds
from headgate.ledger import job_timers
from headgate.ledger.jobs import lifecycle
from headgate.ledger.jobs.lifecycle import Draft
from headgate.ledger.queries import job_queries
from headgate.ledger.transaction.job_rows import Attempt
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Member
from tests.ledger.test_cases import World

WELL = End(AttemptOutcome.DONE, "exit", "exit 0", "0:0")
BADLY = End(AttemptOutcome.FAILED, "exit", "exit 1", "1:0")
REFUSED = End(AttemptOutcome.PARKED, "rate_limited", "upstream refused it", "1:0")
GONE = End(AttemptOutcome.LOST, "lost", "nobody knows")
_DRAFT = set(Draft._fields)


class Yard(World):
    """A world in which jobs are submitted, and started by whoever works."""

    def worker(self, name: str = "w") -> str:
        """Somebody who starts jobs."""

        def join(ledger: Ledger) -> None:
            self.liveness.join(name)
            ledger.tx.add_member(Member(name, "m", 1, "", ledger.now, works=1))
            ledger.reconsider()

        self.run(join)
        return name

    def submit(self, key: str = "a/x", **more: Any) -> int:  # noqa: ANN401
        """A job; what is no field of a draft is one of its spec."""
        mine = {name: value for name, value in more.items() if name in _DRAFT}
        spec = Spec(("agent",), "/", **{n: v for n, v in more.items() if n not in _DRAFT})
        draft = Draft(spec, **{"key": key, "label": "agent", **mine})
        return self.run(lambda ledger: lifecycle.submit(ledger, draft))

    def begin(self, id: int, runner: str | None = None, worker: str = "w") -> Job | None:
        """A runner takes a job over from its worker."""
        me = runner or f"r{id}"

        def do(ledger: Ledger) -> Job | None:
            self.liveness.join(me)
            ledger.tx.add_member(Member(me, "m", 2, "", ledger.now))
            return lifecycle.begin(ledger, id, worker, me)

        return self.run(do)

    def finish(self, id: int, end: End = WELL, runner: str | None = None) -> bool:
        """A runner tells how its job ended, and goes."""
        me = runner or f"r{id}"

        def do(ledger: Ledger) -> bool:
            told = lifecycle.finish(ledger, id, me, end)
            ledger.tx.drop_member(me)
            return told

        return self.run(do)

    def work(self, id: int, end: End = WELL, worker: str = "w") -> None:
        """One attempt from its beginning to its end."""
        assert self.begin(id, worker=worker) is not None
        assert self.finish(id, end)

    def die(self, *members: str) -> None:
        """Members end, with all their programs, and someone notices."""
        for member in members:
            self.liveness.end(member)
        self.tidy()

    def wait(self, ms: int) -> None:
        """Time passes, and someone notices."""
        self.now += ms
        self.run(job_timers.tick)

    def do(self, what: Any, id: int, **more: Any) -> Any:  # noqa: ANN401 - any of the verbs
        """What people do to a job."""
        return self.run(partial(what, id=id, **more))

    def row(self, id: int) -> Job:
        """A job that is there."""
        row = self.read(lambda ledger: ledger.tx.job(id))
        assert row is not None
        return row

    def state(self, *ids: int) -> str:
        """What people call the states of some jobs."""
        return " ".join(self.row(id).state.word for id in ids)

    def why(self, id: int) -> JobStatus:
        """A job, as people see it."""
        found = self.read(lambda ledger: job_queries.job(ledger, id, Seconds(0.0)))
        assert found is not None
        return found

    def spot(self, id: int) -> tuple[int | None, str]:
        """Where a job stands, and why."""
        it = self.why(id)
        return it.position, it.code

    def attempts(self, id: int) -> list[Attempt]:
        return self.read(lambda ledger: ledger.tx.attempts(id))

    def told(self, id: int) -> list[str]:
        """What was told of a job."""
        rows = self.read(lambda ledger: ledger.tx.events(-1, 1_000, id))
        return [row.kind for row in rows]

    def in_line(self) -> list[int]:
        """The tickets there are, in any lane."""
        return self.read(
            lambda ledger: sorted(
                row.id
                for lane in ledger.tx.lanes()
                for row in ledger.tx.page(lane.id, None, 10_000)
            )
        )
