"""A view that is drawn again and again in place, until q or Ctrl-C."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from headgate.cli.shared import terminal
from headgate.core.times import Seconds
from headgate.errors import HeadgateError, UsageError

EVERY = Seconds(1.0)
_QUIT = b"qQ\x03\x04"
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The other screen, without a cursor; and back again."""

Draw = Callable[[terminal.Pen], list[str]]


def watch(draw: Draw, title: str) -> int:
    """Draw a view each second and whenever the terminal is resized, until somebody quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise UsageError(
            "--watch needs a terminal that can be drawn on; for a program: --json, or events -f"
        )
    with _screen() as woken:
        while True:
            _show(draw, title)
            if _quits(woken):
                return 0


@contextmanager
def _screen() -> Iterator[int]:
    """The whole terminal is ours, with each key as it is pressed; left as it was, however we end.

    What comes out can be read when the terminal was resized.
    """
    keys = sys.stdin.fileno()
    modes = termios.tcgetattr(keys)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)

    def resized(_: int, __: FrameType | None) -> None:
        with suppress(OSError):
            os.write(wake, b".")

    def ended(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = [(one, signal.signal(one, ended)) for one in (signal.SIGTERM, signal.SIGHUP)]
    before.append((signal.SIGWINCH, signal.signal(signal.SIGWINCH, resized)))
    try:
        tty.setcbreak(keys)
        sys.stdout.write(_BEGIN)
        yield woken
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        termios.tcsetattr(keys, termios.TCSADRAIN, modes)
        with suppress(OSError):
            sys.stdout.write(_END)
            sys.stdout.flush()
        os.close(woken)
        os.close(wake)


def _show(draw: Draw, title: str) -> None:
    width, height = os.get_terminal_size(sys.stdout.fileno())
    pen = terminal.pen()
    pen.width = width or 80
    try:
        lines = draw(pen)
    except HeadgateError as error:  # the store may be back a second later
        lines = terminal.wrap(f"headgate: {error}", pen.width)
    head = f"{title}  {time.strftime('%H:%M:%S')}  q quits"
    lines = [pen.paint(terminal.clip(head, pen.width), "dim"), *lines]
    room = max(2, height or 24)
    if len(lines) > room:
        more = f"… {len(lines) - room + 1} more lines: a taller terminal, or fewer with a filter"
        lines = [*lines[: room - 1], pen.paint(terminal.clip(more, pen.width), "dim")]
    sys.stdout.write("\x1b[H")
    sys.stdout.write("\r\n".join(f"{terminal.only_styles(line)}\x1b[K" for line in lines))
    sys.stdout.write("\x1b[J")
    sys.stdout.flush()


def _quits(woken: int) -> bool:
    """Wait for a key, a new size or the next second; whether somebody wants no more."""
    keys = sys.stdin.fileno()
    ready, _, _ = select.select([keys, woken], [], [], EVERY)
    if woken in ready:
        os.read(woken, 64)
    if keys not in ready:
        return False
    pressed = os.read(keys, 64)
    return not pressed or any(key in _QUIT for key in pressed)
