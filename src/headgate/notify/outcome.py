"""How a try to tell somebody ended, and how to break one off."""

import threading
from collections.abc import Callable

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds


class Delivered(NamedTuple):
    """It was taken."""


class DeliveryFailed(NamedTuple):
    """It was not. `again` is whether another try makes sense, `wait` how long to wait at least."""

    why: str
    """For people; never a secret, nor a part of a URL but its host."""
    again: bool = True
    wait: Seconds = Seconds(0)
    said: str = ""
    """What a command said of it, for whoever tries it out. It may hold a secret: kept nowhere."""


Outcome = Delivered | DeliveryFailed


class Cancellation:
    """A hold on a try that is under way; another thread may break it off."""

    def __init__(self) -> None:
        self.broken = threading.Event()
        self._lock = threading.Lock()
        self._breaks: Callable[[], None] | None = None

    def on_break(self, breaks: Callable[[], None] | None) -> None:
        """What to call to break it off from now on."""
        with self._lock:
            self._breaks = breaks
            late = self.broken.is_set()
        if late and breaks is not None:
            breaks()

    def break_off(self) -> None:
        """End what is under way."""
        with self._lock:
            self.broken.set()
            breaks = self._breaks
        if breaks is not None:
            breaks()
