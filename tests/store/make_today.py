"""Writes `data/today.db`: a store as version 0.1.0 (commit 95753f1) left it, with all it could say.

It was run once, in a checkout of that commit, and is kept to show how the file came about. It goes
through the verbs only, so that every value in the file is one that version wrote by itself.
"""

import sys
from functools import partial
from pathlib import Path

from headgate.core.answers.signals import ACCEPTED, CONCURRENCY, Signal
from headgate.gate.liveness import max_hold
from headgate.ledger import job_timers
from headgate.ledger.cancel import ask_to_end
from headgate.ledger.jobs import by_hand, lifecycle
from headgate.ledger.learning import apply_signals
from headgate.store.sqlite import SqliteStore
from tests.ledger.yard import BADLY, GONE, REFUSED, WELL, Yard


def main(path: Path) -> None:
    """Write the file."""
    yard = Yard(lambda clock: SqliteStore(path, clock=clock))
    yard.pools({"a": 1, "b": 1})
    yard.worker()
    _put_aside(yard)
    _end(yard)
    _run(yard)
    _answer(yard)
    yard.store.close()


def _put_aside(yard: Yard) -> None:
    """Jobs that wait: in line, for a person, for another job, for their next try."""
    yard.submit("c/x", name="expired", hold=True, expires=1_000)
    returned = yard.submit("b/x", name="parked, in line")
    yard.work(returned, REFUSED._replace(session="s-1"))
    yard.ask("b/x")
    yard.wait(10_000)
    yard.ask("a/x")
    queued = yard.submit("a/x", name="queued")
    yard.submit("a/x", name="after", after=(queued,))
    yard.submit("a/x", name="held", hold=True)
    yard.work(yard.submit("c/x", name="parked"), REFUSED)
    yard.work(yard.submit("c/x", name="backoff", retries=1), BADLY)


def _end(yard: Yard) -> None:
    """Jobs that have ended, one in each way; the one that expired has done so by now."""
    yard.work(yard.submit("c/x", name="done"), WELL)
    yard.work(yard.submit("c/x", name="failed"), BADLY)
    yard.do(by_hand.cancel, yard.submit("c/x", name="cancelled"), why="cancelled by hand")
    yard.work(yard.submit("c/x", name="lost", attempts=1), GONE)


def _run(yard: Yard) -> None:
    """Jobs that have seats; three of them are asked to end."""
    yard.begin(yard.submit("c/x", name="relieving", urgency=10))
    yard.run(lambda ledger: job_timers.relieve(ledger, "12 MiB are free"))
    cancelling = yard.submit("c/x", name="cancelling")
    yard.begin(cancelling)
    yard.run(lambda ledger: ask_to_end(ledger, cancelling))
    held = yard.submit("c/x", name="overdue")
    yard.begin(held)
    text = "held longer than its pool's max_hold of 1s"
    yard.run(lambda ledger: max_hold.record_end(ledger, held, text))
    yard.begin(yard.submit("c/x", name="running"))
    adopted = yard.submit("c/x", name="adopted")
    yard.begin(adopted)
    yard.liveness.orphan(f"r{adopted}")
    yard.do(lifecycle.adopt, adopted, me="v")
    yard.submit("c/x", name="starting")


def _answer(yard: Yard) -> None:
    """Leases of people: upstream has said nothing, yes and no to them."""
    for task, kind in (("pending", ""), ("accepted", ACCEPTED), ("refused", CONCURRENCY)):
        id = yard.ask("d/x", task=task)
        if kind:
            yard.run(partial(apply_signals.report, signal=Signal(kind), lease=id))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
