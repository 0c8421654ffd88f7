"""Every event to every target that wants it: in order, again if it fails, and at least once.

Each target has a thread of its own while there is something to tell it, so that a slow one delays
no other. How far it came is in the store, and moves when an event was taken or given up. If several
processes do this, each target is served by one of them, and by another when that one ends.
"""

import random
import threading
import time
from contextlib import suppress

from headgate.core.display.snapshots import Event
from headgate.core.notification_targets import NotifyTarget
from headgate.core.times import Seconds
from headgate.errors import GateClosedError, HeadgateError
from headgate.gate import Gate
from headgate.gate.notification_feed import NotificationFeed
from headgate.notify.outcome import Cancellation, DeliveryFailed
from headgate.notify.send import lacks, send

_LOOK = Seconds(1.0)
_BATCH = 100
_FIRST_WAIT = Seconds(1)
_LONGEST_WAIT = Seconds(60)
_PATIENCE = Seconds(5)
"""For so many seconds who lacks a secret leaves it to others to deliver."""
_FAREWELL = Seconds(3.0)
"""Seconds that a delivery which is under way gets to come to its end when it is time to stop."""


class Notifier:
    """Delivers a gate's events. Any number of them may run, in any number of processes."""

    def __init__(
        self, gate: Gate, *, first_wait: Seconds = _FIRST_WAIT, patience: Seconds = _PATIENCE
    ) -> None:
        self._feed = gate.notification_feed()
        self._first_wait = first_wait
        self._patience = patience
        self._threads: dict[str, _TargetThread] = {}
        self._lacking: dict[str, tuple[float, bool]] = {}

    def run(self, stop: threading.Event) -> None:
        """Deliver until told to stop, or until the gate is closed. Raises nothing."""
        try:
            while not stop.is_set():
                try:
                    self.poll()
                except GateClosedError:
                    break
                except (HeadgateError, OSError, RuntimeError):
                    pass  # no store, or no thread, now; there may be at the next look
                stop.wait(_LOOK)
        finally:
            self.close()

    def poll(self) -> None:
        """Look at what has happened and begin to deliver it; waits for nobody."""
        targets = {target.name: target for target in self._feed.targets()}
        lacking = {name: lack for name, target in targets.items() if (lack := lacks(target))}
        self._drop_targets(set(self._threads) - (set(targets) - set(lacking)))
        pending = self._feed.pending(list(targets))
        self._complain({name: lacking[name] for name in pending if name in lacking})
        for name in pending:
            if name not in lacking:
                courier = self._threads.get(name)
                if courier is None:
                    courier = _TargetThread(self._feed, name, self._first_wait)
                    self._threads[name] = courier
                courier.start()

    def close(self) -> None:
        """Stop; what is under way gets a moment to end, and is told again by another if not."""
        couriers = list(self._threads.values())
        for courier in couriers:
            courier.leave()
        deadline = time.monotonic() + _FAREWELL
        for courier in couriers:
            courier.join(deadline)
        if couriers:
            with suppress(HeadgateError):
                self._feed.let_go(list(self._threads))

    def _drop_targets(self, names: set[str]) -> None:
        """Leave targets that are configured no more, or cannot be told from here, to others."""
        for name in names:
            self._threads[name].leave()
            if not self._threads[name].busy:
                del self._threads[name]
                self._feed.let_go([name])

    def _complain(self, lacking: dict[str, str]) -> None:
        """Say once what this process lacks for a target that no other process serves either."""
        now = time.monotonic()
        since = {name: self._lacking.get(name) or (now, False) for name in lacking}
        for name, (first, told) in since.items():
            if not told and now - first >= self._patience:
                self._feed.complain(name, lacking[name])
                since[name] = (first, True)
        self._lacking = since


class _TargetThread:
    """Delivers to one target, in a thread that lives while there is something to deliver."""

    def __init__(self, notices: NotificationFeed, name: str, first_wait: Seconds) -> None:
        self._feed = notices
        self._name = name
        self._first_wait = first_wait
        self._stop = threading.Event()
        self._grip = Cancellation()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether it is at it."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Deliver what there is, unless it is at it already."""
        if not self.busy and not self._stop.is_set():
            self._thread = threading.Thread(
                target=self._work, name=f"headgate-notify-{self._name}", daemon=True
            )
            self._thread.start()

    def leave(self) -> None:
        """Begin nothing more."""
        self._stop.set()

    def join(self, deadline: float) -> None:
        """Wait for what is under way, and break it off after its time."""
        if self._thread is None:
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._grip.break_off()
            self._thread.join(1.0)

    def _work(self) -> None:
        # What the store refuses now is looked at again at the next poll.
        with suppress(HeadgateError):
            while not self._stop.is_set():
                batch = self._feed.take(self._name, _BATCH)
                if batch is None or not batch.events:
                    return
                if not self._deliver(batch.store, batch.events):
                    return

    def _deliver(self, store: str, events: tuple[Event, ...]) -> bool:
        """Deal with events in order; False if somebody else has to go on."""
        seen = 0
        for event in events:
            target = self._target()
            if target is None:
                break
            if target.wants(event) and not self._tell(event, f"{store}-{event.seq}"):
                break
            seen = event.seq
        else:
            return self._feed.advance(self._name, seen)
        if seen:
            self._feed.advance(self._name, seen)
        return False

    def _tell(self, event: Event, delivery: str) -> bool:
        """Tell it until it was taken or has to be given up; False if there is no time for that."""
        tried = 0
        while True:
            target = self._target()
            if target is None or lacks(target):
                return False
            outcome = send(target, event, delivery, self._grip)
            tried += 1
            if not isinstance(outcome, DeliveryFailed):
                return self._feed.advance(self._name, event.seq)
            if self._stop.is_set():
                return False  # perhaps it failed because it was broken off
            if not outcome.again or tried >= target.tries:
                tries = f" after {tried} tries" if tried > 1 else ""
                more = "; headgate notify test shows what it says" if outcome.said else ""
                return self._feed.give_up(self._name, event, f"{outcome.why}{tries}{more}")
            if self._stop.wait(max(outcome.wait, self._pause(tried))):
                return False

    def _target(self) -> NotifyTarget | None:
        """The target as it is configured now; None if it is no more, or if it is time to stop."""
        found = (target for target in self._feed.targets() if target.name == self._name)
        return None if self._stop.is_set() else next(found, None)

    def _pause(self, tried: int) -> Seconds:
        """Twice as long after each try, and never as long as somebody else's."""
        most: Seconds = min(_LONGEST_WAIT, self._first_wait * 2 ** (tried - 1))
        return most * random.uniform(0.5, 1.0)  # noqa: S311 - nobody gains by guessing it
