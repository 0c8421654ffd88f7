"""Lines that say how far something has come: redrawn on a terminal, plain or none elsewhere."""

import sys
from typing import TextIO

from headgate.core.display.snapshots import Waiting
from headgate.core.printable_text import printable
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds


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
        where = f"{_nth(spot.position)} in line"
        text = printable(f"headgate: {spot.id} waits, {where}: {spot.reason}{eta}")
        if self._redraws:
            self._drawn = True
            self._write(f"\r\x1b[2K{_fit(text)}")
        elif said != self._said:
            self._write(f"{text}\n")
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


def _fit(text: str) -> str:
    import shutil

    width = shutil.get_terminal_size().columns
    return text if len(text) < width else text[: max(1, width - 2)] + "…"
