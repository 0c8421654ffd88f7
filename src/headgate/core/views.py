"""Frozen answers: what status, capacity, queue and why say about one moment.

Times are seconds since the epoch, durations are seconds.
"""

from typing import NamedTuple

from headgate.core.amounts import FOREVER, show_duration
from headgate.core.line import Reason


class PoolStatus(NamedTuple):
    """One pool at one moment."""

    pool: str
    limit: int | None
    configured_limit: int | None
    source: str
    in_use: int
    cooling: int
    queued: int
    paused: bool
    paused_until: float | None
    cooldown_ms: int
    max_hold: float | None
    reserve: dict[str, int]
    auto_reduced: bool = False
    auto_reduced_from: int | None = None
    notice: str | None = None

    @property
    def free(self) -> int | None:
        """Seats that could be had now; None where there is no limit."""
        if self.limit is None:
            return None
        return 0 if self.paused else max(0, self.limit - self.in_use - self.cooling)


class Status(NamedTuple):
    """All pools at one moment, and what runs outside of every limit."""

    pools: tuple[PoolStatus, ...]
    running: int
    waiting: int
    unlimited: dict[str, int]
    at: float

    def pool(self, name: str) -> PoolStatus:
        """The status of one pool, by its name."""
        for status in self.pools:
            if status.pool == name:
                return status
        raise KeyError(name)


class Capacity(NamedTuple):
    """Whether work with this key would be let in now."""

    key: str
    state: str
    free: int | None
    queued: int
    retry_after: float | None
    eta: float | None
    reason: str | None
    code: str | None


class Waiting(NamedTuple):
    """A ticket in the line: where it stands, why, and until about when."""

    id: int
    key: str
    task: str
    priority: int
    weight: int
    label: str
    position: int
    code: str
    pool: str
    reason: str
    eta: float | None
    since: float
    waited: float


class Running(NamedTuple):
    """A lease: who holds seats, and since when."""

    id: int
    key: str
    task: str
    priority: int
    weight: int
    label: str
    state: str
    started: float
    held: float
    pid: int
    borrows: int | None


class Queue(NamedTuple):
    """What runs and what waits, in the order of the line."""

    running: tuple[Running, ...]
    waiting: tuple[Waiting, ...]
    total_waiting: int


class Event(NamedTuple):
    """Something that happened."""

    id: int
    at: float
    kind: str
    work: int | None
    key: str
    task: str
    pool: str
    text: str


class Past(NamedTuple):
    """Work that neither waits nor runs any more, by its last events; none if it never was."""

    events: tuple[Event, ...]


def explain(reason: Reason, now: int) -> str:
    """A reason as a sentence for people."""
    figures = f" ({reason.used}/{reason.limit})" if reason.limit is not None else ""
    match reason.code:
        case "pool_full":
            return f"{reason.pool} is full{figures}"
        case "pool_paused":
            until = reason.until or now
            when = (
                f"for {show_duration(until - now)} more"
                if until < FOREVER
                else f"until it is resumed (headgate resume '{reason.pool}')"
            )
            note = f": {reason.note}" if reason.note else ""
            return f"{reason.pool} is paused {when}{note}"
        case "cooling":
            return f"{reason.pool} has seats that rest after their release{figures}"
        case "reserved":
            return f"{reason.pool} keeps its free seats for {reason.note} work{figures}"
        case "kept":
            return f"{reason.pool} keeps its free seats for an older ticket{figures}"
        case "too_heavy":
            return f"{reason.pool} can never hold {reason.used} seats, its limit is {reason.limit}"
        case "behind":
            return f"others are ahead in the line for {reason.pool}{figures}"
        case "next":
            return "it is about to be let in"
        case _:
            return f"{reason.code} {reason.pool}{figures}".strip()
