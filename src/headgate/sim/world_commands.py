"""`headgate sim worlds`: what it takes, and what it prints."""

import sys
from argparse import ArgumentParser, Namespace

from headgate.errors import UsageError
from headgate.sim import world_report
from headgate.sim.random_worlds import HALVES, SETTINGS, TUNING, seeds
from headgate.sim.world_report import Outcome

_MOST = 100_000


def arguments(parser: ArgumentParser) -> None:
    """What `sim worlds` takes."""
    parser.add_argument("--number", type=int, default=20, metavar="N", help="how many worlds (20)")
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="leave out the first N of them"
    )
    parser.add_argument(
        "--half",
        choices=HALVES,
        default=TUNING,
        help="the worlds to tune on, or those to judge by (tuning)",
    )
    parser.add_argument(
        "--setting",
        action="append",
        metavar="NAME",
        choices=list(SETTINGS),
        help=f"what is told and what is punished: {', '.join(SETTINGS)} "
        "(all of them if none; may be given more than once)",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes to use (1)")


def run(args: Namespace) -> int:
    """Judge headgate in many worlds, and print how that is distributed."""
    if not (1 <= args.number <= _MOST and 0 <= args.first <= _MOST):
        raise UsageError(f"bad --number or --first: expected numbers up to {_MOST}")
    chosen = args.setting or list(SETTINGS)
    worlds = seeds(args.half, args.number, args.first)
    done: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        done.append(outcome)
        of = len(worlds) * len(chosen)
        end = "\n" if len(done) == of else "\r"
        print(f"headgate: {len(done)} of {of} runs", end=end, file=sys.stderr, flush=True)

    print(world_report.write(world_report.judge_all(worlds, chosen, args.jobs, tell)), end="")
    return 0
