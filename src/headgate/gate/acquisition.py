"""A request for seats, from asking to its end: granted, withdrawn or failed."""

import time
from collections.abc import Callable
from functools import partial

from headgate.core.admission.lease_events import lease_mark
from headgate.core.display.snapshots import Waiting
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms, Seconds, seconds
from headgate.errors import NoRoomError
from headgate.gate.lease import Lease, LeaseOwner
from headgate.gate.transactions.deliver_outcomes import call_in, call_safely
from headgate.gate.transactions.operation import About, Operation
from headgate.ledger import release
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger


class Grant(NamedTuple):
    """What a lease comes with: its task, the mark its programs carry, how long it may be held."""

    task: str
    mark: str
    max_hold: Seconds | None
    granted: Ms = NO_TIME


class Acquisition(Operation):
    """One request for seats. After the commit it has a `grant`, or it waits, or it has failed.

    One that was granted and could not be begun at once is submitted again. It finds its lease still
    there, or that it was taken back (`ledger/idle_leases.py`), and asks for its old place.
    """

    joins = True

    def __init__(
        self,
        request: Request,
        *,
        wait: bool,
        told: Callable[["Acquisition"], None],
        on_wait: Callable[[Waiting], None] | None = None,
    ) -> None:
        super().__init__(lambda _: None)
        self.request = request
        self.on_wait = on_wait
        self.id = 0
        self.lease: Lease | None = None
        self.grant: Grant | None = None
        self.withdrawn = False
        self.given_up = ""
        """Why nobody wants it any more."""
        self.waits = False
        self._wait = wait
        self.impatient = not wait
        self._settled = told
        self._spot: Waiting | None = None
        self._said: object = None
        self._asked = 0.0

    def about(self) -> About:
        """What it is about, as far as that is known beforehand."""
        return About(key=self.request.key)

    def apply(self, ledger: Ledger) -> None:
        """Ask; the prompt began now unless the request says when."""
        self.grant = None
        if self.withdrawn or self._holds(ledger):
            return
        if not self.request.since:
            self.request = self.request._replace(since=ledger.now)
        self.id = admit.ask(ledger, self.request, self.id)

    def conclude(self, ledger: Ledger) -> None:
        """See whether it was let in; if not and it does not wait, leave nothing behind."""
        if self.withdrawn or not self.id:
            return
        if self.id in ledger.granted:
            self.grant = self.look_up_grant(ledger)
        elif self._holds(ledger):  # from now on others know that it has begun
            self.grant = self.look_up_grant(ledger)._replace(granted=ledger.now)
        elif self._wait:
            self.waits = True
            self._asked = time.monotonic()
            if self.on_wait is not None:
                self._spot = status_and_queue.waiting(ledger, [self.id], Seconds(time.time())).get(
                    self.id
                )
        else:
            spot = status_and_queue.waiting(ledger, [self.id], Seconds(0)).get(self.id)
            why = spot.reason if spot else "the line is not empty"
            release.withdraw(ledger, self.id, "turned_away", why)
            self.error = NoRoomError(f"no room: {why}")

    def _holds(self, ledger: Ledger) -> bool:
        """Whether it was granted before, and its lease was not taken back."""
        row = ledger.tx.lease(self.id) if self.lease is not None else None
        return row is not None and row.member == self.request.member

    def look_up_grant(self, ledger: Ledger) -> Grant:
        """What the lease that it was given comes with."""
        allowed = ledger.pool_set.max_hold(self.request.uses)
        row = ledger.granted.get(self.id) or ledger.tx.lease(self.id)
        return Grant(
            task=row.task if row else self.request.task,
            mark=lease_mark(ledger.tx.uid(), self.id),
            max_hold=None if allowed is None else seconds(allowed),
            granted=row.granted if row else ledger.now,
        )

    def undone(self) -> None:
        """Forget the id: it was never ours, and the next who asks gets it."""
        self.id = self.lease.id if self.lease is not None else 0
        self.waits = False
        self.grant = None
        self._spot = None

    def take(self, grant: Grant, owner: LeaseOwner) -> Lease:
        """The lease that was granted."""
        waited = time.monotonic() - self._asked if self._asked else 0.0
        self.waits = False
        self.grant = grant
        self.lease = Lease(
            owner,
            self.id,
            key=self.request.key,
            task=grant.task,
            weight=self.request.weight,
            mark=grant.mark,
            waited=Seconds(waited),
        )
        return self.lease

    def finish(self) -> None:
        """Tell the outcome, or that it has to wait."""
        if not self.waits or self.error is not None:
            self._settled(self)
        elif self._spot is not None:
            self.tell_spot(self._spot)

    def tell_spot(self, spot: Waiting) -> None:
        """Tell where the ticket stands, if that has changed."""
        said = (spot.position, spot.reason, spot.eta and round(spot.eta))
        if self.on_wait is not None and self.waits and said != self._said:
            self._said = said
            self.on_wait(spot)

    def tell_soon(self, spot: Waiting) -> None:
        """The same, in the thread in which outcomes are told."""
        if self.loop is None:
            call_safely(partial(self.tell_spot, spot))
        else:
            call_in(self.loop, partial(self.tell_spot, spot))

    def unheard(self) -> None:
        """Give the seats back that nobody can use."""
        if self.lease is not None:
            self.lease.release()

    def fail(self, error: BaseException) -> None:
        """The ticket is gone without a lease."""
        self.waits = False
        self.error = error
