"""Let a paused pool go on."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared.open_gate import open_gate, say
from headgate.core.key_patterns import parse_pattern


def arguments(parser: ArgumentParser) -> None:
    """What `resume` takes."""
    parser.add_argument("pool", metavar="POOL", help="as shown by headgate status")


def run(args: Namespace) -> int:
    """End the pause, and say if there was none."""
    pool = parse_pattern(args.pool)
    with open_gate(args) as gate:
        paused = [found.pool for found in gate.status().pools if found.paused]
        resumed = pool in paused and gate.resume(pool)
    if resumed:
        say(f"{pool} goes on")
    else:
        others = f"; what is paused: {', '.join(paused)}" if paused else ""
        say(f"{pool} was not paused{others}")
    return 0
