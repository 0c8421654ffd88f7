"""What this process looks out for while it waits: the ends of others, and the next moment.

What that is, the store says (see `ledger/watch_duty.py`): the member on watch looks out for
everybody on its machine, and all others for that member.
"""

import os
import select
import time
from collections.abc import Callable, Iterable, Sequence

from headgate.core.times import seconds
from headgate.gate.liveness.member_pipes import MemberRegistry, PipeRegistry
from headgate.gate.transactions.background_thread import Background
from headgate.gate.transactions.operation import Operation, Participant
from headgate.ledger import watch_duty
from headgate.ledger.transaction.ledger import Ledger


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
        self._wake_fd = -1

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
        for fd, name in list(self._watched.items()):
            if name not in self.plan.members and not name.isdigit():
                self._unwatch(fd)
        names = set(self._watched.values())
        for member in self.plan.members - names:
            pipe = self._registry.watch(member)
            if pipe is not None:
                self._watch(pipe, member, 0)
        if self.plan.on_watch and isinstance(self._registry, PipeRegistry):
            self._watch_programs(
                {pid for pids in self._registry.marked_programs.values() for pid in pids}, names
            )

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
        self._background.watch(fd, events)

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._background.unwatch(fd)
            os.close(fd)
