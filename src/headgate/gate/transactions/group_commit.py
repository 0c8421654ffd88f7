"""Group commit: whatever a process wants of the store, in as few transactions as possible.

Operations queue up. Whoever runs them runs all that are waiting in one transaction, settles the
line once and commits once: sixty-four tasks share a commit, and a single one pays for no more
than its own. Whoever that is, it is not the thread that asked, unless the store needs no disk: an
event loop must not wait for one, and Ctrl-C in a main thread could strike after the commit and
before the caller knows of it. It is the background thread.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from headgate.core.times import Seconds
from headgate.errors import GateClosedError, HeadgateError, StoreError, StoreUnavailableError
from headgate.gate.transactions.background_thread import Background
from headgate.gate.transactions.deliver_outcomes import deliver
from headgate.gate.transactions.done import Done
from headgate.gate.transactions.operation import Operation, Participant, Retried
from headgate.ledger import dead_members, job_timers, watch_duty
from headgate.ledger.admission import admit, count_apart
from headgate.ledger.jobs import lifecycle
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Expected, Tx
from headgate.store.base import Store

T = TypeVar("T")
_READ_PATIENCE = Seconds(2)
"""For how long who only reads waits for others to write."""
_HARDLY = Seconds(0.05)
CLOSED = "this gate is closed; open another one"


class Transactor:
    """Runs operations against one store for one process."""

    batch = 10_000
    """How many operations may share a transaction."""

    def __init__(
        self,
        store: Store,
        background: Background,
        make_ledger: Callable[[Tx], Ledger],
        expect: Callable[[Sequence[Operation]], Expected],
    ) -> None:
        self.store = store
        self.lets_in = True
        """Whether this process may give seats to those who wait: it must know the limits."""
        self.closed = ""
        """Why nothing can be asked for any more; empty while it can."""
        self._background = background
        self._make_ledger = make_ledger
        self._expect = expect
        self._lock = threading.Lock()
        self._queue: deque[Operation] = deque()
        self._postponed: deque[Operation] = deque()
        """What must be done in the end, and could not be written so far."""
        self._answers = True
        """Whether the store has answered when it was last asked for something within a time."""
        self._at_work: list[Operation] = []
        """What is in the transaction that is open."""
        self._steps = _Steps(())

    def take_part(self, *participants: Participant) -> None:
        """Give these a say in every transaction, in this order."""
        self._steps = _Steps(participants)

    def submit(self, operation: Operation) -> None:
        """Have an operation run, without making this thread wait for a disk."""
        self._queue.append(operation)
        if self.store.instant or self._background.is_this_thread():
            self.work()
            return
        try:
            self._background.nudge()
        except OSError as error:
            with suppress(ValueError):
                self._queue.remove(operation)
            raise StoreUnavailableError(
                f"cannot work on {self.store.url}: {error.strerror or error}; "
                "this process has too many open files or threads"
            ) from error
        if self.closed:  # there is nobody left to run it
            self.work()

    def perform(self, operation: Operation) -> Any:  # noqa: ANN401 - whatever the operation makes
        """Have an operation run, and wait for it: its result, or its error."""
        done = Done()
        operation.told = lambda _: done.set()
        self.submit(operation)
        done.wait()
        if operation.error is not None:
            raise operation.error
        return operation.result

    def wait_for(self, done: Done, patience: Seconds) -> bool:
        """Wait for an operation for a while only; False if the store has not answered so long."""
        self._answers = done.wait(patience)
        return self._answers

    def run(self, do: Callable[[Ledger], T]) -> T:
        """Do something in a writing transaction, and wait until it is done."""
        return self.perform(Operation(do))  # type: ignore[no-any-return]

    def tell(self, do: Callable[[Ledger], object]) -> None:
        """Have something kept as soon as the store can be written, without waiting for it."""
        self.submit(Retried(do))

    def read(self, do: Callable[[Ledger], T]) -> T:
        """Read in a transaction that sees one moment, after all that was asked for before."""
        if (self._queue or self._steps.stale()) and not self._catch_up(lambda _: None):
            return self._look_aside(do)
        with self._lock:
            self.check_open()
            with self.store.transaction(write=False) as tx:
                ledger = self._make_ledger(tx)
                dead, late = dead_members.find_dead(ledger), job_timers.due(ledger)
                if not dead and not late and not count_apart.due(ledger):
                    return do(ledger)
        return self.look(do) if self._catch_up(_catch_up_on_time) else self._look_aside(do)

    def _catch_up(self, do: Callable[[Ledger], object]) -> bool:
        """Write what has to be written before something is read; False if that takes too long."""
        if self.store.instant or self._background.is_this_thread():
            self.run(do)
            return True
        done = Done()
        operation = Operation(do, lambda _: done.set())
        self.submit(operation)
        if self.wait_for(done, _READ_PATIENCE) and operation.error is not None:
            raise operation.error
        return self._answers

    def _look_aside(self, do: Callable[[Ledger], T]) -> T:
        """Read as it is, beside a transaction of ours that waits for another process's to end."""
        from headgate.store import open_store

        aside = open_store(self.store.url)
        try:
            with aside.transaction(write=False) as tx:
                return do(self._make_ledger(tx))
        finally:
            aside.close()

    def look(self, do: Callable[[Ledger], T]) -> T:
        """Read in a transaction that sees one moment, as it is."""
        with self._lock:
            self.check_open()
            with self.store.transaction(write=False) as tx:
                return do(self._make_ledger(tx))

    def work(self) -> None:
        """Run the operations that wait, then tell their outcomes; what comes meanwhile is next."""
        told: list[Operation] = []
        try:
            with self._lock:
                self._work_off(told)
        finally:
            deliver(told)
        if self._queue:
            if self.store.instant or self.closed:
                self.work()
            else:
                self._background.nudge()

    def try_again(self) -> None:
        """Run again what could not be written before."""
        for operation in [self._postponed.popleft() for _ in range(len(self._postponed))]:
            self.submit(operation)

    @property
    def postpones(self) -> bool:
        """Whether there is something that could not be written so far."""
        return bool(self._postponed)

    def between_transactions(self) -> AbstractContextManager[Any]:
        """Holds off this process's transactions."""
        return self._lock

    def at_rest(self) -> AbstractContextManager[Any]:
        """The same, but without waiting for one that itself waits for another process's to end."""
        return self.store.at_rest

    def check_open(self) -> None:
        """Refuse to work once closed."""
        if self.closed:
            raise GateClosedError(self.closed)

    def close(self, patience: Seconds, last: Callable[[], Operation | None]) -> bool:
        """Run what waits, then one last operation, and refuse all others from then on.

        False if the store could not be written any more. TimeoutError if it has not answered for
        so many seconds: then nothing was done.
        """
        told: list[Operation] = []
        written = True
        self.check_open()
        if not self._lock.acquire(timeout=patience if self._answers else _HARDLY):
            raise TimeoutError
        try:
            self.check_open()
            while self._queue:
                self._work_off(told)
            operation = last()
            if operation is not None:
                self._follow_up(self._transact([operation]), [operation])
        except StoreError:
            written = False
        finally:
            self.closed = self.closed or CLOSED
            self._lock.release()
        deliver(told)
        return written

    def give_up(self, error: Exception) -> list[Operation]:
        """Fail all that waits for a store that does not answer; returns who has to hear of it."""
        self.closed = self.closed or CLOSED
        waiting = [self._queue.popleft() for _ in range(len(self._queue))]
        waiting += [one for one in self._at_work if one not in waiting]
        for one in waiting:
            one.error = error
        return waiting

    def abandon(self) -> None:
        """Let go in a forked child: whoever held the lock may not exist here."""
        fork = "this gate was opened before a fork; open one in the child process"
        self.closed = self.closed or fork
        self._lock = threading.Lock()
        self._queue.clear()

    def _work_off(self, told: list[Operation]) -> None:
        """Run what waits in one transaction, and note whom to tell; the caller has the lock."""
        operations: list[Operation] = []
        while self._queue and len(operations) < self.batch:
            operations.append(self._queue.popleft())
        if operations:
            self._at_work = operations
            self._commit(operations, told)
            self._at_work = []

    def _commit(self, operations: list[Operation], told: list[Operation]) -> None:
        """Run these in one transaction; if one of them is at fault, each by itself."""
        try:
            self.check_open()
            ledger = self._transact(operations)
            self._answers = True
        except Exception as error:  # noqa: BLE001 - whoever sent the operation gets to see it
            if len(operations) > 1 and not isinstance(error, HeadgateError):
                for one in operations:
                    one.undone()
                    self._commit([one], told)
                return
            self._fail(operations, error)
            told += operations
            return
        except BaseException:
            # Ctrl-C, in a store that lives in this thread's process: nothing of it has happened.
            for one in operations:
                one.undone()
            self._queue.extendleft(reversed(operations))
            raise
        told += operations
        try:
            told += self._follow_up(ledger, operations)
        except BaseException:  # Ctrl-C again; but all of it has happened
            told += self._follow_up(ledger, operations)
            raise

    def _fail(self, operations: list[Operation], error: Exception) -> None:
        for one in operations:
            one.undone()
            one.error = error
            if one.retried and isinstance(error, StoreError):
                self._postponed.append(one)
        if self._postponed:
            self._background.nudge()

    def _transact(self, operations: list[Operation]) -> Ledger:
        """One transaction: what is asked for, then the line, then what came of it."""
        for prepare in self._steps.prepare:
            prepare(operations)
        with self.store.transaction(write=True) as tx:
            if self.store.far:
                tx.expect(self._expect(operations))
            ledger = self._make_ledger(tx)
            for begin in self._steps.begin:
                begin(ledger)
            for one in operations:
                _apply(one, ledger)
            self._settle(ledger, operations)
            for one in operations:
                one.conclude(ledger)
            self._settle(ledger, operations)
            for conclude in self._steps.conclude:
                conclude(ledger, operations)
        return ledger

    def _follow_up(self, ledger: Ledger, operations: list[Operation]) -> list[Operation]:
        """Do what a commit brings with it; returns who else has to hear of an outcome.

        It is durable: what goes wrong here is shown, and is no failure of any operation.
        """
        others: list[Operation] = []
        for committed in self._steps.committed:
            try:
                others += committed(ledger, operations)
            except Exception:  # noqa: BLE001 - the others have their part to do
                sys.excepthook(*sys.exc_info())
        return others

    def _settle(self, ledger: Ledger, operations: Sequence[Operation]) -> None:
        if ledger.unsettled and not self.lets_in:
            lifecycle.pick_up(ledger)
            ledger.settled()
            ledger.woken.add(watch_duty.member_on_watch(ledger))  # it finds out who may be let in
        while ledger.unsettled:
            admit.settle(ledger)
            if not ledger.blocked:
                continue
            if not watch_duty.is_kept(ledger):
                dead_members.remove_dead_members(ledger)
            elif any(one.impatient for one in operations):
                dead_members.remove_dead_members(ledger, watch_duty.holders(ledger))


class _Steps:
    """What the participants do at each step of a transaction; who does nothing is not asked."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        self.prepare = [one.prepare for one in participants if _overrides(one, "prepare")]
        self.begin = [one.begin for one in participants if _overrides(one, "begin")]
        self.conclude = [one.conclude for one in participants if _overrides(one, "conclude")]
        self.committed = [one.committed for one in participants if _overrides(one, "committed")]
        self._stale = [one.stale for one in participants if _overrides(one, "stale")]

    def stale(self) -> bool:
        """Whether any of them needs a transaction before something is read."""
        return any(stale() for stale in self._stale)


def _overrides(participant: Participant, name: str) -> bool:
    return getattr(type(participant), name) is not getattr(Participant, name)


def _apply(operation: Operation, ledger: Ledger) -> None:
    """Do an operation; what is wrong with it alone does not concern the others."""
    operation.error = None
    try:
        operation.apply(ledger)
    except StoreError:
        raise
    except HeadgateError as error:
        operation.error = error


def _catch_up_on_time(ledger: Ledger) -> None:
    """Do what was not done because nobody was there: free what the dead held, see to due jobs."""
    dead_members.remove_dead_members(ledger)
    job_timers.tick(ledger)
    count_apart.count_apart(ledger)
