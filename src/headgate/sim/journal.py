"""What really happened at the provider, in order: the outside truth that everything is judged by.

One line of JSON per event, written with one system call: a killed server loses at most the last.

    enter       a request was let in
    exit        it was answered in full
    cancelled   its client went away
    cut         the provider broke it off
    refused     a request was not let in; `kind` says why
    usage       the provider was asked for its count
    plan, reset, fault   the plan was changed; all was forgotten; the stand-in itself failed
"""

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headgate.core.named_tuple import NamedTuple

ENDS = ("exit", "cancelled", "cut")
"""Each `enter` is followed by exactly one of these."""


class JournalLine(NamedTuple):
    """One event. The counts are those right after it."""

    n: int
    ts: float
    """The machine's monotonic clock, in milliseconds: the same for every process on it."""
    wall: float
    """Seconds since 1970."""
    at: int
    """Milliseconds since the provider's plan began."""
    event: str
    account: str = ""
    """A hash of the API key."""
    model: str = ""
    session: int = 0
    """The number of the request, refused or not."""
    task: str = ""
    in_flight: int = 0
    """Requests of this account inside."""
    model_in_flight: int = 0
    """Those of this model."""
    counted: int = 0
    """What the provider believes to be in flight: weighted, late, others included."""
    cap: int = 0
    model_cap: int | None = None
    over: int = 0
    """By how much a request refused for concurrency would have gone over a cap."""
    kind: str = ""
    status: int = 0
    note: str = ""


class Journal:
    """Keeps the last lines, and writes all of them to a file if there is one."""

    def __init__(self, path: Path | str | None = None, *, keep: int = 100_000) -> None:
        self.written = 0
        self._lines: deque[JournalLine] = deque(maxlen=keep)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = None if path is None else os.open(path, flags, 0o644)

    def write(self, event: str, at: int, **fields: Any) -> JournalLine:  # noqa: ANN401 - those of `JournalLine`
        """Add a line."""
        self.written += 1
        mono = round(time.monotonic_ns() / 1e6, 3)
        line = JournalLine(
            n=self.written, ts=mono, wall=round(time.time(), 3), at=at, event=event, **fields
        )
        self._lines.append(line)
        if self._file is not None:
            try:
                os.write(self._file, json.dumps(line._asdict()).encode() + b"\n")
            except OSError as error:
                self.close()
                sys.stderr.write(f"headgate: the log ends here, it cannot be written: {error}\n")
        return line

    def lines(self, after: int = 0) -> list[JournalLine]:
        """The lines that are kept, from a number on."""
        found: list[JournalLine] = []
        for line in reversed(self._lines):
            if line.n <= after:
                break
            found.append(line)
        return found[::-1]

    def forget(self) -> None:
        """Keep nothing of what was; numbers go on, and the file stays as it is."""
        self._lines.clear()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def line_of(fields: Mapping[str, Any]) -> JournalLine:
    """A line as `/sim/log` or the file has it."""
    return JournalLine(**fields)


def read(path: Path | str) -> list[JournalLine]:
    """The lines of a file, without a last one that was not finished."""
    whole = Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    return [line_of(json.loads(line)) for line in whole]


def most_at_once(
    lines: Iterable[JournalLine], model: str | None = None, *, account: str | None = None
) -> int:
    """How many requests of one account (and model) were inside at the fullest moment."""
    return max(
        (
            line.in_flight if model is None else line.model_in_flight
            for line in lines
            if line.event == "enter"
            and model in {None, line.model}
            and account in {None, line.account}
        ),
        default=0,
    )


def excess(lines: Iterable[JournalLine]) -> int:
    """How far over a cap it would have gone at worst, had the provider not refused; 0: never."""
    return max(
        (
            max(line.over, line.counted - line.cap if line.event == "enter" else 0)
            for line in lines
            if line.event in {"enter", "refused"}
        ),
        default=0,
    )


def refusals(lines: Iterable[JournalLine]) -> dict[str, int]:
    """How many requests were refused, kind by kind."""
    found: dict[str, int] = {}
    for line in lines:
        if line.event == "refused":
            found[line.kind] = found.get(line.kind, 0) + 1
    return found
