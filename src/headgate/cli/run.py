"""Run a program when there is room for it, and give its seats back when it has ended."""

import os
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from typing import TYPE_CHECKING

from headgate.cli.shared.open_gate import open_gate, say, warn_of_slips
from headgate.cli.shared.options import (
    add_about,
    add_grace,
    add_meter,
    add_queue_timeout,
    add_run_limits,
)
from headgate.cli.shared.progress import Progress
from headgate.core.quantities import parse_duration, shown
from headgate.core.times import Seconds, seconds
from headgate.errors import CancelledWorkError, HeadgateError, UsageError

if TYPE_CHECKING:
    from headgate.core.agents.run_limits import RunLimits
    from headgate.gate.lease import Lease
    from headgate.wire.point_agent import WirePlan

_LONG_AGO = Seconds(100_000_000)


def arguments(parser: ArgumentParser) -> None:
    """What `run` takes."""
    parser.usage = "headgate run [-m KEY] [--task ID] [-p PRIORITY] [options] -- CMD..."
    parser.add_argument(
        "-m",
        "--model",
        metavar="KEY",
        help="the model it uses, as in anthropic/claude-opus-4-6 (known agents' commands name it)",
    )
    add_about(parser)
    waits = parser.add_mutually_exclusive_group()
    waits.add_argument(
        "--wait", metavar="DUR", help="wait at most so long, as in 10m, then exit 124"
    )
    waits.add_argument("--no-wait", action="store_true", help="exit 75 if there is no room now")
    add_grace(parser)
    add_meter(parser)
    add_queue_timeout(parser)
    add_run_limits(parser, same="off")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing while waiting")
    parser.add_argument(
        "command", nargs=REMAINDER, metavar="CMD", help="the program and its arguments"
    )


def run(args: Namespace) -> int:
    """Wait, run, and end with the program's own code."""
    from headgate.core.agents.meters import Meter
    from headgate.runner import Program, run_program
    from headgate.runner.program_under_lease import CANNOT_START
    from headgate.wire.plan_meter import plan_for, queue_timeout

    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not argv:
        raise UsageError("no program given: headgate run [options] -- CMD...")
    progress = Progress(quiet=args.quiet)
    gate = open_gate(args)
    grace = gate.grace if args.grace is None else seconds(parse_duration(args.grace, "grace"))
    key = args.model or gate.key_of(argv, os.environ)
    if key and not args.quiet:
        warn_of_slips(gate, [key])
    plan = plan_for(gate, argv, key, said=args.meter)
    if args.queue_timeout and plan.meter is not Meter.REQUESTS:
        say(f"--queue-timeout is for --meter requests; this has the meter {plan.meter}")
    program = Program(
        argv,
        key=key,
        task=args.task,
        priority=args.priority,
        since=_since(args.since),
        weight=args.weight,
        roles=args.role or (),
        timeout=0 if args.no_wait else args.wait,
        grace=grace,
        plan=plan if plan.worth_telling else None,
        limits=_limits(args, plan),
        queue_timeout=queue_timeout(args.queue_timeout, os.environ),
    )

    def begin(lease: "Lease") -> None:
        progress.done(lease.waited)
        if lease.waited and not args.quiet and (hint := gate.silence_hint(argv)):
            say(hint)

    def announce(text: str) -> None:
        progress.done()
        say(text)

    try:
        code = run_program(
            gate,
            program,
            say=announce,
            on_wait=None if args.quiet else progress.waiting,
            on_start=begin,
        )
    except CancelledWorkError as error:
        progress.done()
        say(f"not started: {error}")
        return error.exit_code
    except HeadgateError:
        progress.done()
        raise
    progress.done()
    if plan.choice.hint and 0 < code < CANNOT_START and not args.quiet:
        say(f"it was judged by its output; {plan.choice.hint}")
    sys.stdout.flush()
    gate.close()
    return code


def _limits(args: Namespace, plan: "WirePlan") -> "RunLimits | None":
    """When it is ended, whatever it does; None if nothing is said of that."""
    said = (args.stale_after, args.message_stale_after, args.max_runtime, args.max_tool_calls)
    if not any(said) and not args.same_tool_calls:
        return None
    from headgate.cli.shared.run_limits import read_run_limits

    return read_run_limits(args, plan)


def _since(text: str | None) -> Seconds | None:
    """A moment: seconds since the epoch, or a duration ago."""
    if text is None:
        return None
    try:
        moment = Seconds(text)
    except ValueError:
        import time

        return Seconds(time.time()) - seconds(parse_duration(text, "since"))
    if moment < _LONG_AGO:
        raise UsageError(
            f"bad since {shown(text)}: expected seconds since the epoch, or a time ago such as 5m"
        )
    return moment
