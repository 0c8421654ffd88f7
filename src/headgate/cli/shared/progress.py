"""Lines that say how far something has come: redrawn on a terminal, plain or none elsewhere."""

import sys
from typing import TextIO

from headgate.core.display.snapshots import Waiting
from headgate.core.printable_text import printable
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds

_SHORTEST_REASON = 8


class Progress:
    """Tells a person where their work stands in the line."""

    def __init__(self, out: TextIO | None = None, *, quiet: bool = False) -> None:
        self._out = out or sys.stderr
        self._quiet = quiet
        self._redraws = self._out.isatty()
        self._said: object = None
        self._drawn = False

    def waiting(self, spot: Waiting) -> None:
        """Show a position."""
        if self._quiet:
            return
        said = (spot.position, spot.code, spot.pool)
        eta = f", about {show_seconds(spot.eta)} to go" if spot.eta else ""
        head = f"headgate: {spot.id} waits, {_nth(spot.position)} in line"
        reason = printable(spot.reason)
        if self._redraws:
            self._drawn = True
            self._write(f"\r\x1b[2K{fit_wait(head, reason, eta, _columns())}")
        elif said != self._said:
            self._write(f"{head}: {reason}{eta}\n")
        self._said = said

    def done(self, waited: Seconds | None = None) -> None:
        """Clear the line; say how long it took, if it did."""
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = False
        if waited and not self._quiet and self._said is not None:
            self._write(f"headgate: starts after {show_seconds(waited)} in line\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:  # nobody reads it; the work matters more
            self._quiet = True


class CountLine:
    """A line that is drawn again and again on a terminal, and not at all elsewhere."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._redraws = self._out.isatty()
        self._drawn = False

    def show(self, text: str) -> None:
        """Draw it."""
        if self._redraws:
            self._write(f"\r\x1b[2K{_fit(f'headgate: {text}')}")
            self._drawn = True

    def clear(self) -> None:
        """Take it away."""
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = False

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:  # nobody reads it; the work matters more
            self._redraws = False


def _nth(n: int) -> str:
    ending = "th" if n % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def fit_wait(head: str, reason: str, eta: str, width: int) -> str:
    """A line in which, if it is too long, the reason gives way and the expected time stays."""
    room = width - 1 - len(head) - len(eta) - len(": ")
    if len(reason) <= room:
        return f"{head}: {reason}{eta}"
    if room >= _SHORTEST_REASON:
        return f"{head}: {reason[: room - 1]}…{eta}"
    short = head.removeprefix("headgate: ")
    whole = f"{short}{eta}"
    return whole if len(whole) < width else f"{whole[: max(1, width - 2)]}…"


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _fit(text: str) -> str:
    width = _columns()
    return text if len(text) < width else text[: max(1, width - 2)] + "…"
