"""One thread per process that sleeps until something happens, and then has it seen to.

It sleeps on descriptors (a nudge from its own process, a wake-up from another one, the end of a
process that is watched) and on the clock. What is to be done then is not its business: it calls
`turn` with the descriptors that are ready, and asks `until` for how long it may sleep.
"""

import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Callable

from headgate.core.times import Seconds, ms_up
from headgate.errors import GateClosedError

_PAUSE = Seconds(1.0)
"""Seconds to wait after an error of our own, so that it does not repeat a thousand times."""


class Background:
    """The thread, started when there is first something to do for it."""

    def __init__(
        self, turn: Callable[[frozenset[int]], None], until: Callable[[], float | None]
    ) -> None:
        self._turn = turn
        self._until = until
        self._thread: threading.Thread | None = None
        self._poll = select.poll()
        self._pipe = (-1, -1)
        self._nudged = False
        self._stopping = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
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
            try:
                start_without_signals(thread)
                self._thread = thread
            except RuntimeError as error:
                raise OSError(f"no thread can be started: {error}") from error

    def is_this_thread(self) -> bool:
        """Whether the caller is this thread itself: it cannot wait for its own work."""
        return threading.current_thread() is self._thread

    def nudge(self) -> None:
        """Make the thread look at what there is to do."""
        if self._thread is None:
            self.start()
        with self._lock:  # so that the pipe is not closed or emptied in between
            if not self._nudged and self._pipe[1] >= 0:
                os.write(self._pipe[1], b"!")
                self._nudged = True

    def watch(self, fd: int, events: int = 0) -> None:
        """Take a turn when something happens on a descriptor; errors always count."""
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        """Watch a descriptor no longer."""
        self._poll.unregister(fd)

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        thread = self._thread
        if thread is not None and not self.is_this_thread():
            self.nudge()
            thread.join(timeout=5)
        self._close_pipe()

    def abandon(self) -> None:
        """Let go in a forked child, where the thread does not exist."""
        self._stopping = True
        self._lock = threading.Lock()  # who held it may not exist here
        self._close_pipe()

    def _close_pipe(self) -> None:
        with self._lock:
            pipe, self._pipe = self._pipe, (-1, -1)
            for fd in pipe:
                if fd >= 0:
                    os.close(fd)

    def take_turn(self) -> bool:
        """Sleep, then have whatever happened seen to; False when it is time to end."""
        ready = {fd for fd, _ in self._poll.poll(self._timeout())}
        if self._stopping:
            return False
        if self._pipe[0] in ready:
            ready.discard(self._pipe[0])
            with self._lock:
                os.read(self._pipe[0], 4096)
                self._nudged = False
        self._turn(frozenset(ready))
        return not self._stopping

    def _timeout(self) -> int | None:
        until = self._until()
        return None if until is None else ms_up(Seconds(max(0.0, until - time.monotonic()))) + 1


def _loop(background: "weakref.ref[Background]") -> None:
    """Take turns until told to stop, or until nobody has the gate any more."""
    while (it := background()) is not None:
        try:
            if not it.take_turn():
                return
        except GateClosedError:
            return
        except Exception:  # noqa: BLE001 - whoever waits would wait forever without this thread
            threading.excepthook(
                threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
            )
            time.sleep(_PAUSE)
        del it


def start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that gets no signals: they are the program's, not ours."""
    import signal

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
