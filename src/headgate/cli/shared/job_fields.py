"""What `submit` can be told about a job: as options, or as fields of a line of JSON."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from headgate.cli.shared.options import add_grace, add_meter, add_queue_timeout, add_run_limits
from headgate.cli.shared.piped_input import read_input
from headgate.core.quantities import shown
from headgate.core.table_fields import shortened
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.gate.submit_jobs import draft
from headgate.ledger.jobs.lifecycle import Draft
from headgate.work.job_fields import FIELDS, read

_MOST_JOBS = 100_000


def add_options(parser: ArgumentParser) -> None:
    """The options that say how a job is to be run and watched."""
    parser.add_argument(
        "--after",
        action="append",
        metavar="ID",
        help="start only when that job, by its id or its name, is done; ID,ID for several",
    )
    parser.add_argument(
        "--hold", action="store_true", help="keep it out of the line until headgate release ID"
    )
    parser.add_argument(
        "--confirm",
        action="store_true",
        help="when there is room for it, ask (event confirm, told by notifications): it starts "
        "after headgate release ID, and others take the room until then",
    )
    parser.add_argument(
        "--confirm-within",
        metavar="DUR",
        help="the same; it expires if nobody has said so within this time (1h)",
    )
    parser.add_argument(
        "--expires",
        metavar="DUR",
        help="give up if it was not started within this time (24h), or never",
    )
    parser.add_argument("--name", help="a name for it that lists show")
    parser.add_argument("--cwd", metavar="DIR", help="the folder to run it in (this one)")
    parser.add_argument(
        "--env", action="append", metavar="K=V", help="set a variable for it; may be given again"
    )
    parser.add_argument(
        "--env-from",
        action="append",
        metavar="NAME",
        help="give it a variable as it is in this shell; NAME,NAME for several",
    )
    parser.add_argument(
        "--path", action="store_true", help="give it the PATH of this shell, not the worker's"
    )
    parser.add_argument(
        "--stdin",
        metavar="FILE",
        help="what it reads: a file, or - for what is piped into submit; at most 128 KiB (nothing)",
    )
    parser.add_argument("--retries", metavar="N", help="try it again so often if it fails (0)")
    parser.add_argument(
        "--escalate",
        action="store_true",
        help="after a failure, try it again with the next of its models",
    )
    parser.add_argument(
        "--fallback-after",
        metavar="DUR",
        help="take another of its models when it has waited so long for the first (5m)",
    )
    parser.add_argument(
        "--attempts", metavar="N", help="start it at most so often, whatever ended it (10)"
    )
    add_grace(parser)
    add_meter(parser)
    add_queue_timeout(parser)
    parser.add_argument(
        "--no-park",
        action="store_true",
        help="when upstream refuses it, let it retry by itself: do not end and park it",
    )
    parser.add_argument(
        "--patience",
        metavar="DUR",
        help="how long it may go on without progress after a refusal, before it is parked (90s)",
    )
    add_run_limits(parser, same="100")


def from_options(args: Namespace, argv: list[str], gate: Gate) -> Draft:
    """The job that a command line describes."""
    said: dict[str, object] = {name: getattr(args, name, None) for name in FIELDS}
    said |= {
        "command": argv,
        "env": dict(_pair(text) for text in args.env or ()),
        "after": [word for text in args.after or () for word in text.split(",")],
        "env_from": [word for text in args.env_from or () for word in text.split(",")] or None,
        "path": args.path or None,
        "park": False if args.no_park else None,
        "confirm": args.confirm or None,
        "stdin": None if args.stdin is None else read_input(args.stdin),
    }
    return read(said, gate, {})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"bad --env {shown(name)}: expected NAME=VALUE")
    return name, value


def from_lines(lines: Iterable[str], gate: Gate) -> list[Draft]:
    """The jobs of a batch, a line of JSON each; all that is wrong with it is said at once."""
    drafts: list[Draft] = []
    wrong: list[str] = []
    names: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _json(line)
            drafts.append(read(entry, gate, names))
            if entry.get("name"):
                names[str(entry["name"])] = -len(drafts)
        except UsageError as error:
            wrong += (f"line {number}: {said}" for said in str(error).split("\n"))
            drafts.append(draft(["?"]))
        if len(drafts) > _MOST_JOBS:
            raise UsageError(f"more than {_MOST_JOBS} jobs in one batch; split it")
    if wrong:
        raise UsageError("\n".join(["nothing was submitted:", *shortened(wrong)]))
    return drafts


def _json(line: str) -> Any:  # noqa: ANN401 - whatever it is
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"no JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError):
        raise UsageError("no JSON: a number is too long, or it is nested too deeply") from None
