"""Try and show the targets of notifications, and deliver to them without a worker."""

import signal
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import (
    open_gate,
    print_json,
    say,
    wants_only_new,
    warn_of_old_messages,
)
from headgate.config import find, load
from headgate.core.display import json_shapes, old_json_names
from headgate.core.notification_targets import NotifyTarget
from headgate.core.times import seconds
from headgate.errors import UsageError

_NONE = "no [[notify]] in the configuration; see docs/notifications.md"
_COLUMNS = (
    ("name", ""),
    ("by", ""),
    ("to", "shrinks"),
    ("events", "shrinks"),
    ("only", "shrinks?"),
    ("behind", "right"),
    ("delivering", "shrinks?"),
    ("problem", "shrinks"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `notify` takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    does = "send a test to one target or to all (exit 125 if one fails)"
    test = actions.add_parser("test", help=does, description=does, allow_abbrev=False)
    test.add_argument("name", nargs="?", metavar="NAME", help="which target (all of them)")
    does = "show who is told of what, and how far that has come"
    show = actions.add_parser("list", help=does, description=does, allow_abbrev=False)
    for action in (test, show):
        action.add_argument("--json", action="store_true", help="print it as JSON")
    does = "deliver in the foreground until Ctrl-C; a worker does it by itself"
    actions.add_parser("run", help=does, description=does, allow_abbrev=False)


def run(args: Namespace) -> int:
    """Do one of the three."""
    wants_only_new()  # it decides what is told
    match args.action:
        case "test":
            return _test(args)
        case "list":
            return _list(args)
        case _:
            return _run(args)


def _test(args: Namespace) -> int:
    from headgate.notify import try_out

    targets = load(Path(args.config_file) if args.config_file else find()).notify
    if not targets:
        raise UsageError(_NONE)
    if args.name is not None:
        known = ", ".join(target.name for target in targets)
        targets = tuple(target for target in targets if target.name == args.name)
        if not targets:
            raise UsageError(f"no target {args.name[:60]!r}; there are {known}")
    found: list[dict[str, Any]] = []
    for target in targets:
        problem = try_out(target)
        found.append({"target": target.name, "ok": not problem, "problem": problem or None})
        if not args.json:
            terminal.show([f"{target.name}: {terminal.clean(problem) if problem else 'ok'}"])
    if args.json:
        print_json(json_shapes.document({"targets": found}), old_json_names.TARGETS)
    _warn(targets)
    return 0 if all(row["ok"] for row in found) else 125


def _list(args: Namespace) -> int:
    from headgate.notify import lacks, where

    with open_gate(args) as gate:
        notices = gate.notification_feed()
        targets = notices.targets()
        standings = notices.standings([target.name for target in targets])
    rows = [
        {
            "target": target.name,
            "by": target.by,
            "to": where(target),
            "events": list(target.events),
            "only": {name: list(said) for name, said in target.only._asdict().items()},
            "timeout": seconds(target.timeout),
            "tries": target.tries,
            "signed": bool(target.secret_env),
            "behind": standing.behind,
            "delivering": standing.claimed,
            "problem": lacks(target) or None,
        }
        for target, standing in zip(targets, standings, strict=True)
    ]
    if args.json:
        print_json(json_shapes.document({"targets": rows}), old_json_names.TARGETS)
    elif rows:
        terminal.show(terminal.table(_COLUMNS, [_cells(row) for row in rows], terminal.pen()))
    else:
        say(_NONE)
    _warn(targets)
    return 0


def _warn(targets: Iterable[NotifyTarget]) -> None:
    """Say what changes for those who read what they are told."""
    if any(target.gets_json for target in targets):
        warn_of_old_messages()


def _cells(row: dict[str, Any]) -> tuple[terminal.Cell, ...]:
    only = "; ".join(f"{name} {', '.join(said)}" for name, said in row["only"].items() if said)
    return (
        row["target"],
        row["by"],
        terminal.clean(row["to"]),
        ", ".join(row["events"]),
        terminal.clean(only),
        "" if row["behind"] is None else row["behind"],
        "yes" if row["delivering"] else "no",
        row["problem"] or "",
    )


def _run(args: Namespace) -> int:
    from headgate.gate.liveness.shed_marks import shed_marks

    shed_marks()
    from headgate.notify import Notifier

    stop = threading.Event()
    with open_gate(args) as gate:
        targets: tuple[NotifyTarget, ...] = gate.notification_feed().targets()
        if not targets:
            raise UsageError(_NONE)
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        say(f"delivers to {', '.join(target.name for target in targets)} until Ctrl-C")
        Notifier(gate).run(stop)
    return 0
