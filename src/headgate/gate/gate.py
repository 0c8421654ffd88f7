"""The face for programs.

gate = Gate.open()
with gate.slot("anthropic/claude-opus-4-6", task="oracle-2"):
    ...

async with gate.slot("anthropic/claude-opus-4-6", task="oracle-2") as lease:
    ...
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headgate import config as configuration
from headgate.core.admission.setting_precedence import parse_view, with_project
from headgate.core.answers.signals import USAGE, Signal, parse_reading, parse_signal, parse_wait
from headgate.core.display.snapshots import (
    CancelOutcome,
    Waiting,
)
from headgate.core.key_patterns import NO_KEY, parse_key, parse_pattern
from headgate.core.quantities import (
    parse_duration,
    parse_priority,
    parse_task,
    parse_tokens,
    parse_weight,
    shown,
)
from headgate.core.roles import parse_roles
from headgate.core.times import Seconds, seconds
from headgate.errors import HeadgateError, UsageError
from headgate.gate.lease import Lease
from headgate.gate.live_settings import Settings, Source
from headgate.gate.process_runtime import Runtime
from headgate.gate.project_here import project_here
from headgate.gate.slot import Slot
from headgate.gate.transactions.operation import Operation
from headgate.gate.upstream_reports import UpstreamReports
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import WITHOUT_HOST
from headgate.store import Store, default_url, open_store

if TYPE_CHECKING:
    from headgate.core.server_settings import ServerSettings
    from headgate.gate.notification_feed import NotificationFeed
    from headgate.gate.remote_clients import RemoteClients
    from headgate.gate.submit_jobs import Jobs
    from headgate.gate.tokens import Tokens
    from headgate.gate.worker_jobs import WorkerJobs


_REMOTE = "headgate.remote.gate"
"""Whose gates are gates, too: it is not known here, only where it is."""


class Gate(UpstreamReports):
    """An open gate: asks for seats, holds them, tells what is going on. Any thread may use it."""

    def __init__(
        self,
        store: Store,
        *,
        config: Source | None = None,
        view: str = "",
        usage: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        settings = Settings(config or configuration.Watched(None), view, usage)
        super().__init__(Runtime(store, settings), settings, view)
        self._remote_clients: RemoteClients | None = None

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        config: str | Path | None = None,
        limits: Mapping[str, int] | None = None,
        usage: Mapping[str, Callable[[], object]] | None = None,
        token: str | None = None,
        fence: float | str | None = None,
    ) -> "Gate":
        """Open the gate of a store: by default the one that this person's programs share.

        `config` names a configuration file in place of the usual one. `limits` are this gate's own
        and beat all others, like HEADGATE_LIMITS. `usage` gives, for some pools, a function that
        tells what upstream counts: a number, or that and its limit; None if it cannot tell.

        With the URL of a server, `http://…` or `https://…`, it is the gate of that server's store.
        `token` is what `headgate token create` has shown there, HEADGATE_TOKEN by default. `fence`
        is for how long the server may be out of reach before all work has to end here.
        """
        path = Path(config) if config is not None else configuration.find()
        text = os.environ.get("HEADGATE_LIMITS", "")
        view = parse_view(text)
        if limits:
            own = parse_view(",".join(f"{name}={n}" for name, n in limits.items()), "limits")
            merged = {part.rpartition("=")[0]: part for part in f"{view},{own}".split(",") if part}
            view = parse_view(",".join(merged.values()))
        watched = configuration.Watched(path)
        project = project_here()
        if project is not None:
            view = with_project(view, project.limits)
        whole = url or default_url()
        gate: Gate
        if whole.startswith(("http://", "https://")):
            remote: Callable[..., Gate] = import_module(_REMOTE).RemoteGate
            gate = remote(whole, token=token, fence=fence, config=watched, view=view)
        else:
            gate = cls(open_store(whole), config=watched, view=view, usage=usage)
        gate.project = project
        return gate

    def slot(
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
    ) -> "Slot":
        """Seats for one piece of work, for use with `async with` or `with`.

        key       what the work uses, as in `anthropic/claude-opus-4-6`; None for no model
        task      whom it is for; identity only, it never changes what is counted
        priority  `interactive`, `normal`, `background`, or a number (higher goes first)
        since     when the task's current prompt began (seconds since the epoch); now if None
        weight    how many seats it takes in each of its pools
        timeout   wait at most so long (seconds, or `2m`), then WaitTimeoutError; 0 for NoRoomError
                  at once; None to wait as long as it takes
        on_wait   called with a `Waiting` when the request has to queue, and when its position
                  or reason changes; never when it is let in at once
        on_end    called when somebody cancels the work or it outlives its pool's `max_hold`;
                  by default an asyncio task is cancelled, and a thread is left alone
        label     a word for people: what program this is
        marked    programs started under the lease carry its mark in their environment, and keep
                  its seats for as long as one of them lives
        tokens    about how many tokens it will use, for pools with a `tpm`; what it really used
                  can be told with `lease.report`
        without_host  it is one request of a program that sits in the pool `host` itself, so it
                  takes no seat there; nobody is told of it by events
        roles     what it is done as, as in `reviewer`: it takes a seat in `role:reviewer`, too
        """
        wait = None if timeout is None else seconds(parse_duration(timeout, "timeout"))
        lender = WITHOUT_HOST if without_host else self._parent()
        request = Request(
            key=parse_key(key) if key is not None else NO_KEY,
            member=self._runtime.registry.me,
            machine=self._runtime.membership.machine,
            weight=parse_weight(weight),
            urgency=-parse_priority(priority),
            since=self.moment(since),
            task=parse_task(task),
            label=parse_task(label),
            marked=marked,
            lender=lender,
            view=self._view,
            tokens=parse_tokens(tokens),
            roles=parse_roles(roles),
        )
        return Slot(
            runtime=self._runtime, request=request, wait=wait, on_wait=on_wait, on_end=on_end
        )

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
        """Tell a pool what was learned from upstream.

        In a program that itself runs under a lease of this pool, it is that lease's signal.

        signal        accepted, concurrency-limited, rate-limited, quota-gone, overloaded or usage
        retry_after   for how long upstream asks to be left alone: seconds, or `2m`
        in_use        what upstream counts as in use, for `usage`; `limit` is what it allows
        """
        name, kind = parse_pattern(pool), parse_signal(signal)
        reading = parse_reading(in_use, limit) if kind == USAGE else None
        if kind == USAGE and reading is None:
            raise UsageError(f"bad usage {shown(in_use)}: expected how much is in use, as a number")
        told = Signal(kind, parse_wait(retry_after), reading, note=parse_task(note, "note"))
        lease = self._parent()
        self._transactor.run(
            lambda ledger: apply_signals.report(ledger, told, pool=name, lease=lease)
        )

    def cancel(self, id: int, *, grace: float | None = None) -> str:
        """End a piece of work in any state; tells what became of it. Waits until it is so.

        After `grace` seconds it is killed: by default as many as its job, or the configuration,
        gives it.
        """
        (found,) = self.cancel_all([id], grace=grace)
        if found.error is not None:
            raise found.error
        return found.outcome

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
        """End many pieces of work: those with these ids, or all that `find_work` finds.

        Nothing of what waits is started any more: one transaction takes it out of the line, and
        asks what runs to end. That ends side by side. Waits until all of it has ended; one that
        cannot be cancelled does not keep the others, and has the outcome `failed`.

        grace       as for `cancel`
        on_outcome  called with each outcome as soon as it is known
        """
        from headgate.gate.cancel import cancel_all

        if ids is None:
            ids = [work.id for work in self.find_work(task=task, name=name, key=key)]
        elif any(given is not None for given in (task, name, key)):
            raise UsageError("cancel some work by ids, or by task, name and key; not by both")
        patience = None if grace is None else Seconds(grace)
        return cancel_all(self._runtime, ids, patience, self.grace, on_outcome)

    def notification_feed(self) -> "NotificationFeed":
        """The events on their way to the targets of notifications; for one notifier."""
        from headgate.gate.notification_feed import NotificationFeed

        return NotificationFeed(self._runtime, lambda: self._settings.config.notify)

    @property
    def jobs(self) -> "Jobs":
        """Durable work."""
        from headgate.gate.submit_jobs import Jobs
        from headgate.gate.wait_for_jobs import lease_here

        return Jobs(self._runtime, self._view, partial(lease_here, self._runtime, self._parent))

    @property
    def tokens(self) -> "Tokens":
        """What those show who come from elsewhere."""
        from headgate.gate.tokens import Tokens

        return Tokens(self._runtime)

    @property
    def server(self) -> "ServerSettings":
        """What the configuration says of the server."""
        return self._settings.config.server

    def seen_by(self, view: str, mark: str) -> "Gate":
        """The same gate for somebody elsewhere: with their HEADGATE_LIMITS, under their lease."""
        from copy import copy

        found = copy(self)
        found._view, found._mark = view, mark  # noqa: SLF001 - it is one of us
        return found

    @property
    def remote_clients(self) -> "RemoteClients":
        """For a server: clients on other machines."""
        if self._remote_clients is None:
            from headgate.gate.remote_clients import RemoteClients

            self._remote_clients = RemoteClients(self._transactor, self._runtime.registry)
            self._runtime.attach(self._remote_clients)
        return self._remote_clients

    @property
    def worker_jobs(self) -> "WorkerJobs":
        """For those who do that work."""
        from headgate.gate.worker_jobs import WorkerJobs

        return WorkerJobs(self._runtime)

    @property
    def grace(self) -> Seconds:
        """How many seconds a cancelled program gets to end by itself."""
        return seconds(self._settings.config.grace)

    @property
    def url(self) -> str:
        """How others open this store."""
        return self._runtime.store.url

    @property
    def store_id(self) -> str:
        """The name that the store got when it was made."""
        return self._runtime.uid()

    @property
    def wire_folder(self) -> Path | None:
        """The folder for the wires of this store's leases; None if the store is in memory."""
        folder = self._runtime.store.folder
        return folder.with_suffix(".wire") if folder else None

    def make_wire_folder(self) -> None:
        """Have that folder, and have it be ours."""
        from headgate.store.trusted_paths import make_folder

        if self.wire_folder is not None:
            make_folder(self.wire_folder, shared=self._runtime.store.shared)

    @property
    def config_path(self) -> str:
        """The configuration file that is followed; empty if there is none."""
        path = self._settings.config.path
        return str(path) if path else ""

    @property
    def life_fd(self) -> int:
        """A program that inherits this keeps this gate's leases for as long as it lives."""
        return self._runtime.registry.life_fd

    def started(self, lease: Lease, pid: int) -> None:
        """Let people know which process uses a lease."""

        def set_pid(ledger: Ledger) -> None:
            row = ledger.tx.lease(lease.id)
            if row is not None:
                ledger.tx.change_lease(row._replace(pid=pid))

        self._transactor.submit(Operation(set_pid))

    def get_ready(self) -> None:
        """Start what runs in the background now, and not with the first request."""
        self._runtime.background.start()

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does, but never within a transaction."""
        from signal import SIGSTOP, raise_signal

        with self._transactor.at_rest():
            raise_signal(SIGSTOP)  # os.kill() may return before this thread is stopped

    def leave_behind(self) -> None:
        """Close the gate, but leave its leases to the programs that live on with them."""
        self._runtime.close(stay_for_programs=True)

    def close(self) -> None:
        """Give everything back and let go of the store."""
        self._runtime.close()

    def __enter__(self) -> Self:
        """Use the gate."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Use the gate."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it, without making the event loop wait."""
        import asyncio

        await asyncio.to_thread(self.close)
