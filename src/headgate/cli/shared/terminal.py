"""Tables, bars and times for people: colours on a terminal only, and no name can smuggle any in."""

import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from headgate.core.times import Seconds

Span = tuple[str, str]
"""Some text and its style."""
Cell = str | int | tuple[Span, ...]
Column = tuple[str, str]
"""A heading, and `right` for numbers, `shrinks` for what may be long for a terminal, or `name` for
what may be long too, and of which the end tells most. With a ? after it, the column is left out
where the terminal is too narrow for all of them: the last such column first."""

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STYLE = re.compile(rf"(\x1b\[(?:0|{'|'.join(_STYLES.values())})m)")
_BLOCKS, _PLAIN_BLOCKS = "█▒░", "#=."
_WIDEST_BAR, _NARROW_BAR = 20, 10
_NARROW = 100
_NARROWEST, _NARROW_NAME, _NARROW_TEXT = 6, 14, 12
_GAP = "  "
_LAST_SECOND = 253_402_300_799.0  # of the year 9999, the last that ISO 8601 writes plainly


class Pen:
    """What can be drawn where the output goes; `width` is None where no line is too long."""

    def __init__(
        self, *, colour: bool = False, width: int | None = None, blocks: str = _BLOCKS
    ) -> None:
        self.colour = colour
        self.width = width
        self.blocks = blocks

    def paint(self, text: str, style: str) -> str:
        """The text in its style, if styles can be seen."""
        if not (self.colour and style and text):
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def pen(stream: TextIO | None = None) -> Pen:
    """A pen for stdout, or for another stream."""
    out = stream or sys.stdout
    try:
        _BLOCKS.encode(out.encoding or "ascii")
        blocks = _BLOCKS
    except (UnicodeEncodeError, LookupError):
        blocks = _PLAIN_BLOCKS
    if not out.isatty():
        return Pen(blocks=blocks)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return Pen(colour=not plain, width=_terminal_width(out.fileno()), blocks=blocks)


def _terminal_width(terminal: int) -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(terminal).columns or 80
    except OSError:
        return 80


def show(lines: Iterable[str]) -> None:
    """Write lines to stdout, with ? for what it has no characters for.

    Of what steers a terminal only our own colours get through.
    """
    text = "".join(f"{only_styles(line)}\n" for line in lines)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def show_path(path: Path) -> None:
    """Write a path to stdout: to the byte for a program, and as a terminal may show it."""
    if sys.stdout.isatty():
        show([clean(str(path))])
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")
        sys.stdout.buffer.flush()


def only_styles(line: str) -> str:
    """A line with our own colours, and nothing else that steers a terminal."""
    if line.isprintable():
        return line
    parts = _STYLE.split(line)  # every second one is a style
    return "".join(part if n % 2 else clean(part) for n, part in enumerate(parts))


def clean(text: str) -> str:
    """One line without control characters, whatever somebody put in."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii() or not text.strip(_BLOCKS):
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def clip(text: str, width: int | None) -> str:
    """The text, or as much of it as fits with a … after it."""
    if width is None or columns_of(text) <= width:
        return text
    kept, room = "", width - 1
    for c in text:
        room -= columns_of(c)
        if room < 0:
            break
        kept += c
    return f"{kept}…"


def clip_middle(text: str, width: int) -> str:
    """The text, or its beginning and its end with a … between: versions are at the end of names."""
    if columns_of(text) <= width or width < 5:
        return clip(text, width)
    end = ""
    for c in reversed(text):
        if columns_of(c + end) > (width - 1) * 3 // 5:
            break
        end = c + end
    return clip(text, width - columns_of(end)) + end


def wrap(text: str, width: int | None) -> list[str]:
    """The whole text, on as many lines as it needs."""
    text = clean(text)
    if width is None or columns_of(text) <= width:
        return [text]
    from textwrap import wrap as wrapped

    found = wrapped(text, max(20, width), subsequent_indent="  ", break_on_hyphens=False)
    return [clip(line, width) for line in found]


def bar(limit: int | None, in_use: int, cooling: int, pen: Pen) -> Cell:
    """A pool's seats: in use, cooling, free. One cell each, or a share of the widest bar."""
    if limit is None:
        return ""
    narrow = pen.width is not None and pen.width < _NARROW
    width = min(limit, _NARROW_BAR if narrow else _WIDEST_BAR)
    used = _share(in_use, limit, width)
    rest = _share(in_use + cooling, limit, width) - used
    free = max(0, limit - in_use - cooling)
    style = "red" if not free else "yellow" if free <= max(1, limit // 5) else "green"
    cells = ((used, style), (rest, "cyan"), (width - used - rest, "dim"))
    return tuple((block * n, style) for block, (n, style) in zip(pen.blocks, cells, strict=True))


def _share(seats: int, limit: int, width: int) -> int:
    """Cells for some of the seats: one if there are any, all only if there is no other."""
    if seats <= 0 or seats >= limit:
        return 0 if seats <= 0 else width
    return min(max(1, seats * width // limit), width - 1)


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], pen: Pen) -> list[str]:
    """Lines up the rows; a column in which no row has anything is left out."""
    grid = [[_spans(cell) for cell in row] for row in rows]
    kept = [n for n in range(len(columns)) if any(_text(row[n]) for row in grid)]
    widths = [
        max(columns_of(columns[n][0]), *(columns_of(_text(row[n])) for row in grid)) for n in kept
    ]
    kinds = [columns[n][1] for n in kept]
    for n in reversed(_left_out(widths, kinds, pen.width)):
        del kept[n], widths[n], kinds[n]
    kinds = [kind.rstrip("?") for kind in kinds]
    _fit(widths, kinds, pen.width)
    heads = [_spans(((head, "dim"),)) for head, _ in columns]
    lines = []
    for row in [heads, *grid] if kept else []:
        parts = []
        for n, width in zip(kept, widths, strict=True):
            kind = columns[n][1].rstrip("?")
            cut = clip_middle if kind == "name" else clip
            spans = row[n] if len(row[n]) > 1 else ((cut(row[n][0][0], width), row[n][0][1]),)
            padding = " " * (width - columns_of(_text(spans)))
            drawn = "".join(pen.paint(text, style) for text, style in spans)
            parts.append(padding + drawn if kind == "right" else drawn + padding)
        lines.append(_GAP.join(parts).rstrip())
    return lines


def _left_out(widths: list[int], kinds: list[str], room: int | None) -> list[int]:
    """The columns for which there is no room, if those that shrink are to be worth reading."""
    least = {"name": _NARROW_NAME, "shrinks": _NARROW_TEXT}
    needs = [
        min(width, least.get(kind.rstrip("?"), width))
        for width, kind in zip(widths, kinds, strict=True)
    ]
    able = [n for n, kind in enumerate(kinds) if kind.endswith("?")]
    gone: list[int] = []
    while room is not None and able:
        left = [need for n, need in enumerate(needs) if n not in gone]
        if sum(left) + len(_GAP) * (len(left) - 1) <= room:
            break
        gone.append(able.pop())
    return sorted(gone)


def _fit(widths: list[int], kinds: list[str], room: int | None) -> None:
    """Take columns off the widest that can shrink, until all of them fit: off names last."""
    for least in ({"shrinks": _NARROWEST, "name": _NARROW_NAME}, {"name": _NARROWEST}):
        while room is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > room:
            able = [n for n, kind in enumerate(kinds) if kind in least and widths[n] > least[kind]]
            if not able:
                break
            widths[max(able, key=lambda n: widths[n])] -= 1


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key to sort names by in which 10 comes after 9."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((0, int(part)) if n % 2 else (1, part) for n, part in enumerate(parts))


def _spans(cell: Cell) -> tuple[Span, ...]:
    if isinstance(cell, tuple):
        return tuple((clean(text), style) for text, style in cell)
    return ((clean(str(cell)), ""),)


def _text(spans: tuple[Span, ...]) -> str:
    return "".join(text for text, _ in spans)


def clock(at: Seconds) -> str:
    """A time as the people of this machine write it."""
    whole = int(min(max(at, 0.0), _LAST_SECOND))
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(whole))


def somebody_is_there() -> bool:
    """Whether a person can be asked something."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agrees(question: str) -> bool:
    """Ask a person; whatever is not yes is no."""
    print(f"headgate: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
