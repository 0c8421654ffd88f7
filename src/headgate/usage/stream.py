"""An answer that goes on: server-sent events, and a thread that keeps listening to them."""

import time
from collections.abc import Iterator, Mapping
from typing import Self

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.http_client import Connection, Trouble, events
from headgate.usage.failed import explain
from headgate.usage.fetch import aim, get, host_of
from headgate.usage.shapes import featherless, load


class Latest(NamedTuple):
    """The last reading that came in."""

    reading: Reading
    at: float
    """When it came, by time.monotonic()."""


class Stream:
    """Listens to a source in a thread, over one connection at a time, until it is closed.

    Featherless sends an event every two seconds. After `silence` seconds without a reading it
    connects anew, and after each end waits `pause[0]` seconds, twice as long after each failure in
    a row, up to `pause[1]`.
    """

    def __init__(
        self,
        source: UsageSource,
        *,
        environ: Mapping[str, str],
        timeout: Seconds = Seconds(5),
        silence: Seconds = Seconds(10),
        pause: tuple[Seconds, Seconds] = (Seconds(0.5), Seconds(30)),
    ) -> None:
        import threading

        self.latest: Latest | None = None
        self.trouble = ""
        """Why nothing newer comes; empty while readings come in."""
        self._source = source
        self._environ = environ
        self._timeout = timeout
        self._silence = silence
        self._pause = pause
        self._closing = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="headgate-stream", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up. Nothing is heard and nobody is called after this."""
        import threading

        self._closing.set()
        if self._connection is not None:
            self._connection.break_off()
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        wait = self._pause[0]
        while not self._closing.is_set():
            if self._listen():
                wait = self._pause[0]
            if self._closing.wait(wait):
                return
            wait = min(wait * 2, self._pause[1])

    def _listen(self) -> bool:
        """Take in readings until the connection ends; whether there was any."""
        before = self.latest
        connection = Connection(self._timeout)
        self._connection = connection  # before `_closing` is looked at: close() sets that first
        try:
            if not self._closing.is_set():
                self._take_in(connection)
        except Exception as error:  # noqa: BLE001 - whatever upstream does, the thread goes on
            self.trouble = explain(host_of(self._source), error, connection.allowed).reason
        finally:
            connection.close()
        return self.latest is not before

    def _take_in(self, connection: Connection) -> None:
        for data in open_events(self._source, self._environ, connection):
            try:
                reading = featherless(load(data))
            except Trouble as error:  # perhaps the next one is better, if it comes in time
                self.trouble = explain(host_of(self._source), error, connection.allowed).reason
                continue
            self.latest, self.trouble = Latest(reading, time.monotonic()), ""
            connection.allow(self._silence)
        raise Trouble("ended the stream")


def open_events(
    source: UsageSource, environ: Mapping[str, str], connection: Connection
) -> Iterator[bytes]:
    """The data of a source's events as they come, over a connection that the caller closes."""
    response = get(aim(source, environ), connection, "text/event-stream")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise Trouble("sent something that is no event stream")
    return events(response.pieces())
