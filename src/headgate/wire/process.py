"""The process beside one agent: its requests pass here, as long as anything of the agent lives.

It is started with two descriptors, a listening socket and one to talk with its runner, and a third
for the secret of a tap. If the runner goes away, it stays for as long as a program carries the
lease's mark, and another runner may join it through the socket in its folder. If it is killed, its
runner starts it again; its watchdog does if there is no runner, and then nobody is there to talk
with.
"""

import asyncio
import json
import os
import signal
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headgate.config import Watched
from headgate.core.admission.setting_precedence import parse_view
from headgate.core.times import Seconds
from headgate.gate import Gate
from headgate.gate.liveness.process_marks import carriers
from headgate.proxy import ProxyServer
from headgate.store import open_store
from headgate.wire.guarded import Guarded, other_end, serve_alone
from headgate.wire.order import CONTROL, WireOrder, read_order, remove
from headgate.wire.policy import WirePolicy
from headgate.wire.spawn import LISTENING, SECRET, TALKS
from headgate.wire.tap import Tap
from headgate.wire.tap_secret import read_secret
from headgate.wire.trust import trusted_beside, upstream_context

_LOOK = 1.0
"""Seconds between two looks for what is left of an agent whose runner is gone."""
_SURE = 2
"""So many looks in a row have to find nothing."""
_DRAIN = Seconds(0.5)
"""What is asked meanwhile waits for the process that follows."""


def main(argv: list[str]) -> int:
    """Serve until the agent is gone."""
    folder = Path(argv[1])
    given = int(argv[2]) if len(argv) > 2 else 2
    os.closerange(LISTENING + given, 4096)  # what its runner had open is none of its business
    order = read_order(folder)
    if order is None:
        return 1
    lock = serve_alone(folder)
    if lock is None:
        return 0
    listening = socket.socket(fileno=LISTENING)
    talks = _runner_at(TALKS)
    config = Watched(Path(order.config) if order.config else None)
    with Gate(open_store(order.store), config=config, view=parse_view(order.view)) as gate:
        secret = SECRET if LISTENING + given > SECRET else None
        asyncio.run(
            WireProcess(folder, order, gate, secret=secret, lock=lock).serve(listening, talks)
        )
    return 0


def _runner_at(fd: int) -> socket.socket | None:
    """The runner's end; None if a watchdog has started this process."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        return socket.socket(fileno=fd)
    os.close(fd)
    return None


class WireProcess:
    """Serves one agent."""

    def __init__(
        self,
        folder: Path,
        order: WireOrder,
        gate: Gate,
        *,
        secret: int | None = None,
        lock: int = -1,
    ) -> None:
        self._folder = folder
        self._order = order
        self._lock = lock
        self._runners: dict[socket.socket, int] = {}
        """Each runner's end, and its process."""
        self._guarded: Guarded | None = None
        self._handed_on = () if secret is None else (secret,)
        tap = Tap(order, gate, read_secret(secret)) if order.hosts else None
        self._policy = WirePolicy(order, gate, self._tell, tap)
        self._over = asyncio.Event()

    async def serve(self, listening: socket.socket, talks: socket.socket | None) -> None:
        """Serve until told to end, or until nothing of the agent is left."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._over.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        trusted = [*self._order.authorities, *trusted_beside(os.environ)]
        server = ProxyServer(self._policy, tls=upstream_context(trusted))
        await server.start(listening)
        self._guarded = Guarded(self._folder, (listening.fileno(), *self._handed_on))
        if talks is not None:
            self._welcome(talks)
        self._guarded.begin()
        self._policy.records.take_over()
        joins = self._listen_for_runners(listening)
        watch = loop.create_task(self._watch())
        try:
            await self._over.wait()
        finally:
            watch.cancel()
            loop.remove_reader(joins)
            joins.close()
            if self._lock >= 0:
                os.close(self._lock)
            self._guarded.end(for_good=read_order(self._folder) is None)
            for runner in list(self._runners):  # so that it starts another one at once
                self._part_from(runner)
            self._policy.records.flush()
            await server.drain(_DRAIN)
            self._policy.records.flush()

    def _listen_for_runners(self, listening: socket.socket) -> socket.socket:
        """Where a runner that takes the agent over finds this process."""
        joins = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = self._folder / CONTROL
        with suppress(FileNotFoundError):
            path.unlink()
        opened = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            joins.bind(f"/proc/self/fd/{opened}/{CONTROL}")
        finally:
            os.close(opened)
        joins.listen(8)
        joins.setblocking(False)

        def join() -> None:
            with suppress(OSError):
                runner, _ = joins.accept()
                socket.send_fds(runner, [b"{}"], [listening.fileno(), *self._handed_on])
                self._welcome(runner)
                self._policy.tell_again()

        asyncio.get_running_loop().add_reader(joins, join)
        return joins

    def _welcome(self, runner: socket.socket) -> None:
        runner.setblocking(False)
        self._runners[runner] = other_end(runner)
        asyncio.get_running_loop().add_reader(runner, self._hear, runner)
        self._tell_watchdog()

    def _hear(self, runner: socket.socket) -> None:
        """A runner says nothing but that it is gone."""
        try:
            if runner.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._part_from(runner)

    def _part_from(self, runner: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(runner)
        self._runners.pop(runner, None)
        runner.close()
        self._tell_watchdog()

    def _tell_watchdog(self) -> None:
        if self._guarded is not None:
            self._guarded.tell(self._runners.values())

    def _tell(self, news: Mapping[str, Any]) -> None:
        """Tell every runner; one that does not listen misses it."""
        if not self._runners:
            return
        said = json.dumps(news).encode()
        for runner in self._runners:
            with suppress(OSError):
                runner.send(said)

    async def _watch(self) -> None:
        """End when no runner is there and nothing of the agent lives."""
        nobody = 0
        while nobody < _SURE:
            await asyncio.sleep(_LOOK)
            nobody = nobody + 1 if not self._runners and await asyncio.to_thread(self._alone) else 0
        remove(self._folder)
        self._over.set()

    def _alone(self) -> bool:
        """Whether nothing of the agent can be found; an environment may be empty for a moment."""
        try:
            return not carriers([self._order.mark])
        except OSError:  # nobody can say
            return False
