"""Why something waits, since when it runs, or how it ended."""

import time
from argparse import ArgumentParser, Namespace

from headgate.cli.events import event_line
from headgate.cli.shared import requests, terminal
from headgate.cli.shared.open_gate import find_id, open_anyway, print_json
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.deadlock import Deadlock
from headgate.core.display.snapshots import (
    AttemptStatus,
    JobStatus,
    Metered,
    Past,
    Running,
    Waiting,
)
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.work.history import history


def arguments(parser: ArgumentParser) -> None:
    """What `why` takes."""
    parser.add_argument("id", metavar="ID", help="its id, or the name of a job")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Tell all that is known."""
    with open_anyway(args) as gate:
        id = find_id(gate, args.id)
        known = history(gate, id)
    if known is None:
        raise UsageError(
            f"nothing is known of {id}: it never was, or it ended so long ago that its events "
            "are forgotten; headgate queue shows what runs and waits"
        )
    if args.json:
        print_json(json_shapes.document(known.json()), old_json_names.WHY)
        return 0
    found, job, pools, metered = known.found, known.job, known.pools, known.metered
    deadlock, runs = known.deadlock, known.attempts
    if job is not None and isinstance(found, Past):
        drawn = _of_job(job, terminal.pen(), metered)
        drawn += ["", *(event_line(event, terminal.pen()) for event in found.events)]
    else:
        drawn = lines(id, found, pools, terminal.pen(), metered, job=job)
    asked = requests.table(metered, terminal.pen())
    terminal.show([*drawn, *_deadlock(deadlock), *_runs(runs, terminal.pen()), *asked])
    return 0


def _deadlock(found: Deadlock | None) -> list[str]:
    """Who waits for whom, and what to do about it."""
    if found is None:
        return []
    steps = [f"  {terminal.clean(step.words)}" for step in found.steps]
    advice = terminal.clean(found.advice)
    return ["", "It is in a deadlock:", *steps, f"To end it: {advice}"]


def _of_job(job: JobStatus, pen: terminal.Pen, metered: Metered | None = None) -> list[str]:
    """A job that neither runs nor stands in line."""
    head = f"job {job.id} {'is' if job.ended is None else 'has ended:'} {job.state}"
    facts = [
        ("because", job.reason),
        ("exit", job.exit),
        ("task", job.task),
        ("key", job.key),
        ("name", job.name),
        ("label", job.label),
        *_session(job),
        ("submitted", terminal.clock(job.submitted)),
        ("ended", "" if job.ended is None else terminal.clock(job.ended)),
        ("next", "" if job.due is None else terminal.clock(job.due)),
        *requests.facts(metered),
    ]
    return [pen.paint(head, "bold"), *_facts(facts, pen)]


def _session(job: JobStatus) -> list[tuple[str, str]]:
    """What is kept of a job from one attempt to the next."""
    times = "once" if job.parks == 1 else f"{job.parks} times"
    given = " (given by headgate, since its text does not tell one)" if job.given_session else ""
    return [("session", job.session + given), ("parked", times if job.parks else "")]


def _runs(runs: tuple[AttemptStatus, ...], pen: terminal.Pen) -> list[str]:
    if not runs:
        return []
    rows = [
        (
            run.number,
            terminal.clock(run.started),
            "" if run.ended is None else show_seconds(run.ended - run.started),
            run.exit,
            run.key,
            run.reason,
        )
        for run in runs
    ]
    return ["", *terminal.table(_RUNS_TABLE, rows, pen)]


_RUNS_TABLE = (
    ("attempt", "right"),
    ("started", ""),
    ("took", "right"),
    ("exit", "right"),
    ("key", "shrinks"),
    ("because", "shrinks"),
)


def lines(
    id: int,
    found: Waiting | Running | Past,
    pools: list[str],
    pen: terminal.Pen,
    metered: Metered | None = None,
    *,
    job: JobStatus | None = None,
) -> list[str]:
    """The answer for people; `job` says more of it, if it is one."""
    if isinstance(found, Waiting):
        head, facts = f"{id} waits, at place {found.position}", _of_waiting(found)
    elif isinstance(found, Running):
        head, facts = f"{id} {_RUNS.get(found.state, found.state)}", _of_running(found)
    else:
        last = found.events[-1]
        head = f"{id} has ended: {last.event.replace('_', ' ')}"
        facts = [("task", last.task), ("key", last.key), ("note", last.text)]
    facts += [("name", job.name), *_session(job)] if job is not None else []
    facts += [("in", ", ".join(pools))] if pools else []
    facts += requests.facts(metered)
    drawn = [pen.paint(head, "bold"), *_facts(facts, pen)]
    if isinstance(found, Past):
        drawn += ["", *(event_line(event, pen) for event in found.events)]
    return drawn


def _facts(facts: list[tuple[str, str]], pen: terminal.Pen) -> list[str]:
    drawn = []
    width = max(len(name) for name, text in facts if text)
    for name, text in facts:
        if text:
            space = None if pen.width is None else max(20, pen.width - width - 4)
            said = terminal.clip(terminal.clean(text), space)
            drawn.append(f"  {pen.paint(name.ljust(width), 'dim')}  {said}")
    return drawn


_RUNS = {
    "running": "runs",
    "orphaned": "runs on without the headgate that started it",
    "suspect": "is counted, but its client on another machine was not heard of lately",
    "cancelling": "is being cancelled",
}


def _of_waiting(found: Waiting) -> list[tuple[str, str]]:
    reasons = found.reason.split("; ")
    return [
        ("task", found.task),
        ("key", found.key),
        ("label", found.label),
        ("because", reasons[0]),
        *(("and", reason) for reason in reasons[1:]),
        ("for", f"{show_seconds(found.waited)} so far"),
        ("expected", "" if found.eta is None else f"in about {show_seconds(found.eta)}"),
        ("weight", str(found.weight) if found.weight != 1 else ""),
    ]


def _of_running(found: Running) -> list[tuple[str, str]]:
    return [
        ("task", found.task),
        ("key", found.key),
        ("label", found.label),
        ("since", f"{terminal.clock(found.started)} ({show_seconds(found.held)})"),
        ("pid", str(found.pid) if found.pid else ""),
        ("weight", str(found.weight) if found.weight != 1 else ""),
        ("seats of", str(found.borrows) if found.borrows else ""),
        ("in flight", requests.in_flight(found, Seconds(time.time()))),
    ]
