"""Look after the store while it is in use: check it, copy it, give back what it does not need."""

import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import print_json, say
from headgate.core.display import json_shapes
from headgate.core.quantities import parse_duration, show_duration
from headgate.core.times import seconds
from headgate.errors import NoRoomError

_AFTER = 1.0
"""After how many seconds somebody who looks on is told that it goes on."""


def arguments(parser: ArgumentParser) -> None:
    """What `store` takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    check = actions.add_parser(
        "check", help="look for damage (exit 1 if there is any)", allow_abbrev=False
    )
    check.add_argument("--json", action="store_true", help="print it as JSON")
    backup = actions.add_parser(
        "backup", help="copy it into a new file, as it is now", allow_abbrev=False
    )
    backup.add_argument("file", metavar="FILE", help="the file to make; it must not be there")
    compact = actions.add_parser(
        "compact",
        help="give back the space that it does not need (exit 75 if that takes too long)",
        allow_abbrev=False,
    )
    compact.add_argument(
        "--at-most",
        default="5s",
        metavar="DUR",
        help="for how long others may have to wait, before it is given up (5s)",
    )


def run(args: Namespace) -> int:
    """Do it, and say what was done."""
    from headgate.store import maintenance

    place = maintenance.find(args.store)
    progress = _Progress()
    match args.action:
        case "check":
            found = maintenance.check(place, progress.go_on)
            progress.done()
            if args.json:
                print_json(json_shapes.document({"healthy": not found, "problems": found}))
            else:
                terminal.show([f"{place.path}: {one}" for one in found or ["nothing is wrong"]])
            return 1 if found else 0
        case "backup":
            size = maintenance.backup(place, Path(args.file), progress.go_on)
            progress.done()
            say(f"{args.file} has the store as it is now, {size} bytes")
            say(f"to put it back when nothing runs: mv '{args.file}' '{place.path}'")
            return 0
        case _:
            at_most = parse_duration(args.at_most, "at-most")
            done = maintenance.compact(place, seconds(at_most), progress.go_on)
            progress.done()
            if done is None:
                say(
                    f"given up after {show_duration(at_most)}, nothing was changed: others wait "
                    "meanwhile. Let it take longer with --at-most 60s when little goes on"
                )
                return NoRoomError.exit_code
            say(f"{place.path} has {done.after} bytes now, {done.before} before")
            return 0


class _Progress:
    """A line that says that it goes on, where somebody looks on."""

    def __init__(self) -> None:
        self._since = self._told = time.monotonic()
        self._shown = False

    def go_on(self) -> bool:
        """Tell of it now and then; it always goes on."""
        now = time.monotonic()
        if now - self._told > _AFTER and sys.stderr.isatty():
            self._told, self._shown = now, True
            sys.stderr.write(f"\r{now - self._since:.0f}s …")
            sys.stderr.flush()
        return True

    def done(self) -> None:
        """Leave no half of a line behind."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
