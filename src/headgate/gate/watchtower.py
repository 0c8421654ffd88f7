"""Looks, at most once a second, for agents that use a pool without having asked for a seat."""

import time

from headgate.gate.foreign import Ours, count
from headgate.ledger import leave
from headgate.ledger.ledger import Pages
from headgate.store.base import Store
from headgate.store.machine import machine_id, pid_space

_EVERY = 1.0
_MOST = 10_000


class Watchtower:
    """Counts the foreign agents of the pools that say how to know them."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._next = 0.0

    def due(self) -> bool:
        """Whether there is something to look for, and the last look was a while ago."""
        return bool(self._pages.observed()) and time.monotonic() >= self._next

    def look(self, store: Store) -> dict[str, int]:
        """How many there are in each pool; empty if nobody needs to look now."""
        if not self.due():
            return {}
        found = count(self._pages.observed(), _ours(store))
        self._next = time.monotonic() + _EVERY
        return found


def _ours(store: Store) -> Ours:
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
            marks=frozenset(leave.mark(uid, lease.id) for lease in leases),
        )
