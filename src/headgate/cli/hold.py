"""Take a waiting job out of the line until it is released; it keeps its place."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import job_verb


def arguments(parser: ArgumentParser) -> None:
    """What `hold` takes."""
    job_verb.add_ids(parser)


def run(args: Namespace) -> int:
    """Do it to each."""
    return job_verb.do(args, lambda jobs, id: jobs.hold(id))
