"""What others did for this process, read off the books."""

import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from headgate.core.views import Waiting
from headgate.gate.errand import Terms, Wish
from headgate.gate.lease import Lease
from headgate.ledger import leave, look, watch
from headgate.ledger.ledger import Ledger
from headgate.ledger.survey import Survey

if TYPE_CHECKING:
    from headgate.gate.clerk import Clerk

_CURIOUS = 500
"""How many of those who wait longest hear of their new position within a second."""


class News(NamedTuple):
    """Wishes that came true or are gone, work that is to end, and who stands where."""

    granted: list[tuple[Wish, Terms]]
    gone: list[tuple[Wish, str]]
    ends: list[tuple[Lease, str]]
    spots: list[tuple[Wish, Waiting]]
    stuck: bool
    """Whether anyone waits who need not."""
    plan: watch.Plan


def gather(ledger: Ledger, clerk: "Clerk") -> News:
    """Find out; nothing is changed."""
    me = clerk.roll.me
    mine = {lease.id: lease for lease in ledger.tx.leases_of(me)}
    spots, stuck = _spots(ledger, clerk)
    return News(
        [(wish, wish.terms(ledger)) for id in mine if (wish := clerk.waiters.get(id)) is not None],
        _gone(ledger, clerk, set(mine)),
        [
            (clerk.leases[id], row.cancel)
            for id, row in mine.items()
            if row.cancel and id in clerk.leases
        ],
        spots,
        stuck,
        watch.plan(ledger, me, waiting=clerk.attentive),
    )


def _gone(ledger: Ledger, clerk: "Clerk", mine: set[int]) -> list[tuple[Wish, str]]:
    """Tickets of this process that somebody took out of the line."""
    me, waiters = clerk.roll.me, clerk.waiters
    if ledger.tx.count_tickets_of(me) >= len(waiters) - len(mine & waiters.keys()):
        return []
    left = {ticket.id for ticket in ledger.tx.tickets_of(me)}
    gone = [wish for id, wish in waiters.items() if id not in left and id not in mine]
    return [(wish, _last_words(ledger, wish.id)) for wish in gone]


def _last_words(ledger: Ledger, id: int) -> str:
    events = ledger.tx.events(-1, 1, id)
    return events[-1].text if events else "its ticket was removed"


def _spots(ledger: Ledger, clerk: "Clerk") -> tuple[list[tuple[Wish, Waiting]], bool]:
    """Where those stand who want to know, and whether anyone waits who need not."""
    if not clerk.attentive:
        return [], False
    survey = Survey(ledger)
    wishes = (wish for wish in clerk.waiters.values() if wish.on_wait is not None)
    curious = list(islice(wishes, _CURIOUS))
    spots = look.waiting(ledger, [wish.id for wish in curious], time.time())
    stuck = survey.stuck or bool(leave.find_dead(ledger))  # the watchman may have been stopped
    return [(wish, spots[wish.id]) for wish in curious if wish.id in spots], stuck
