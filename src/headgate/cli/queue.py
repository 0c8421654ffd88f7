"""What runs and what waits, in the order of the line."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from headgate.cli.shared import requests, terminal
from headgate.cli.shared.open_gate import open_anyway, print_json
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import JobStatus, Queue, Running, Waiting
from headgate.core.quantities import CLASSES, parse_priority, show_seconds
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.gate import Gate

_MOST = 1_000_000
_CLASSES = {parse_priority(name): name for name in CLASSES}
_RUNNING = (
    ("id", "right"),
    ("name", "shrinks"),
    ("task", "shrinks"),
    ("key", "shrinks"),
    ("priority", ""),
    ("weight", "right"),
    ("state", ""),
    ("for", "right"),
    ("pid", "right"),
    ("seats of", "right"),
    ("attempt", "right"),
    ("requests", "right"),
    ("label", "shrinks"),
    ("last line", "shrinks"),
)
_WAITING = (
    ("place", "right"),
    ("id", "right"),
    ("name", "shrinks"),
    ("task", "shrinks"),
    ("key", "shrinks"),
    ("priority", ""),
    ("weight", "right"),
    ("for", "right"),
    ("expected in", "right"),
    ("because", "shrinks"),
    ("label", "shrinks"),
)
_ASIDE = (
    ("id", "right"),
    ("name", "shrinks"),
    ("task", "shrinks"),
    ("key", "shrinks"),
    ("state", ""),
    ("for", "right"),
    ("until", ""),
    ("attempt", "right"),
    ("because", "shrinks"),
)
_ENDED = (
    ("id", "right"),
    ("name", "shrinks"),
    ("task", "shrinks"),
    ("key", "shrinks"),
    ("state", ""),
    ("ended", ""),
    ("exit", "right"),
    ("attempts", "right"),
    ("because", "shrinks"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `queue` takes."""
    parser.add_argument("--page", default="1", metavar="N", help="which page of those who wait (1)")
    parser.add_argument("--size", default="100", metavar="N", help="how many on a page (100)")
    parser.add_argument("--all", action="store_true", help="show the jobs that have ended, too")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Show one page."""
    page, size = whole(args.page, "--page"), whole(args.size, "--size")
    skip = (page - 1) * size
    with open_anyway(args) as gate:
        queue = gate.queue(most=size, skip=skip)
        full = len(queue.running) >= size
        running = max(gate.status().total_running, size) if full else len(queue.running)
        ended = gate.jobs.finished(size) if args.all else None
        queue = queue._replace(running=tuple(with_output(work, gate) for work in queue.running))
    if args.json:
        print_json(
            json_shapes.document(json_shapes.queue(queue, running, ended)), old_json_names.QUEUE
        )
    else:
        drawn = lines(queue, terminal.pen(), skip=skip, running=running)
        terminal.show([*drawn, *_ended(ended, terminal.pen())] if ended else drawn)
    return 0


def with_output(work: Running, gate: Gate) -> Running:
    """A running job with the last line of its output."""
    if not work.attempts:
        return work
    from headgate.work.log_file import last_line, log_path

    return work._replace(last_line=last_line(log_path(gate.jobs.folder, work.id, work.attempts)))


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
    shown = f" (the first {len(queue.running)})" if more > 0 else ""
    drawn = [pen.paint(f"{max(running, len(queue.running))} running{shown}", "bold")]
    drawn += terminal.table(_RUNNING, [_running(work, names) for work in queue.running], pen)
    drawn += ["", pen.paint(f"{queue.total_waiting} waiting{_part(queue, skip)}", "bold")]
    drawn += terminal.table(_WAITING, [_waiting(work, names) for work in queue.waiting], pen)
    if queue.aside:
        total, listed = queue.total_aside, len(queue.aside)
        part = f" (the first {listed})" if listed < total else ""
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
    return f" (from {skip + 1} to {skip + shown})" if shown else " (this page is past the last)"


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
