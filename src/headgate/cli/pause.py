"""Let nothing start in a pool, for a while or until it is resumed. What runs goes on."""

from argparse import ArgumentParser, Namespace

from headgate.cli.limits import is_new
from headgate.cli.shared import pool_advice
from headgate.cli.shared.open_gate import open_gate, parse_note, say
from headgate.core.display.snapshots import Status
from headgate.core.key_patterns import parse_pattern
from headgate.core.quantities import parse_duration, show_duration
from headgate.errors import UsageError


def arguments(parser: ArgumentParser) -> None:
    """What `pause` takes."""
    parser.add_argument("pool", metavar="POOL", help="as shown by headgate limits")
    parser.add_argument(
        "--for", dest="length", metavar="DUR", help="how long, as in 10m (until headgate resume)"
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="why; those who wait are shown it"
    )
    pool_advice.add_new(parser)


def run(args: Namespace) -> int:
    """Pause it, and say for how long."""
    pool = parse_pattern(args.pool)
    length = None if args.length is None else parse_duration(args.length, "--for")
    if length == 0:
        raise UsageError(
            f"bad --for {args.length!r}: expected more than none; to end a pause: headgate resume"
        )
    note = parse_note(args.note)
    with open_gate(args) as gate:
        before = gate.status()
        pool_advice.refuse_slip(gate, before, pool, new=args.new)
        new = is_new(before, pool)
        gate.pause(pool, args.length, note=note)
        work = _work(gate.status(), pool)
    end = f"for {show_duration(length)}" if length else "until it is resumed"
    say(f"{pool} is paused {end}; nothing new starts in it, what runs goes on{work}{new}")
    return 0


def _work(status: Status, pool: str) -> str:
    """How much is in a pool, and how much waits for it."""
    found = next((one for one in status.pools if one.pool == pool), None)
    if found is None or not (found.in_use or found.queued):
        return ""
    return f" ({found.in_use} in use, {found.queued} waiting)"
