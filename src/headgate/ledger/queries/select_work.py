"""Work that waits or runs, chosen by what it is for: its task, its name, its key."""

from collections.abc import Collection, Iterator

from headgate.core.display.snapshots import JOB, SLOT, SelectedWork
from headgate.core.jobs.states import Word
from headgate.core.key_patterns import matches
from headgate.core.named_tuple import NamedTuple
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow, Ticket

_PAGE = 1_000
_MOST = 10**9
RUNNING, WAITING = Word.RUNNING.value, "waiting"


class Selection(NamedTuple):
    """What work has to be like: what is None is no matter."""

    task: str | None = None
    name: str | None = None
    pattern: str | None = None
    """A pattern over keys, as the names of pools are."""

    def takes(self, work: SelectedWork) -> bool:
        """Whether a piece of work is like that."""
        return (
            (self.task is None or work.task == self.task)
            and (self.name is None or work.name == self.name)
            and (self.pattern is None or matches(self.pattern, work.key))
        )


def select(
    ledger: Ledger, selection: Selection, besides: Collection[int] = ()
) -> list[SelectedWork]:
    """All work that waits or runs and is like that, by id, but for some."""
    found = [
        work
        for work in (*_leases(ledger), *_line(ledger, selection), *_aside(ledger))
        if work.id not in besides and selection.takes(work)
    ]
    return sorted(found, key=lambda work: work.id)


def around(ledger: Ledger, lease: int) -> set[int]:
    """A lease and those of the programs around its own: who ends one of them ends this one, too."""
    found: set[int] = set()
    while lease and lease not in found:
        found.add(lease)
        row = ledger.tx.lease(lease)
        lease = 0 if row is None or row.job else max(0, row.lender)
    return found


def _leases(ledger: Ledger) -> Iterator[SelectedWork]:
    after = 0
    while rows := ledger.tx.leases(after, _PAGE):
        after = rows[-1].id
        for row in rows:
            yield _selected(ledger, row, row.key, RUNNING, is_job=bool(row.job))


def _line(ledger: Ledger, selection: Selection) -> Iterator[SelectedWork]:
    for lane in ledger.tx.lanes():
        if selection.pattern is not None and not matches(selection.pattern, lane.key):
            continue
        after = None
        while rows := ledger.tx.page(lane.id, after, _PAGE):
            after = rows[-1].order
            for row in rows:
                yield _selected(ledger, row, lane.key, WAITING, is_job=not row.member)


def _selected(
    ledger: Ledger, row: LeaseRow | Ticket, key: str, state: str, *, is_job: bool
) -> SelectedWork:
    job = ledger.tx.job(row.id) if is_job else None
    return SelectedWork(
        id=row.id,
        type=JOB if is_job else SLOT,
        state=state,
        key=key,
        task=row.task,
        name=job.name if job is not None else "",
        label=row.label,
    )


def _aside(ledger: Ledger) -> Iterator[SelectedWork]:
    for row in ledger.tx.aside(_MOST):
        yield SelectedWork(
            id=row.id,
            type=JOB,
            state=row.state.word.value,
            key=row.key,
            task=row.task,
            name=row.name,
            label=row.label,
        )
