"""Wait until jobs have ended; fails if one of them was not done."""

from argparse import ArgumentParser, Namespace
from contextlib import closing

from headgate.cli.shared.job_verb import called
from headgate.cli.shared.open_gate import find_id, open_anyway, print_json, say
from headgate.core.display import json_shapes, old_json_names
from headgate.core.jobs.states import ENDED, Word
from headgate.core.quantities import parse_duration
from headgate.core.times import seconds

FAILED = 1
TOO_LONG = 124


def arguments(parser: ArgumentParser) -> None:
    """What `wait` takes."""
    parser.epilog = (
        "Exits with 0 if all are done, 1 if one ended otherwise, 124 if it took too long."
    )
    parser.add_argument("ids", nargs="+", metavar="ID", help="its id, or the name of a job")
    parser.add_argument(
        "--timeout", metavar="DUR", help="wait at most so long, as in 10m, then exit 124"
    )
    parser.add_argument("--json", action="store_true", help="print what became of each as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing")


def run(args: Namespace) -> int:
    """Wait for each."""
    limit = None if args.timeout is None else seconds(parse_duration(args.timeout, "timeout"))
    found = []
    with open_anyway(args) as gate:
        ids = [find_id(gate, text) for text in args.ids]
        with closing(gate.jobs.wait_each(ids, limit)) as jobs:
            for job in jobs:
                found.append(job)
                if not args.quiet and not args.json:
                    why = f": {job.reason}" if job.reason else ""
                    say(f"{called(job)} is {job.state}{why}")
        hints = () if args.quiet or args.json else map(gate.jobs.command, ids)
        for hint in dict.fromkeys(gate.silence_hint(command) for command in hints if command):
            if hint:
                say(hint)
    if args.json:
        print_json(
            [json_shapes.document(json_shapes.work(job)) for job in found], old_json_names.WORK
        )
    if any(job.state not in ENDED for job in found):
        return TOO_LONG
    return 0 if all(job.state == Word.DONE for job in found) else FAILED
