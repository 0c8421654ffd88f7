"""End something, waiting or running; wait until it has ended."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared.open_gate import open_anyway, parse_id, print_json, say
from headgate.core.display import json_shapes, old_json_names
from headgate.core.quantities import parse_duration
from headgate.core.times import seconds
from headgate.errors import HeadgateError


def arguments(parser: ArgumentParser) -> None:
    """What `cancel` takes."""
    parser.add_argument("ids", nargs="+", metavar="ID", help="as shown by headgate queue")
    parser.add_argument(
        "--grace", metavar="DUR", help="how long it has to end by itself before it is killed (10s)"
    )
    parser.add_argument("--json", action="store_true", help="print what became of each as JSON")


def run(args: Namespace) -> int:
    """Cancel each; one that cannot be cancelled does not keep the others."""
    gate = open_anyway(args)
    grace = None if args.grace is None else seconds(parse_duration(args.grace, "grace"))
    results, code = [], 0
    for text in args.ids:
        try:
            outcome = gate.cancel(parse_id(text), grace=grace)
        except HeadgateError as error:
            code = code or error.exit_code
            say(str(error))
            results.append(json_shapes.document(json_shapes.outcome(text, "failed", str(error))))
            continue
        results.append(json_shapes.document(json_shapes.outcome(text, outcome)))
        if not args.json:
            say(f"{text} {'is out of the line' if outcome == 'withdrawn' else 'has ended'}")
    if args.json:
        print_json(results, old_json_names.OUTCOME)
    gate.close()
    return code
