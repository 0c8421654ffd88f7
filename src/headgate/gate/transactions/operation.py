"""What a program wants done inside a transaction, and how it hears of the outcome.

    apply       inside the transaction
    conclude    inside the transaction, once the line is settled
    undone      the transaction failed: nothing of it has happened, and `error` is set
    finish      last, when no lock is held: tell whoever asked

Beside what programs ask for, some parts of the runtime have a say in every transaction, whatever
it is about: they are its *participants*.

    stale       before something is read: is a transaction needed first?
    prepare     before the transaction, while the store is not locked
    begin       inside, before the operations
    conclude    inside, once the line is settled
    committed   after the commit, before anything else is decided in this process
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headgate.core.named_tuple import NamedTuple
from headgate.ledger.transaction.ledger import Ledger

if TYPE_CHECKING:
    import asyncio


class About(NamedTuple):
    """The work that an operation is about, where that is known beforehand."""

    key: str = ""
    lease: int = 0
    job: int = 0


class Operation:
    """Something to do inside a transaction."""

    joins = False
    """Whether rows will name this process, so that it must be known as alive."""
    retried = False
    """Whether it must be done in the end, even if the store cannot be written now."""
    impatient = False
    """Whether it takes no for an answer, so that it must not be turned away for a dead holder."""
    loop: "asyncio.AbstractEventLoop | None" = None
    """The event loop in whose thread the outcome is told; None for whichever thread knows it."""

    def __init__(
        self, do: Callable[[Ledger], Any], told: Callable[["Operation"], None] | None = None
    ) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.told = told
        self._do = do

    def about(self) -> About:
        """What it is about, as far as that is known beforehand."""
        return About()

    def apply(self, ledger: Ledger) -> None:
        """Do it."""
        self.result = self._do(ledger)

    def conclude(self, ledger: Ledger) -> None:
        """Look at the outcome."""

    def undone(self) -> None:
        """The transaction failed: nothing of it has happened."""

    def unheard(self) -> None:
        """Whoever asked is gone, with its event loop: leave nothing behind."""

    def finish(self) -> None:
        """Tell the outcome."""
        if self.told is not None:
            self.told(self)


class Retried(Operation):
    """A release, a withdrawal, a report: tried again until the store has it."""

    retried = True


class Joining(Operation):
    """Something that leaves this process's name in the store, so it must be known as alive."""

    joins = True


class Participant:
    """A part of the runtime that has a say in every transaction. It overrides what it needs."""

    def stale(self) -> bool:
        """Whether it needs a transaction before anything is read."""
        return False

    def prepare(self, operations: Sequence[Operation]) -> None:
        """Before the transaction: what may take a moment, while the store is not locked."""

    def begin(self, ledger: Ledger) -> None:
        """Inside the transaction, before the operations."""

    def conclude(self, ledger: Ledger, operations: Sequence[Operation]) -> None:
        """Inside the transaction, once the line is settled."""

    def committed(self, ledger: Ledger, operations: Sequence[Operation]) -> Iterable[Operation]:
        """Called after the commit, perhaps twice. Returns who else must be told of an outcome."""
        return ()


class Attendant(Participant):
    """A participant that has to know what others do to the store, too."""

    @property
    def busy(self) -> bool:
        """Whether it has to know that now."""
        return True

    def look(self, ledger: Ledger) -> None:
        """Look for what others did, in a transaction that changes nothing."""
