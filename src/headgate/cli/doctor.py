"""Look for what is wrong or odd, and say what to do about it; nothing is changed.

Each finding is ok, a note (worth knowing), a warning (looks harmful) or a problem (has to be
mended). Exit code: 0 if there is no problem, 1 if there is one, whatever the warnings.
"""

import os
from argparse import ArgumentParser, Namespace
from typing import Any

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import print_json
from headgate.core.display import json_shapes, old_json_names
from headgate.doctor import NOTE, OK, PROBLEM, WARNING, Finding, Report, examine

_MARKS = {OK: ("✓", "+"), NOTE: ("·", "-"), WARNING: ("!", "!"), PROBLEM: ("✗", "x")}
_STYLES = {OK: "green", NOTE: "cyan", WARNING: "yellow", PROBLEM: "red"}


def arguments(parser: ArgumentParser) -> None:
    """What `doctor` takes."""
    parser.add_argument(
        "--notify", action="store_true", help="also send a test to whoever is told of events"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Examine everything."""
    report = examine(os.environ, store=args.store, config=args.config_file, notify=args.notify)
    if args.json:
        print_json(as_json(report), old_json_names.FINDINGS)
    else:
        terminal.show(lines(report, terminal.pen()))
    return 0 if report.healthy else 1


def as_json(report: Report) -> dict[str, Any]:
    """The findings, each with its group."""
    findings = [
        {"group": heading.lower(), **finding._asdict(), "advice": finding.advice or None}
        for heading, group in report.groups
        for finding in group
    ]
    return json_shapes.document(
        {
            "healthy": report.healthy,
            "total_problems": report.count(PROBLEM),
            "total_warnings": report.count(WARNING),
            "findings": findings,
        }
    )


def lines(report: Report, pen: terminal.Pen) -> list[str]:
    """The findings for people."""
    plain = pen.blocks.isascii()
    drawn = []
    for heading, group in report.groups:
        drawn.append(pen.paint(heading, "bold"))
        for finding in group:
            drawn += _lines(finding, pen, plain=plain)
        drawn.append("")
    return [*drawn, _summary(report)]


def _lines(finding: Finding, pen: terminal.Pen, *, plain: bool) -> list[str]:
    mark = pen.paint(_MARKS[finding.level][plain], _STYLES[finding.level])
    width = None if pen.width is None else max(40, pen.width - 6)
    first, *rest = terminal.wrap(finding.text, width)
    said = [f"  {mark} {first}", *(f"    {line}" for line in rest)]
    advice = terminal.wrap(finding.advice, width) if finding.advice else []
    return said + [pen.paint(f"      {line}", "dim") for line in advice]


def _summary(report: Report) -> str:
    counts = [
        f"{n} {level}{'' if n == 1 else 's'}"
        for level in (PROBLEM, WARNING)
        if (n := report.count(level))
    ]
    return f"Found {' and '.join(counts)}." if counts else "All is well."
