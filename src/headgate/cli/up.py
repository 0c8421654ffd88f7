"""Start submitted work when there is room for it, and stay in the foreground until Ctrl-C.

What it has started goes on without it. To have it with every login: headgate init --service.
"""

from argparse import ArgumentParser, Namespace

from headgate.cli import worker


def arguments(parser: ArgumentParser) -> None:
    """What `up` takes."""
    worker.arguments(parser)


def run(args: Namespace) -> int:
    """Be up."""
    return worker.run(args)
