"""Why something waits, since when it runs, or how it ended."""

from argparse import ArgumentParser, Namespace
from typing import Any

from headgate.cli import draw
from headgate.cli.common import open_anyway, print_json
from headgate.cli.events import event_json, event_line
from headgate.cli.queue import running_json, waiting_json
from headgate.core.amounts import show_duration
from headgate.core.keys import matches
from headgate.core.views import Past, Running, Waiting
from headgate.errors import UsageError


def arguments(parser: ArgumentParser) -> None:
    """What `why` takes."""
    parser.add_argument("id", metavar="ID", help="as shown by headgate queue")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Tell all that is known."""
    if not (args.id.isascii() and args.id.isdigit() and len(args.id) < 19 and int(args.id)):
        raise UsageError(f"bad id {args.id!r}: expected a number, as shown by headgate queue")
    id = int(args.id)
    with open_anyway(args) as gate:
        found = gate.why(id)
        pools = [pool.pool for pool in gate.status().pools]
    if isinstance(found, Past):
        if not found.events:
            raise UsageError(
                f"nothing is known of {id}: it never was, or it ended so long ago that its events "
                "are forgotten; headgate queue shows what runs and waits"
            )
        pools = []
    else:
        pools = [pool for pool in pools if matches(pool, found.key)]
    if args.json:
        print_json(as_json(id, found, pools))
    else:
        draw.show(lines(id, found, pools, draw.pen()))
    return 0


def as_json(id: int, found: Waiting | Running | Past, pools: list[str]) -> dict[str, Any]:
    """The answer; `state` says which of the three it is."""
    if isinstance(found, Waiting):
        return {**waiting_json(found), "state": "waiting", "pools": pools}
    if isinstance(found, Running):
        return {**running_json(found), "pools": pools}
    last = found.events[-1]
    return {
        "id": id,
        "state": "ended",
        "key": last.key,
        "task": last.task,
        "code": last.kind,
        "reason": last.text,
        "ended": draw.iso(last.at),
        "events": [event_json(event) for event in found.events],
    }


def lines(id: int, found: Waiting | Running | Past, pools: list[str], pen: draw.Pen) -> list[str]:
    """The answer for people."""
    if isinstance(found, Waiting):
        head, facts = f"{id} waits, at place {found.position}", _of_waiting(found)
    elif isinstance(found, Running):
        head, facts = f"{id} {_RUNS.get(found.state, found.state)}", _of_running(found)
    else:
        last = found.events[-1]
        head = f"{id} has ended: {last.kind.replace('_', ' ')}"
        facts = [("task", last.task), ("key", last.key), ("note", last.text)]
    facts += [("in", ", ".join(pools))] if pools else []
    width = max(len(name) for name, text in facts if text)
    drawn = [pen.paint(head, "bold")]
    for name, text in facts:
        if text:
            space = None if pen.width is None else max(20, pen.width - width - 4)
            said = draw.clip(draw.clean(text), space)
            drawn.append(f"  {pen.paint(name.ljust(width), 'dim')}  {said}")
    if isinstance(found, Past):
        drawn += ["", *(event_line(event, pen) for event in found.events)]
    return drawn


_RUNS = {
    "running": "runs",
    "orphaned": "runs on without the headgate that started it",
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
        ("for", f"{show_duration(found.waited * 1000)} so far"),
        ("expected", "" if found.eta is None else f"in about {show_duration(found.eta * 1000)}"),
        ("weight", str(found.weight) if found.weight != 1 else ""),
    ]


def _of_running(found: Running) -> list[tuple[str, str]]:
    return [
        ("task", found.task),
        ("key", found.key),
        ("label", found.label),
        ("since", f"{draw.clock(found.started)} ({show_duration(found.held * 1000)})"),
        ("pid", str(found.pid) if found.pid else ""),
        ("weight", str(found.weight) if found.weight != 1 else ""),
        ("seats of", str(found.borrows) if found.borrows else ""),
    ]
