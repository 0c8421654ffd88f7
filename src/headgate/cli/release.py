"""Let a held job into the line, at the place that it has kept."""

from argparse import ArgumentParser, Namespace

from headgate.cli import jobverb


def arguments(parser: ArgumentParser) -> None:
    """What `release` takes."""
    jobverb.add_ids(parser)


def run(args: Namespace) -> int:
    """Do it to each."""
    return jobverb.do(args, lambda jobs, id: jobs.let_go(id))
