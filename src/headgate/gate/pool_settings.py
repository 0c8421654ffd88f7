"""What people set of pools: limits, cooldowns, pauses."""

from headgate.core.admission.pools import LEARN, ORDERS
from headgate.core.key_patterns import HOST, parse_pattern
from headgate.core.quantities import parse_duration, parse_limit, parse_task, shown
from headgate.core.times import Ms
from headgate.errors import UsageError
from headgate.gate.views import Views
from headgate.ledger import limits_by_hand
from headgate.ledger.transaction.ledger import Ledger


class PoolSettings(Views):
    """The part of a gate that changes pools. What is set is kept, and live at once everywhere."""

    def set_limit(self, pool: str, limit: int | str) -> None:
        """Set a limit by hand, or have it `learn`: persisted, and live at once everywhere."""
        name = parse_pattern(pool)
        seats = LEARN if limit == LEARN and name != HOST else parse_limit(limit)
        self._transactor.run(lambda ledger: limits_by_hand.set_limit(ledger, name, seats))

    def unset_limit(self, pool: str) -> None:
        """Lift a pool's limit; everyone waiting for it is let in."""
        name = parse_pattern(pool)
        self._transactor.run(lambda ledger: limits_by_hand.unset_limit(ledger, name))

    def set_limit_late(self, pool: str, limit: int) -> None:
        """Set a limit as soon as the store can be written, which it cannot be now."""
        name, seats = parse_pattern(pool), parse_limit(limit)
        self._transactor.tell(
            lambda ledger: limits_by_hand.set_limit(ledger, name, seats, late=True)
        )

    def set_cooldown_late(self, pool: str, cooldown: Ms) -> None:
        """The same for how long seats rest."""
        name = parse_pattern(pool)
        self._transactor.tell(lambda ledger: limits_by_hand.set_cooldown(ledger, name, cooldown))

    def free_pool(self, pool: str) -> None:
        """Lift a pool's limit and end its pause, in one step."""
        name = parse_pattern(pool)

        def do(ledger: Ledger) -> None:
            limits_by_hand.unset_limit(ledger, name)
            limits_by_hand.resume(ledger, name)

        self._transactor.run(do)

    def set_per_task(self, pool: str, most: int | None) -> None:
        """Set the most seats that one task may hold of a pool; None for as many as it gets."""
        name, seats = parse_pattern(pool), None if most is None else parse_limit(most, "per_task")
        self._transactor.run(lambda ledger: limits_by_hand.set_per_task(ledger, name, seats))

    def set_order(self, pool: str, order: str) -> None:
        """Set who is next of a pool: the `oldest`, or with `fair` the tasks in turn."""
        name = parse_pattern(pool)
        if order not in ORDERS:
            raise UsageError(f"bad order {shown(order)}: expected {' or '.join(ORDERS)}")
        self._transactor.run(lambda ledger: limits_by_hand.set_order(ledger, name, order))

    def set_cooldown(self, pool: str, cooldown: float | str) -> None:
        """Set how long seats freed from now on rest."""
        name, rest = parse_pattern(pool), parse_duration(cooldown, "cooldown")
        self._transactor.run(lambda ledger: limits_by_hand.set_cooldown(ledger, name, rest))

    def restore(self, pool: str) -> None:
        """Forget what was set by hand for a pool: the configuration counts again."""
        name = parse_pattern(pool)
        self._transactor.run(lambda ledger: limits_by_hand.restore(ledger, name))

    def pause(self, pool: str, duration: float | str | None = None, *, note: str = "") -> None:
        """Let nothing start in a pool for a while, or until it is resumed."""
        name = parse_pattern(pool)
        length = None if duration is None else parse_duration(duration)
        note = parse_task(note, "note")
        self._transactor.run(lambda ledger: limits_by_hand.pause(ledger, name, length, note))

    def resume(self, pool: str) -> bool:
        """End a pause; False if there was none."""
        name = parse_pattern(pool)
        return self._transactor.run(lambda ledger: limits_by_hand.resume(ledger, name))
