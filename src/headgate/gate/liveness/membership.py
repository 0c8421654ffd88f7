"""This process among the others of its store: known as alive, woken by them and waking them."""

import os
from collections.abc import Callable, Iterable, Sequence

from headgate import __version__
from headgate.gate.liveness.member_pipes import MemberRegistry
from headgate.gate.transactions.operation import Operation, Participant
from headgate.ledger import watch_duty
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import is_remote
from headgate.ledger.transaction.rows import Member
from headgate.store.base import Store
from headgate.store.machine_and_clock import machine_id, pid_space, process_start


class Membership(Participant):
    """Makes this process a member before rows name it, and wakes whom a transaction concerns."""

    def __init__(self, registry: MemberRegistry, store: Store) -> None:
        self.registry = registry
        self.machine = machine_id()
        self.joined = False
        self.on_call: Callable[[], None] | None = None
        """Called whenever something may have changed for this process; workers have one."""
        self._schema = store.schema
        self._joining = False

    def prepare(self, operations: Sequence[Operation]) -> None:
        """Be alive before any row says so."""
        self._joining = not self.joined and any(one.joins for one in operations)
        if self._joining:
            self.registry.join()

    def begin(self, ledger: Ledger) -> None:
        """Enter the list of members; whoever keeps watch has one more to watch."""
        if not self._joining:
            return
        ledger.tx.add_member(
            Member(
                id=self.registry.me,
                machine=self.machine,
                pid=os.getpid(),
                pid_space=pid_space(),
                joined=ledger.now,
                started=process_start(os.getpid()),
                version=__version__,
                schema=self._schema,
            )
        )
        if on_watch := watch_duty.member_on_watch(ledger):
            ledger.woken.add(on_watch)

    def conclude(self, ledger: Ledger, operations: Sequence[Operation]) -> None:
        """Who serves a client on another machine is woken for it."""
        for member in [one for one in ledger.woken if is_remote(one)]:
            row = ledger.tx.remote_member(member)
            if row is not None and row.server:
                ledger.woken.add(row.server)

    def committed(self, ledger: Ledger, operations: Sequence[Operation]) -> Iterable[Operation]:
        """Wake those for whom something has changed, and clear up after those found dead."""
        self.joined = self.joined or self._joining
        for member in ledger.woken:
            if member != self.registry.me and not is_remote(member):
                self.registry.wake(member)
        for member in ledger.removed_members:
            self.registry.forget(member)
        if self.on_call is not None and self.registry.me in ledger.woken:
            self.on_call()
        return ()
