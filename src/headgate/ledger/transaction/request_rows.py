"""The rows of requests: what agents have asked upstream, and how each agent is counted and watched.

Requests are many, so the record of them is bounded, and no event is kept of any. Their sums stay
with the work that they belong to: a job's for as long as the job is known, those of a `run` until
ten thousand others have been started. Nothing in here tells what was asked, or with which key.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from headgate.config.parsed_config import Retention
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms


class RequestRow(NamedTuple):
    """A request that has ended."""

    seq: int
    """Its number, which the store gives."""
    work: int
    """The lease or job that it belongs to."""
    at: Ms
    """When it ended."""
    key: str
    task: str
    outcome: str
    status: int
    waited: Ms
    first_byte: Ms | None
    took: Ms
    input: int | None
    output: int | None
    cached: int | None
    tries: int
    refused: int
    """How often upstream refused it."""


class RequestSums(NamedTuple):
    """What the requests of one piece of work come to."""

    requests: int = 0
    refused: int = 0
    waited: Ms = NO_TIME
    took: Ms = NO_TIME
    input: int = 0
    output: int = 0
    cached: int = 0

    def plus(self, other: "RequestSums") -> "RequestSums":
        """Both together."""
        return RequestSums._make(map(sum, zip(self, other, strict=True)))


NO_SUMS = RequestSums()


def sums_of(rows: Iterable[RequestRow], more: RequestSums = NO_SUMS) -> RequestSums:
    """What some requests come to, with others; what was not told counts as nothing."""
    found = more
    for row in rows:
        one = RequestSums(
            requests=1,
            refused=row.refused,
            waited=row.waited,
            took=row.took,
            input=row.input or 0,
            output=row.output or 0,
            cached=row.cached or 0,
        )
        found = found.plus(one)
    return found


class MeteredRow(NamedTuple):
    """How a piece of work is counted and watched, and what its requests come to."""

    work: int
    meter: str = ""
    """Empty if nobody has said so."""
    why: str = ""
    hint: str = ""
    in_flight: int = 0
    """How many of its requests are on their way."""
    oldest: Ms = NO_TIME
    """Since when the oldest of them is."""
    sums: RequestSums = NO_SUMS


class RequestTx(Protocol):
    """What an open transaction must be able to do with these rows."""

    def retain(self, kept: Retention) -> None:
        """Hear how much is to be kept of what is over, from now on."""

    def keep_meter(self, work: int, meter: str, why: str, hint: str) -> None:
        """Remember how work is counted and watched; none of its requests is on its way."""

    def add_requests(
        self, work: int, rows: Sequence[RequestRow], more: RequestSums = NO_SUMS
    ) -> None:
        """Keep requests of one piece of work, and what they come to; the oldest are forgotten.

        `more` is what others come to of which no row is kept.
        """

    def set_in_flight(self, work: int, count: int, oldest: Ms) -> None:
        """Remember how many requests of some work are on their way, and since when the oldest."""

    def metered(self, work: int) -> MeteredRow | None:
        """How some work is counted and watched, and what its requests come to."""

    def in_flight(self) -> list[MeteredRow]:
        """The work that has requests on their way."""

    def requests_of(self, work: int, most: int) -> list[RequestRow]:
        """The newest requests of some work, in the order in which they ended."""
