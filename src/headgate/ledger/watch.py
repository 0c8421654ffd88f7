"""Who keeps watch.

No process is special and none must be up, yet somebody has to notice that a holder died or that a
cooldown is over. One of those who wait does it for all of its machine: the *watchman*. Whoever has
to wait and finds no living watchman takes the post, in the transaction in which it began to
wait; a watchman that stops waiting names a successor in the transaction in which it stops. If
it is killed instead, the others see its end and the first of them takes over.
"""

from typing import NamedTuple

from headgate.core.amounts import FOREVER
from headgate.ledger.ledger import Ledger


class Plan(NamedTuple):
    """Whose end to look out for, and the next moment at which time alone changes something."""

    on_watch: bool = False
    vacant: bool = False
    members: frozenset[str] = frozenset()
    due_in: int | None = None


NOTHING = Plan()


def watchman(ledger: Ledger) -> str:
    """The member that keeps watch on this machine; empty if nobody does."""
    return ledger.tx.note(_name(ledger))


def keep_watch(ledger: Ledger, me: str, *, waiting: bool) -> Plan:
    """Take the post if it is vacant, or hand it on when leaving."""
    found = plan(ledger, me, waiting=waiting)
    if found.vacant:
        ledger.tx.set_note(_name(ledger), me)
        return plan(ledger, me, waiting=waiting)
    if not waiting and watchman(ledger) == me:
        successor = ledger.tx.waiting_member(ledger.machine, besides=me)
        ledger.tx.set_note(_name(ledger), successor)
        if successor:
            ledger.woken.add(successor)
    return found


def plan(ledger: Ledger, me: str, *, waiting: bool) -> Plan:
    """What someone who waits has to look out for; nothing for those who do not."""
    if not waiting:
        return NOTHING
    current = watchman(ledger)
    if current == me:
        members = frozenset(row.id for row in ledger.tx.members()) - {me}
        return Plan(on_watch=True, members=members, due_in=_due_in(ledger))
    vacant = not (current and ledger.census.listening(current))
    return Plan(vacant=vacant, members=frozenset() if vacant else frozenset({current}))


def _due_in(ledger: Ledger) -> int | None:
    """In how many milliseconds a rest or a pause is over."""
    times = [rest.until for rest in ledger.tx.rests()]
    times += [pool.paused_until for pool in ledger.book.pools.values() if pool.paused_until]
    future = [time - ledger.now for time in times if ledger.now < time < FOREVER]
    return min(future, default=None)


def _name(ledger: Ledger) -> str:
    return f"watchman:{ledger.machine}"
