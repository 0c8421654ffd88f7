"""Requests in the memory of one process."""

from collections import deque
from collections.abc import Sequence

from headgate.config.parsed_config import Retention
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction.request_rows import (
    NO_SUMS,
    MeteredRow,
    RequestRow,
    RequestSums,
    sums_of,
)
from headgate.store.memory_jobs import MemoryJobRows

_SLACK = 100


class MemoryRequestRows(MemoryJobRows):
    """The tables of requests, beside those of jobs: what is known of a job goes with it."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: deque[RequestRow] = deque()
        self._last_request = 0
        self._metered: dict[int, MeteredRow] = {}
        self._kept = Retention()

    def retain(self, kept: Retention) -> None:
        self._kept = kept

    def keep_meter(self, work: int, meter: str, why: str, hint: str) -> None:
        row = self._metered.get(work, MeteredRow(work))
        row = row._replace(meter=meter, why=why, hint=hint, in_flight=0, oldest=NO_TIME)
        self._set(self._metered, work, row)
        if len(self._metered) > self._kept.history + _SLACK:
            for old in sorted(self._metered)[: -self._kept.history]:
                if old not in self._jobs and not self._has_lease(old):
                    self._pop(self._metered, old)

    def _has_lease(self, id: int) -> bool:
        raise NotImplementedError

    def add_requests(
        self, work: int, rows: Sequence[RequestRow], more: RequestSums = NO_SUMS
    ) -> None:
        for row in rows:
            self._last_request += 1
            self._requests.append(row._replace(seq=self._last_request, work=work))
            self._undo.append((self._requests.pop, ()))
        known = self._metered.get(work, MeteredRow(work))
        sums = known.sums.plus(sums_of(rows, more))
        self._set(self._metered, work, known._replace(sums=sums))

    def forget_old_requests(self) -> None:
        """Keep to the bound; nothing of a transaction can be undone any more."""
        while len(self._requests) > self._kept.requests:
            self._requests.popleft()

    def set_in_flight(self, work: int, count: int, oldest: Ms) -> None:
        row = self._metered.get(work, MeteredRow(work))
        self._set(self._metered, work, row._replace(in_flight=count, oldest=oldest))

    def metered(self, work: int) -> MeteredRow | None:
        return self._metered.get(work)

    def in_flight(self) -> list[MeteredRow]:
        return [row for _, row in sorted(self._metered.items()) if row.in_flight]

    def requests_of(self, work: int, most: int) -> list[RequestRow]:
        found = [row for row in self._requests if row.work == work]
        return found[max(0, len(found) - most) :]

    def drop_job(self, id: int) -> None:
        if id in self._jobs:
            self._pop(self._metered, id)
        super().drop_job(id)
