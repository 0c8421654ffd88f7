"""Everything that headgate can do in the background, in one process: for now, a worker."""

from argparse import ArgumentParser, Namespace

from headgate.cli import worker


def arguments(parser: ArgumentParser) -> None:
    """What `up` takes."""
    worker.arguments(parser)


def run(args: Namespace) -> int:
    """Be up."""
    return worker.run(args)
