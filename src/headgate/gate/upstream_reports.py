"""What is told of upstream, and of the requests that agents send there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.core.answers.signals import Signal
from headgate.core.key_patterns import NO_KEY
from headgate.core.times import Ms
from headgate.gate.known_agents import KnownAgents
from headgate.ledger.learning import apply_signals, rate_charges, upstream_state
from headgate.ledger.transaction.ledger import Ledger

if TYPE_CHECKING:
    from headgate.core.agents.meters import MeterChoice
    from headgate.core.answers.retry_after import RateHeaders
    from headgate.ledger.transaction.request_rows import RequestRow, RequestSums


class UpstreamReports(KnownAgents):
    """The part of a gate for those who see what upstream answers. Nobody waits for the store."""

    def tell(self, signal: Signal, *, lease: int = 0, key: str = NO_KEY) -> None:
        """Have the pools of a lease, or of a key, learn what upstream said; does not wait."""
        self._transactor.tell(
            lambda ledger: apply_signals.report(ledger, signal, lease=lease, key=key)
        )

    def correct_rates(self, lease: int, left: "RateHeaders") -> None:
        """Have the rates of a lease's pools follow what upstream says is left; does not wait."""
        self._transactor.tell(lambda ledger: rate_charges.correct(ledger, lease, left))

    def warn_of_quota(self, key: str, text: str, *, resets_in: Ms | None, account: bool) -> None:
        """Have it known that a quota of a key, or of its account, is nearly gone; does not wait."""
        self._transactor.tell(
            lambda ledger: upstream_state.warn(
                ledger, key, text, resets_in=resets_in, account=account
            )
        )

    def end_quota_warning(self, key: str) -> None:
        """Have it known that there is enough of every quota again; does not wait."""
        self._transactor.tell(lambda ledger: upstream_state.end_warning(ledger, key))

    def keep_meter(self, work: int, choice: "MeterChoice") -> None:
        """Remember how the work of an agent is counted and watched, and why; does not wait."""
        said = (choice.meter.value, choice.why, choice.hint)
        self._transactor.tell(lambda ledger: ledger.tx.keep_meter(work, *said))

    def record_requests(
        self,
        work: int,
        ended: "Sequence[RequestRow]",
        in_flight: int,
        oldest: Ms,
        *,
        more: "RequestSums | None" = None,
    ) -> None:
        """Keep what is known of an agent's requests, and how many are on their way; does not wait.

        Each call is a transaction, so whoever sees many requests tells of many at once. `more` is
        what others come to that have ended.
        """

        def do(ledger: Ledger) -> None:
            if more is not None:
                ledger.tx.add_requests(work, ended, more)
            elif ended:
                ledger.tx.add_requests(work, ended)
            ledger.tx.set_in_flight(work, in_flight, oldest)

        self._transactor.tell(do)
