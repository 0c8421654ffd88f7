"""Group commit: whatever a process wants of the store, in as few transactions as possible.

Errands queue up. Whoever runs them runs all that are waiting in one transaction, settles the
line once and commits once: sixty-four tasks share a commit, and a single one pays for no more
than its own. Whoever that is, it is not the thread that asked, unless the store needs no disk: an
event loop must not wait for one, and a main thread may be interrupted by Ctrl-C at any point.
It is the lookout's thread.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headgate import __version__
from headgate.errors import (
    CancelledWorkError,
    GateClosedError,
    HeadgateError,
    StoreError,
    StoreUnavailableError,
)
from headgate.gate import news
from headgate.gate.errand import Errand, Terms, Undo, Wish
from headgate.gate.lease import Lease
from headgate.gate.lookout import Lookout
from headgate.gate.poller import Poller
from headgate.gate.roll import FolderRoll, HomeRoll, Roll
from headgate.gate.telling import running_loop, tell
from headgate.gate.watchtower import Watchtower
from headgate.ledger import admit, jobs, jobtime, leave, upstream, watch
from headgate.ledger.ledger import Ledger, Pages
from headgate.ledger.rows import Member, Tx
from headgate.store.base import Store
from headgate.store.machine import machine_id, pid_space, process_start

if TYPE_CHECKING:
    from headgate.core.rules import Rule

T = TypeVar("T")
_PATIENCE = 3.0


class Clerk:
    """Runs errands against one store for one process."""

    batch = 10_000
    """How many errands may share a transaction."""

    def __init__(
        self,
        store: Store,
        pages: Pages,
        refresh: Callable[[], None],
        rules: "Callable[[], tuple[Rule, ...]]",
        view: str = "",
    ) -> None:
        self.store = store
        self.machine = machine_id()
        self.lookout = Lookout(self)
        self.roll: Roll = FolderRoll(store.folder) if store.folder else HomeRoll(self.lookout.call)
        self.tiny_lock = threading.Lock()
        self.waiters: dict[int, Wish] = {}
        self.leases: dict[int, Lease] = {}
        self.unfinished: deque[Errand] = deque()
        self.to_tell: deque[str] = deque()
        """What is wrong with a configuration file that was changed: an event, in time."""
        self.closed = ""
        self.on_call: Callable[[], None] | None = None
        """Told whenever there may be news; a worker, which starts jobs, has one."""
        self.lets_in = True
        """Whether this process may give seats to those who wait: it must know the limits."""
        self.rules = rules
        """How to read what upstream answers."""
        self.poller = Poller(self)
        self._watchtower = Watchtower(pages)
        self._pages = pages
        self._view = view
        self._refresh = refresh
        self._lock = threading.Lock()
        self._queue: deque[Errand] = deque()
        self._joined = False
        self._uid = ""

    def submit(self, errand: Errand) -> None:
        """Have an errand run, without making this thread wait for a disk."""
        self._queue.append(errand)
        if self.store.instant or self.lookout.is_this_thread():
            self.work()
            return
        try:
            self.lookout.nudge()
        except OSError as error:
            with suppress(ValueError):
                self._queue.remove(errand)
            raise StoreUnavailableError(
                f"cannot work on {self.store.url}: {error.strerror or error}; "
                "this process has too many open files or threads"
            ) from error
        if self.closed:  # there is nobody left to run it
            self.work()

    def run(self, do: Callable[[Ledger], T]) -> T:
        """Do something in a writing transaction, and wait until it is done."""
        done = threading.Event()
        errand = Errand(do, lambda _: done.set())
        self.submit(errand)
        done.wait()
        if errand.error is not None:
            raise errand.error
        return errand.result  # type: ignore[no-any-return]

    def tell(self, do: Callable[[Ledger], object]) -> None:
        """Have something kept as soon as the store can be written, without waiting for it."""
        self.submit(Undo(do))

    def read(self, do: Callable[[Ledger], T]) -> T:
        """Read in a transaction that sees one moment, after all that was asked for before."""
        if self._queue or self._watchtower.due():
            self.run(lambda _: None)
        with self._lock:
            self.check_open()
            with self.store.transaction(write=False) as tx:
                ledger = self._ledger(tx)
                if not leave.find_dead(ledger) and not jobtime.due(ledger):
                    return do(ledger)
        self.run(_catch_up_on_time)
        with self._lock, self.store.transaction(write=False) as tx:
            return do(self._ledger(tx))

    def work(self) -> None:
        """Run the errands that wait, then tell their outcomes; what comes meanwhile is next."""
        told: list[Errand] = []
        try:
            with self._lock:
                self._work_off(told)
        finally:
            tell([(errand, errand.finish) for errand in told])
        if self._queue:
            if self.store.instant or self.closed:
                self.work()
            else:
                self.lookout.nudge()

    def mind(self, lease: Lease, max_hold: float | None) -> None:
        """Look after a lease: somebody may cancel it, or its pool may put an end to it."""
        self.leases[lease.id] = lease
        if max_hold is not None:
            self.lookout.set_deadline(lease.id, max_hold)
        if max_hold is not None or not self.store.instant:
            self.lookout.start()

    def release(self, id: int) -> None:
        """Give a lease's seats back, now or as soon as the store can be written.

        A plain thread waits until it is done; an event loop does not.
        """
        self.leases.pop(id, None)
        if self.store.instant or running_loop() is not None:
            self.submit(Undo(lambda ledger: leave.release(ledger, id)))
            return
        done = threading.Event()
        self.submit(Undo(lambda ledger: leave.release(ledger, id), lambda _: done.set()))
        done.wait()

    def withdraw(self, wish: Wish, told: Callable[[Errand], None] | None = None) -> Errand:
        """An errand that leaves nothing of a wish behind, however far it has come."""

        def undo(ledger: Ledger) -> None:
            wish.withdrawn = True
            wish.waits = False
            self.waiters.pop(wish.id, None)
            self.leases.pop(wish.id, None)
            if wish.id:
                leave.withdraw(ledger, wish.id, text=wish.given_up or "no longer wanted")

        return Undo(undo, told)

    def close(self, *, stay_for_programs: bool = False) -> None:
        """Give everything back and go; or leave the leases to the programs that use them."""
        told: list[Errand] = []
        if not self._lock.acquire(timeout=_PATIENCE):
            self.abandon()  # the store does not answer; whoever looks next finds this process gone
            return
        with _Held(self._lock):
            if self.closed:
                return
            while self._queue:
                self._work_off(told)
            waiting = list(self.waiters.values())
            self.waiters.clear()
            if self._joined and not stay_for_programs:
                try:
                    self._follow_up(self._transact([Errand(self._take_leave)]))
                except StoreError:
                    stay_for_programs = True  # whoever looks next finds this process gone
            self.closed = "this gate is closed; open another one"
            for wish in waiting:
                wish.fail(GateClosedError(self.closed))
                told.append(wish)
        tell([(errand, errand.finish) for errand in told])
        self.poller.close()
        self.lookout.stop()
        self.roll.leave(remove=not stay_for_programs)
        with self._lock:
            self.store.close()
        self.work()  # whoever came too late hears of it

    def give_up(self, error: StoreError) -> None:
        """The store is not there any more: whoever waits for something from it hears of it."""
        with self._lock:
            waiting = list(self.waiters.values())
            self.waiters.clear()
            for wish in waiting:
                wish.fail(error)
        tell([(wish, wish.finish) for wish in waiting])

    def _take_leave(self, ledger: Ledger) -> None:
        for ticket in ledger.tx.tickets_of(self.roll.me):
            leave.withdraw(ledger, ticket.id, text="its gate was closed")
        for lease in ledger.tx.leases_of(self.roll.me):
            leave.release(ledger, lease.id)
        ledger.tx.drop_member(self.roll.me)

    def abandon(self) -> None:
        """Let go in a forked child: of the descriptors, not of the rows."""
        self.closed = "this gate was opened before a fork; open one in the child process"
        self._lock, self.tiny_lock = threading.Lock(), threading.Lock()
        self._queue.clear()
        self.lookout.abandon()
        self.roll.leave(remove=False)

    def uid(self) -> str:
        """The name the store got when it was made."""
        if not self._uid:
            with self._lock, self.store.transaction(write=False) as tx:
                self._uid = tx.uid()
        return self._uid

    def gauged(self) -> bool:
        """Whether upstream's own count has a say in any pool."""
        return self._pages.gauged()

    @property
    def attentive(self) -> bool:
        """Whether this process has to know what others do: it waits, or starts jobs."""
        return bool(self.waiters) or self.on_call is not None

    def between_transactions(self) -> AbstractContextManager[Any]:
        """Holds off this process's transactions."""
        return self._lock

    def check_open(self) -> None:
        """Refuse to work once closed."""
        if self.closed:
            raise GateClosedError(self.closed)

    def _ledger(self, tx: Tx) -> Ledger:
        self._refresh()
        return Ledger(tx, self._pages, self.store.now(), self.roll, self.machine, view=self._view)

    def _work_off(self, told: list[Errand]) -> None:
        """Run what waits in one transaction, and note whom to tell; the caller has the lock."""
        errands: list[Errand] = []
        while self._queue and len(errands) < self.batch:
            errands.append(self._queue.popleft())
        if not errands:
            return
        commit: _Commit | None = None
        try:
            self.check_open()
            commit = self._transact(errands)
            self._follow_up(commit)
        except Exception as error:  # noqa: BLE001 - whoever sent the errand gets to see it
            self._fail(errands, error)
        except BaseException:
            # Ctrl-C, in a store that lives in this thread's process: all of it, or nothing.
            if commit is None:
                for errand in errands:
                    errand.undone()
                self._queue.extendleft(reversed(errands))
                raise
            self._follow_up(commit)
            told += [*errands, *(wish for wish, _ in commit.grants)]
            raise
        told += errands
        told += [wish for wish, _ in commit.grants] if commit else []

    def _fail(self, errands: list[Errand], error: Exception) -> None:
        for errand in errands:
            errand.undone()
            errand.error = error
            if errand.stubborn and isinstance(error, StoreError):
                self.unfinished.append(errand)
        if self.unfinished:
            self.lookout.nudge()

    def _transact(self, errands: list[Errand]) -> "_Commit":
        joins = not self._joined and any(errand.joins for errand in errands)
        if joins:
            self.roll.join()
        foreign = self._watchtower.look(self.store)
        with self.store.transaction(write=True) as tx:
            ledger = self._ledger(tx)
            upstream.sighted(ledger, pid_space(), foreign)
            if joins:
                self._enrol(ledger)
            while self.to_tell:
                ledger.tell("config_refused", self.to_tell.popleft())
            for errand in errands:
                _apply(errand, ledger)
            self._settle(ledger)
            for errand in errands:
                errand.conclude(ledger)
            self._settle(ledger)
            grants = [
                (wish, wish.terms(ledger))
                for id in ledger.granted
                if (wish := self.waiters.get(id)) is not None
            ]
            begin = any(isinstance(errand, Wish) and errand.waits for errand in errands)
            waiting = begin or self.on_call is not None or len(self.waiters) > len(grants)
            plan = self._plan(ledger, waiting=waiting)
        return _Commit(ledger, errands, grants, plan)

    def _follow_up(self, commit: "_Commit") -> None:
        """Do what a commit brings with it; doing it twice does no harm."""
        self._joined = self._joined or any(errand.joins for errand in commit.errands)
        for errand in commit.errands:
            errand.committed()
        for wish, terms in commit.grants:
            self.waiters.pop(wish.id, None)
            wish.take(terms)
        for member in commit.ledger.woken - {self.roll.me}:
            self.roll.wake(member)
        for member in commit.ledger.buried:
            self.roll.forget(member)
        self.lookout.follow(commit.plan)
        if self.on_call is not None and self.roll.me in commit.ledger.woken:
            self.on_call()

    def _settle(self, ledger: Ledger) -> None:
        if ledger.unsettled and not self.lets_in:
            jobs.pick_up(ledger)
            ledger.unsettled = False
            ledger.woken.add(watch.watchman(ledger))  # it finds out who may be let in
        while ledger.unsettled:
            admit.settle(ledger)
            if ledger.blocked:
                leave.sweep(ledger)

    def _enrol(self, ledger: Ledger) -> None:
        me = Member(self.roll.me, self.machine, os.getpid(), pid_space(), ledger.now)
        start = process_start(os.getpid())
        ledger.tx.add_member(
            me._replace(started=start, version=__version__, schema=self.store.schema)
        )
        if watchman := watch.watchman(ledger):
            ledger.woken.add(watchman)

    def _plan(self, ledger: Ledger, *, waiting: bool) -> watch.Plan:
        if not waiting and not self.lookout.on_watch:
            return watch.NOTHING
        return watch.keep_watch(ledger, self.roll.me, waiting=waiting)

    def catch_up(self) -> bool:
        """Learn what others did for this process; True if something needs a transaction."""
        with self._lock:
            if self.closed:
                return False
            with self.store.transaction(write=False) as tx:
                found = news.gather(self._ledger(tx), self)
            for wish, terms in found.granted:
                del self.waiters[wish.id]
                wish.take(terms)
            for wish, why in found.gone:
                del self.waiters[wish.id]
                wish.fail(CancelledWorkError(why))
            leaving = self.lookout.on_watch and not self.attentive
            if not leaving:  # else the post is handed on first, in a transaction
                self.lookout.follow(found.plan)
        tell([(wish, wish.finish) for wish, _ in (*found.granted, *found.gone)])
        tell([(wish, partial(wish.news, spot)) for wish, spot in found.spots])
        for lease, why in found.ends:
            lease.end(CancelledWorkError(why))
        if self.on_call is not None:
            self.on_call()
        return found.stuck or found.plan.vacant or leaving


class _Held:
    """A lock that was taken already, and is given back at the end."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        """Nothing left to do."""

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._lock.release()


class _Commit(NamedTuple):
    """A transaction that is durable, and what it brings with it."""

    ledger: Ledger
    errands: list[Errand]
    grants: list[tuple[Wish, Terms]]
    plan: watch.Plan


def _apply(errand: Errand, ledger: Ledger) -> None:
    """Do an errand; what is wrong with it alone does not concern the others."""
    errand.error = None
    try:
        errand.apply(ledger)
    except StoreError:
        raise
    except HeadgateError as error:
        errand.error = error


def _catch_up_on_time(ledger: Ledger) -> None:
    """Do what was not done because nobody was there: bury the dead, see to jobs that are due."""
    leave.sweep(ledger)
    jobtime.tick(ledger)
