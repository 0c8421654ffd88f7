"""What a program wants done inside a transaction, and how it hears of the outcome.

    apply       inside the transaction
    conclude    inside the transaction, once the line is settled
    committed   after the commit, before anything else is decided in this process
    finish      last, when no lock is held: tell whoever asked

If the transaction fails, `undone` is called instead of `committed`, and `error` is set.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.core.views import Waiting
from headgate.errors import NoRoomError
from headgate.gate.lease import Lease
from headgate.ledger import admit, leave, look
from headgate.ledger.admit import Request
from headgate.ledger.ledger import Ledger

if TYPE_CHECKING:
    import asyncio

    from headgate.gate.clerk import Clerk


class Errand:
    """Something to do inside a transaction."""

    joins = False
    """Whether rows will name this process, so that it must be known as alive."""
    stubborn = False
    """Whether it must be done in the end, even if the store cannot be written now."""
    loop: "asyncio.AbstractEventLoop | None" = None
    """The event loop in whose thread the outcome is told; None for whichever thread knows it."""

    def __init__(
        self, do: Callable[[Ledger], Any], told: Callable[["Errand"], None] | None = None
    ) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._do = do
        self._told = told

    def apply(self, ledger: Ledger) -> None:
        """Do it."""
        self.result = self._do(ledger)

    def conclude(self, ledger: Ledger) -> None:
        """Look at the outcome."""

    def committed(self) -> None:
        """It is durable now."""

    def undone(self) -> None:
        """The transaction failed: nothing of it has happened."""

    def finish(self) -> None:
        """Tell the outcome."""
        if self._told is not None:
            self._told(self)


class Undo(Errand):
    """A release, a withdrawal, a report: tried again until the store has it."""

    stubborn = True


class Terms(NamedTuple):
    """What a lease comes with: its task, the mark its programs carry, how long it may be held."""

    task: str
    mark: str
    max_hold: float | None


class Wish(Errand):
    """A request for seats, from asking to its end: granted, withdrawn or failed."""

    joins = True

    def __init__(
        self,
        clerk: "Clerk",
        request: Request,
        *,
        wait: bool,
        told: Callable[["Wish"], None],
        on_wait: Callable[[Waiting], None] | None = None,
    ) -> None:
        super().__init__(lambda _: None)
        self.request = request
        self.on_wait = on_wait
        self.id = 0
        self.lease: Lease | None = None
        self.withdrawn = False
        self.given_up = ""
        """Why nobody wants it any more."""
        self.waits = False
        self._clerk = clerk
        self._wait = wait
        self._settled = told
        self._terms: Terms | None = None
        self._spot: Waiting | None = None
        self._said: object = None
        self._asked = 0.0

    def apply(self, ledger: Ledger) -> None:
        """Ask; the prompt began now unless the request says when."""
        if self.withdrawn:
            return
        request = self.request
        if not request.since:
            request = request._replace(since=ledger.now)
        self.id = admit.ask(ledger, request)

    def conclude(self, ledger: Ledger) -> None:
        """See whether it was let in; if not and it does not wait, leave nothing behind."""
        if self.withdrawn or not self.id:
            return
        if self.id in ledger.granted:
            self._terms = self.terms(ledger)
        elif self._wait:
            self.waits = True
            self._asked = time.monotonic()
            if self.on_wait is not None:
                self._spot = look.waiting(ledger, [self.id], time.time()).get(self.id)
        else:
            spot = look.waiting(ledger, [self.id], 0.0).get(self.id)
            why = spot.reason if spot else "the line is not empty"
            leave.withdraw(ledger, self.id, "turned_away", why)
            self.error = NoRoomError(f"no room: {why}")

    def terms(self, ledger: Ledger) -> Terms:
        """What its lease comes with."""
        holds = [pool.max_hold for pool in ledger.book.of(self.request.key) if pool.max_hold]
        row = ledger.granted.get(self.id) or ledger.tx.lease(self.id)
        return Terms(
            row.task if row else self.request.task,
            leave.mark(ledger.tx.uid(), self.id),
            min(holds) / 1000 if holds else None,
        )

    def committed(self) -> None:
        """Take the lease, or begin to wait."""
        if self._terms is not None:
            self.take(self._terms)
        elif self.waits:
            self._clerk.waiters[self.id] = self

    def undone(self) -> None:
        """Forget the id: it was never ours, and the next who asks gets it."""
        self.id = 0
        self.waits = False
        self._terms = None
        self._spot = None

    def take(self, terms: Terms) -> None:
        """Take the lease that was granted."""
        waited = time.monotonic() - self._asked if self._asked else 0.0
        request = self.request
        self.waits = False
        self.lease = Lease(
            self._clerk,
            self.id,
            key=request.key,
            task=terms.task,
            weight=request.weight,
            mark=terms.mark,
            waited=waited,
        )
        self._clerk.mind(self.lease, terms.max_hold)

    def finish(self) -> None:
        """Tell the outcome, or that it has to wait."""
        if not self.waits or self.error is not None:
            self._settled(self)
        elif self._spot is not None:
            self.news(self._spot)

    def news(self, spot: Waiting) -> None:
        """Tell where the ticket stands, if that has changed."""
        said = (spot.position, spot.reason, spot.eta and round(spot.eta))
        if self.on_wait is not None and self.waits and said != self._said:
            self._said = said
            self.on_wait(spot)

    def fail(self, error: BaseException) -> None:
        """The ticket is gone without a lease."""
        self.waits = False
        self.error = error
