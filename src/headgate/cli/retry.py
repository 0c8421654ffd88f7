"""Put a job that has ended into the line again."""

from argparse import ArgumentParser, Namespace

from headgate.cli import jobverb


def arguments(parser: ArgumentParser) -> None:
    """What `retry` takes."""
    jobverb.add_ids(parser)


def run(args: Namespace) -> int:
    """Do it to each."""
    return jobverb.do(args, lambda jobs, id: jobs.retry(id))
