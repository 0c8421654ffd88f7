"""A small process from which runners are forked.

A worker has threads and an open store, and must not be forked. So before it has either, it forks
this: a process that has everything loaded that a runner needs and does nothing but wait to be
asked for one. It ends when its worker does; the runners are in sessions of their own, and stay.
"""

import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_LONGEST = 64 * 1024


class ForkServer:
    """The worker's end of it."""

    def __init__(self, run: Callable[[dict[str, Any]], None]) -> None:
        self._asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._asks.close()
            _serve(theirs, run)
        theirs.close()

    def ask(self, **order: object) -> bool:
        """Have a runner started; False if nobody is left to do it."""
        try:
            self._asks.send(json.dumps(order).encode())
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let it end; the runners go on."""
        self._asks.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _serve(asks: socket.socket, run: Callable[[dict[str, Any]], None]) -> None:
    """Fork a runner for each order, until the worker is gone."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody needs to know how a runner ended
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        gc.freeze()
        while order := asks.recv(_LONGEST):
            if os.fork() == 0:
                asks.close()
                _be_a_runner(run, json.loads(order))
        code = 0
    finally:
        os._exit(code)


def _be_a_runner(run: Callable[[dict[str, Any]], None], order: dict[str, Any]) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run(order)
        code = 0
    except BaseException:  # noqa: BLE001 - nobody above could do anything with it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
