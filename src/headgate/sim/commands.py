"""`headgate sim run` and `headgate sim report`: what they take, and what they print."""

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headgate.core.display.json_shapes import document
from headgate.errors import UsageError
from headgate.sim import report as reporting
from headgate.sim.compare import GOVERNORS, Case, Score, score_all
from headgate.sim.random_worlds import find
from headgate.sim.scenario import Scenario, built_in, load

_MANY = 10_000
_MARK = "<!-- what follows is written by make sim -->"
"""A report keeps what stands above this line in the file that it is written to."""


def run_arguments(parser: ArgumentParser) -> None:
    """What `sim run` takes."""
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help="a TOML file, the name of one that comes with headgate, or a random world such as "
        "world-17:told (all that come with headgate if none)",
    )
    parser.add_argument(
        "--governor",
        action="append",
        metavar="NAME",
        choices=sorted(GOVERNORS),
        help=f"what decides how many are let in: {', '.join(GOVERNORS)} "
        "(learn if none; may be given more than once)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="run each N times, by other random numbers",
    )
    parser.add_argument(
        "--first-seed",
        type=int,
        default=1,
        metavar="N",
        help="begin with the random numbers of seed N",
    )
    parser.add_argument(
        "--hours", type=float, metavar="H", help="simulate so many hours (as the scenario says)"
    )
    parser.add_argument("--usage", action="store_true", help="let it read the provider's own count")
    parser.add_argument("--no-penalty", action="store_true", help="nothing gets slow after a 429")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes to use (all cores)")
    parser.add_argument("--plot", metavar="FILE", help="draw the first seed, as .png or .svg")
    parser.add_argument("--list", action="store_true", help="list scenarios and governors")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: Namespace) -> int:
    """Run scenarios, and print a line for each."""
    if args.list:
        _list()
        return 0
    scenarios = [_scenario(name, args.hours) for name in args.scenarios or built_in()]
    governors = args.governor or ["learn"]
    if not 1 <= args.seeds <= _MANY:
        raise UsageError(f"bad --seeds {args.seeds}: expected a number from 1 to {_MANY}")
    cases = [
        Case(
            scenario=scenario,
            governor=governor,
            seed=seed,
            penalty=not args.no_penalty,
            usage=args.usage or scenario.only_usage,
        )
        for scenario in scenarios
        for governor in governors
        for seed in range(args.first_seed, args.first_seed + args.seeds)
    ]
    if args.plot:
        from headgate.sim.plot import draw

        draw([case for case in cases if case.seed == args.first_seed][:12], Path(args.plot))
    scores = score_all(cases, _jobs(args.jobs))
    if args.json:
        _print_json(scores)
        return 0
    print(
        f"{'scenario':<16} {'governor':<14} {'goodput':>8} {'429s/1000':>10} {'punished':>9} "
        f"{'reached':>8} {'again':>7} {'fair':>5} {'wait p50':>9} {'p99':>7}"
    )
    for scenario in scenarios:
        for governor in governors:
            found = [
                score
                for score in scores
                if score.case.scenario == scenario and score.case.governor == governor
            ]
            print(reporting.line(scenario.name, governor, found))
    return 0


def report_arguments(parser: ArgumentParser) -> None:
    """What `sim report` takes."""
    parser.add_argument("--out", metavar="FILE", help="write it there, and its pictures beside it")
    parser.add_argument("--quick", action="store_true", help="one seed, short scenarios only")
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="run each N times, by other random numbers",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes to use (all cores)")


def report(args: Namespace) -> int:
    """Compare headgate with every baseline, and write it down."""
    if not 1 <= args.seeds <= _MANY:
        raise UsageError(f"bad --seeds {args.seeds}: expected a number from 1 to {_MANY}")
    scenarios = list(built_in().values())
    if args.quick:
        scenarios = [scenario for scenario in scenarios if scenario.hours <= 2]
    seeds = range(reporting.FIRST_SEED, reporting.FIRST_SEED + (1 if args.quick else args.seeds))

    def tell(done: int, of: int) -> None:
        end = "\n" if done == of else "\r"
        print(f"headgate: {done} of {of} runs", end=end, file=sys.stderr, flush=True)

    scores = reporting.everything(scenarios, list(seeds), _jobs(args.jobs), tell)
    if args.out is None:
        print(reporting.write(scores, []))
        return 0
    path = Path(args.out)
    text = reporting.write(scores, reporting.pictures(path))
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    head, marked, _ = before.partition(_MARK)
    path.write_text(f"{head}{_MARK}\n\n{text}" if marked else text, encoding="utf-8")
    print(f"headgate: wrote {path}", file=sys.stderr)
    return 0


def _scenario(name: str, hours: float | None) -> Scenario:
    known = built_in()
    if name in known:
        found = known[name]
    elif (drawn := find(name)) is not None:
        found = drawn
    elif Path(name).suffix == ".toml":
        found = load(Path(name))
    else:
        raise UsageError(
            f"there is no scenario {name!r}: name a .toml file, or one of {', '.join(known)}"
        )
    if hours is None:
        return found
    if not 0.01 <= hours <= 10_000:
        raise UsageError(f"bad --hours {hours}: expected a number from 0.01 to 10000")
    return found._replace(hours=hours)


def _jobs(asked: int | None) -> int:
    return max(1, asked if asked is not None else os.cpu_count() or 1)


def _list() -> None:
    print("scenarios:")
    for name, scenario in built_in().items():
        print(f"  {name:<16} {scenario.title} ({scenario.kind}, {scenario.hours:g} h)")
    print("governors:")
    for name, (title, _) in GOVERNORS.items():
        print(f"  {name:<16} {title}")


def _print_json(scores: list[Score]) -> None:
    import json

    rows = [
        {
            "scenario": score.case.scenario.name,
            "governor": score.case.governor,
            "seed": score.case.seed,
            "penalty": score.case.penalty,
            "usage": score.case.usage,
            "goodput": score.goodput,
            "refusals_per_1000": score.refusals,
            **score.result._asdict(),
        }
        for score in scores
    ]
    print(json.dumps(document({"runs": rows}), indent=2 if sys.stdout.isatty() else None))
