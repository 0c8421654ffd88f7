"""A command with the event on its standard input.

It runs in a session of its own. Its output is read and dropped, so that it can neither block nor
fill anything; of its stderr the last line is told to whoever tries the command out. After its time
it is killed with all that it started.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from headgate.config.error_text import clip, hide
from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable
from headgate.core.times import Seconds
from headgate.gate.liveness.process_marks import MARK
from headgate.notify.outcome import Cancellation, DeliveryFailed

_LOOK = Seconds(0.05)
"""Seconds between two looks whether a command has ended whose output something else keeps open."""
_TAIL = 4_096


class Ended(NamedTuple):
    """How a command ended: its exit code, negative for a signal, and its last words."""

    code: int
    said: str


def run(
    argv: Sequence[str],
    data: bytes,
    timeout: Seconds,
    cancellation: Cancellation,
    environ: Mapping[str, str] | None = None,
) -> Ended | DeliveryFailed:
    """Run a command to its end, or to the end of its time."""
    env = dict(os.environ if environ is None else environ)
    env.pop(MARK, None)  # what a hook leaves running keeps nobody's seat
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its environment is unusable"
        return DeliveryFailed(f"cannot start {os.path.basename(argv[0])}: {why}")  # noqa: PTH119
    try:
        with _Pipes(process, data) as pipes:
            return _see_through(process, pipes, timeout, cancellation)
    finally:
        if process.poll() is None:
            _kill(process)
            process.wait()


def _see_through(
    process: subprocess.Popen[bytes], pipes: "_Pipes", timeout: Seconds, cancellation: Cancellation
) -> Ended | DeliveryFailed:
    deadline = time.monotonic() + timeout
    while process.poll() is None:
        left = deadline - time.monotonic()
        if left <= 0:
            return DeliveryFailed(f"took longer than {timeout:g}s")
        if cancellation.broken.is_set():
            return DeliveryFailed("was broken off")
        if not pipes.turn(min(left, _LOOK)):
            cancellation.broken.wait(min(left, _LOOK / 10))
    pipes.turn(0)
    return Ended(process.returncode, pipes.last_line())


def judge(ended: Ended | DeliveryFailed) -> DeliveryFailed | None:
    """Why a command failed; None if it did not."""
    if isinstance(ended, DeliveryFailed):
        return ended
    if ended.code == 0:
        return None
    how = f"exit {ended.code}" if ended.code > 0 else f"killed by signal {-ended.code}"
    return DeliveryFailed(how, said=ended.said)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it with its group; it has not been waited for, so the number is still its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _Pipes:
    """Feeds a process and hears it out without ever waiting for it."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes) -> None:
        self._process = process
        self._rest = memoryview(data)
        self._tail = b""
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        for pipe, what in (
            (self._process.stdin, selectors.EVENT_WRITE),
            (self._process.stderr, selectors.EVENT_READ),
        ):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, what)
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            self._drop(key)
        self._selector.close()

    def turn(self, seconds: float) -> bool:
        """Move what can be moved, for at most so long; False when there is nothing left to do."""
        for key, events in self._selector.select(seconds) if self._selector.get_map() else ():
            done = self._feed(key.fd) if events & selectors.EVENT_WRITE else self._hear(key.fd)
            if done:
                self._drop(key)
        return bool(self._selector.get_map())

    def last_line(self) -> str:
        """The last thing it said, fit for a terminal."""
        said = self._tail.decode(errors="replace")
        lines = [line for raw in said.splitlines() if (line := printable(raw).strip())]
        return clip(hide(lines[-1]), 200) if lines else ""

    def _feed(self, fd: int) -> bool:
        try:
            self._rest = self._rest[os.write(fd, self._rest) :]
        except BlockingIOError:
            return False
        except OSError:  # it does not want to read it
            return True
        return not self._rest

    def _hear(self, fd: int) -> bool:
        try:
            said = os.read(fd, 65_536)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self._tail = (self._tail + said)[-_TAIL:]
        return not said

    def _drop(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        with suppress(OSError):
            key.fileobj.close()  # type: ignore[union-attr]
