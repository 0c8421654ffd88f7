"""A gate's events on their way to those who want to be told of them."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from headgate.core.display.snapshots import Event
from headgate.core.notification_targets import NotifyTarget
from headgate.core.times import Seconds
from headgate.gate.process_runtime import Runtime
from headgate.gate.transactions.operation import Joining
from headgate.ledger import notification_cursors
from headgate.ledger.notification_cursors import Batch, Claim, Standing


class NotificationFeed:
    """What one notifier asks of the store. Each has a token, so that a gate may have several."""

    def __init__(self, runtime: Runtime, targets: Callable[[], tuple[NotifyTarget, ...]]) -> None:
        self._transactor = runtime.transactor
        self._targets = targets
        self._me = Claim(runtime.registry.me, os.urandom(6).hex())

    def targets(self) -> tuple[NotifyTarget, ...]:
        """Where the configuration says that notifications go."""
        return self._targets()

    def pending(self, names: Sequence[str]) -> list[str]:
        """The targets for which there is something to do; follows the configuration, too."""
        return self._transactor.read(
            lambda ledger: notification_cursors.pending(ledger, names, self._me)
        )

    def standings(self, names: Sequence[str]) -> list[Standing]:
        """How far each target has come."""
        return self._transactor.read(
            lambda ledger: [notification_cursors.standing(ledger, name) for name in names]
        )

    def take(self, name: str, most: int) -> Batch | None:
        """Claim a target and get what is next for it; None if somebody else delivers."""
        wall = Seconds(time.time())
        take = partial(notification_cursors.take, name=name, me=self._me, most=most, wall=wall)
        found: Batch | None = self._transactor.perform(Joining(take))
        return found

    def advance(self, name: str, to: int) -> bool:
        """Note that all events up to this one are dealt with; False if the claim is lost."""
        return self._transactor.run(
            partial(notification_cursors.advance, name=name, me=self._me, to=to)
        )

    def give_up(self, name: str, event: Event, why: str) -> bool:
        """Note that an event could not be delivered, and go on; False if the claim is lost."""
        give_up = partial(
            notification_cursors.give_up, name=name, me=self._me, event=event, why=why
        )
        return self._transactor.run(give_up)

    def complain(self, name: str, why: str) -> None:
        """Let it be known that nothing can be delivered to a target from here."""
        self._transactor.run(partial(notification_cursors.complain, name=name, why=why))

    def let_go(self, names: Sequence[str]) -> None:
        """Leave targets to others, as soon as the store can be written."""
        self._transactor.tell(partial(notification_cursors.drop_claims, names=names, me=self._me))
