"""Start jobs when there is room for them, until Ctrl-C; what it has started goes on without it."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import suppress

from headgate.cli.shared.open_gate import say, wants_only_new
from headgate.core.display.snapshots import Event

SHOWN = {
    "queued",
    "held",
    "let_go",
    "started",
    "readmitted",
    "adopted",
    "parked",
    "requeued",
    "retried",
    "fallback",
    "done",
    "failed",
    "cancelled",
    "expired",
    "lost",
    "limit_reduced",
    "paused",
    "store",
}


def arguments(parser: ArgumentParser) -> None:
    """What `worker` takes."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing about jobs")


def run(args: Namespace, before_anew: Callable[[], None] | None = None) -> int:
    """Work."""
    from headgate.gate.liveness.shed_marks import shed_marks

    shed_marks()
    from headgate.cli.events import event_line
    from headgate.cli.shared import terminal
    from headgate.work.worker import Worker, WorkerOptions

    wants_only_new()  # it decides what those are told who want to be notified
    pen = terminal.pen()

    def show(event: Event) -> None:
        if not args.quiet and event.event in SHOWN:
            with suppress(OSError):
                terminal.show([event_line(event, pen)])

    store = args.store or os.environ.get("HEADGATE_STORE")
    config = args.config_file or os.environ.get("HEADGATE_CONFIG")
    worker = Worker(WorkerOptions(store, config and os.path.abspath(config)), show)  # noqa: PTH100
    say(
        f"worker {os.getpid()} is up and stays in the foreground; Ctrl-C ends it, what it has "
        "started goes on"
    )
    left = worker.run()
    if worker.begin_anew:
        if before_anew is not None:
            before_anew()
        sys.stdout.flush()
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - ourselves, without threads
    if left:
        say(f"the worker has ended; {left} {'job goes' if left == 1 else 'jobs go'} on without it")
    return 0
