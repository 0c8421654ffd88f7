"""What a job is: its states, what it was submitted with, and how its attempts may end.

    queued ──► running ──► done, failed, cancelled, lost
      ▲  │        │
      │  │        ▼
      │  └─ held  parked (upstream had no room: tried again, with its session if it can be)
      └───────────┘
    queued, held ──► expired, cancelled

A job has one id for its whole life. Its ticket and its lease have the same, so it stands in line
once, runs once, and keeps its place when it is parked.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

QUEUED = "queued"
HELD = "held"
PARKED = "parked"
RUNNING = "running"
DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"
EXPIRED = "expired"
LOST = "lost"
WAITING = (QUEUED, HELD, PARKED)
ENDED = (DONE, FAILED, CANCELLED, EXPIRED, LOST)
STATES = (*WAITING, RUNNING, *ENDED)

MAX_HOLD = "max_hold"
"""The code of an attempt that was ended because it held its seats for too long."""
ATTEMPTS = 10
BACKOFF = 5_000
LONGEST_BACKOFF = 600_000
FALLBACK_AFTER = 300_000


class Spec(NamedTuple):
    """What a job was submitted with. Times are milliseconds; None where the worker decides.

    `models` are the keys it may use, first choice first; `terms` what was said about watching it.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = {}
    view: str = ""
    expires: int | None = None
    models: tuple[str, ...] = ()
    fallback_after: int | None = FALLBACK_AFTER
    escalate: bool = False
    retries: int = 0
    attempts: int = ATTEMPTS
    backoff: int = BACKOFF
    longest_backoff: int = LONGEST_BACKOFF
    grace: int | None = None
    terms: Mapping[str, int | bool | None] = {}


class End(NamedTuple):
    """How an attempt ended: a code and a sentence; `exit` is `code:signal` where it is known."""

    state: str
    code: str
    text: str
    exit: str = ""
    session: str = ""


def dump(spec: Spec) -> str:
    """A spec as text; what is as it usually is takes no room."""
    import json

    usual = Spec((), "")
    said = {
        name: value
        for name, value in spec._asdict().items()
        if name in {"argv", "cwd"} or value != getattr(usual, name)
    }
    return json.dumps(said, separators=(",", ":"))


def load(text: str) -> Spec:
    """The spec that a text stands for."""
    import json

    said: dict[str, Any] = json.loads(text)
    for name in ("argv", "models"):
        if name in said:
            said[name] = tuple(said[name])
    return Spec(**said)


def command(spec: Spec, key: str) -> list[str]:
    """The words to run, with the model filled in where the job may use several."""
    if not spec.models:
        return list(spec.argv)
    model = key.partition("/")[2]
    return [word.replace("{model}", model).replace("{key}", key) for word in spec.argv]


def backoff(spec: Spec, id: int, parks: int) -> int:
    """How long a job that was parked so often stays away: longer each time, and not all alike.

    For how long upstream asked to be left alone is its pool's business: the job waits for that in
    line, where nobody who came later gets in before it.
    """
    wait = min(spec.longest_backoff, spec.backoff << min(parks - 1, 30))
    return wait + wait * (id * 7919 % 251) // 1000


def exit_text(code: int, signal: int) -> str:
    """An exit as `code:signal`, one of them 0."""
    return f"{code}:{signal}"
