"""Looks, at most once a second, for agents that use a pool without having asked for a seat."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headgate.core.admission.lease_events import lease_mark
from headgate.core.admission.pools import AGENTS
from headgate.core.times import Seconds
from headgate.gate.transactions.operation import Operation, Participant
from headgate.ledger.learning import upstream_state
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.store.base import Store
from headgate.store.machine_and_clock import machine_id, pid_space

if TYPE_CHECKING:
    from headgate.config import Config
    from headgate.gate.host.foreign_agents import Ours
    from headgate.gate.host.known_agents import KeyOf

_EVERY = Seconds(1.0)
_MOST = 10_000


class ProcessScan(Participant):
    """Counts the foreign agents of the pools that say how to know them."""

    def __init__(
        self, resolver: PoolResolver, store: Store, config: "Callable[[], Config]"
    ) -> None:
        self._resolver = resolver
        self._config = config
        self._keys: tuple[Config, KeyOf] | None = None
        self._store = store
        self._next = 0.0
        self._found: dict[str, int] = {}

    def stale(self) -> bool:
        """Whether there is something to look for, and the last look was a while ago."""
        return bool(self._resolver.observed()) and time.monotonic() >= self._next

    def prepare(self, operations: Sequence[Operation]) -> None:
        """Count how many there are in each pool, if it is time to look."""
        self._found = {}
        if self.stale():
            from headgate.gate.host.foreign_agents import count

            observed = self._resolver.observed()
            known = any(AGENTS in patterns for patterns in observed.values())
            self._found = count(observed, _ours(self._store), self._key_of() if known else None)
            self._next = time.monotonic() + _EVERY

    def _key_of(self) -> "KeyOf":
        """What tells the known agents, by the configuration as it is now."""
        from headgate.gate.host.known_agents import key_of_agents

        config = self._config()
        if self._keys is None or self._keys[0] is not config:
            self._keys = (config, key_of_agents(config))
        return self._keys[1]

    def begin(self, ledger: Ledger) -> None:
        """Keep what was found."""
        if self._found:
            upstream_state.record_foreign(ledger, pid_space(), self._found)


def _ours(store: Store) -> "Ours":
    from headgate.gate.host.foreign_agents import Ours

    here, space = machine_id(), pid_space()
    with store.transaction(write=False) as tx:
        uid = tx.uid()
        leases = [lease for lease in tx.leases(0, _MOST) if lease.machine == here]
        members = {
            row.id: row.pid
            for row in tx.members()
            if row.machine == here and row.pid_space == space
        }
        # A lease without a program of its own is held for whatever its process starts.
        programs = {lease.pid or members.get(lease.member, 0) for lease in leases}
        return Ours(
            members=frozenset(members.values()),
            programs=frozenset(programs - {0}),
            marks=frozenset(lease_mark(uid, lease.id) for lease in leases),
        )
