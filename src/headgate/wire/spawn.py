"""How the process beside an agent, and its watchdog, are started: what they find open, and where.

Both are in a session of their own and under no lease. They find a listening socket at 3, somebody
to talk with at 4, and at 5 what a tap must not leave on a disk, if there is a tap.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.core.environment import FOR_PROGRAMS
from headgate.gate.liveness.process_marks import MARK, NO_LEASE

LISTENING, TALKS, SECRET = 3, 4, 5
ON_THE_WAY = (
    *("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    *("no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("CODEX_CA_CERTIFICATE", "REQUESTS_CA_BUNDLE"),
)
"""Variables of the agent's that say how to reach upstream, and whom to trust there."""
_WATCHDOG = str(Path(__file__).with_name("watchdog.py"))


def spawn_wire(folder: Path, environment: Mapping[str, str] | None, *fds: int) -> int:
    """Start the process; the environment says how to reach upstream, None that ours does."""
    dropped = {*FOR_PROGRAMS, *(ON_THE_WAY if environment is not None else ())}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    words = ("-P", "-m", "headgate.wire", str(folder), str(len(fds)))
    return _spawn(words, {**kept, **(environment or {}), MARK: NO_LEASE}, folder, fds)


def spawn_watchdog(folder: Path, *fds: int) -> int:
    """Start a watchdog of this process; its environment is that of a process that it starts."""
    words = ("-I", "-S", _WATCHDOG, str(folder), str(len(fds)), str(os.getpid()))
    return _spawn(words, os.environ, folder, fds)


def _spawn(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, fds: Sequence[int]
) -> int:
    return os.posix_spawn(
        sys.executable,
        [sys.executable, *words],
        environment,
        file_actions=_descriptors(folder, *fds),
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
    )


def _descriptors(folder: Path, *fds: int) -> list[tuple[Any, ...]]:
    """Have these at 3 and up, and nothing but the standard streams beside them."""
    free = max(fds) + len(fds) + 3
    high = [(os.POSIX_SPAWN_DUP2, fd, free + number) for number, fd in enumerate(fds)]
    low = [(os.POSIX_SPAWN_DUP2, free + number, LISTENING + number) for number in range(len(fds))]
    closed = [(os.POSIX_SPAWN_CLOSE, free + number) for number in range(len(fds))]
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
    errors = folder / "errors.log"
    try:
        errors.touch(0o600)
        log = (os.POSIX_SPAWN_OPEN, 2, str(errors), os.O_WRONLY | os.O_APPEND, 0)
    except OSError:  # the folder is gone, or the disk is full
        log = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    return [*high, *null, log, *low, *closed]
