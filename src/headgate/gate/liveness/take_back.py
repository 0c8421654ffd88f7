"""The watch takes back what processes got that were stopped before they began."""

from functools import partial

from headgate.core.times import NO_TIME, Ms
from headgate.gate.transactions.group_commit import Transactor
from headgate.ledger import idle_leases
from headgate.ledger.transaction.ledger import Ledger


class IdleLeases:
    """Looks at each lease until it has been begun."""

    def __init__(self) -> None:
        self._since = NO_TIME
        """All that were granted before have been begun."""

    def take_back(self, transactor: Transactor) -> None:
        """Take back what idles while others wait; a transaction only if there is any."""
        ids = transactor.look(self._find)
        if ids:
            transactor.run(partial(idle_leases.take_back, ids=ids))

    def _find(self, ledger: Ledger) -> list[int]:
        unbegun = idle_leases.unbegun(ledger, self._since)
        self._since = min((lease.granted for lease in unbegun), default=ledger.now) - Ms(1)
        return [lease.id for lease in unbegun if idle_leases.idle(ledger, lease)]
