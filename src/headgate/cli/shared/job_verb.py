"""What `hold`, `release`, `move` and `retry` share: one thing, done to each of some jobs."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from headgate.cli.shared.open_gate import find_id, open_anyway, print_json, say
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import JobStatus
from headgate.core.quantities import show_seconds
from headgate.errors import HeadgateError
from headgate.gate.submit_jobs import Jobs


def add_ids(parser: ArgumentParser) -> None:
    """The jobs that it is done to."""
    parser.add_argument("ids", nargs="+", metavar="ID", help="its id, or the name of a job")
    parser.add_argument("--json", action="store_true", help="print what became of each as JSON")


def do(args: Namespace, act: Callable[[Jobs, int], None]) -> int:
    """Do it to each; one to which it cannot be done does not keep the others."""
    code = 0
    found: list[json_shapes.Json] = []
    with open_anyway(args) as gate:
        for text in args.ids:
            try:
                id = find_id(gate, text)
                act(gate.jobs, id)
                job = gate.job(id)
            except HeadgateError as error:
                code = code or error.exit_code
                say(str(error))
                found.append(json_shapes.document(json_shapes.outcome(text, "failed", str(error))))
                continue
            if job is None:  # a client's lease that somebody has given on
                found.append(json_shapes.document(json_shapes.outcome(text, "ended", None)))
                say(f"the seats of {id} are free")
                continue
            found.append(json_shapes.document(json_shapes.work(job)))
            if not args.json:
                say(describe(job))
    if args.json:
        print_json(found, old_json_names.JOB_OR_OUTCOME)
    return code


def describe(job: JobStatus) -> str:
    """Where a job stands, in a sentence."""
    if job.position is not None:
        eta = "" if job.eta is None else f", expected in about {show_seconds(job.eta)}"
        return f"{called(job)} is {job.state}, position {job.position}: {job.reason}{eta}"
    return f"{called(job)} is {job.state}" + (f": {job.reason}" if job.reason else "")


def called(job: JobStatus) -> str:
    """A job, with its name if it has one."""
    return f"job {job.id} ({job.name})" if job.name else f"job {job.id}"
