"""What is kept of an agent's requests: gathered, and written once a second at the most.

A transaction for each request would cost more than the request's way through here. So the last
second of a process that is killed (`kill -9`) is lost; the agent's work is not.
"""

import asyncio
import time
from collections.abc import Iterable

from headgate.core.key_patterns import NO_KEY
from headgate.core.printable_text import printable
from headgate.core.times import NO_TIME, Ms, Seconds, ms
from headgate.gate import Gate
from headgate.ledger.transaction.request_rows import RequestRow, RequestSums
from headgate.wire.exchange_owner import ExchangeRecord, RunningExchange

_EVERY = 1.0
_MOST_ROWS = 200
"""Of more in one second, only the sums are kept: one agent must not push out all others."""
_LONGEST_TASK = 200
_COMPLETE, _REFUSED, _ERROR = "complete", "refused", "error"


class RequestRecords:
    """Keeps what is known of the requests of one lease.

    What each request costs here is counted: little is done before it is time to write.
    """

    def __init__(self, gate: Gate, work: int) -> None:
        self._gate = gate
        self._work = work
        self._running: dict[RunningExchange, float] = {}
        """Since when each is on its way, by the wall clock."""
        self._ended: list[tuple[ExchangeRecord, float]] = []
        self._written = (0, NO_TIME)
        self._timer: asyncio.TimerHandle | None = None

    def take_over(self) -> None:
        """Nothing is on its way that a process before this one had when it was killed."""
        self._written = self._gate.in_flight(self._work)
        if self._written[0]:
            self._write_soon()

    def begun(self, exchange: RunningExchange) -> None:
        """A request has come."""
        self._running[exchange] = time.time()
        if self._timer is None:
            self._write_soon()

    def ended(self, exchange: RunningExchange, record: ExchangeRecord) -> None:
        """A request is over; what is kept of it says nothing of what was asked."""
        self._running.pop(exchange, None)
        if record.key != NO_KEY:
            self._ended.append((record, time.time()))
        if self._timer is None:
            self._write_soon()

    def flush(self) -> None:
        """Write what there is to write."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        begun = [since for exchange, since in self._running.items() if exchange.counts]
        now = (len(begun), self._gate.moment(min(begun)) if begun else NO_TIME)
        if self._ended or now != self._written:
            ended, self._ended = self._ended, []
            self._written = now
            rows = [as_row(record, self._gate.moment(at)) for record, at in ended[-_MOST_ROWS:]]
            more = _sums(ended[:-_MOST_ROWS]) if len(ended) > _MOST_ROWS else None
            self._gate.record_requests(self._work, rows, *now, more=more)

    def _write_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self.flush)


def _sums(ended: Iterable[tuple[ExchangeRecord, float]]) -> RequestSums:
    """What requests come to of which nothing else is kept."""
    count = refused = read = written = cached = 0
    waited = took = 0.0
    for record, _ in ended:
        count += 1
        refused += record.refused
        waited += record.waited
        took += record.took
        usage = record.usage
        read += usage.input or 0
        written += usage.output or 0
        cached += usage.cached or 0
    return RequestSums(
        requests=count,
        refused=refused,
        waited=ms(Seconds(waited)),
        took=ms(Seconds(took)),
        input=read,
        output=written,
        cached=cached,
    )


def as_row(record: ExchangeRecord, at: Ms) -> RequestRow:
    """What is kept of a request."""
    outcome = record.outcome
    failed = record.failed or record.status >= 400
    if failed and outcome in {_COMPLETE, _REFUSED}:  # as an event, if its stream had begun
        outcome = _REFUSED if record.refused >= record.tries else _ERROR
    first = record.first_byte
    return RequestRow(
        seq=0,
        work=0,
        at=at,
        key=record.key,
        task=printable(record.task)[:_LONGEST_TASK],
        outcome=outcome,
        status=record.status,
        waited=ms(Seconds(record.waited)),
        first_byte=None if first is None else ms(Seconds(first)),
        took=ms(Seconds(record.took)),
        input=record.usage.input,
        output=record.usage.output,
        cached=record.usage.cached,
        tries=record.tries,
        refused=record.refused,
    )
