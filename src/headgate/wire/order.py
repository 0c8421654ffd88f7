"""What a wire process is told, and the private folder by which it is found again.

The folder is beside the store, one for each lease: `STORE.wire/LEASE/`, readable by its owner only.
It holds the order, the socket through which runners and the process talk, and the files that are
laid over the agent's settings, or name whom it trusts under a tap. No key and no prompt is ever in
there.
"""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.core.named_tuple import NamedTuple
from headgate.gate.liveness.process_marks import carriers

_ORDER = "order.json"
_MOST_SWEPT, _YOUNG = 200, 30.0
CONTROL = "control"


class WireOrder(NamedTuple):
    """What a wire process has to know."""

    store: str
    config: str
    """The configuration file; empty if there is none."""
    view: str
    """HEADGATE_LIMITS, and a project's limits, as they were for whoever started the agent."""
    lease: int
    mark: str
    key: str
    task: str
    meter: str
    port: int
    upstreams: Mapping[str, str]
    priority: int = 0
    patience: float = 0.0
    """For how many seconds a refusal is waited out for the agent."""
    queue_timeout: float | None = None
    """For how many seconds a request may wait for its seat; None if the configuration says so."""
    task_given: bool = False
    """Whether somebody said what the task is; else the client's sessions tell."""
    parks: bool = False
    """Whether somebody parks the agent when it is refused for longer."""
    hosts: Sequence[str] = ()
    """The hosts that a tap opens; none if the agent is pointed at a base URL."""
    program: str = ""
    """The name of the agent's profile."""
    authorities: Sequence[str] = ()
    """Files of the user's own, with whom the agent would have trusted."""
    proxies: Mapping[str, str] = {}
    """The user's own proxy, without a password."""

    def write(self, folder: Path) -> None:
        """Keep it, for whoever has to start the process again."""
        folder.mkdir(mode=0o700, exist_ok=True)
        temporary = folder / f"{_ORDER}.{os.getpid()}"
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as to:
            to.write(json.dumps(self._asdict()))
        temporary.replace(folder / _ORDER)


def read_order(folder: Path) -> WireOrder | None:
    """What was kept in a folder; None if there is nothing that can be read."""
    try:
        said: dict[str, Any] = json.loads((folder / _ORDER).read_text(encoding="utf-8"))
        return WireOrder(**{name: said[name] for name in WireOrder._fields if name in said})
    except (OSError, ValueError, TypeError):
        return None


def folder_of(store: Path, lease: int) -> Path:
    """Where the wire of a lease is found."""
    return store.with_name(f"{store.name}.wire") / str(lease)


def sweep(parent: Path) -> None:
    """Remove the folders of wires that were killed together with all that used them."""
    dead: dict[str, Path] = {}
    for folder in list(parent.iterdir())[:_MOST_SWEPT]:
        order = read_order(folder)
        if order is not None and not _answers(folder):
            dead[order.mark] = folder
    for mark in carriers(dead):
        del dead[mark]
    for folder in dead.values():
        remove(folder)


def _answers(folder: Path) -> bool:
    """Whether a wire's process is there, or was made too short a while ago to be."""
    if time.time() - folder.stat().st_mtime < _YOUNG:
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asks:
        asks.settimeout(0.2)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            asks.connect(f"/proc/self/fd/{opened}/{CONTROL}")
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        finally:
            os.close(opened)
    return True


def remove(folder: Path) -> None:
    """Leave nothing of it behind."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
