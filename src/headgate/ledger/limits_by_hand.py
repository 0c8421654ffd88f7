"""Limits, cooldowns and pauses, changed while everything runs. Each is an event."""

from headgate.core.admission.pools import LEARN, UNLIMITED, PoolRow
from headgate.core.admission.setting_precedence import sound
from headgate.core.quantities import FOREVER, show_duration
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import PACE, RESET, Reset
from headgate.core.times import Ms
from headgate.errors import UsageError
from headgate.ledger.admission import task_lanes
from headgate.ledger.transaction import unreadable
from headgate.ledger.transaction.ledger import Ledger


def set_limit(ledger: Ledger, pool: str, limit: int | str, *, late: bool = False) -> None:
    """Set a limit by hand, or have it learned. Lowering it ends nothing: the pool drains.

    One that is set late was set while the store could not be written.
    """
    before = ledger.pool_set.pools.get(pool)
    if limit == LEARN and before is not None and before.adapt != LEARN:
        raise UsageError(
            f"{pool} cannot learn its limit: its configuration says adapt = {before.adapt!r}"
        )
    was = before.limit if before else None
    _reset(ledger, ledger.pool_row(pool)._replace(limit=limit))
    how = " (kept late: the store could not be written)" if late else ""
    text = f"{'unlimited' if was is None else was} to {limit}{how}"
    ledger.tell("limit_set", text, pool=pool)


def unset_limit(ledger: Ledger, pool: str) -> None:
    """Lift a pool's limit, whatever the configuration says; everyone waiting for it is let in."""
    _reset(ledger, ledger.pool_row(pool)._replace(limit=UNLIMITED))
    ledger.tell("limit_unset", pool=pool)


def restore(ledger: Ledger, pool: str) -> None:
    """Forget what was set by hand or learned: the configuration counts."""
    _reset(
        ledger, ledger.pool_row(pool)._replace(limit=None, cooldown=None, per_task=None, order=None)
    )
    for what in ("pace", "usage", "warned"):
        if ledger.tx.note(f"{what}:{pool}"):
            ledger.tx.set_note(f"{what}:{pool}", "")
    ledger.tell("restored", "back to the configuration", pool=pool)


def set_cooldown(ledger: Ledger, pool: str, cooldown: Ms) -> None:
    """Set how long seats freed from now on rest."""
    _keep(ledger, ledger.pool_row(pool)._replace(cooldown=cooldown))
    ledger.tell("cooldown_set", show_duration(cooldown), pool=pool)


def set_per_task(ledger: Ledger, pool: str, most: int | None) -> None:
    """Set the most that one task may hold of a pool; None for as many as it gets."""
    row = ledger.pool_row(pool)._replace(per_task=UNLIMITED if most is None else most)
    _keep(ledger, row)
    task_lanes.sort_out(ledger)
    ledger.tell("per_task_set", "unlimited" if most is None else str(most), pool=pool)


def set_order(ledger: Ledger, pool: str, order: str) -> None:
    """Set who is next of a pool."""
    _keep(ledger, ledger.pool_row(pool)._replace(order=order))
    task_lanes.sort_out(ledger)
    ledger.tell("order_set", order, pool=pool)


def pause(ledger: Ledger, pool: str, duration: Ms | None, note: str = "") -> None:
    """Let nothing start in a pool for a while, or until it is resumed."""
    until = FOREVER if duration is None else ledger.now + duration
    _keep(ledger, ledger.pool_row(pool)._replace(paused_until=until, pause_note=note))
    text = "until resumed" if duration is None else f"for {show_duration(duration)}"
    ledger.tell("paused", f"{text}: {note}" if note else text, pool=pool)


def resume(ledger: Ledger, pool: str) -> bool:
    """End a pause; False if there was none."""
    row = ledger.pool_row(pool)
    until = sound(row)[0].paused_until
    if until is None:
        return False
    _keep(ledger, row._replace(paused_until=None, pause_note=""))
    if until > ledger.now:
        ledger.tell("resumed", pool=pool)
    return until > ledger.now


def _reset(ledger: Ledger, row: PoolRow) -> None:
    """Keep a row whose limit somebody has set: what was sent before says nothing about it.

    This is how a person decides about what could not be read; it is set aside, and replaced.
    """
    ledger.pool_set.pools.get(row.name)  # which is how what is unreadable about it comes to light
    unreadable.tell(ledger)
    last = max((lease.id for lease in ledger.tx.recent(Ms(-1))), default=0)
    ledger.tx.set_note(f"reset:{row.name}", RESET.write(Reset(ledger.now, last)))
    if isinstance(PACE.read(ledger.tx.note(f"pace:{row.name}")), Unreadable):
        ledger.tx.set_note(f"pace:{row.name}", "")
    _keep(ledger, row._replace(learned=""))


def _keep(ledger: Ledger, row: PoolRow) -> None:
    ledger.tx.set_pool_row(row)
    ledger.reload_pools()
