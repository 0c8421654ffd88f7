"""Take a waiting job out of the line until it is released; it keeps its place."""

from argparse import ArgumentParser, Namespace

from headgate.cli import jobverb


def arguments(parser: ArgumentParser) -> None:
    """What `hold` takes."""
    jobverb.add_ids(parser)


def run(args: Namespace) -> int:
    """Do it to each."""
    return jobverb.do(args, lambda jobs, id: jobs.hold(id))
