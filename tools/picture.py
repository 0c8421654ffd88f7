"""Draw the README's picture: run the demonstration in a terminal and keep one moment of it as SVG.

python tools/picture.py docs/demo.svg
"""

import html
import os
import pty
import re
import select
import struct
import sys
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

COLUMNS, ROWS, MOMENT = 92, 30, 2.2
COLOURS = {"32": "#7ec699", "33": "#e5c07b", "31": "#e06c75", "2": "#7f848e", "1": "#ffffff"}
_CODE = re.compile(r"\x1b\[(\d*)m")
_FRAME = re.compile(r"\x1b\[\d+F")
_STYLE = """
  .box { fill: #1e2127 } .bar { fill: #2b2f37 }
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #c8ccd4;
         white-space: pre }
"""


def record(command: list[str], seconds: float) -> str:
    """What a command has written to its terminal after so many seconds."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    written, end = b"", time.monotonic() + seconds
    kept = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.05)
        if ready:
            try:
                written += os.read(terminal, 65536)
            except OSError:
                break
        if not kept and time.monotonic() > end:
            kept = written
    os.waitpid(pid, 0)
    return kept.decode()


def spans(line: str) -> str:
    """A line of a terminal as SVG text."""
    parts = _CODE.split(line)
    out, colour = [], ""
    for index, part in enumerate(parts):
        if index % 2:
            colour = COLOURS.get(part, "")
        elif part:
            fill = f' fill="{colour}"' if colour else ""
            out.append(f"<tspan{fill}>{html.escape(part)}</tspan>")
    return "".join(out)


def draw(lines: list[str]) -> str:
    """A terminal window with these lines in it."""
    height, width = 20 * len(lines) + 60, 8.43 * COLUMNS + 40
    rows = "\n".join(
        f'<text x="20" y="{58 + 20 * n}" xml:space="preserve">{spans(line)}</text>'
        for n, line in enumerate(lines)
    )
    dots = "".join(
        f'<circle cx="{20 + 20 * n}" cy="16" r="6" fill="{fill}"/>'
        for n, fill in enumerate(("#e06c75", "#e5c07b", "#7ec699"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect class="box" width="100%" height="100%" rx="8"/>'
        f'<path class="bar" d="M0 8a8 8 0 0 1 8-8h{width - 16:.0f}a8 8 0 0 1 8 8v24H0z"/>'
        f"{dots}\n{rows}\n</svg>\n"
    )


def main(target: str) -> None:
    """Record, and write the file."""
    headgate = str(Path(sys.executable).with_name("headgate"))
    text = record([headgate, "demo"], MOMENT).replace("\r", "")
    frame = _FRAME.split(text)[-1].replace("\x1b[2K", "").replace("\x1b[J", "")
    Path(target).write_text(draw(["$ headgate demo", "", *frame.rstrip("\n").split("\n")]))


if __name__ == "__main__":
    main(sys.argv[1])
