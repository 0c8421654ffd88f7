"""What a store is to the layers above."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from headgate.core.times import Ms
from headgate.ledger.transaction.rows import Tx


class Store(Protocol):
    """Rows, transactions and a clock.

    A transaction is all or nothing: an exception inside leaves no trace. One store object is used
    by one thread at a time; processes and threads that need their own open their own.
    """

    @property
    def url(self) -> str:
        """How others open it."""

    @property
    def instant(self) -> bool:
        """Whether a transaction takes no longer than the code inside it: no disk, no network."""

    @property
    def far(self) -> bool:
        """Whether each question takes a round trip, so that it pays to say what to expect."""

    @property
    def folder(self) -> Path | None:
        """The folder that the processes of this store share; None if it lives in one process."""

    @property
    def shared(self) -> bool:
        """Whether other users may write it, who then are trusted."""

    @property
    def schema(self) -> int:
        """The newest layout of tables that this version knows; 0 if no other version shares it."""

    @property
    def at_rest(self) -> AbstractContextManager[Any]:
        """Holds off transactions, but does not wait for one that waits for another process's."""

    def now(self) -> Ms:
        """Milliseconds on this store's clock, which passes like time and never jumps."""

    def transaction(self, *, write: bool) -> AbstractContextManager[Tx]:
        """Open a transaction; a writing one excludes all others that write."""

    def close(self) -> None:
        """Let go of it. Rows stay."""
