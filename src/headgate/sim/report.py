"""The report: headgate beside every baseline, against the aims, with what was missed and why."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from headgate.sim.compare import GOVERNORS, OURS, Case, Score, process_pool, score
from headgate.sim.scenario import Scenario

FIRST_SEED = 101
"""The law was tuned on seeds below 100, and is judged on others."""
BASELINES = tuple(name for name in GOVERNORS if name not in OURS)
_READINGS = (0.97, 0.5)
_AIMS = {
    (False, "steady"): (0.95, 2.0),
    (False, "moving"): (0.90, None),
    (True, "steady"): (0.90, None),
    (True, "moving"): (0.85, None),
    (True, "humans"): (0.75, None),
}
"""Goodput and 429s per thousand without readings, by whether refusals are punished, and kind."""

Key = tuple[str, str, bool, bool]
Table = dict[Key, list[Score]]


def everything(
    scenarios: list[Scenario],
    seeds: list[int],
    processes: int,
    tell: Callable[[int, int], None] | None = None,
) -> list[Score]:
    """Run all scenarios under all governors, punished and not, with readings and without."""
    cases = [
        Case(scenario=scenario, governor=governor, seed=seed, penalty=penalty, usage=usage)
        for scenario in scenarios
        for seed in seeds
        for governor in GOVERNORS
        for penalty, usage in ((False, False), (True, False), (scenario.plan.penalty > 0, True))
        if _makes_sense(scenario, governor, penalty=penalty, usage=usage)
    ]
    found = []
    with process_pool(processes) as pool:
        for result in pool.imap_unordered(score, cases, chunksize=1):
            found.append(result)
            if tell is not None:
                tell(len(found), len(cases))
    return found


def _makes_sense(scenario: Scenario, governor: str, *, penalty: bool, usage: bool) -> bool:
    if penalty and not scenario.plan.penalty:
        return False
    if scenario.only_usage and not usage:
        return False
    return not usage or governor in OURS


def line(scenario: str, governor: str, scores: list[Score]) -> str:
    """One governor in one scenario, over all seeds."""
    results = [score.result for score in scores]
    waits = [result.waits.get("normal", (0.0, 0.0)) for result in results]
    return (
        f"{scenario:<16} {governor:<14} {fmean(s.goodput for s in scores):>8.3f} "
        f"{fmean(s.refusals for s in scores):>10.2f} "
        f"{fmean(r.punished for r in results):>9.2f} "
        f"{_seconds([r.reached for r in results]):>8} "
        f"{_seconds([r.found_again for r in results]):>7} "
        f"{fmean(r.fairness for r in results):>5.2f} "
        f"{fmean(p50 for p50, _ in waits):>8.0f}s {fmean(p99 for _, p99 in waits):>6.0f}s"
    )


def _seconds(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.0f}s" if known else "never"


def write(scores: list[Score], pictures: list[str]) -> str:
    """The report as Markdown."""
    table: Table = {}
    for found in scores:
        case = found.case
        key = (case.scenario.name, case.governor, case.penalty, case.usage)
        table.setdefault(key, []).append(found)
    scenarios = {found.case.scenario.name: found.case.scenario for found in scores}
    parts = [
        _head(scores),
        "### Against the aims",
        _aims(table, scenarios),
        "### Without readings, every 429 punished",
        _comparison(table, scenarios, penalty=True),
        "### Without readings, 429s cost nothing",
        _comparison(table, scenarios, penalty=False),
        "### With usage readings",
        _with_readings(table, scenarios),
        *([f"![{name}]({name})" for name in pictures]),
    ]
    return "\n\n".join(parts) + "\n"


def _head(scores: list[Score]) -> str:
    hours = sum(found.case.scenario.hours for found in scores)
    seeds = len({found.case.seed for found in scores})
    return (
        f"{len(scores)} runs, {seeds} seeds each, {hours:.0f} simulated hours. Cells: goodput as "
        "a share of what an oracle gets done, then 429s per 1000 requests."
    )


def _aims(table: Table, scenarios: dict[str, Scenario]) -> str:
    rows = ["| scenario | readings | punished | aim | learn | learn-blind | |", "|---" * 7 + "|"]
    for name, scenario in scenarios.items():
        for penalty, usage in ((scenario.plan.penalty > 0, True), (False, False), (True, False)):
            aim = _READINGS if usage else _AIMS.get((penalty, scenario.kind))
            told = table.get((name, "learn", penalty, usage))
            blind = table.get((name, "learn-blind", penalty, usage))
            if aim is None or told is None or blind is None:
                continue
            least, most = aim
            text = f"≥ {least:.2f}" + ("" if most is None else f", ≤ {most:g}")
            verdict = "" if _meets(told, least, most) else "**missed**"
            rows.append(
                f"| {name} | {'yes' if usage else 'no'} | {'yes' if penalty else 'no'} | {text} "
                f"| {_cell(told)} | {_cell(blind)} | {verdict} |"
            )
    return "\n".join(rows)


def _meets(scores: list[Score], least: float, most: float | None) -> bool:
    good = fmean(score.goodput for score in scores) >= least - 0.0005
    return good and (most is None or fmean(score.refusals for score in scores) <= most)


def _cell(scores: list[Score] | None) -> str:
    if not scores:
        return ""
    goodput = f"{fmean(score.goodput for score in scores):.2f}".lstrip("0") or "0"
    refusals = fmean(score.refusals for score in scores)
    return f"{goodput} / {refusals:.1f}" if refusals < 100 else f"{goodput} / {refusals:.0f}"


def _comparison(table: Table, scenarios: dict[str, Scenario], *, penalty: bool) -> str:
    names = [
        name
        for name in scenarios
        if (name, "learn", penalty, False) in table and (name, "fixed", penalty, False) in table
    ]
    rows = [f"| governor | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for governor in (*OURS, *BASELINES):
        cells = (_cell(table.get((name, governor, penalty, False))) for name in names)
        rows.append(f"| {governor} | {' | '.join(cells)} |")
    best = (_best(table, name, penalty=penalty) for name in names)
    rows.append(f"| best baseline | {' | '.join(best)} |")
    return "\n".join(rows)


def _best(table: Table, name: str, *, penalty: bool) -> str:
    found = {
        governor: fmean(score.goodput for score in table[name, governor, penalty, False])
        for governor in BASELINES
        if (name, governor, penalty, False) in table
    }
    winner = max(found, key=lambda governor: found[governor])
    ours = fmean(score.goodput for score in table[name, "learn", penalty, False])
    mark = "" if ours >= found[winner] - 0.0005 else " **ahead**"
    return f"{winner} {found[winner]:.2f}".replace(" 0.", " .") + mark


def _with_readings(table: Table, scenarios: dict[str, Scenario]) -> str:
    names = [name for name in scenarios if (name, "learn", True, True) in table]
    names += [
        name for name in scenarios if name not in names and (name, "learn", False, True) in table
    ]
    rows = [f"| governor | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for governor in OURS:
        cells = [
            _cell(
                table.get((name, governor, True, True)) or table.get((name, governor, False, True))
            )
            for name in names
        ]
        rows.append(f"| {governor} | {' | '.join(cells)} |")
    return "\n".join(rows)


_DRAWN = (
    ("moving", "learn", False),
    ("moving", "learn", True),
    ("moving", "step-down", False),
    ("humans", "learn", False),
    ("humans", "learn", True),
)
"""The runs that say most: a scenario, a governor, and whether upstream's own count is read."""


def pictures(report: Path) -> list[str]:
    """Draw the runs that say most beside the report; returns their file names."""
    from headgate.sim.plot import draw
    from headgate.sim.scenario import built_in

    known = built_in()
    found = []
    for suffix in (".svg", ".png"):
        path = report.with_name(f"{report.stem}-moving{suffix}")
        cases = [
            Case(known[scenario], governor, FIRST_SEED, penalty=True, usage=usage)
            for scenario, governor, usage in _DRAWN
        ]
        draw(cases, path)
        found.append(path.name)
    return found[:1]
