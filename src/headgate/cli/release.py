"""Let a held job into the line, at the place that it has kept."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import job_verb


def arguments(parser: ArgumentParser) -> None:
    """What `release` takes."""
    job_verb.add_ids(parser)


def run(args: Namespace) -> int:
    """Do it to each."""
    return job_verb.do(args, lambda jobs, id: jobs.let_go(id))
