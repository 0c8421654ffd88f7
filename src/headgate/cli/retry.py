"""Put a job that has ended into the line again."""

from argparse import ArgumentParser, Namespace

from headgate.cli.shared import job_verb


def arguments(parser: ArgumentParser) -> None:
    """What `retry` takes."""
    job_verb.add_ids(parser)


def run(args: Namespace) -> int:
    """Do it to each."""
    return job_verb.do(args, lambda jobs, id: jobs.retry(id))
