"""What those who look something up need of the transaction that they look it up in.

`Ledger` is one. It uses them to count what is in use, so they do not know it.
"""

from typing import Protocol

from headgate.core.admission.pool_set import PoolSet
from headgate.core.admission.pools import UnreadableNotice
from headgate.core.admission.seats import Use
from headgate.core.host.pressure import Host
from headgate.core.key_patterns import NO_KEY
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms
from headgate.ledger.transaction.rows import LeaseRow, Tx


class Gauge(Protocol):
    """Reads the figures of this machine. Asked inside a transaction, so it must be quick."""

    space: str
    """Which processes are seen from here: containers are measured by themselves."""

    def look(self) -> Host | None:
        """How it is now; None if it cannot be told."""


class UnreadableNote(NamedTuple):
    """A text that could not be read, the pool that it is about, and what is kept in its place."""

    unread: UnreadableNotice
    pool: str
    replacement: str = ""
    """Empty for a text that stays until a person decides."""


class TransactionContext(Protocol):
    """An open transaction: its rows, its clock reading, the pools as they stand."""

    tx: Tx
    now: Ms
    machine: str
    pool_set: PoolSet
    gauge: Gauge | None
    unreadable: dict[str, UnreadableNote]
    """Texts that could not be read so far, by name."""

    @property
    def use(self) -> Use:
        """Seats in use."""

    def recent_leases(self) -> list[LeaseRow]:
        """Leases that may still wait for upstream's answer, as of the last count."""

    def tell(
        self,
        kind: str,
        text: str = "",
        *,
        work: int = 0,
        key: str = NO_KEY,
        task: str = "",
        pool: str = "",
    ) -> None:
        """Keep an event."""
