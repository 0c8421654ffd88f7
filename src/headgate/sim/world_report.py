"""How headgate does over many random worlds: distributions, not examples."""

from collections.abc import Callable, Iterable
from statistics import fmean, median

from headgate.core.named_tuple import NamedTuple
from headgate.sim.compare import SIMPLE, Case, process_pool, score
from headgate.sim.random_worlds import SETTINGS, world

POLITE = 100.0
"""A baseline with more 429s per thousand is hammering, and is shown in a column of its own."""
AHEAD = 0.02
_AIMS = {
    "honest": (0.97, 0.93, 0.5),
    "free": (0.96, 0.90, 5.0),
    "told": (0.92, 0.80, 3.0),
    "blind": (0.90, 0.75, 5.0),
    "several": (0.92, 0.80, 2.0),
}
"""Median, 10th percentile, 429s per thousand."""
_SHOWN = 3
_COLUMNS = (
    *("setting", "median", "10th percentile", "worst", "429 per 1000: mean, median"),
    *("ahead", "by", "any ahead", "aim"),
)


class Outcome(NamedTuple):
    """One world under one setting."""

    seed: int
    setting: str
    goodput: float
    refusals: float
    best: float
    """What the best baseline got done."""
    best_name: str
    polite: float
    """What the best one got done that does not hammer."""


def judge(seed: int, setting: str) -> Outcome:
    """Run headgate and every baseline in one world."""
    chosen, scenario = SETTINGS[setting], world(seed, setting)
    case = Case(
        scenario=scenario,
        governor=chosen.governor,
        seed=seed,
        penalty=chosen.penalty,
        usage=chosen.usage,
    )
    mine = score(case)
    others = {}
    for simple, make in SIMPLE.items():
        limit = None if chosen.governor == "learn-blind" else scenario.most
        if make(limit, 0, chosen.usage) is not None:
            found = score(case._replace(governor=f"{simple}@{chosen.governor}"))
            others[simple] = (found.goodput, found.refusals)
    best = max(others, key=lambda each: others[each][0])
    polite = max((done for done, refused in others.values() if refused <= POLITE), default=0.0)
    return Outcome(
        seed=seed,
        setting=setting,
        goodput=mine.goodput,
        refusals=mine.refusals,
        best=others[best][0],
        best_name=best,
        polite=polite,
    )


def judge_all(
    seeds: Iterable[int],
    settings: Iterable[str],
    processes: int,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Judge every world under every setting."""
    todo = [(seed, setting) for seed in seeds for setting in settings]
    found = []
    if processes <= 1:
        for seed, setting in todo:
            found.append(judge(seed, setting))
            tell(found[-1])
        return found
    with process_pool(processes) as pool:
        for outcome in pool.imap_unordered(_judge, todo, chunksize=1):
            found.append(outcome)
            tell(outcome)
    return sorted(found)


def _judge(todo: tuple[int, str]) -> Outcome:
    return judge(*todo)


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which a share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def write(outcomes: list[Outcome]) -> str:
    """The report as Markdown."""
    of = {name: [one for one in outcomes if one.setting == name] for name in SETTINGS}
    text = [
        f"{len({one.seed for one in outcomes})} worlds. Goodput is a share of what an oracle gets",
        "done. Ahead: worlds in which the best baseline that does not hammer (at most",
        f"{POLITE:g} 429s per 1000) gets more than {AHEAD} more done, and by how much on average;",
        "any: the best of all.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---" * len(_COLUMNS) + "|",
    ]
    text += [_row(name, found) for name, found in of.items() if found]
    if of["faulty"] and of["told"]:
        without = {one.seed: one.goodput for one in of["told"]}
        pairs = [
            one.goodput >= without[one.seed] - AHEAD for one in of["faulty"] if one.seed in without
        ]
        text += ["", f"Faulty readings are no worse than none (by {AHEAD}) in {fmean(pairs):.0%}."]
    text += ["", "Worst worlds, to be replayed with `headgate sim run NAME --plot FILE`:", ""]
    for name, found in of.items():
        worst = sorted(found, key=lambda one: one.goodput - max(one.polite, 0.9))[:_SHOWN]
        if worst:
            said = ", ".join(f"`world-{one.seed}:{name}` {one.goodput:.2f}" for one in worst)
            text.append(f"- {name}: {said}")
    return "\n".join(text) + "\n"


def _row(name: str, found: list[Outcome]) -> str:
    done = [one.goodput for one in found]
    refusals = [one.refusals for one in found]
    leads = [one.polite - one.goodput for one in found if one.polite - one.goodput > AHEAD]
    hammers = fmean(one.best - one.goodput > AHEAD for one in found)
    aim = _AIMS.get(name)
    middle, low = median(done), quantile(done, 0.1)
    wanted = "" if aim is None else f"≥ {aim[0]}, ≥ {aim[1]}, ≤ {aim[2]}"
    if aim is not None and (middle < aim[0] or low < aim[1] or fmean(refusals) > aim[2]):
        wanted += " **missed**"
    return (
        f"| {SETTINGS[name].title} | {middle:.3f} | {low:.3f} | {min(done):.3f} "
        f"| {fmean(refusals):.1f}, {median(refusals):.1f} | {len(leads) / len(found):.0%} "
        f"| {fmean(leads) if leads else 0:.2f} | {hammers:.0%} | {wanted} |"
    )
