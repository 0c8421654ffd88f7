"""All that one process needs to take part in a store, put together.

    transactor    gathers what is asked for, and commits it together
    membership    this process among the others: alive, woken, waking
    holdings      what it waits for and what it holds
    watcher       what it looks out for while it waits
    poller        asks providers what they count
    background    the thread that sleeps until any of these has something to do

Each has one owner and knows none that stand below it. What is asked for goes one way through
them: an operation is submitted, committed, followed up by the participants, and its outcome
delivered.
"""

import atexit
import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds, ms
from headgate.errors import (
    CancelledWorkError,
    GateClosedError,
    HoldExpiredError,
    StoreError,
    StoreReplacedError,
)
from headgate.gate.acquisition import Acquisition
from headgate.gate.host.process_scan import ProcessScan
from headgate.gate.lease import Lease
from headgate.gate.live_settings import Settings
from headgate.gate.liveness.local_members import LocalRegistry
from headgate.gate.liveness.member_pipes import MemberRegistry, PipeRegistry
from headgate.gate.liveness.membership import Membership
from headgate.gate.liveness.take_back import IdleLeases
from headgate.gate.liveness.watcher import DEPUTIES, Watcher, lot
from headgate.gate.transactions.background_thread import Background
from headgate.gate.transactions.deliver_outcomes import deliver, running_loop
from headgate.gate.transactions.done import Done
from headgate.gate.transactions.group_commit import CLOSED, Transactor
from headgate.gate.transactions.operation import About, Attendant, Operation, Retried
from headgate.gate.usage_poller import Poller
from headgate.gate.waiting_and_held import Changes, WaitingAndHeld
from headgate.ledger import dead_members, idle_leases, release, watch_duty
from headgate.ledger.admission import task_lanes
from headgate.ledger.queries.positions_and_etas import Survey
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import Expected, Tx
from headgate.store.base import Store

_PATIENCE = Seconds(3)
_TICK = Seconds(1)
"""How often the member on watch looks at everything."""
_AT_LEAST = Seconds(0.01)
"""For how long it sleeps before it looks or tries again, so that a moment gone by does no harm."""
_NEWS = Seconds(0.1)
"""How soon after that it does so again for those who have just come."""
_REST = Seconds(60)
"""How long the others may sleep when nobody wakes them: only lost messages make them look."""
_APART = Seconds(0.1)
"""How far apart the looks of all of them together are, if any of them look more often."""
_LATEST = 1.5
"""By how much a look may be late: they are spread. Who looks sees to its pipes at the same time."""
_TURNS = Seconds(0.05)
"""Within which the deputies of a member that ended on watch look, one after the other."""
_RENEWAL = Seconds(30)
"""How often a member looks whether its pipes are still there, if nobody tells it before."""
_GONE = Seconds(10)
"""After which a store whose file is gone is not expected back."""
_OPEN: "weakref.WeakSet[Runtime]" = weakref.WeakSet()
"""Those of this process. Each lives as long as its thread does, whoever has forgotten its gate."""


class Runtime:
    """One process's part in one store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.rules = settings.rules
        self.background = Background(self._turn, self._until)
        self.registry: MemberRegistry = (
            PipeRegistry(store.folder, shared=store.shared)
            if store.folder
            else LocalRegistry(self.call)
        )
        self.membership = Membership(self.registry, store)
        self.transactor = Transactor(store, self.background, self._ledger, self._expect)
        self.transactor.lets_in = settings.known
        self.poller = Poller(
            self.transactor, self.registry.me, self.call, settings.resolver.has_usage_source
        )
        self.poller.functions.update(settings.functions)
        self.waiting_and_held = WaitingAndHeld(self.registry.me, self, self.background.nudge)
        self.watcher = Watcher(self.registry, self.background, self._waits_after, self.poller.plan)
        self._participants = (
            self.membership,
            ProcessScan(settings.resolver, store, lambda: settings.config),
            settings,
            self.waiting_and_held,
            self.watcher,
        )
        self.transactor.take_part(*self._participants)
        self._attendants: tuple[Attendant, ...] = ()
        self._idle_leases = IdleLeases()
        self._settings = settings
        self._uid = ""
        self._called = False
        self._next_look = math.inf
        self._last_look = 0.0
        self._next_retry = 0.0
        self._next_renewal = time.monotonic() + _RENEWAL
        self._gone_since = 0.0
        _OPEN.add(self)

    def _ledger(self, tx: Tx) -> Ledger:
        settings = self._settings
        settings.refresh()
        return Ledger(
            tx=tx,
            resolver=settings.resolver,
            now=self.store.now(),
            liveness=self.registry,
            machine=self.membership.machine,
            view=settings.view,
        )

    def _expect(self, operations: Sequence[Operation]) -> Expected:
        from headgate.gate.transactions.prefetch import expected

        pool_set = self._settings.resolver.last
        return expected(operations, pool_set, self.membership.machine, self.store.now())

    def uid(self) -> str:
        """The name the store got when it was made."""
        if not self._uid:
            self._uid = self.transactor.look(lambda ledger: ledger.tx.uid())
        return self._uid

    def release(self, lease: Lease, *, completed: bool = True, accepted: bool = False) -> None:
        """Give a lease's seats back, now or as soon as the store can be written.

        A plain thread waits until it is done, but not for a store that does not answer: then it is
        done when that can be written, or found out when this process has ended. An event loop
        does not wait.
        """
        self.waiting_and_held.forget(lease.id)
        self.registry.end(lease.id)
        id = lease.id

        def give_back(ledger: Ledger) -> None:
            if accepted:
                release.accept_late(ledger, id, completed=completed)
            release.release(ledger, id, completed=completed)

        operation = _OfLease(lease, give_back)
        if self.store.instant or running_loop() is not None:
            self.transactor.submit(operation)
            return
        done = Done()
        operation.told = lambda _: done.set()
        self.transactor.submit(operation)
        self.transactor.wait_for(done, _PATIENCE)

    def begins(self, asked: Acquisition) -> bool:
        """Whether work may begin with what was granted; False if the store has to be asked first.

        It has to if that comes late: this process may have been stopped since, and others may have
        been given its seats.
        """
        if asked.lease is None or asked.grant is None:
            return True
        told = self.registry.begin(asked.lease.id)
        return told and self.store.now() - asked.grant.granted < idle_leases.LATE

    def report(self, lease: Lease, do: Callable[[Ledger], object]) -> None:
        """Have something of a lease kept as soon as the store can be written; does not wait."""
        self.transactor.submit(_OfLease(lease, do))

    def withdraw(
        self, acquisition: Acquisition, told: Callable[[Operation], None] | None = None
    ) -> Operation:
        """An operation that leaves nothing of an acquisition behind, however far it has come."""

        def undo(ledger: Ledger) -> None:
            acquisition.withdrawn = True
            acquisition.waits = False
            self.waiting_and_held.forget(acquisition.id)
            if acquisition.id:
                text = acquisition.given_up or "no longer wanted"
                release.withdraw(ledger, acquisition.id, text=text)

        return Retried(undo, told)

    def has_usage_source(self) -> bool:
        """Whether upstream's own count has a say in any pool."""
        return self._settings.resolver.has_usage_source()

    @property
    def attentive(self) -> bool:
        """Whether this process has to know what others do: it waits, starts jobs, or serves."""
        return bool(self.waiting_and_held.waiting) or self._works

    @property
    def _works(self) -> bool:
        """Whether it starts jobs, or serves clients on other machines."""
        return self.membership.on_call is not None or any(one.busy for one in self._attendants)

    def attach(self, attendant: Attendant) -> None:
        """Give somebody a part in what this process does."""
        with self.transactor.between_transactions():
            self._attendants = (*self._attendants, attendant)
            self.transactor.take_part(*self._participants, *self._attendants)

    def call(self) -> None:
        """Have the background thread find out what others did for this process."""
        self._called = True
        self.background.nudge()

    def close(self, *, stay_for_programs: bool = False) -> None:
        """Give everything back and go; or leave the leases to the programs that use them."""
        waiting: list[Acquisition] = []

        def last() -> Operation | None:
            waiting.extend(self.waiting_and_held.fail_all(GateClosedError(CLOSED)))
            leaves = self.membership.joined and not stay_for_programs
            return Operation(self._take_leave) if leaves else None

        try:
            written = self.transactor.close(_PATIENCE, last)
        except GateClosedError:
            return
        except TimeoutError:  # the store does not answer; who looks next finds this process gone
            error = GateClosedError(CLOSED)
            told = [*self.transactor.give_up(error), *self.waiting_and_held.fail_all(error)]
            self.abandon()
            deliver(told)
            return
        deliver(waiting)
        self.poller.close()
        self.background.stop()
        self.watcher.close()
        self.registry.leave(remove=written and not stay_for_programs)
        with self.transactor.between_transactions():
            self.store.close()
        self.transactor.work()  # whoever came too late hears of it

    def _take_leave(self, ledger: Ledger) -> None:
        for ticket in ledger.tx.tickets_of(self.registry.me):
            release.withdraw(ledger, ticket.id, text="its gate was closed")
        for lease in ledger.tx.leases_of(self.registry.me):
            release.release(ledger, lease.id)
        ledger.tx.drop_member(self.registry.me)

    def abandon(self) -> None:
        """Let go in a forked child: of the descriptors, not of the rows."""
        self.transactor.abandon()
        self.background.abandon()
        self.watcher.close()
        self.registry.leave(remove=False)

    def _waits_after(self, operations: Sequence[Operation]) -> bool:
        return self._works or self.waiting_and_held.waits(operations)

    def _until(self) -> float | None:
        """Until when the background thread may sleep, on the monotonic clock."""
        until = self._next_renewal if self.membership.joined else math.inf
        for at in (self.waiting_and_held.next_deadline(), self.watcher.due, self.poller.next()):
            if at is not None and at < until:
                until = at
        if self.attentive:
            until = min(until, max(self._next_look, time.monotonic() + _AT_LEAST))
        if self.transactor.postpones:
            until = min(until, max(self._next_retry, time.monotonic() + _AT_LEAST))
        return until if until < math.inf else None

    def _turn(self, ready: frozenset[int]) -> None:
        """What the background thread does when it wakes up."""
        self._called = self.watcher.called(ready) or self._called
        ended = self.watcher.ended(ready)
        again = time.monotonic() + _TICK
        try:
            self._see_to_it(ended=ended)
            self._gone_since = 0.0
        except StoreReplacedError as error:
            self._gone_since = self._gone_since or time.monotonic()
            if time.monotonic() - self._gone_since > _GONE:
                self._give_up(error)
            self._next_look = min(self._next_look, again)
            time.sleep(_TICK / 10)
        except StoreError:  # what runs goes on, and the next turn tries again
            self._next_look = min(self._next_look, again)
            time.sleep(_TICK / 10)

    def _see_to_it(self, *, ended: bool) -> None:
        self.transactor.work()
        self._end_overdue()
        if self.watcher.is_due():
            self.transactor.run(_tidy)
        now = time.monotonic()
        looks = ended or (self.attentive and now >= self._next_look)
        if looks or self._called or now >= self._next_renewal:
            self._next_renewal = now + max(_RENEWAL, self.watcher.plan.crowd * _APART * _LATEST)
            self.registry.renew()
        if ended and not self.watcher.plan.on_watch:  # one of its deputies takes over
            self._next_look = min(self._next_look, now + _TURNS * lot())
        elif looks:
            self._next_look = math.inf
            # Who is neither on watch nor a deputy only makes sure that it was not forgotten.
            only_itself = not (self._looks_each_second or self.watcher.deputy)
            self._catch_up(fully=self.waiting_and_held.curious or not only_itself)
        elif self._called:
            self._catch_up(fully=False)
        if self.attentive:
            self._next_look = min(self._next_look, time.monotonic() + self._pause())
            self.poller.start_due()
        else:
            self._next_look = math.inf
        if self.transactor.postpones and now >= self._next_retry:
            self._next_retry = now + _TICK
            self.transactor.try_again()
        self.watcher.bring_up_to_date()

    @property
    def _looks_each_second(self) -> bool:
        return self.watcher.plan.on_watch or self._works

    def _pause(self) -> Seconds:
        """After how long to look at everything, though nobody called."""
        plan = self.watcher.plan
        if self._looks_each_second:
            return _TICK
        pause = max(_TICK if self.waiting_and_held.curious else _REST, plan.crowd * _APART)
        if self.watcher.deputy:  # together they look once a second or two
            pause = min(pause, min(plan.crowd, DEPUTIES) * _TICK)
        return pause * Seconds(1 + lot() * (_LATEST - 1))

    def _catch_up(self, *, fully: bool) -> None:
        """Learn what others did for this process; `fully`: and what nobody has seen to so far."""
        self._called = False
        found = self.transactor.look(partial(self._take_in_changes, fully=fully))
        deliver(found.told)
        for returned in found.changes.returned:
            self.transactor.submit(returned)
        for one, spot in found.changes.spots:
            one.tell_soon(spot)
        for lease, why in found.changes.ends:
            lease.end(CancelledWorkError(why))
        if self.membership.on_call is not None:
            self.membership.on_call()
        if found.unsettled or (self.watcher.plan.on_watch and not self.attentive):
            self.transactor.run(partial(_tidy, dead=found.dead))
        if fully:
            self._last_look = time.monotonic()
            self._see_to_others(found)
        if self.watcher.plan.on_watch:
            self._next_look = min(self._next_look, self._last_look + (_TICK if fully else _NEWS))

    def _see_to_others(self, found: "_Found") -> None:
        """Do what the member on watch does for its whole machine."""
        plan = self.watcher.plan
        if plan.on_watch:
            from headgate.gate.liveness import max_hold

            max_hold.end_orphans(self.transactor, self.registry)
            for member in found.late:
                self.registry.wake(member)
        if plan.on_watch or plan.unseen:
            self._idle_leases.take_back(self.transactor)

    def _take_in_changes(self, ledger: Ledger, *, fully: bool) -> "_Found":
        changes = self.waiting_and_held.look_up(ledger, spots=fully)
        told = self.waiting_and_held.take_in(changes)
        for one in self._attendants:
            one.look(ledger)
        plan = self.watcher.plan
        if not plan.on_watch or (fully and self.attentive):  # else it is kept, or handed on soon
            plan = watch_duty.what_to_watch(ledger, self.registry.me, waiting=self.attentive)
            self.watcher.follow(plan)
        if not fully or not self.attentive:
            return _Found(changes, told, unsettled=plan.vacant)
        suspects = self.watcher.unwatched(plan) if plan.on_watch else watch_duty.holders(ledger)
        dead = dead_members.find_dead(ledger, suspects)
        return _Found(
            changes,
            told,
            unsettled=plan.vacant or bool(dead) or _is_unsettled(ledger, plan),
            dead=dead,
            late=_not_started(ledger),
        )

    def _give_up(self, error: StoreError) -> None:
        """The store is not there any more: whoever waits for something from it hears of it."""
        with self.transactor.between_transactions():
            waiting = self.waiting_and_held.fail_all(error)
        deliver(waiting)

    def _end_overdue(self) -> None:
        """End the work of leases that were held for longer than their pools allow."""
        overdue = self.waiting_and_held.overdue()
        if not overdue:
            return
        from headgate.gate.liveness import max_hold

        for lease, allowed in overdue:
            text = f"held longer than its pool's max_hold of {show_seconds(allowed)}"
            self.transactor.tell(partial(max_hold.record_end, id=lease.id, text=text))
            lease.end(HoldExpiredError(f"lease {lease.id} was {text}; its work is being ended"))


class _OfLease(Retried):
    """What is to be kept of a lease: its release, or what upstream said to it."""

    def __init__(self, lease: Lease, do: Callable[[Ledger], object]) -> None:
        super().__init__(do)
        self._lease = lease

    def about(self) -> About:
        """What it is about, as far as that is known beforehand."""
        return About(key=self._lease.key, lease=self._lease.id)


class _Found(NamedTuple):
    """What a look has brought."""

    changes: Changes
    told: list[Acquisition]
    """Who has to hear of an outcome."""
    unsettled: bool
    """Whether something needs a transaction that nobody has made."""
    dead: Sequence[str] = ()
    late: frozenset[str] = frozenset()
    """Members that may not know what they were granted."""


def _not_started(ledger: Ledger) -> frozenset[str]:
    """Who was let in lately and has started nothing: whoever did it may have died before waking."""
    recent = ledger.tx.recent(ledger.now - ms(2 * _TICK))
    return frozenset(lease.member for lease in recent if not lease.pid)


def _is_unsettled(ledger: Ledger, plan: watch_duty.WatchList) -> bool:
    return (plan.on_watch and task_lanes.unsorted(ledger)) or Survey(ledger).stuck


def _tidy(ledger: Ledger, dead: Sequence[str] = ()) -> None:
    """Free what these held, or all who are dead if nobody is on watch; then look at the line."""
    among = dead if watch_duty.is_kept(ledger) else None
    dead_members.remove_dead_members(ledger, among)
    if task_lanes.unsorted(ledger):
        task_lanes.sort_out(ledger)
    ledger.reconsider()


@atexit.register
def _close_all() -> None:
    for runtime in list(_OPEN):
        runtime.close()


def _after_fork() -> None:
    """A forked child has its parent's descriptors; with them it would pass for its parent."""
    for runtime in list(_OPEN):
        runtime.abandon()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
