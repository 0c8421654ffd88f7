"""What runs and what waits, in the order of the line."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from headgate.cli.shared import requests, terminal
from headgate.cli.shared.open_gate import open_anyway, print_json
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import JobStatus, Queue, Running, Waiting
from headgate.core.jobs.states import Word
from headgate.core.key_patterns import parse_pattern
from headgate.core.quantities import CLASSES, parse_priority, parse_task, show_seconds
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.ledger.queries.work_filter import WorkFilter
from headgate.work.queue_page import QueuePage

_MOST = 1_000_000
WATCH = "draw it again each second, in place, until q"
_CLASSES = {parse_priority(name): name for name in CLASSES}
_RUNNING = (
    ("id", "right"),
    ("name", "name"),
    ("task", "name"),
    ("key", "name"),
    ("priority", "?"),
    ("weight", "right?"),
    ("state", ""),
    ("for", "right"),
    ("pid", "right?"),
    ("seats of", "right?"),
    ("attempt", "right?"),
    ("requests", "right?"),
    ("label", "shrinks?"),
    ("last line", "shrinks"),
)
_WAITING = (
    ("place", "right"),
    ("id", "right"),
    ("name", "name"),
    ("task", "name"),
    ("key", "name"),
    ("priority", "?"),
    ("weight", "right?"),
    ("for", "right"),
    ("expected in", "right"),
    ("because", "shrinks"),
    ("label", "shrinks?"),
)
_ASIDE = (
    ("id", "right"),
    ("name", "name"),
    ("task", "name"),
    ("key", "name"),
    ("state", ""),
    ("for", "right"),
    ("until", "?"),
    ("attempt", "right?"),
    ("because", "shrinks"),
)
_ENDED = (
    ("id", "right"),
    ("name", "name"),
    ("task", "name"),
    ("key", "name"),
    ("state", ""),
    ("ended", "?"),
    ("exit", "right"),
    ("attempts", "right?"),
    ("because", "shrinks"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `queue` takes."""
    parser.add_argument("-w", "--watch", action="store_true", help=WATCH)
    parser.add_argument("--pool", metavar="POOL", help="only what sits in this pool")
    parser.add_argument("--task", metavar="ID", help="only what is for this task")
    parser.add_argument(
        "-m",
        "--model",
        metavar="PATTERN",
        help="only what uses these models, as in */claude-opus-*",
    )
    parser.add_argument("--name", metavar="NAME", help="only the jobs of this name")
    parser.add_argument(
        "--state",
        choices=[word.value for word in Word],
        metavar="STATE",
        help="only what is queued, running, held, parked, done, failed, cancelled, expired or lost",
    )
    parser.add_argument("--page", default="1", metavar="N", help="which page of those who wait (1)")
    parser.add_argument("--size", default="100", metavar="N", help="how many on a page (100)")
    parser.add_argument("--all", action="store_true", help="show the jobs that have ended, too")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Show one page."""
    if args.watch and args.json:
        raise UsageError("--watch is for people, and --json for programs: give one of them")
    look = _Look(args)
    with open_anyway(args) as gate:
        if args.watch:
            from headgate.cli.shared.watch import watch

            return watch(lambda pen: look.lines(gate, pen), "headgate queue")
        if args.json:
            document = json_shapes.document(json_shapes.queue(*look.find(gate)))
            print_json(document, old_json_names.QUEUE)
        else:
            terminal.show(look.lines(gate, terminal.pen()))
    return 0


class _Look(QueuePage):
    """What of the queue is wanted, and how it is drawn."""

    def __init__(self, args: Namespace) -> None:
        super().__init__(
            wanted=WorkFilter(
                pool=None if args.pool is None else parse_pattern(args.pool),
                task=None if args.task is None else parse_task(args.task),
                model=None if args.model is None else parse_pattern(args.model),
                name=None if args.name is None else parse_task(args.name, "name"),
            ),
            state=args.state,
            size=whole(args.size, "--size"),
            page=whole(args.page, "--page"),
            ended=args.all,
        )

    def lines(self, gate: Gate, pen: terminal.Pen) -> list[str]:
        """The page for people."""
        queue, running, ended = self.find(gate, readable=True)
        drawn = lines(queue, pen, skip=self.skip, running=running)
        filtered = self.state is not None or not self.wanted.takes_all
        if filtered and not (queue.running or queue.total_waiting or queue.aside):
            drawn = [] if ended else ["Nothing is like that."]
        return [*drawn, *_ended(ended, pen)] if ended else drawn


def whole(text: str, what: str, least: int = 1) -> int:
    """A whole number that somebody typed."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1
    if not least <= number <= _MOST:
        raise UsageError(f"bad {what} {text!r}: expected a whole number from {least} to {_MOST}")
    return number


def lines(queue: Queue, pen: terminal.Pen, *, skip: int = 0, running: int = 0) -> list[str]:
    """The queue for people."""
    if not queue.running and not queue.total_waiting and not queue.aside:
        return ["Nothing runs and nothing waits."]
    names = {job.id: job.name for job in queue.jobs}
    more = running - len(queue.running)
    shown = f" (the first {len(queue.running)}; for more: --size N)" if more > 0 else ""
    drawn = [pen.paint(f"{max(running, len(queue.running))} running{shown}", "bold")]
    drawn += terminal.table(_RUNNING, [_running(work, names) for work in queue.running], pen)
    drawn += ["", pen.paint(f"{queue.total_waiting} waiting{_part(queue, skip)}", "bold")]
    drawn += terminal.table(_WAITING, [_waiting(work, names) for work in queue.waiting], pen)
    if queue.aside:
        total, listed = queue.total_aside, len(queue.aside)
        part = f" (the first {listed}; for more: --size N)" if listed < total else ""
        drawn += ["", pen.paint(f"{total} not in the line{part}", "bold")]
        drawn += terminal.table(_ASIDE, [_aside(job) for job in queue.aside], pen)
    return drawn


def _ended(jobs: list[JobStatus], pen: terminal.Pen) -> list[str]:
    rows = [_past(job) for job in jobs]
    return ["", pen.paint(f"{len(jobs)} ended", "bold"), *terminal.table(_ENDED, rows, pen)]


def _aside(job: JobStatus) -> tuple[terminal.Cell, ...]:
    return (
        job.id,
        job.name,
        job.task,
        job.key or "(no model)",
        ((job.state, "yellow"),),
        show_seconds(Seconds(time.time()) - job.submitted),
        "" if job.due is None else terminal.clock(job.due),
        job.attempts or "",
        job.reason,
    )


def _past(job: JobStatus) -> tuple[terminal.Cell, ...]:
    style = {"done": "green", "failed": "red", "lost": "red"}.get(job.state, "yellow")
    return (
        job.id,
        job.name,
        job.task,
        job.key or "(no model)",
        ((job.state, style),),
        "" if job.ended is None else terminal.clock(job.ended),
        job.exit,
        job.attempts or "",
        job.reason,
    )


def _part(queue: Queue, skip: int) -> str:
    shown, total = len(queue.waiting), queue.total_waiting
    if shown == total:
        return ""
    if not shown:
        return " (this page is past the last)"
    more = f"; the next: --page {skip // shown + 2}" if skip + shown < total else ""
    return f" (from {skip + 1} to {skip + shown}{more})"


def _running(work: Running, names: Mapping[int, str]) -> tuple[terminal.Cell, ...]:
    return (
        work.id,
        names.get(work.id, ""),
        work.task,
        work.key or "(no model)",
        _CLASSES.get(work.priority, str(work.priority)) if work.priority else "",
        work.weight if work.weight != 1 else "",
        ((work.state, "yellow"),) if work.state != "running" else "",
        show_seconds(work.held),
        work.pid or "",
        work.borrows or "",
        work.attempts if work.attempts > 1 else "",
        requests.in_flight(work, Seconds(time.time())),
        work.label,
        work.last_line,
    )


def _waiting(work: Waiting, names: Mapping[int, str]) -> tuple[terminal.Cell, ...]:
    return (
        work.position,
        work.id,
        names.get(work.id, ""),
        work.task,
        work.key or "(no model)",
        _CLASSES.get(work.priority, str(work.priority)) if work.priority else "",
        work.weight if work.weight != 1 else "",
        show_seconds(work.waited),
        "" if work.eta is None else f"~{show_seconds(work.eta)}",
        work.reason,
        work.label,
    )
