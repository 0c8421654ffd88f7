"""What happened, the latest last."""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from headgate.cli.queue import whole
from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import (
    open_anyway,
    wants_only_new,
    warn_of_old_names,
    with_old_names,
)
from headgate.core.display import old_json_names
from headgate.core.display.json_shapes import document, encode
from headgate.core.display.json_shapes import event as event_json
from headgate.core.display.snapshots import Event

_BATCH = 1_000
_NARROW = 72
"""In fewer columns than that the date of an event is left out."""


def arguments(parser: ArgumentParser) -> None:
    """What `events` takes."""
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with what happens next, until Ctrl-C"
    )
    parser.add_argument("-n", default="50", metavar="N", dest="most", help="show the last N (50)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: Namespace) -> int:
    """Show the last events, and with -f the next ones as they happen."""
    most = whole(args.most, "-n", least=0)
    with open_anyway(args) as gate:
        latest = gate.events(most=max(1, most))
        if args.json and not wants_only_new() and (latest or args.follow):
            warn_of_old_names(old_json_names.EVENT)
        _tell(latest if most else (), as_json=args.json)
        if args.follow:
            last = latest[-1].seq if latest else 0
            while True:
                time.sleep(1)
                while new_events := gate.events(after=last, most=_BATCH):
                    _tell(new_events, as_json=args.json)
                    last = new_events[-1].seq
        if not latest and not args.json:
            terminal.show(["Nothing has happened yet."])
    return 0


def _tell(events: Iterable[Event], *, as_json: bool) -> None:
    if as_json:
        for event in events:
            shown = with_old_names(document(event_json(event)), old_json_names.EVENT)
            sys.stdout.write(f"{encode(shown)}\n")
        sys.stdout.flush()
        return
    pen = terminal.pen()
    terminal.show(event_line(event, pen) for event in events)


def event_line(event: Event, pen: terminal.Pen) -> str:
    """An event on a line, so that those to come can be lined up with those that were."""
    kind = terminal.clean(event.event)
    about = " ".join(word for word in (event.name, event.task, event.key, event.pool) if word)
    work = str(event.work or "")
    at = terminal.clock(event.at)
    at = at.split(" ")[1] if pen.width is not None and pen.width < _NARROW else at
    head = f"{at}  {kind:<13}  {work:>6}"
    tail = terminal.clean("  ".join(word for word in (about, event.text) if word))
    room = None if pen.width is None else max(20, pen.width - len(head) - 2)
    style = _STYLES.get(event.event, "")
    painted = pen.paint(f"{kind:<13}", style)
    clock = pen.paint(at, "dim")
    return f"{clock}  {painted}  {work:>6}  {terminal.clip(tail, room)}".rstrip()


_STYLES = {
    "granted": "green",
    "limit_raised": "green",
    "usage_again": "green",
    "probed": "cyan",
    "config_refused": "red",
    "deadlock": "red",
    "lost": "red",
    "notify_failed": "red",
    "overdue": "red",
    "unreadable": "red",
    "usage_failed": "red",
    "cancelled": "yellow",
    "limit_reduced": "yellow",
    "paused": "yellow",
    "refused": "yellow",
    "turned_away": "yellow",
    "withdrawn": "dim",
    "released": "dim",
}
