"""Give seats back, or leave the line."""

from headgate.core.admission.lease_events import ACCEPTED
from headgate.core.admission.pools import Pool
from headgate.core.answers.signals import ACCEPTED as YES
from headgate.core.answers.signals import Signal
from headgate.core.key_patterns import HOST, NO_KEY, matches
from headgate.core.learning.usage_readings import KEEP
from headgate.core.times import NO_TIME, Ms, seconds
from headgate.ledger.learning import apply_signals
from headgate.ledger.transaction.families import chain_seats
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import WITHOUT_HOST, LeaseRow, Rest

_LONGEST_REST = Ms(120_000)
_KEEP = Ms(KEEP)
_UNUSED = {"withdrawn", "turned_away", "returned"}
"""How a lease ends that nobody used."""
_ACCEPTED = Signal(YES)
_USUAL = {"released", "cancelled", *_UNUSED}
"""How a request may end that nobody has to be told of: there are thousands of them."""


def release(
    ledger: Ledger, id: int, kind: str = "released", text: str = "", *, completed: bool = True
) -> bool:
    """Give a lease's seats back; whoever asks a second time changes nothing.

    A request that was broken off has not `completed`: upstream may go on with it.
    """
    lease = ledger.tx.drop_lease(id)
    if lease is None:
        return False
    if kind == "released" and lease.cancel:
        kind, text = "cancelled", lease.cancel.text
    _end(ledger, lease, kind, completed=completed)
    if lease.job:
        ledger.freed_job_leases.append((lease, text or kind))
        return True
    if lease.is_request and kind in _USUAL:
        return True
    held = max(NO_TIME, ledger.now - lease.granted)
    ledger.tell(kind, text or f"held {seconds(held):.1f}s", work=id, key=lease.key, task=lease.task)
    return True


def accept_late(ledger: Ledger, id: int, *, completed: bool) -> None:
    """Learn of a lease that is about to be given back that upstream had accepted it.

    If no pool learns from it and nothing of it goes on upstream, there is nothing to learn.
    """
    lease = ledger.tx.lease(id)
    if lease is not None and (lease.sent or not completed):
        apply_signals.report(ledger, _ACCEPTED, lease=id, key=lease.key)


def give_back(ledger: Ledger, lease: LeaseRow, kind: str) -> None:
    """Free a job's seats; what is to be told of it is the caller's business."""
    ledger.tx.drop_lease(lease.id)
    _end(ledger, lease, kind)


def _end(ledger: Ledger, lease: LeaseRow, kind: str, *, completed: bool = True) -> None:
    completed = completed and kind == "released"
    _free(ledger, lease, completed=completed)
    apply_signals.end(ledger, lease, served=completed, unused=kind in _UNUSED)
    if completed:
        ledger.tx.learn_hold(lease.key, max(NO_TIME, ledger.now - lease.granted))


def _free(ledger: Ledger, lease: LeaseRow, *, completed: bool) -> None:
    """Count off the seats that nobody of the lease's family goes on using, and let them rest."""
    seen = ledger.under(ledger.view)
    pools = [pool for pool in seen.of(lease.uses) if _rests(pool)] if not lease.refused else []
    if lease.is_request:
        pools = [pool for pool in pools if pool.name != HOST]
    lingers = NO_TIME if completed else _lingers(ledger, lease)
    if pools:
        ledger.tx.drop_rests(ledger.now)
        left = _left(ledger, lease, {pool.name for pool in pools}) if lease.chain else {}
        for pool in pools:
            where = place(pool.name, lease.machine)
            seats = lease.weight - left.get(where, 0)
            if seats > 0:
                until = ledger.now + max(pool.cooldown, lingers)
                keep = max(until, ledger.now + _KEEP) if pool.usage else until
                ledger.tx.add_rest(
                    Rest(
                        place=where,
                        seats=seats,
                        until=until,
                        keep=keep,
                        granted=lease.granted,
                        released=ledger.now,
                        completed=int(completed),
                    )
                )
    if lease.chain:
        ledger.recount()
    else:
        ledger.uncount(lease, {pool.name for pool in pools})


def _left(ledger: Ledger, lease: LeaseRow, names: set[str]) -> dict[str, int]:
    """How many seats the rest of a lease's family goes on using, by place."""
    seats = chain_seats(
        ledger.tx.family(lease.chain), lambda uses: [name for name in names if matches(name, uses)]
    )
    return {where: heaviest.weight for where, heaviest in seats.items()}


def _lingers(ledger: Ledger, lease: LeaseRow) -> Ms:
    """For how long upstream may go on with a request that was broken off: as it would have run.

    Only for requests: of an agent that is ended nothing goes on, and nobody reports on its every
    request.
    """
    if lease.answer != ACCEPTED:
        return NO_TIME
    usual = ledger.tx.usual_hold([lease.key]) or 0
    left = usual - (ledger.now - lease.granted)
    return Ms(round(max(0, min(_LONGEST_REST, left))))


def _rests(pool: Pool) -> bool:
    """Whether seats freed in a pool are not free at once, or upstream's count has to be matched."""
    return (pool.cooldown > 0 and pool.limit is not None) or pool.usage is not None


def withdraw(ledger: Ledger, id: int, kind: str = "withdrawn", text: str = "") -> bool:
    """Leave the line; or, if the seats were just granted, give them back unused."""
    ticket = ledger.tx.ticket(id)
    if ticket is None:
        ledger.granted.pop(id, None)
        return release(ledger, id, kind, text)
    lane = ledger.tx.lane_by_id(ticket.lane)
    ledger.drop_ticket(id)
    if lane is not None and lane.lender == WITHOUT_HOST:
        return True
    ledger.tell(kind, text, work=id, key=lane.key if lane else NO_KEY, task=ticket.task)
    return True
