"""What this process waits for and what it holds, and what others do to either.

Most of it happens in this process's own transactions: an acquisition gets its lease, or begins to
wait (`committed`). The rest is done by others, who grant, cancel or withdraw: `look_up` finds
out, in a transaction that changes nothing, and `take_in` applies it.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from headgate.core.display.snapshots import Waiting
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.errors import CancelledWorkError
from headgate.gate.acquisition import Acquisition, Grant
from headgate.gate.lease import Lease, LeaseOwner
from headgate.gate.transactions.operation import Operation, Participant
from headgate.ledger.idle_leases import RETURNED
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import EventRow

_CURIOUS = 500
"""How many of those who wait longest hear of their new position."""


class Changes(NamedTuple):
    """What others did: who was let in, who is gone from the line, which work is to end."""

    granted: list[tuple[Acquisition, Grant]]
    gone: list[tuple[Acquisition, str]]
    returned: list[Acquisition]
    """Those who were let in and had it taken back before they knew: they ask again."""
    ends: list[tuple[Lease, str]]
    spots: list[tuple[Acquisition, Waiting]]
    """Where those stand who want to know."""


class WaitingAndHeld(Participant):
    """The acquisitions that wait here and the leases that are held here, by their ids."""

    def __init__(self, me: str, owner: LeaseOwner, nudge: Callable[[], None]) -> None:
        self.waiting: dict[int, Acquisition] = {}
        self.leases: dict[int, Lease] = {}
        self.curious = False
        """Whether somebody here wants to know how its place in the line changes."""
        self._me = me
        self._owner = owner
        self._nudge = nudge
        self._deadlines: dict[int, tuple[Seconds, Seconds]] = {}
        self._granted: list[tuple[Acquisition, Grant]] = []

    def conclude(self, ledger: Ledger, operations: Sequence[Operation]) -> None:
        """Find those of us that were let in by this transaction after a wait."""
        self._granted = [
            (one, one.look_up_grant(ledger))
            for id in (ledger.granted if self.waiting else ())
            if (one := self.waiting.get(id)) is not None
        ]

    def waits(self, operations: Sequence[Operation]) -> bool:
        """Whether anyone here waits once this transaction is over."""
        if len(self.waiting) > len(self._granted):
            return True
        return any(isinstance(one, Acquisition) and one.waits for one in operations)

    def committed(self, ledger: Ledger, operations: Sequence[Operation]) -> Iterable[Operation]:
        """Give each acquisition its lease, or let it begin to wait."""
        for one in operations:
            if isinstance(one, Acquisition):
                if one.grant is not None:
                    self._give(one, one.grant)
                elif one.waits:
                    self.waiting[one.id] = one
                    self.curious = self.curious or one.on_wait is not None
        for one, grant in self._granted:
            self._give(one, grant)
        return [one for one, _ in self._granted]

    def _give(self, one: Acquisition, grant: Grant) -> None:
        self.waiting.pop(one.id, None)
        self.hold(one.take(grant, self._owner), grant.max_hold)

    def hold(self, lease: Lease, max_hold: Seconds | None) -> None:
        """Look after a lease: somebody may cancel it, or its pool may put an end to it."""
        self.leases[lease.id] = lease
        if max_hold is not None:
            self._deadlines[lease.id] = (Seconds(time.monotonic()) + max_hold, max_hold)
            self._nudge()

    def forget(self, id: int) -> None:
        """Look after a ticket or lease no longer."""
        self.waiting.pop(id, None)
        self.leases.pop(id, None)
        self._deadlines.pop(id, None)

    def next_deadline(self) -> Seconds | None:
        """When the next lease will have been held for too long, on the monotonic clock."""
        if not self._deadlines:
            return None
        return min(at for at, _ in self._deadlines.values())

    def overdue(self) -> list[tuple[Lease, Seconds]]:
        """The leases that were held for too long, each with how long was allowed; once each."""
        if not self._deadlines:
            return []
        now = time.monotonic()
        late = [(id, allowed) for id, (at, allowed) in self._deadlines.items() if now >= at]
        for id, _ in late:
            del self._deadlines[id]
        return [(self.leases[id], allowed) for id, allowed in late if id in self.leases]

    def fail_all(self, error: BaseException) -> list[Acquisition]:
        """End every wait; returns who has to hear of it."""
        waiting = list(self.waiting.values())
        self.waiting.clear()
        for one in waiting:
            one.fail(error)
        return waiting

    def look_up(self, ledger: Ledger, *, spots: bool) -> Changes:
        """Find out what others did, and perhaps where who waits stands; nothing is changed."""
        mine = {lease.id: lease for lease in ledger.tx.leases_of(self._me)}
        gone = [(one, _last_event(ledger, one.id)) for one in self._gone(ledger, set(mine))]
        return Changes(
            granted=[
                (one, one.look_up_grant(ledger))
                for id in mine
                if (one := self.waiting.get(id)) is not None
            ],
            gone=[
                (one, event.text if event else "its ticket was removed")
                for one, event in gone
                if event is None or event.kind != RETURNED
            ],
            returned=[one for one, event in gone if event and event.kind == RETURNED],
            ends=[
                (self.leases[id], row.cancel.text)
                for id, row in mine.items()
                if row.cancel and id in self.leases
            ],
            spots=self._spots(ledger) if spots and self.curious else [],
        )

    def take_in(self, changes: Changes) -> list[Acquisition]:
        """Apply what others did; returns who has to hear of an outcome."""
        for one, grant in changes.granted:
            self._give(one, grant)
        for one, why in changes.gone:
            self.waiting.pop(one.id, None)
            one.fail(CancelledWorkError(why))
        for one in changes.returned:
            self.waiting.pop(one.id, None)
        return [one for one, _ in (*changes.granted, *changes.gone)]

    def _gone(self, ledger: Ledger, mine: set[int]) -> list[Acquisition]:
        """Tickets of this process that somebody took out of the line."""
        in_line = len(self.waiting) - len(mine & self.waiting.keys())
        if ledger.tx.count_tickets_of(self._me) >= in_line:
            return []
        left = {ticket.id for ticket in ledger.tx.tickets_of(self._me)}
        return [one for id, one in self.waiting.items() if id not in left and id not in mine]

    def _spots(self, ledger: Ledger) -> list[tuple[Acquisition, Waiting]]:
        """Where those stand who want to know."""
        curious = list(
            islice((one for one in self.waiting.values() if one.on_wait is not None), _CURIOUS)
        )
        self.curious = bool(curious)
        spots = status_and_queue.waiting(ledger, [one.id for one in curious], Seconds(time.time()))
        return [(one, spots[one.id]) for one in curious if one.id in spots]


def _last_event(ledger: Ledger, id: int) -> EventRow | None:
    events = ledger.tx.events(-1, 1, id)
    return events[-1] if events else None
