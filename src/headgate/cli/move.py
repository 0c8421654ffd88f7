"""Give a waiting job another priority, or put it before all others of its priority."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import job_verb
from headgate.cli.shared.options import add_priority
from headgate.errors import UsageError


def arguments(parser: ArgumentParser) -> None:
    """What `move` takes."""
    job_verb.add_ids(parser)
    parser.add_argument(
        "--first", action="store_true", help="put it before all others of its priority"
    )
    add_priority(parser)


def run(args: Namespace) -> int:
    """Move each."""
    if not args.first and args.priority is None:
        raise UsageError("say where to: headgate move ID --first, or -p PRIORITY")
    return job_verb.do(
        args, lambda jobs, id: jobs.move(id, priority=args.priority, first=args.first)
    )
