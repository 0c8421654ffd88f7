"""The tables of requests. Nothing of them is remembered: few ask, and no decision needs them."""

import time
from collections.abc import Sequence

from headgate.core.times import Ms
from headgate.ledger.transaction.request_rows import (
    NO_SUMS,
    MeteredRow,
    RequestRow,
    RequestSums,
    sums_of,
)
from headgate.store.sql_rows.session import Row, Session, Tables

_TRIM_EVERY = 100


class RequestRows(Session):
    """Requests, and how each agent is counted and watched."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        spread = time.monotonic_ns() % _TRIM_EVERY
        self._untrimmed_requests = spread
        self._untrimmed_meters = spread

    def keep_meter(self, work: int, meter: str, why: str, hint: str) -> None:
        self._change("keep_meter", work, meter, why, hint)
        self._untrimmed_meters += 1
        if self._untrimmed_meters >= _TRIM_EVERY:
            self._untrimmed_meters = 0
            self._change("trim_metered", self._kept.history - 1)

    def add_requests(
        self, work: int, rows: Sequence[RequestRow], more: RequestSums = NO_SUMS
    ) -> None:
        for row in rows:
            self._change("add_request", work, *row[2:])
        self._change("add_sums", work, *sums_of(rows, more))
        self._untrimmed_requests += len(rows)
        if self._untrimmed_requests >= _TRIM_EVERY:
            self._untrimmed_requests = 0
            self._change("trim_requests", self._kept.requests)

    def set_in_flight(self, work: int, count: int, oldest: Ms) -> None:
        self._change("set_in_flight", work, count, oldest)

    def metered(self, work: int) -> MeteredRow | None:
        return next((_read(row) for row in self._ask("metered", work)), None)

    def in_flight(self) -> list[MeteredRow]:
        return [_read(row) for row in self._ask("in_flight")]

    def requests_of(self, work: int, most: int) -> list[RequestRow]:
        return [RequestRow._make(row) for row in self._ask("requests_of", work, most)[::-1]]


def _read(row: Row) -> MeteredRow:
    work, meter, why, hint, in_flight, oldest, *sums = row
    return MeteredRow._make((work, meter, why, hint, in_flight, oldest, RequestSums._make(sums)))
