"""End work, whatever state it is in: one piece of it, or many side by side.

One transaction takes all that waits out of the line and asks what runs to end: nothing of it can
start in between. What runs is ended by the process that minds it, and from here if that one is
gone, or is more patient than the grace. A process that is stopped goes on, so that it can end; also
before anything is written, because it may have been stopped with the store's lock. Seats are freed
by the end of the programs, never before.

Who is interrupted while it waits can do it again: all of it was asked to end by then.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from headgate.core.admission.lease_events import lease_mark
from headgate.core.display.snapshots import CancelOutcome
from headgate.core.jobs.job import load
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds, seconds
from headgate.errors import HeadgateError, StoreError
from headgate.gate.liveness.process_marks import ask_to_end, carriers, let_go_on, programs_of
from headgate.gate.process_runtime import Runtime
from headgate.ledger import cancel, dead_members
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow, Member
from headgate.store.machine_and_clock import pid_space
from headgate.store.process_of_member import is_stopped

WITHDRAWN, ENDED, FAILED = "withdrawn", "ended", "failed"
_SOON, _LATER = Seconds(0.02), Seconds(0.25)
"""How soon it is looked whether work has ended: first, and later on."""
_PATIENCE = Seconds(5)
"""For how long what was killed is waited for."""


class _Asked(NamedTuple):
    """What was done to one piece of work: it is out of the line, has to end, or neither."""

    lease: LeaseRow | None = None
    holder: Member | None = None
    grace: Seconds | None = None
    """How long its job gives it to end, if that was said."""
    error: HeadgateError | None = None


class _Ending:
    """A piece of work that was asked to end."""

    def __init__(self, asked: _Asked, lease: LeaseRow, mark: str, grace: Seconds) -> None:
        self.lease = lease
        self.holder = asked.holder
        self.mark = mark
        self.grace = grace
        self.deadline = Seconds(time.monotonic()) + grace
        self.orphaned = False
        """Whether nobody is there who would end it."""
        self.comes_back = False
        """Whether its job would be tried again: it was ended for another reason just before."""
        self.signalled: set[int] = set()

    @property
    def reachable(self) -> bool:
        """Whether its processes have the same numbers here."""
        return self.holder is None or self.holder.pid_space == pid_space()


def cancel_all(
    runtime: Runtime,
    ids: Iterable[int],
    grace: Seconds | None,
    usual: Seconds,
    on_outcome: Callable[[CancelOutcome], None] | None = None,
) -> list[CancelOutcome]:
    """Take work out of the line, or end the programs that hold its leases; what became of each.

    The outcomes are in the order of the ids, each once.
    """
    wanted = list(dict.fromkeys(ids))
    outcomes: dict[int, CancelOutcome] = {}

    def tell(id: int, what: str, error: HeadgateError | None = None) -> None:
        outcomes[id] = CancelOutcome(id, what, error)
        if on_outcome is not None:
            on_outcome(outcomes[id])

    if wanted:
        runtime.transactor.look(partial(_let_holders_go_on, ids=wanted))
    asked = runtime.transactor.run(partial(_ask_all, ids=wanted)) if wanted else {}
    uid = runtime.uid() if asked else ""
    left: dict[int, _Ending] = {}
    for id in wanted:
        one = asked[id]
        if one.error is not None:
            tell(id, FAILED, one.error)
        elif one.lease is None:
            tell(id, WITHDRAWN)
        else:
            own = grace if grace is not None else one.grace
            left[id] = _Ending(one, one.lease, lease_mark(uid, id), usual if own is None else own)
    for id, error in _await_ends(runtime, left):
        tell(id, ENDED if error is None else FAILED, error)
    return [outcomes[id] for id in wanted]


def _let_holders_go_on(ledger: Ledger, ids: list[int]) -> None:
    """Who holds the leases may have been stopped within a transaction: then nobody could write."""
    for lease in filter(None, map(ledger.tx.lease, ids)):
        holder = ledger.tx.member(lease.member)
        if holder is not None and is_stopped(holder):
            let_go_on(holder.pid)


def _ask_all(ledger: Ledger, ids: list[int]) -> dict[int, _Asked]:
    dead_members.remove_dead_members(ledger)  # of their work nothing is left to be ended
    found = {}
    for id in cancel.in_order(ids):
        try:
            found[id] = _ask(ledger, id)
        except StoreError:
            raise
        except HeadgateError as error:
            found[id] = _Asked(error=error)
    return found


def _ask(ledger: Ledger, id: int) -> _Asked:
    before = ledger.tx.lease(id)
    holder = None if before is None else ledger.tx.member(before.member)
    if holder is not None and holder.pid_space != pid_space() and not ledger.listening(holder.id):
        raise HeadgateError(
            f"{id} runs in another container, out of reach from here; cancel it there"
        )
    lease = cancel.ask_to_end(ledger, id)
    job = None if lease is None else ledger.tx.job(id)
    own = None if job is None else load(job.spec).grace
    return _Asked(lease, holder, None if own is None else seconds(own))


def _await_ends(
    runtime: Runtime, left: dict[int, _Ending]
) -> Iterator[tuple[int, HeadgateError | None]]:
    """Wait until all have ended, and see to it that they do: each when it has, or why not."""
    pause = _SOON
    while left:
        for id in runtime.transactor.read(partial(_look, endings=tuple(left.values()))):
            del left[id]
            pause = _SOON
            yield id, None
        again = [id for id, one in left.items() if one.comes_back]
        if again:
            for id, asked in runtime.transactor.run(partial(_ask_all, ids=again)).items():
                left[id].lease = asked.lease or left[id].lease
        for id, one in list(left.items()):
            if time.monotonic() > one.deadline + _PATIENCE:
                del left[id]
                yield (
                    id,
                    HeadgateError(
                        f"{id} was asked to end and still runs after {one.grace + _PATIENCE:.0f}s; "
                        "its seats stay taken until it ends"
                    ),
                )
        if left:
            _see_to(runtime, left.values())
            time.sleep(pause)
            pause = min(_LATER, pause * 1.3)


def _look(ledger: Ledger, endings: Iterable[_Ending]) -> list[int]:
    """See how far it has come with each; those that have ended."""
    ended = []
    for one in endings:
        id, lease = one.lease.id, ledger.tx.lease(one.lease.id)
        one.comes_back = False
        if lease is not None and lease.granted == one.lease.granted:
            one.holder = ledger.tx.member(lease.member)
            one.orphaned = not ledger.listening(lease.member)
        elif one.lease.job and cancel.comes_back(ledger, id):
            one.comes_back = True
        else:
            ended.append(id)
    return ended


def _see_to(runtime: Runtime, endings: Iterable[_Ending]) -> None:
    """Let stopped processes go on; end what nobody else does, and kill what has taken too long."""
    now = time.monotonic()
    orphans, late = [], []
    for one in endings:
        if one.orphaned and one.reachable:
            orphans.append(one)
        elif one.holder is not None and is_stopped(one.holder):
            let_go_on(one.holder.pid)
        elif now >= one.deadline and one.reachable:
            late.append(one)
    if orphans:
        found = programs_of(runtime.registry, {one.mark: one.lease for one in orphans})
        for one in orphans:
            if not one.signalled:  # to find them may have taken longer than their grace
                one.deadline = Seconds(time.monotonic()) + one.grace
            forced = time.monotonic() >= one.deadline
            ask_to_end(found[one.mark] - (set() if forced else one.signalled), forced=forced)
            one.signalled |= found[one.mark]
    if late:
        for pids in carriers({one.mark for one in late}).values():
            ask_to_end(pids, forced=True)
