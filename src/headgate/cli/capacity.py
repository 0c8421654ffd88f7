"""Whether there is room for a model now. Exit code 0 if there is, 75 if not."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import open_gate, print_json
from headgate.cli.shared.options import add_priority, add_role
from headgate.core.display.snapshots import Capacity
from headgate.core.quantities import show_seconds
from headgate.errors import NoRoomError


def arguments(parser: ArgumentParser) -> None:
    """What `capacity` takes."""
    parser.add_argument(
        "key",
        nargs="?",
        metavar="KEY",
        help="the model, as in anthropic/claude-opus-4-6; none for work that uses no model",
    )
    add_role(parser)
    add_priority(parser)
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Ask the same rules that admit work."""
    with open_gate(args) as gate:
        capacity = gate.capacity(args.key, priority=args.priority, roles=args.role or ())
    if args.json:
        from headgate.core.display import json_shapes, old_json_names

        print_json(json_shapes.document(json_shapes.capacity(capacity)), old_json_names.CAPACITY)
    else:
        terminal.show([line(capacity)])
    return 0 if capacity.state in {"open", "near"} else NoRoomError.exit_code


def line(capacity: Capacity) -> str:
    """The answer for people."""
    what = terminal.clean(capacity.key or "work with no model")
    parts = [capacity.state]
    if capacity.reason is None:
        parts.append("no limit" if capacity.free is None else f"{capacity.free} free")
    else:
        parts.append(terminal.clean(capacity.reason))
    if capacity.queued:
        parts.append(f"{capacity.queued} waiting")
    if capacity.eta is not None:
        parts.append(f"room in about {show_seconds(capacity.eta)}")
    return f"{what}: {', '.join(parts)}"
