"""How agents are counted and watched, and what their requests come to. Nothing here writes."""

from headgate.core.display.snapshots import Metered, RequestStatus, Running
from headgate.core.times import Seconds, seconds
from headgate.ledger.queries.status_and_queue import wall_time
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.request_rows import RequestRow

_AGENT = "agent"
"""The meter of work of which nobody said another: see `core/agents/meters.py`."""


def metered(ledger: Ledger, work: int, wall: Seconds, most: int) -> Metered | None:
    """What is known of the requests of some work, with the last of them; None if nothing is."""
    row = ledger.tx.metered(work)
    if row is None:
        return None
    sums = row.sums
    last = ledger.tx.requests_of(work, most)
    return Metered(
        meter=row.meter or _AGENT,
        reason=row.why,
        hint=row.hint,
        requests=sums.requests,
        refused=sums.refused,
        waited=seconds(sums.waited),
        took=seconds(sums.took),
        input_tokens=sums.input,
        output_tokens=sums.output,
        cached_tokens=sums.cached,
        last_requests=tuple(_request(ledger, one, wall) for one in last),
    )


def _request(ledger: Ledger, row: RequestRow, wall: Seconds) -> RequestStatus:
    return RequestStatus(
        at=wall_time(ledger, row.at, wall) or wall,
        key=row.key,
        task=row.task,
        outcome=row.outcome,
        status=row.status or None,
        waited=seconds(row.waited),
        first_byte=None if row.first_byte is None else seconds(row.first_byte),
        took=seconds(row.took),
        input_tokens=row.input,
        output_tokens=row.output,
        cached_tokens=row.cached,
        tries=row.tries,
    )


def with_requests(
    ledger: Ledger, running: tuple[Running, ...], wall: Seconds
) -> tuple[Running, ...]:
    """What runs, with how many requests of each are on their way."""
    known = {row.work: row for row in ledger.tx.in_flight()}
    return tuple(
        work._replace(
            in_flight=row.in_flight, oldest_request=wall_time(ledger, row.oldest or None, wall)
        )
        if (row := known.get(work.id)) is not None
        else work
        for work in running
    )
