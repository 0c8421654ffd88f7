"""What this process looks out for while it waits: the ends of others, and the next moment.

What that is, the store says (see `ledger/watch_duty.py`): the member on watch looks out for
everybody on its machine, and a few of the others, its *deputies*, look out for that member. Who
is neither sleeps until it is woken. Each process draws a lot once: the more wait, the smaller it
has to be for a deputy.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice

from headgate.core.times import seconds
from headgate.gate.liveness.member_pipes import MemberRegistry, PipeRegistry
from headgate.gate.transactions.background_thread import Background
from headgate.gate.transactions.operation import Operation, Participant
from headgate.ledger import watch_duty
from headgate.ledger.transaction.ledger import Ledger

DEPUTIES = 8
"""How many look out for the member on watch, however many wait; about."""


def lot() -> float:
    """A random number below 1. Python's own module for that takes more memory than this thread."""
    return int.from_bytes(os.urandom(2), "big") / 65536


class Watcher(Participant):
    """Follows the plan of the last transaction: whom to watch, and until when to sleep."""

    def __init__(
        self,
        registry: MemberRegistry,
        background: Background,
        waits: Callable[[Sequence[Operation]], bool],
        planned: Callable[[watch_duty.WatchList], None],
    ) -> None:
        self.plan = watch_duty.NOTHING
        self.due: float | None = None
        """When time alone changes something, on the monotonic clock."""
        self._registry = registry
        self._background = background
        self._waits = waits
        self._planned = planned
        self._next = watch_duty.NOTHING
        self._watched: dict[int, str] = {}
        self._inodes: dict[int, int] = {}
        """Which files the descriptors were opened by: another may have that name now."""
        self._wake_fd = -1
        self._lot = lot()

    @property
    def deputy(self) -> bool:
        """Whether this process looks out for the member on watch."""
        return bool(self.plan.members) and not self.plan.on_watch

    def conclude(self, ledger: Ledger, operations: Sequence[Operation]) -> None:
        """Keep watch if nobody does, or hand it on when leaving."""
        waiting = self._waits(operations)
        self._next = watch_duty.NOTHING
        if waiting or self.plan.on_watch:
            self._next = watch_duty.keep_watch(ledger, self._registry.me, waiting=waiting)

    def committed(self, ledger: Ledger, operations: Sequence[Operation]) -> Iterable[Operation]:
        """Look out for what the transaction found."""
        self.follow(self._next)
        return ()

    def follow(self, plan: watch_duty.WatchList) -> None:
        """Look out for this from now on. Called while no transaction of this process is open."""
        if plan is watch_duty.NOTHING and self.plan is watch_duty.NOTHING:
            return
        if not plan.on_watch and self._lot * plan.crowd >= DEPUTIES:
            plan = plan._replace(members=frozenset())
        self.plan = plan
        self.due = None if plan.due_in is None else time.monotonic() + seconds(plan.due_in)
        self._planned(plan)
        if not self._background.is_this_thread():
            self._background.nudge()

    def is_due(self) -> bool:
        """Whether the next moment has come; once."""
        come = self.due is not None and time.monotonic() >= self.due
        if come:
            self.due = None
        return come

    def called(self, ready: frozenset[int]) -> bool:
        """Whether another process has woken this one."""
        if self._wake_fd not in ready:
            return False
        self._registry.drain()
        return True

    def ended(self, ready: frozenset[int]) -> bool:
        """Whether somebody has ended whom we look out for."""
        ends = [fd for fd in ready if fd in self._watched]
        for fd in ends:
            self._unwatch(fd)
        return bool(ends)

    def bring_up_to_date(self) -> None:
        """Bring the watched descriptors in line with the plan. For the background thread only."""
        if self._registry.wake_fd >= 0 and self._wake_fd < 0:
            self._wake_fd = self._registry.wake_fd
            self._background.watch(self._wake_fd, select.POLLIN)
        if self.plan is watch_duty.NOTHING and not self._watched:
            return
        wanted = self._wanted()
        for fd, name in list(self._watched.items()):
            if name not in wanted and not name.isdigit():
                self._unwatch(fd)
        names = set(self._watched.values())
        for member in wanted - names:
            pipe = self._registry.watch(member)
            if pipe is not None:
                self._watch(pipe, member, 0)
        if self.plan.on_watch and isinstance(self._registry, PipeRegistry):
            self._watch_programs(
                {pid for pids in self._registry.marked_programs.values() for pid in pids}, names
            )

    def unwatched(self, plan: watch_duty.WatchList) -> frozenset[str]:
        """Those of a plan whose end no descriptor tells, or who have lost their pipe since."""
        there = self._registry.pipes()
        sure = {
            member
            for fd, member in self._watched.items()
            if there.get(member) == self._inodes.get(fd)
        }
        return plan.members - sure

    def _wanted(self) -> set[str]:
        """Whom to watch by a descriptor: all, or as many as this process may well have open.

        Holders come first: others wait for their end. Then those who are watched already.
        """
        plan = self.plan
        if len(plan.members) <= watch_duty.MANY:
            return set(plan.members)
        watched = plan.members.intersection(self._watched.values())
        wanted = chain(plan.holders, watched - plan.holders, plan.members - watched - plan.holders)
        return set(islice(wanted, _room()))

    def close(self) -> None:
        """Let go of every descriptor."""
        watched, self._watched = self._watched, {}
        for fd in watched:
            os.close(fd)

    def _watch_programs(self, pids: set[int], names: set[str]) -> None:
        """Look out for the ends of programs that keep their seats by their mark only."""
        if not hasattr(os, "pidfd_open"):
            return
        for pid in pids:
            if str(pid) not in names:
                try:
                    fd = os.pidfd_open(pid)
                except OSError:
                    continue
                self._watch(fd, str(pid), select.POLLIN)

    def _watch(self, fd: int, name: str, events: int) -> None:
        self._watched[fd] = name
        self._inodes[fd] = os.fstat(fd).st_ino
        self._background.watch(fd, events)

    def _unwatch(self, fd: int) -> None:
        self._inodes.pop(fd, None)
        if self._watched.pop(fd, None) is not None:
            self._background.unwatch(fd)
            os.close(fd)


def _room() -> int:
    """How many descriptors watching may take: half of what the process may have open."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(watch_duty.MANY, soft // 2)
