"""Hand in work: it waits in line, is started by a worker, and outlives this terminal."""

import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from typing import Any

from headgate.cli.shared import job_fields
from headgate.cli.shared.job_verb import describe
from headgate.cli.shared.open_gate import open_gate, print_json, say, warn_of_slips
from headgate.cli.shared.options import add_about
from headgate.cli.shared.piped_input import refuse_unread
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import JobStatus
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.ledger.jobs.lifecycle import Draft
from headgate.work.check_command import check


def arguments(parser: ArgumentParser) -> None:
    """What `submit` takes."""
    parser.usage = "headgate submit [-m KEY[,KEY]] [--after ID] [--hold] [options] -- CMD..."
    parser.epilog = (
        "A batch comes as lines of JSON: headgate submit --batch - < jobs.jsonl, each with a "
        "command (a list, or a line for sh) and any of the options above as fields. The id is "
        "printed on stdout once the job is safe on disk."
    )
    parser.add_argument(
        "-m",
        "--model",
        metavar="KEY",
        help="the model it uses; of several, as in KEY,KEY, the first is preferred, and {model} in "
        "CMD stands for the one that it gets",
    )
    add_about(parser)
    job_fields.add_options(parser)
    parser.add_argument(
        "--batch", metavar="FILE", help="submit many: a file with a job on each line, - for stdin"
    )
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="hand it in although its folder or its program is not there",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the id and nothing else")
    parser.add_argument("--json", action="store_true", help="print the job as JSON")
    parser.add_argument(
        "command", nargs=REMAINDER, metavar="CMD", help="the program and its arguments"
    )


def run(args: Namespace) -> int:
    """Hand it in, and say where it stands."""
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if bool(argv) == bool(args.batch):
        raise UsageError("give either a program (headgate submit [options] -- CMD...) or --batch")
    if args.batch and args.stdin is not None:
        raise UsageError(
            "bad --stdin: in a batch each job has its own, the text of its field stdin"
        )
    if args.batch != "-" and args.stdin != "-":
        refuse_unread(quiet=args.quiet)
    with open_gate(args) as gate:
        if args.batch:
            drafts = _batch(args.batch, gate)
        else:
            drafts = [job_fields.from_options(args, argv, gate)]
        if not drafts:
            say("nothing was submitted: there was no job in it")
            return 0
        warnings = [] if args.no_check else check(drafts)
        if not args.quiet:
            for warning in warnings:
                say(f"warning: {warning}")
            if any(draft.name.isdigit() for draft in drafts):
                say("warning: a name of digits only is taken for an id; it finds no job")
            warn_of_slips(gate, (draft.key for draft in drafts))
        found = gate.jobs.submit(drafts)
        if not args.quiet:
            _warn(drafts[0], gate)
    _tell(found, args)
    return 0


def _warn(draft: Draft, gate: Gate) -> None:
    """Say which of the terms that were given may end a healthy agent."""
    from headgate.core.agents.run_limits import warnings

    said: dict[str, Any] = dict(draft.spec.terms)
    if said:
        terms = gate.job_policy
        for warning in warnings(terms._replace(limits=terms.limits._replace(**said))):
            say(f"warning: {warning}")


def _batch(name: str, gate: Gate) -> list[Draft]:
    try:
        which = 0 if name == "-" else name  # JSON is UTF-8, whatever the locale says of stdin
        with open(which, encoding="utf-8", closefd=bool(which)) as file:
            return job_fields.from_lines(file, gate)
    except UnicodeDecodeError:
        raise UsageError(f"{name}: expected UTF-8 text, a line of JSON for each job") from None
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None


def _tell(found: list[JobStatus], args: Namespace) -> None:
    if args.json:
        listed = [json_shapes.document(json_shapes.work(job)) for job in found]
        print_json(listed if args.batch else listed[0], old_json_names.WORK)
        return
    sys.stdout.write("".join(f"{job.id}\n" for job in found))
    sys.stdout.flush()
    if args.quiet:
        return
    if len(found) == 1:
        say(describe(found[0]))
    else:
        say(f"{len(found)} jobs submitted, {found[0].id} to {found[-1].id}")
