"""The loop of a worker: what was given to it is started, what lost its runner is adopted."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headgate import config
from headgate.core.display.snapshots import Event
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.errors import StoreError
from headgate.gate import Gate
from headgate.notify import Notifier
from headgate.work import log_file
from headgate.work.attempt import run_order, warm
from headgate.work.fork_server import ForkServer

_TICK = Seconds(1.0)
_ASK_AGAIN = Seconds(5.0)
_MANY = 1_000
_CLEAN = Seconds(60.0)
_RELIEF = Seconds(5.0)
"""Seconds that memory has to come back before the next job is parked for it."""
_FAREWELL = Seconds(5.0)
"""Seconds that notifications which are under way get when it is time to stop."""


class WorkerOptions(NamedTuple):
    """Which store and which configuration, as they were named."""

    store: str | None
    config: str | None


class Worker:
    """A process that starts jobs. Make it before anything starts a thread: it forks."""

    def __init__(self, places: WorkerOptions, say: Callable[[Event], None]) -> None:
        self._places = places
        warm(Path(places.config) if places.config else config.find())
        self._fork_server = ForkServer(run_order)
        self._gate = Gate.open(places.store, config=places.config)
        self._worker_jobs = self._gate.worker_jobs
        self._folder: Path = self._gate.jobs.folder
        self._say = say
        self._called = threading.Event()
        self._stopping = False
        self.begin_anew = False
        """Whether it ended because it has to be started again: its fork server was killed."""
        self._asked: dict[tuple[int, int | str], float] = {}
        self._next_clean = 0.0
        self._next_relief = 0.0
        self._told = 0

    @property
    def gate(self) -> Gate:
        """The gate that it works at."""
        return self._gate

    def stop(self, *_: object) -> None:
        """End after this turn; what runs goes on."""
        self._stopping = True
        self._called.set()

    def run(self) -> int:
        """Work until told to stop; how many jobs go on by themselves."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.stop)
        latest = self._gate.events(most=1)
        self._told = latest[-1].seq if latest else 0
        self._worker_jobs.start_receiving(self._called.set)
        silence = threading.Event()
        notifier = threading.Thread(target=Notifier(self._gate).run, args=(silence,), daemon=True)
        notifier.start()
        try:
            while not self._stopping:
                self._called.wait(_TICK)
                self._called.clear()
                try:
                    self._turn()
                except StoreError as error:
                    self._say(
                        Event(
                            seq=0,
                            at=Seconds(time.time()),
                            event="store",
                            work=None,
                            key="",
                            task="",
                            pool="",
                            text=str(error),
                        )
                    )
                    time.sleep(_TICK)
            self._worker_jobs.stop_receiving()
            return self._gate.jobs.counts().get("running", 0)
        finally:
            silence.set()
            notifier.join(_FAREWELL)
            self._gate.close()
            self._fork_server.close()

    def _turn(self) -> None:
        if self._worker_jobs.due():
            self._worker_jobs.tick(None)
        self._start(self._worker_jobs.to_start(), adopt=False)
        self._start(self._worker_jobs.without_runner(), adopt=True)
        self._tell()
        self._relieve()
        if time.monotonic() >= self._next_clean:
            self._next_clean = time.monotonic() + _CLEAN
            for id in self._worker_jobs.tick(self._gate.job_policy.keep):
                log_file.remove(self._folder, id)

    def _relieve(self) -> None:
        """Park a job before the kernel has to kill something, if that is wanted; then wait."""
        if self._gate.job_policy.relieve and time.monotonic() >= self._next_relief:
            danger = self._gate.strained(danger=True)
            if danger is not None and self._worker_jobs.relieve(danger.note):
                self._next_relief = time.monotonic() + _RELIEF

    def _start(self, given: Sequence[tuple[int, int | str]], *, adopt: bool) -> None:
        """Have a runner for each, and ask once more if nothing came of it."""
        now = time.monotonic()
        for each in given:
            id, _ = each
            if now - self._asked.get(each, -_ASK_AGAIN) >= _ASK_AGAIN:
                self._asked[each] = now
                order = {"store": self._places.store, "job": id, "worker": self._worker_jobs.me}
                if not self._fork_server.ask(**order, adopt=adopt):
                    self.begin_anew = True  # this process has threads by now, and cannot fork
                    self._stopping = True
                    return
        if len(self._asked) > _MANY:
            self._asked = {it: at for it, at in self._asked.items() if now - at < _ASK_AGAIN}

    def _tell(self) -> None:
        while new_events := self._gate.events(after=self._told, most=1_000):
            self._told = new_events[-1].seq
            for event in new_events:
                self._say(event)
