"""Group commit: whatever a process wants of the store, in as few transactions as possible.

Errands queue up. Whoever gets the lock runs all that are waiting in one transaction, settles the
line once and commits once: sixty-four tasks share a commit, and a single one pays for no more
than its own. A plain thread runs its errand itself. An event loop must not wait for a disk,
so its errands are run by the lookout's thread.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.core.views import Waiting
from headgate.errors import CancelledWorkError, GateClosedError, HeadgateError, StoreError
from headgate.gate.errand import Errand, Terms, Undo, Wish
from headgate.gate.lease import Lease
from headgate.gate.lookout import Lookout
from headgate.gate.roll import FolderRoll, HomeRoll, Roll
from headgate.ledger import admit, leave, look, watch
from headgate.ledger.ledger import Ledger, Pages
from headgate.ledger.rows import Member, Tx
from headgate.store.base import Store
from headgate.store.machine import machine_id, pid_space

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Clerk:
    """Runs errands against one store for one process."""

    batch = 10_000
    """How many errands may share a transaction."""

    def __init__(self, store: Store, pages: Pages, refresh: Callable[[], None]) -> None:
        self.store = store
        self.machine = machine_id()
        self.lookout = Lookout(self)
        self.roll: Roll = FolderRoll(store.folder) if store.folder else HomeRoll(self.lookout.call)
        self.tiny_lock = threading.Lock()
        self.waiters: dict[int, Wish] = {}
        self.leases: dict[int, Lease] = {}
        self.unfinished: deque[Errand] = deque()
        self.closed = ""
        self._pages = pages
        self._refresh = refresh
        self._lock = threading.Lock()
        self._queue: deque[Errand] = deque()
        self._joined = False
        self._uid = ""

    def run(self, do: Callable[[Ledger], T]) -> T:
        """Do something in a writing transaction, in this thread."""
        errand = Errand(do)
        self.perform(errand)
        if errand.error is not None:
            raise errand.error
        return errand.result  # type: ignore[no-any-return]

    def perform(self, errand: Errand) -> None:
        """Run this errand in this thread, together with all that are waiting."""
        self._queue.append(errand)
        self.work()

    def submit(self, errand: Errand) -> None:
        """Have an errand run without making this thread wait for a disk."""
        if self.store.instant:
            self.perform(errand)
        else:
            self._queue.append(errand)
            self.lookout.nudge()

    def read(self, do: Callable[[Ledger], T]) -> T:
        """Read in a transaction that sees one moment, after burying the dead."""
        if self._queue:
            self.work()
        with self._lock:
            self.check_open()
            with self.store.transaction(write=False) as tx:
                ledger = self._ledger(tx)
                if not leave.find_dead(ledger):
                    return do(ledger)
        self.run(leave.sweep)
        with self._lock, self.store.transaction(write=False) as tx:
            return do(self._ledger(tx))

    def work(self) -> None:
        """Run all errands that wait, then tell their outcomes."""
        while True:
            with self._lock:
                told = self._work_off()
            tell([(errand, errand.finish) for errand in told])
            if not self._queue:
                return

    def mind(self, lease: Lease, max_hold: float | None) -> None:
        """Look after a lease: somebody may cancel it, or its pool may put an end to it."""
        self.leases[lease.id] = lease
        if max_hold is not None:
            self.lookout.set_deadline(lease.id, max_hold)
        if max_hold is not None or not self.store.instant:
            self.lookout.start()

    def release(self, id: int) -> None:
        """Give a lease's seats back, now or as soon as the store can be written."""
        self.leases.pop(id, None)
        errand = Undo(lambda ledger: leave.release(ledger, id))
        if running_loop() is None:
            self.perform(errand)
        else:
            self.submit(errand)

    def withdraw(self, wish: Wish, told: Callable[[Errand], None] | None = None) -> Errand:
        """An errand that leaves nothing of a wish behind, however far it has come."""

        def undo(ledger: Ledger) -> None:
            wish.withdrawn = True
            wish.waits = False
            self.waiters.pop(wish.id, None)
            self.leases.pop(wish.id, None)
            if wish.id:
                leave.withdraw(ledger, wish.id, text="no longer wanted")

        return Undo(undo, told)

    def close(self, *, stay_for_programs: bool = False) -> None:
        """Give everything back and go; or leave the leases to the programs that use them."""
        if self.closed:
            return
        me = self.roll.me

        def go(ledger: Ledger) -> None:
            self.waiters.clear()
            for ticket in ledger.tx.tickets_of(me):
                leave.withdraw(ledger, ticket.id, text="its gate was closed")
            for lease in ledger.tx.leases_of(me):
                leave.release(ledger, lease.id)
            ledger.tx.drop_member(me)

        waiting = list(self.waiters.values())
        if self._joined:
            try:
                self.run(_nothing if stay_for_programs else go)
            except StoreError:
                stay_for_programs = True  # whoever looks next finds this process gone
        self.closed = "this gate is closed; open another one"
        self.lookout.stop()
        self.roll.leave(remove=not stay_for_programs)
        with self._lock:
            self.store.close()
        for wish in waiting:
            wish.fail(GateClosedError(self.closed))
            wish.finish()

    def abandon(self) -> None:
        """Let go in a forked child: of the descriptors, not of the rows."""
        self.closed = "this gate was opened before a fork; open one in the child process"
        self.lookout.abandon()
        self.roll.leave(remove=False)

    def uid(self) -> str:
        """The name the store got when it was made."""
        if not self._uid:
            with self._lock, self.store.transaction(write=False) as tx:
                self._uid = tx.uid()
        return self._uid

    def check_open(self) -> None:
        """Refuse to work once closed."""
        if self.closed:
            raise GateClosedError(self.closed)

    def _ledger(self, tx: Tx) -> Ledger:
        self._refresh()
        return Ledger(tx, self._pages, self.store.now(), self.roll, self.machine)

    def _work_off(self) -> list[Errand]:
        """Run everything that waits in one transaction; the caller has the lock."""
        errands: list[Errand] = []
        while self._queue and len(errands) < self.batch:
            errands.append(self._queue.popleft())
        if not errands:
            return errands
        try:
            self.check_open()
            errands += self._transact(errands)
        except Exception as error:  # noqa: BLE001 - whoever sent the errand gets to see it
            for errand in errands:
                errand.error = error
                if errand.stubborn and isinstance(error, StoreError):
                    self.unfinished.append(errand)
            if self.unfinished:
                self.lookout.nudge()
        except BaseException:  # Ctrl-C: nothing was done, and the others' errands are not lost
            self._queue.extendleft(reversed(errands))
            raise
        return errands

    def _transact(self, errands: list[Errand]) -> list[Errand]:
        joins = not self._joined and any(errand.joins for errand in errands)
        if joins:
            self.roll.join()
        with self.store.transaction(write=True) as tx:
            ledger = self._ledger(tx)
            if joins:
                self._enrol(ledger)
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
            plan = self._plan(ledger, waiting=begin or len(self.waiters) > len(grants))
        done = False
        try:
            self._committed(ledger, errands, grants, plan)
            done = True
        finally:
            if not done:  # Ctrl-C must not part what the store knows from what this process knows
                self._committed(ledger, errands, grants, plan)
        return [wish for wish, _ in grants]

    def _committed(
        self,
        ledger: Ledger,
        errands: list[Errand],
        grants: list[tuple[Wish, Terms]],
        plan: watch.Plan,
    ) -> None:
        """Follow up on a commit; once more from the start if interrupted."""
        self._joined = self._joined or any(errand.joins for errand in errands)
        for errand in errands:
            errand.committed()
        for wish, terms in grants:
            self.waiters.pop(wish.id, None)
            wish.take(terms)
        for member in ledger.woken - {self.roll.me}:
            self.roll.wake(member)
        for member in ledger.buried:
            self.roll.forget(member)
        self.lookout.follow(plan)

    def _settle(self, ledger: Ledger) -> None:
        while ledger.unsettled:
            admit.settle(ledger)
            if ledger.blocked:
                leave.sweep(ledger)

    def _enrol(self, ledger: Ledger) -> None:
        me = Member(self.roll.me, self.machine, os.getpid(), pid_space(), ledger.now)
        ledger.tx.add_member(me)
        if watchman := watch.watchman(ledger):
            ledger.woken.add(watchman)

    def _plan(self, ledger: Ledger, *, waiting: bool) -> watch.Plan:
        if not waiting and not self.lookout.on_watch:
            return watch.NOTHING
        return watch.keep_watch(ledger, self.roll.me, waiting=waiting)

    def catch_up(self) -> bool:
        """Learn what others did for this process; True if something needs a transaction."""
        told: list[Errand] = []
        with self._lock:
            if self.closed:
                return False
            with self.store.transaction(write=False) as tx:
                ledger = self._ledger(tx)
                mine = {lease.id: lease for lease in tx.leases_of(self.roll.me)}
                granted = [
                    (wish, wish.terms(ledger)) for id, wish in self.waiters.items() if id in mine
                ]
                gone = self._gone(ledger, set(mine))
                ends = [
                    (self.leases[id], row.cancel)
                    for id, row in mine.items()
                    if row.cancel and id in self.leases
                ]
                spots, stuck = self._spots(ledger)
                plan = watch.plan(ledger, self.roll.me, waiting=bool(self.waiters))
            told += self._apply_news(granted, gone)
            self.lookout.follow(plan)
        tell([(errand, errand.finish) for errand in told])
        tell([(wish, partial(wish.news, spot)) for wish, spot in spots])
        for lease, why in ends:
            lease.end(CancelledWorkError(why))
        return stuck or plan.vacant

    def _gone(self, ledger: Ledger, mine: set[int]) -> list[tuple[Wish, str]]:
        """Tickets of this process that somebody took out of the line."""
        if not self.waiters:
            return []
        left = {ticket.id for ticket in ledger.tx.tickets_of(self.roll.me)}
        gone = [wish for id, wish in self.waiters.items() if id not in left and id not in mine]
        return [(wish, _last_words(ledger, wish.id)) for wish in gone]

    def _spots(self, ledger: Ledger) -> tuple[list[tuple[Wish, Waiting]], bool]:
        """Where those stand who want to know, and whether anyone waits who need not."""
        if not self.waiters:
            return [], False
        survey = look.Survey(ledger)
        curious = [wish for wish in self.waiters.values() if wish.on_wait is not None]
        spots = look.waiting(ledger, [wish.id for wish in curious], time.time())
        stuck = any(not reasons for reasons in survey.blocked.values())
        return [(wish, spots[wish.id]) for wish in curious if wish.id in spots], stuck

    def _apply_news(
        self, granted: list[tuple[Wish, Terms]], gone: list[tuple[Wish, str]]
    ) -> list[Errand]:
        for wish, terms in granted:
            del self.waiters[wish.id]
            wish.take(terms)
        for wish, why in gone:
            del self.waiters[wish.id]
            wish.fail(CancelledWorkError(why))
        return [wish for wish, _ in (*granted, *gone)]


def _nothing(_: Ledger) -> None:
    """Only what was waiting to be done."""


def _apply(errand: Errand, ledger: Ledger) -> None:
    """Do an errand; what is wrong with it alone does not concern the others."""
    errand.error = None
    try:
        errand.apply(ledger)
    except StoreError:
        raise
    except HeadgateError as error:
        errand.error = error


def tell(calls: list[tuple[Errand, Callable[[], None]]]) -> None:
    """Tell outcomes, each event loop's in one go."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    for errand, call in calls:
        if errand.loop is None:
            _call_safely(call)
        else:
            by_loop.setdefault(errand.loop, []).append(call)
    for loop, some in by_loop.items():
        call_in(loop, partial(_call_all, some))


def _call_all(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        _call_safely(call)


def _call_safely(call: Callable[[], None]) -> None:
    """Call back a program; its mistake is shown, and keeps no one else from being told."""
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever the program's own function raises
        sys.excepthook(*sys.exc_info())


def call_in(loop: "asyncio.AbstractEventLoop", function: Callable[[], Any]) -> None:
    """Call something in an event loop's thread; at once if this is it."""
    if running_loop() is loop:
        function()
        return
    with suppress(RuntimeError):  # the loop may be gone, and with it whoever wanted to know
        loop.call_soon_threadsafe(function)


def running_loop() -> "asyncio.AbstractEventLoop | None":
    """The event loop that runs in this thread, if any; loads nothing to find out."""
    module = sys.modules.get("asyncio")
    return None if module is None else module._get_running_loop()  # noqa: SLF001 - documented


def _last_words(ledger: Ledger, id: int) -> str:
    events = ledger.tx.events(-1, 1, id)
    return events[-1].text if events else "its ticket was removed"
