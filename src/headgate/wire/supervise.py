"""The runner's side of a wire: it starts the process, starts it again, hears from it and ends it.

The runner makes the listening socket and keeps it. So the agent can be started at once (who
connects before the process is ready waits), and a process that was killed is replaced by one that
listens at the same address. A runner that takes over an agent is given the socket by the process,
or binds the same port if that is gone too. So it is with the secret of a tap, which is lost if both
are gone.
"""

import json
import math
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headgate.wire.order import CONTROL, WireOrder, read_order, remove
from headgate.wire.spawn import spawn_wire

HOST = "127.0.0.1"
_BACKLOG = 1024
_LONGEST = 64 * 1024
_MOST_NEWS = 200
_TRY_AGAIN = 2.0
_QUICK, _MOST_ENDS = 10.0, 5
"""So many ends within so many seconds, and there is no use in starting it again."""


class Wire:
    """The wire of one agent, as its runner sees it."""

    def __init__(
        self,
        folder: Path,
        order: WireOrder,
        listening: socket.socket | None,
        secret: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        """How to reach upstream and whom to trust there; None if this process knows no better."""
        self.folder = folder
        self.order = order
        self.pid = 0
        self._listening = listening
        self._secret = secret
        """A descriptor: what a tap must not leave on a disk."""
        self._talks: socket.socket | None = None
        self._ends: list[float] = []
        self._next_try = math.inf
        """When to look for the process again, if it could not be reached or started."""

    @property
    def url(self) -> str:
        """The base URL at which it is reached."""
        return f"http://{HOST}:{self.order.port}"

    def start(self) -> None:
        """Start the process; what the agent asks meanwhile waits."""
        if self._listening is None:
            self._listening = listen(self.order.port)
        if self._talks is not None:
            self._talks.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            secret = () if self._secret is None else (self._secret,)
            fds = (self._listening.fileno(), theirs.fileno(), *secret)
            self.pid = spawn_wire(self.folder, self._environment, *fds)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._talks = ours

    def join(self) -> None:
        """Talk with a process that somebody else has started; OSError if it is gone."""
        talks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            talks.settimeout(2.0)
            with _reachable(self.folder) as path:
                talks.connect(path)
            _, fds, _, _ = socket.recv_fds(talks, _LONGEST, 2, socket.MSG_CMSG_CLOEXEC)
            self._close()
            self._listening = socket.socket(fileno=fds[0]) if fds else None
            self._secret = fds[1] if len(fds) > 1 else None
            talks.setblocking(False)
        except BaseException:
            talks.close()
            raise
        self._talks = talks

    def ended(self, pid: int) -> None:
        """A child of ours has ended: if it was the process, there has to be another."""
        if pid == self.pid:
            self.start_again()

    def start_again(self) -> None:
        """Start another process; none any more if they end as soon as they are started.

        Its watchdog may have done so, while this process was stopped.
        """
        now = time.monotonic()
        self._ends = [at for at in self._ends if now - at < _QUICK] + [now]
        self.pid = 0
        if len(self._ends) <= _MOST_ENDS:
            for way in (self.join, self.start):
                with suppress(OSError):
                    way()
                    return
        if self._listening is not None:  # the agent hears at once that nobody is there,
            with suppress(OSError):  # and nobody else can take the address
                self._listening.shutdown(socket.SHUT_RDWR)
        if self._talks is not None:
            self._talks.close()
            self._talks = None

    def reach(self) -> None:
        """Talk with the process of an agent that was taken over, or start another; or try later."""
        self._next_try = math.inf
        for way in (self.join, self.start):
            try:
                way()
            except OSError:  # it is gone; or it is there and does not answer, and has the port
                continue
            return
        self._next_try = time.monotonic() + _TRY_AGAIN

    def news(self) -> list[dict[str, Any]]:
        """What the process has told since the last time; it is started again if it is gone."""
        found: list[dict[str, Any]] = []
        if time.monotonic() >= self._next_try:
            self.reach()
        while self._talks is not None and len(found) < _MOST_NEWS:
            try:
                said = self._talks.recv(_LONGEST)
            except BlockingIOError:
                break
            except OSError:
                said = b""
            if not said:
                self.start_again()
                break
            with suppress(ValueError):
                found.append(json.loads(said))
        return found

    def end(self) -> None:
        """Nothing of the agent is left: end the process, and leave nothing behind."""
        self._close()
        remove(self.folder)  # first: without it the process is not started again by its watchdog
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        remove(self.folder)

    def leave(self) -> None:
        """Something of the agent lives on: the process goes on until that has ended."""
        self._close()

    def _close(self) -> None:
        for one in (self._talks, self._listening):
            if one is not None:
                one.close()
        self._talks = self._listening = None
        if self._secret is not None:
            os.close(self._secret)
            self._secret = None


def listen(port: int = 0) -> socket.socket:
    """A socket at which nobody but this machine can ask."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def take_over(folder: Path) -> Wire | None:
    """The wire of an agent whose runner was killed; None if it has none."""
    order = read_order(folder)
    if order is None:
        return None
    wire = Wire(folder, order, None)
    wire.reach()
    return wire


@contextmanager
def _reachable(folder: Path) -> Iterator[str]:
    """A path to the process's socket that is short enough for the kernel."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{CONTROL}"
    finally:
        os.close(opened)
