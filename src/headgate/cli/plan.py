"""A dry run: of these candidates, which would start now, which would wait, and why.

FILE has one JSON object per line. All of its fields are optional: key (or model), priority, weight,
tokens, since (seconds since the epoch, or a date), task, command (text or a list of words), and id
and name, which come back with the verdict; any others are left alone. The candidates are taken as
if all were started now, in the order of the line: by priority, by since, then as they stand in the
file, behind whoever waits already. Nothing is started, and nobody is put into the line. The exit
code is 0 whatever the verdicts are: they are the answer.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import open_gate, print_json
from headgate.config.error_text import hide, label
from headgate.core.admission.candidates import Candidate, KeyOf, Plan, Verdict, kind, read_candidate
from headgate.core.display import json_shapes, old_json_names
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import CLASSES, parse_priority, show_seconds
from headgate.errors import UsageError

_MOST = 1_000_000
_LONGEST = 1024 * 1024
_MOST_MISTAKES = 20
_SHOWN = 200
_CLASSES = {parse_priority(name): name for name in CLASSES}
_STARTS = (("line", "right"), ("name", "shrinks"), ("key", "shrinks"), ("priority", ""))
_DEFERRED = (
    ("line", "right"),
    ("name", "shrinks"),
    ("key", "shrinks"),
    ("priority", ""),
    ("place", "right"),
    ("expected in", "right"),
    ("because", "shrinks"),
)


class Entry(NamedTuple):
    """A candidate, the line it stands on, and what its owner wants back."""

    line: int
    candidate: Candidate
    echo: dict[str, Any]


def arguments(parser: ArgumentParser) -> None:
    """What `plan` takes."""
    parser.add_argument("file", metavar="FILE", help="the candidates, as JSON lines; - for stdin")
    parser.add_argument(
        "--log",
        action="store_true",
        help="write an event of each candidate that would be deferred (headgate events)",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Read all candidates, or none if any is wrong, and show what would become of them."""
    with open_gate(args) as gate:
        entries = _open_and_read(args.file, lambda argv: gate.key_of(argv, os.environ))
        plan = gate.plan((entry.candidate for entry in entries), log=args.log)
    if args.json:
        print_json(as_json(plan, entries), old_json_names.PLAN)
    else:
        terminal.show(lines(plan, entries, terminal.pen()))
    return 0


def _open_and_read(name: str, key_of: KeyOf | None) -> list[Entry]:
    if name == "-":
        return read(sys.stdin.buffer, "stdin", key_of)
    try:
        with Path(name).open("rb") as file:
            return read(file, label(name), key_of)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its name has a null character"
        raise UsageError(
            f"cannot read {label(name)}: {why}; expected a file of JSON lines"
        ) from None


def read(file: BinaryIO, name: str, key_of: KeyOf | None = None) -> list[Entry]:
    """All candidates of a file; or one error that lists what is wrong with it."""
    entries: list[Entry] = []
    mistakes: list[str] = []
    count = 0
    for number, text in _lines(file):
        if len(entries) >= _MOST:
            mistakes.append(f"{name}:{number}: more than {_MOST} candidates; plan fewer at once")
            count += 1
            break
        entry, wrong = _read_line(number, text, key_of)
        if entry is not None:
            entries.append(entry)
        count += len(wrong)
        room = _MOST_MISTAKES - len(mistakes)
        mistakes += [f"{name}:{number}: {hide(terminal.clean(said))}" for said in wrong[:room]]
    if mistakes:
        more = count - len(mistakes)
        if more > 0:
            mistakes.append(f"and {more} more like these")
        raise UsageError(
            "\n".join(["the candidates cannot be used, nothing was planned", *mistakes])
        )
    return entries


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, cut off where no candidate is that long; not the empty ones."""
    number = 0
    while text := file.readline(_LONGEST + 1):
        number += 1
        if len(text) > _LONGEST and not text.endswith(b"\n"):
            yield number, text
            while (rest := file.readline(_LONGEST)) and not rest.endswith(b"\n"):
                pass
        elif text.strip():
            yield number, text


def _read_line(number: int, text: bytes, key_of: KeyOf | None) -> tuple[Entry | None, list[str]]:
    import json

    if len(text) > _LONGEST:
        return None, [f"found more than {_LONGEST // 1024} KiB, expected one candidate"]
    try:
        record = json.loads(text.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        return None, [f"found the byte 0x{text[error.start]:02x}, expected UTF-8 text"]
    except json.JSONDecodeError as error:
        return None, [f"not valid JSON: {error.msg} (column {error.colno}); {_ONE_EACH}"]
    except (ValueError, RecursionError):  # Python's own limits, met before JSON's
        return None, [f"a number is too long or nested too deeply; {_ONE_EACH}"]
    if isinstance(record, list):
        return None, [f"found {kind(record)}; {_ONE_EACH}, as in: jq -c '.[]'"]
    candidate, wrong = read_candidate(record, key_of)
    if candidate is None:
        return None, wrong
    echo = {field: record[field] for field in ("id", "name") if field in record}
    return Entry(number, candidate, echo), []


_ONE_EACH = "expected one JSON object per line"


def as_json(plan: Plan, entries: list[Entry]) -> dict[str, Any]:
    """The plan, with each candidate's line and what its owner calls it."""
    verdicts = (
        json_shapes.verdict(verdict, entry.line, entry.echo)
        for entry, verdict in zip(entries, plan.verdicts, strict=True)
    )
    return json_shapes.document(json_shapes.plan(plan, verdicts))


def lines(plan: Plan, entries: list[Entry], pen: terminal.Pen) -> list[str]:
    """The plan for people."""
    if not entries:
        return ["There are no candidates."]
    pairs = list(zip(entries, plan.verdicts, strict=True))
    starts = [(entry.line, one) for entry, one in pairs if one.code is None]
    deferred = [(entry.line, one) for entry, one in pairs if one.code is not None]
    drawn = [pen.paint(f"{len(starts)} would start now{_part(starts)}", "bold")]
    drawn += terminal.table(_STARTS, [_start(*pair) for pair in starts[:_SHOWN]], pen)
    drawn += ["", pen.paint(f"{len(deferred)} would be deferred{_part(deferred)}", "bold")]
    return drawn + terminal.table(_DEFERRED, [_defer(*pair) for pair in deferred[:_SHOWN]], pen)


def _part(some: list[tuple[int, Verdict]]) -> str:
    return f" (the first {_SHOWN} of them; --json has all)" if len(some) > _SHOWN else ""


def _start(line: int, one: Verdict) -> tuple[terminal.Cell, ...]:
    priority = _CLASSES.get(one.priority, str(one.priority)) if one.priority else ""
    weight = f" (weight {one.weight})" if one.weight != 1 else ""
    return (line, one.name, (one.key or "(no model)") + weight, priority)


def _defer(line: int, one: Verdict) -> tuple[terminal.Cell, ...]:
    return (
        *_start(line, one),
        one.position or "",
        "" if one.eta is None else f"~{show_seconds(one.eta)}",
        one.reason or "",
    )
