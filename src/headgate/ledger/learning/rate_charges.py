"""Requests and tokens per minute: charged, given back, set right by what upstream says."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.core import rate_limits
from headgate.core.admission.pools import NO_RATES, Pool
from headgate.core.rate_limits import RateMeter
from headgate.core.stored_text.stored_values import METER
from headgate.ledger.transaction import outside_use, unreadable
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow

if TYPE_CHECKING:
    from headgate.core.answers.retry_after import RateHeaders


def keep(ledger: Ledger, where: str, meter: RateMeter) -> None:
    """Keep what a place was charged."""
    unreadable.keep(ledger, f"meter:{where}", METER.write(meter))


def refund(ledger: Ledger, lease: LeaseRow) -> None:
    """Give back what a lease was charged that nobody used."""
    _change(
        ledger,
        lease,
        lambda meter, _: rate_limits.refund(meter, lease.granted, lease.tokens, ledger.now),
    )


def spend(ledger: Ledger, id: int, tokens: int) -> None:
    """A lease has used so many tokens, whatever was estimated."""
    lease = ledger.tx.lease(id)
    if lease is None or lease.tokens == tokens:
        return
    _change(
        ledger,
        lease,
        lambda meter, _: rate_limits.set_used(
            meter, lease.granted, lease.tokens, tokens, ledger.now
        ),
    )
    ledger.tx.change_lease(lease._replace(tokens=tokens))


def correct(ledger: Ledger, id: int, meters: "RateHeaders") -> None:
    """Upstream says in its headers how much of the rates is left."""
    lease = ledger.tx.lease(id)
    if lease is None:
        return
    requests, tokens = meters.requests, meters.tokens
    resets = [meter.reset_ms for meter in (requests, tokens) if meter and meter.remaining == 0]
    reset = max((at for at in resets if at is not None), default=None)
    _change(
        ledger,
        lease,
        lambda meter, pool: rate_limits.correct(
            meter,
            pool.rates,
            (requests.limit, requests.remaining) if requests else (None, None),
            (tokens.limit, tokens.remaining) if tokens else (None, None),
            ledger.now,
            reset=reset,
        ),
    )


def _change(
    ledger: Ledger, lease: LeaseRow, change: Callable[[RateMeter, Pool], RateMeter]
) -> None:
    """Change what was charged for a lease, in every pool with rates."""
    for pool in ledger.pool_set.of(lease.uses):
        if pool.rates != NO_RATES:
            where = outside_use.place(pool.name, lease.machine)
            keep(ledger, where, change(outside_use.meter(ledger, where), pool))
            ledger.recount()
