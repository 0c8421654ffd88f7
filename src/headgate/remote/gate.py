"""A gate whose store is behind a server.

Asking for seats goes by way of `slot` and `renewals`. All else is called there: the same method of
the server's own gate, with the same values (`values`).
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate import config as configuration
from headgate.core.display.snapshots import (
    CancelOutcome,
    Capacity,
    Event,
    JobStatus,
    Metered,
    Past,
    Queue,
    Running,
    SelectedWork,
    Status,
    Waiting,
)
from headgate.core.key_patterns import parse_key
from headgate.core.quantities import (
    parse_duration,
    parse_priority,
    parse_task,
    parse_tokens,
    parse_weight,
)
from headgate.core.roles import parse_roles
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import GateClosedError, HeadgateError, UsageError
from headgate.gate.gate import Gate
from headgate.gate.lease import Lease
from headgate.gate.live_settings import Settings
from headgate.gate.liveness.process_marks import MARK, carriers
from headgate.ledger.queries.work_filter import WorkFilter
from headgate.remote.jobs import RemoteJobs
from headgate.remote.lease import RemoteLease
from headgate.remote.renewals import Renewals
from headgate.remote.server import PATIENCE, Server
from headgate.remote.slot import RemoteSlot
from headgate.remote.values import decode, encode
from headgate.store.machine_and_clock import machine_id

if TYPE_CHECKING:
    from headgate.core.admission.candidates import Candidate, Plan
    from headgate.core.admission.seats import Reason
    from headgate.core.answers.answer_rules import Rule
    from headgate.core.answers.signals import Signal
    from headgate.core.display.deadlock import Deadlock
    from headgate.core.host.pressure import PressureLimits

_FENCE = "HEADGATE_FENCE"
_ONCE = frozenset({"cancel_all", "report", "jobs.move", "jobs.retry"})
"""What is not asked for again if no answer came."""
_LONG = Seconds(3_600)


class RemoteGate(Gate):
    """A gate of a store that another machine has. Any thread may use it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        fence: float | str | None = None,
        config: configuration.Watched | None = None,
        view: str = "",
    ) -> None:
        self._settings = Settings(config or configuration.Watched(None), view, None)
        self._view = view
        self._server = Server(url, token)
        self._renewals = Renewals(self._server, self._settings.rules, _fence(fence))

        self.project = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - nothing is
        """Say so of what only a store on this machine has."""
        if name in {"_runtime", "_transactor"}:
            raise _not_here("this")
        raise AttributeError(name)

    # Seats

    def slot(  # type: ignore[override]
        self,
        key: str | None = None,
        *,
        task: str | None = None,
        priority: str | int | None = None,
        since: float | None = None,
        weight: int = 1,
        timeout: float | str | None = None,
        on_wait: Callable[[Waiting], None] | None = None,
        on_end: Callable[[HeadgateError], None] | None = None,
        label: str = "",
        marked: bool = False,
        tokens: int = 0,
        without_host: bool = False,
        roles: str | Sequence[str] = (),
    ) -> "RemoteSlot":
        """Seats for one piece of work, as of a gate on this machine.

        When the server was not heard of for so long that the fence is near, the work is told to
        end: `on_end` is called, an asyncio task is cancelled. What has not ended by then is killed,
        and if it is a thread of this process, this process.
        """
        self._check_open()
        if since is not None and not math.isfinite(since):
            raise UsageError(f"bad since {since!r}: expected seconds since the epoch")
        request = {
            "key": parse_key(key) if key is not None else "",
            "task": parse_task(task),
            "label": parse_task(label),
            "priority": parse_priority(priority),
            "weight": parse_weight(weight),
            "since": since,
            "tokens": parse_tokens(tokens),
            "marked": marked,
            "without_host": without_host,
            "parent": 0 if without_host else self._parent(),
            "machine": machine_id(),
            "limits": self._view,
            "roles": parse_roles(roles),
        }
        wait = None if timeout is None else seconds(parse_duration(timeout, "timeout"))
        return RemoteSlot(self._renewals, request, wait=wait, on_wait=on_wait, on_end=on_end)

    def started(self, lease: Lease, pid: int) -> None:
        """Let people know which process uses a lease."""
        if isinstance(lease, RemoteLease):
            self._renewals.started(lease, pid)

    def _parent(self) -> int:
        """The lease this program itself runs under, if it is of the same store."""
        uid, _, id = os.environ.get(MARK, "").partition(".")
        if not id.isdigit() or len(id) > 18:
            return 0
        return int(id) if uid == self._renewals.store() else 0

    # What is called at the server

    def _call(self, method: str, /, *args: object, **named: object) -> Any:  # noqa: ANN401
        """Call a method of the server's gate."""
        self._check_open()
        body = {
            "args": [encode(one) for one in args],
            "named": {name: encode(one) for name, one in named.items()},
            "limits": self._view,
            "parent": os.environ.get(MARK, "")[:100],
        }
        path = f"/v1/calls/{method}"
        if method in _ONCE:
            found = self._server.ask("POST", path, body, patience=_LONG)
        else:  # done twice it is as if it were done once
            key, deadline = os.urandom(12).hex(), time.monotonic() + PATIENCE
            found = self._server.ask_until("POST", path, body, key=key, deadline=deadline)
        return decode(found["value"])

    def _check_open(self) -> None:
        if self._renewals.closed:
            raise GateClosedError("this gate is closed; open another one")

    def status(self) -> Status:
        """All pools at this moment."""
        return self._call("status")  # type: ignore[no-any-return]

    def known_keys(self) -> list[str]:
        """The keys whose work runs, waits or has ended, in order."""
        return list(self._call("known_keys"))

    def pool_names(self) -> list[str]:
        """The names of all pools, in order."""
        return list(self._call("pool_names"))

    def said_cooldown(self, pool: str) -> Ms | None:
        """The cooldown that counts for a pool, if somebody has set one just for it."""
        found = self._call("said_cooldown", pool)
        return None if found is None else Ms(int(found))

    @property
    def store_id(self) -> str:
        """The name that the store got when it was made."""
        return self._renewals.store()

    def capacity(
        self,
        key: str | None = None,
        *,
        priority: str | int | None = None,
        without_host: bool = False,
        roles: str | Sequence[str] = (),
    ) -> Capacity:
        """Whether work with this key would be let in now, how much of it, and if not, why."""
        said: dict[str, Any] = {
            "priority": priority,
            "without_host": without_host,
            "roles": parse_roles(roles),
        }
        return self._call("capacity", key, **said)  # type: ignore[no-any-return]

    @property
    def pressure_limits(self) -> "PressureLimits | None":
        """Nobody measures this machine for the server."""
        return None

    def strained(self, *, danger: bool = False) -> "Reason | None":
        """Nobody measures this machine for the server."""
        return None

    def plan(self, candidates: "Iterable[Candidate]", *, log: bool = False) -> "Plan":
        """What would become of these if all were started now; nothing is."""
        named = {"log": True} if log else {}
        return self._call("plan", tuple(candidates), **named)  # type: ignore[no-any-return]

    def queue(self, *, most: int = 100, skip: int = 0, wanted: WorkFilter | None = None) -> Queue:
        """What runs and what waits, in the order of the line; with a filter, what fits."""
        return self._call("queue", most=most, skip=skip, wanted=wanted)  # type: ignore[no-any-return]

    def events(self, *, after: int = -1, most: int = 100) -> tuple[Event, ...]:
        """What happened after an event's `seq`; the latest events by default."""
        return tuple(self._call("events", after=after, most=most))

    def why(self, id: int) -> Waiting | Running | Past:
        """What is known of one piece of work: where it waits, that it runs, or how it ended."""
        return self._call("why", id)  # type: ignore[no-any-return]

    def in_flight(self, id: int) -> tuple[int, Ms]:
        """How many requests of some work are on their way as far as the store knows, since when."""
        count, since = self._call("in_flight", id)
        return count, since

    def metered(self, id: int, *, most: int = 5) -> Metered | None:
        """How an agent is counted and watched, and its last requests; None if nobody knows."""
        return self._call("metered", id, most=most)  # type: ignore[no-any-return]

    def deadlocks(self) -> "tuple[Deadlock, ...]":
        """Work that waits for each other in a circle, and will not go on by itself."""
        return tuple(self._call("deadlocks"))

    def deadlock_of(self, id: int) -> "Deadlock | None":
        """The circle that keeps a piece of work from going on; None if there is none."""
        return self._call("deadlock_of", id)  # type: ignore[no-any-return]

    def job(self, id: int) -> JobStatus | None:
        """What is known of a job; None if there is none with this id."""
        return self._call("job", id)  # type: ignore[no-any-return]

    def find_job(self, name: str, what: str = "id") -> int:
        """The id of the job of this name: that has not ended, else of the latest that has."""
        return int(self._call("find_job", name, what))

    def find_work(
        self, *, task: str | None = None, name: str | None = None, key: str | None = None
    ) -> list[SelectedWork]:
        """What waits or runs for a task, has a name, and a key that a pattern matches; by id."""
        return list(self._call("find_work", task=task, name=name, key=key))

    def moment(self, since: float | None) -> Ms:
        """A wall-clock time on the store's clock; 0 stands for now."""
        return Ms(int(self._call("moment", since)))

    def report(
        self,
        pool: str,
        signal: str,
        *,
        retry_after: float | str | None = None,
        in_use: float | None = None,
        limit: int | None = None,
        note: str = "",
    ) -> None:
        """Tell a pool what was learned from upstream."""
        more = {"retry_after": retry_after, "in_use": in_use, "limit": limit, "note": note}
        self._call("report", pool, signal, **more)

    def set_limit(self, pool: str, limit: int | str) -> None:
        """Set a limit by hand, or have it `learn`: persisted, and live at once everywhere."""
        self._call("set_limit", pool, limit)

    def unset_limit(self, pool: str) -> None:
        """Lift a pool's limit; everyone waiting for it is let in."""
        self._call("unset_limit", pool)

    def set_cooldown(self, pool: str, cooldown: float | str) -> None:
        """Set how long seats freed from now on rest."""
        self._call("set_cooldown", pool, cooldown)

    def set_per_task(self, pool: str, most: int | None) -> None:
        """Set the most seats that one task may hold of a pool; None for as many as it gets."""
        self._call("set_per_task", pool, most)

    def set_order(self, pool: str, order: str) -> None:
        """Set who is next of a pool: the `oldest`, or with `fair` the tasks in turn."""
        self._call("set_order", pool, order)

    def restore(self, pool: str) -> None:
        """Forget what was set by hand for a pool: the configuration counts again."""
        self._call("restore", pool)

    def pause(self, pool: str, duration: float | str | None = None, *, note: str = "") -> None:
        """Let nothing start in a pool for a while, or until it is resumed."""
        self._call("pause", pool, duration, note=note)

    def resume(self, pool: str) -> bool:
        """End a pause; False if there was none."""
        return bool(self._call("resume", pool))

    def cancel_all(
        self,
        ids: Iterable[int] | None = None,
        *,
        task: str | None = None,
        name: str | None = None,
        key: str | None = None,
        grace: float | None = None,
        on_outcome: Callable[[CancelOutcome], None] | None = None,
    ) -> list[CancelOutcome]:
        """End many pieces of work, wherever they run. Waits until all of it has ended."""
        which = None if ids is None else tuple(ids)
        found: list[CancelOutcome] = list(
            self._call("cancel_all", which, task=task, name=name, key=key, grace=grace)
        )
        for one in found if on_outcome is not None else ():
            on_outcome(one)  # type: ignore[misc]
        return found

    @property
    def jobs(self) -> RemoteJobs:
        """Durable work."""
        return RemoteJobs(self._call, self._view)

    # What is of this machine

    @property
    def worker_jobs(self) -> "_Programs":  # type: ignore[override]
        """What can be told here of the programs of a lease; workers run where the store is."""
        return _Programs()

    @property
    def url(self) -> str:
        """How others open this gate."""
        return self._server.name

    @property
    def wire_folder(self) -> Path | None:
        """There is none: a wire needs the store."""
        return None

    def make_wire_folder(self) -> None:
        """There is none to be made."""

    @property
    def life_fd(self) -> int:
        """Nobody here could tell by a pipe who lives."""
        return -1

    def get_ready(self) -> None:
        """Join now, and not with the first request."""
        self._renewals.member()

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does. Its guardian goes on."""
        from signal import SIGSTOP, raise_signal

        raise_signal(SIGSTOP)

    def leave_behind(self) -> None:
        """Close the gate when the programs have ended that live on with its leases."""
        marks = {lease.mark for lease in self._renewals.held()}
        while marks and carriers(marks) and self._renewals.held():
            time.sleep(0.2)
        self.close()

    def close(self) -> None:
        """Give everything back and leave."""
        self._renewals.close()

    def rules(self) -> "tuple[Rule, ...]":
        """How to read what upstream answers."""
        return self._settings.rules()

    def tell(self, signal: "Signal", *, lease: int = 0, key: str = "") -> None:
        """Only a wire tells so, and there is none."""
        raise _not_here("a wire")

    def notification_feed(self) -> Any:  # noqa: ANN401 - nothing is
        """Notifications are delivered where the store is."""
        raise _not_here("headgate notify")

    @property
    def tokens(self) -> Any:  # noqa: ANN401 - nothing is
        """Tokens are made where the store is."""
        raise _not_here("headgate token")

    @property
    def remote_clients(self) -> Any:  # noqa: ANN401 - nothing is
        """A server needs a store."""
        raise _not_here("headgate serve")


class _Programs:
    """The programs of a lease, as far as they can be told here."""

    def programs(self, lease: Lease) -> set[int]:
        """Those that carry its mark."""
        mark = lease.environment[MARK]
        return {pid for pids in carriers([mark]).values() for pid in pids}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - nothing is
        raise _not_here("a worker")


def _not_here(what: str) -> UsageError:
    return UsageError(
        f"{what} needs the store itself, and HEADGATE_STORE (or --store) names a server: run it on "
        "the machine that has the store"
    )


def _fence(given: float | str | None) -> float | str | None:
    """For how long this client may be silent, if somebody said so."""
    text = given if given is not None else os.environ.get(_FENCE) or None
    if text is None or text == "never":
        return text
    return seconds(parse_duration(text, "fence"))
