"""One thread per process that sleeps until something happens, and then sees to it.

It sleeps on the pipes (see `roll`): a nudge from its own process, a wake-up from another, the end
of a process it watches. And on the clock: a cooldown or pause that ends, a lease held for too long.
While this process waits for seats, it also looks up once a second in case a message got lost.
"""

import os
import select
import signal
import sys
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.amounts import show_duration
from headgate.errors import GateClosedError, HoldExpiredError, StoreError, StoreReplacedError
from headgate.gate.roll import FolderRoll
from headgate.ledger import leave, watch
from headgate.ledger.ledger import Ledger

if TYPE_CHECKING:
    from headgate.gate.clerk import Clerk

_TICK = 1.0
_GONE = 10.0
"""Seconds after which a store whose file is gone is not expected back."""


class Lookout:
    """The thread, started when there is first something to look out for."""

    def __init__(self, clerk: "Clerk") -> None:
        self._clerk = clerk
        self._thread: threading.Thread | None = None
        self._poll = select.poll()
        self._pipe = (-1, -1)
        self._plan = watch.NOTHING
        self._due: float | None = None
        self._watched: dict[int, str] = {}
        self._wake_fd = -1
        self._deadlines: dict[int, tuple[float, float]] = {}
        self._nudged = False
        self._called = False
        self._gone_since = 0.0
        self._stopping = False

    @property
    def on_watch(self) -> bool:
        """Whether this process is its machine's watchman."""
        return self._plan.on_watch

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._clerk.tiny_lock:
            if self._thread is not None or self._stopping:
                return
            if self._pipe[0] < 0:
                self._pipe = os.pipe()
            os.set_blocking(self._pipe[0], False)
            os.set_blocking(self._pipe[1], False)
            self._poll.register(self._pipe[0], select.POLLIN)
            thread = threading.Thread(
                target=_loop, args=(weakref.ref(self),), name="headgate", daemon=True
            )
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                thread.start()  # with every signal blocked: they are the program's, not ours
                self._thread = thread
            except RuntimeError as error:
                raise OSError(f"no thread can be started: {error}") from error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def is_this_thread(self) -> bool:
        """Whether the caller is the lookout itself: it cannot wait for its own work."""
        return threading.current_thread() is self._thread

    def nudge(self) -> None:
        """Make the thread look at what there is to do."""
        if self._thread is None:
            self.start()
        with self._clerk.tiny_lock:  # so that the pipe is not closed or emptied in between
            if not self._nudged and self._pipe[1] >= 0:
                os.write(self._pipe[1], b"!")
                self._nudged = True

    def call(self) -> None:
        """Make the thread find out what others did for this process."""
        self._called = True
        self.nudge()

    def stop(self) -> None:
        """End the thread, and let go of every descriptor."""
        self._stopping = True
        thread = self._thread
        if thread is not None and not self.is_this_thread():
            self.nudge()
            thread.join(timeout=5)
        self.abandon()

    def abandon(self) -> None:
        """Let go of every descriptor in a forked child, where the thread does not exist."""
        self._stopping = True
        with self._clerk.tiny_lock:
            ours = (*self._watched, *self._pipe)
            self._watched = {}
            self._pipe = (-1, -1)
            for fd in ours:
                if fd >= 0:
                    os.close(fd)

    def set_deadline(self, lease: int, seconds: float) -> None:
        """End a lease if it is still held after so long."""
        self._deadlines[lease] = (time.monotonic() + seconds, seconds)

    def follow(self, plan: watch.Plan) -> None:
        """Look out for this from now on. Called with the clerk's lock held."""
        if plan is watch.NOTHING and self._plan is watch.NOTHING:
            return
        self._plan = plan
        self._due = None if plan.due_in is None else time.monotonic() + plan.due_in / 1000
        self._clerk.poller.plan(plan)
        if not self.is_this_thread():
            self.nudge()

    def turn(self) -> bool:
        """Sleep, then see to whatever happened; False when it is time to end."""
        events = self._poll.poll(self._timeout())
        if self._stopping:
            return False
        ended = False
        for fd, _ in events:
            if fd == self._pipe[0]:
                with self._clerk.tiny_lock:
                    os.read(fd, 4096)
                    self._nudged = False
            elif fd == self._wake_fd:
                self._clerk.roll.drain()
                self._called = True
            else:
                self._unwatch(fd)
                ended = True
        try:
            self._see_to_it(ended=ended)
            self._gone_since = 0.0
        except StoreReplacedError as error:
            self._gone_since = self._gone_since or time.monotonic()
            if time.monotonic() - self._gone_since > _GONE:
                self._clerk.give_up(error)
            time.sleep(_TICK / 10)
        except StoreError:
            time.sleep(
                _TICK / 10
            )  # the store is not well; what runs goes on, the next turn tries again
        return not self._stopping

    def _see_to_it(self, *, ended: bool) -> None:
        clerk = self._clerk
        clerk.work()
        self._end_overdue()
        now = time.monotonic()
        if ended or (self._due is not None and now >= self._due):
            self._due = None
            clerk.run(_tidy)
        if self._called or (clerk.attentive and now >= self._next_tick):
            self._called = False
            self._next_tick = now + _TICK
            if clerk.catch_up():
                clerk.run(_tidy)
            if self.on_watch:
                from headgate.gate.overdue import end_orphans

                end_orphans(clerk)
        if clerk.attentive:
            clerk.poller.start_due()
        if clerk.unfinished and now >= self._next_retry:
            self._next_retry = now + _TICK
            for errand in [clerk.unfinished.popleft() for _ in range(len(clerk.unfinished))]:
                clerk.submit(errand)
        self._rewatch()

    _next_tick = 0.0
    _next_retry = 0.0

    def _timeout(self) -> float | None:
        now = time.monotonic()
        times = [deadline for deadline, _ in self._deadlines.values()]
        if self._due is not None:
            times.append(self._due)
        if (ask := self._clerk.poller.next()) is not None:
            times.append(ask)
        if self._clerk.attentive:
            times.append(max(self._next_tick, now + 0.01))
        if self._clerk.unfinished:
            times.append(max(self._next_retry, now + 0.01))
        return max(0.0, min(times) - now) * 1000 + 1 if times else None

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for id, (deadline, seconds) in list(self._deadlines.items()):
            lease = self._clerk.leases.get(id)
            if lease is None:
                del self._deadlines[id]
            elif now >= deadline:
                from headgate.gate import overdue

                del self._deadlines[id]
                allowed = show_duration(seconds * 1000)
                text = f"held longer than its pool's max_hold of {allowed}"
                self._clerk.run(partial(overdue.note, id=lease.id, text=text))
                lease.end(HoldExpiredError(f"lease {id} was {text}; its work is being ended"))

    def _rewatch(self) -> None:
        """Bring the watched descriptors in line with the plan."""
        roll = self._clerk.roll
        if roll.wake_fd >= 0 and self._wake_fd < 0:
            self._wake_fd = roll.wake_fd
            self._poll.register(self._wake_fd, select.POLLIN)
        for fd, name in list(self._watched.items()):
            if name not in self._plan.members and not name.isdigit():
                self._unwatch(fd)
        names = set(self._watched.values())
        for member in self._plan.members - names:
            pipe = roll.watch(member)
            if pipe is not None:
                self._watched[pipe] = member
                self._poll.register(pipe, 0)
        if self.on_watch and isinstance(roll, FolderRoll):
            self._watch_strays({pid for pids in roll.strays.values() for pid in pids}, names)

    def _watch_strays(self, pids: set[int], names: set[str]) -> None:
        if not hasattr(os, "pidfd_open"):
            return
        for pid in pids:
            if str(pid) not in names:
                try:
                    fd = os.pidfd_open(pid)
                except OSError:
                    continue
                self._watched[fd] = str(pid)
                self._poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)
            os.close(fd)


def _loop(lookout: "weakref.ref[Lookout]") -> None:
    """Turn until told to stop, or until nobody has the gate any more."""
    while (it := lookout()) is not None:
        try:
            if not it.turn():
                return
        except GateClosedError:
            return
        except Exception:  # noqa: BLE001 - whoever waits would wait forever without this thread
            threading.excepthook(
                threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
            )
            time.sleep(_TICK)
        del it


def _tidy(ledger: Ledger) -> None:
    leave.sweep(ledger)
    ledger.unsettled = True
