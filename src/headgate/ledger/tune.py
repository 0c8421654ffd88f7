"""Limits, cooldowns and pauses, changed while everything runs. Each is an event."""

from headgate.core.amounts import FOREVER, show_duration
from headgate.core.pools import UNLIMITED, Tuned
from headgate.ledger.ledger import Ledger


def set_limit(ledger: Ledger, pool: str, limit: int) -> None:
    """Set a limit by hand. Lowering it ends nothing: the pool drains."""
    before = ledger.book.pools.get(pool)
    was = before.limit if before else None
    _keep(ledger, _tuned(ledger, pool)._replace(limit=limit))
    ledger.tell("limit_set", f"{'unlimited' if was is None else was} to {limit}", pool=pool)


def unset_limit(ledger: Ledger, pool: str) -> None:
    """Lift a pool's limit, whatever the configuration says; everyone waiting for it is let in."""
    _keep(ledger, _tuned(ledger, pool)._replace(limit=UNLIMITED))
    ledger.tell("limit_unset", pool=pool)


def restore(ledger: Ledger, pool: str) -> None:
    """Forget the limit and cooldown set by hand: the configuration counts again."""
    _keep(ledger, _tuned(ledger, pool)._replace(limit=None, cooldown=None))
    ledger.tell("restored", "back to the configuration", pool=pool)


def set_cooldown(ledger: Ledger, pool: str, cooldown: int) -> None:
    """Set how long seats freed from now on rest."""
    _keep(ledger, _tuned(ledger, pool)._replace(cooldown=cooldown))
    ledger.tell("cooldown_set", show_duration(cooldown), pool=pool)


def pause(ledger: Ledger, pool: str, duration: int | None, note: str = "") -> None:
    """Let nothing start in a pool for a while, or until it is resumed."""
    until = FOREVER if duration is None else ledger.now + duration
    _keep(ledger, _tuned(ledger, pool)._replace(paused_until=until, pause_note=note))
    text = "until resumed" if duration is None else f"for {show_duration(duration)}"
    ledger.tell("paused", f"{text}: {note}" if note else text, pool=pool)


def resume(ledger: Ledger, pool: str) -> bool:
    """End a pause; False if there was none."""
    row = _tuned(ledger, pool)
    if row.paused_until is None:
        return False
    _keep(ledger, row._replace(paused_until=None, pause_note=""))
    if row.paused_until > ledger.now:
        ledger.tell("resumed", pool=pool)
    return row.paused_until > ledger.now


def _tuned(ledger: Ledger, pool: str) -> Tuned:
    return next((row for row in ledger.tx.tuned() if row.name == pool), Tuned(pool))


def _keep(ledger: Ledger, row: Tuned) -> None:
    ledger.tx.tune(row)
    ledger.rebook()
