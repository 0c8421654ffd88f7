"""What a client waits for, and what it has to tell and does not wait for."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from headgate.core.display.snapshots import Waiting
from headgate.core.times import Seconds
from headgate.errors import HeadgateError
from headgate.gate.transactions.background_thread import start_without_signals
from headgate.remote.guardian import now
from headgate.remote.lease import RemoteLease


class Outbox:
    """A thread that does one thing after the other."""

    def __init__(self) -> None:
        from queue import SimpleQueue

        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="headgate-tell", daemon=True)
        start_without_signals(self._thread)

    def put(self, do: Callable[[], object]) -> None:
        """Have it done."""
        self._queue.put(do)

    def close(self, patience: Seconds) -> None:
        """Do what waits, and end; or leave it undone if that takes too long."""
        self._queue.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        while (do := self._queue.get()) is not None:
            do()


class Pending:
    """A request that waits, until it is granted or has failed."""

    def __init__(
        self,
        request: Mapping[str, Any],
        key: str,
        told: Callable[["Pending"], None],
        on_wait: Callable[[Waiting], None] | None,
    ) -> None:
        self.request = request
        self.key = key
        self.id = 0
        self.lease: RemoteLease | None = None
        self.error: HeadgateError | None = None
        self.told = told
        self.on_wait = on_wait
        self.asked = time.monotonic()
        self.since = now()
        self.waited = False
        self.said: object = None

    @property
    def settled(self) -> bool:
        """Whether it is granted, or has failed."""
        return self.lease is not None or self.error is not None
