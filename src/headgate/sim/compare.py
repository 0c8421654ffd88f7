"""Runs scenarios under governors, and sets what came out beside what an oracle gets done."""

import signal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headgate.core.named_tuple import NamedTuple
from headgate.errors import UsageError
from headgate.sim.baselines import (
    Aimd,
    Backoff,
    Gradient,
    OneWay,
    Oracle,
    Reader,
    SimpleLine,
    Vegas,
)
from headgate.sim.governors import Governor, Headgate
from headgate.sim.scenario import Scenario
from headgate.sim.upstream import Upstream
from headgate.sim.virtual_time import DELAY, Point, Result, World

if TYPE_CHECKING:
    from multiprocessing.pool import Pool

ORACLE = "oracle"
_COOLDOWN = 2_000


class Case(NamedTuple):
    """One run: what happens, who governs, and under which dice."""

    scenario: Scenario
    governor: str
    seed: int
    penalty: bool = True
    usage: bool = False


class Score(NamedTuple):
    """How a governor did in a case."""

    case: Case
    goodput: float
    """The share of what an oracle gets done."""
    refusals: float
    """429s per thousand requests."""
    result: Result


Maker = Callable[[Scenario, Upstream, int, bool], Governor]


def _headgate(limit: Callable[[Scenario], int | None], adapt: str = "learn") -> Maker:
    def make(scenario: Scenario, _: Upstream, _seed: int, usage: bool) -> Governor:  # noqa: FBT001
        rates = scenario.plan if scenario.told else None
        return Headgate(
            limit(scenario),
            adapt=adapt,
            usage=usage,
            rpm=rates.rpm if rates else 0,
            tpm=rates.tpm if rates else 0,
        )

    return make


def _told(scenario: Scenario) -> int:
    return scenario.most


def _double(scenario: Scenario) -> int:
    return scenario.most * 2


def _nothing(_: Scenario) -> None:
    return None


GOVERNORS: dict[str, tuple[str, Maker]] = {
    "learn": ("adapt = learn, told the highest cap", _headgate(_told)),
    "learn-blind": ("limit = learn: told nothing", _headgate(_nothing)),
    "learn-double": ("adapt = learn, told twice the highest cap", _headgate(_double)),
    "step-down": (
        "adapt = step-down, told the highest cap (one-way minus 1, cooldown 2 s)",
        _headgate(_told, "step-down"),
    ),
    "backoff": ("clients back off, each for itself", lambda _s, _u, seed, _x: Backoff(seed)),
    "fixed-bare": ("fixed at the highest cap", lambda s, _u, _d, _x: SimpleLine(s.most)),
    "fixed": (
        "fixed at the highest cap, cooldown 2 s",
        lambda s, _u, _d, _x: SimpleLine(s.most, _COOLDOWN),
    ),
    "aimd-bare": ("AIMD", lambda s, _u, _d, _x: Aimd(s.most, 0)),
    "aimd": ("AIMD, cooldown 2 s", lambda s, _u, _d, _x: Aimd(s.most, _COOLDOWN)),
    "vegas-bare": ("Vegas", lambda s, _u, _d, _x: Vegas(s.most, 0)),
    "vegas": ("Vegas, cooldown 2 s", lambda s, _u, _d, _x: Vegas(s.most, _COOLDOWN)),
    "gradient-bare": ("Gradient2", lambda s, _u, _d, _x: Gradient(s.most, 0)),
    "gradient": ("Gradient2, cooldown 2 s", lambda s, _u, _d, _x: Gradient(s.most, _COOLDOWN)),
}
"""By name: what it is, and how one is made."""
SIMPLE: dict[str, Callable[[int | None, int, bool], Governor | None]] = {
    "backoff": lambda _limit, seed, _usage: Backoff(seed),
    "fixed": lambda limit, _seed, _usage: None if limit is None else SimpleLine(limit, _COOLDOWN),
    "one-way": lambda limit, _seed, _usage: None if limit is None else OneWay(limit, _COOLDOWN),
    "aimd": lambda limit, _seed, _usage: Aimd(limit or 2, _COOLDOWN),
    "reader": lambda limit, seed, usage: Reader(limit or 200, seed) if usage else None,
}
"""What headgate is held against in random worlds; None where it cannot do with what it is told."""
OURS = ("learn", "learn-blind", "learn-double")


def maker(name: str) -> Maker:
    """How a governor of a name is made: `reader@blind` is a baseline that is told nothing."""
    simple, at, told = name.partition("@")
    if not at:
        return GOVERNORS[name][1]
    limit = {"learn": _told, "learn-blind": _nothing, "learn-double": _double}[told]

    def make(scenario: Scenario, _: Upstream, seed: int, usage: bool) -> Governor:  # noqa: FBT001
        made = SIMPLE[simple](limit(scenario), seed, usage)
        if made is None:
            raise UsageError(f"{simple} cannot govern with what it is told here")
        return made

    return make


def run(case: Case, watch: Callable[[Point], None] | None = None) -> Result:
    """Run one case."""
    scenario, name, seed, penalty, usage = case
    upstream = Upstream(scenario.planned(seed, penalty=penalty), seed)
    governors: list[Governor]
    if name == ORACLE:
        governors = [Oracle(upstream, DELAY)]
    else:
        make = maker(name)
        governors = [make(scenario, upstream, seed + n, usage) for n in range(scenario.governors)]
    return World(scenario, upstream, governors, seed, watch=watch).run()


def score(case: Case) -> Score:
    """Run one case, and the oracle under the same dice but without a punishment to fear."""
    result = run(case)
    best = _oracle(case)
    goodput = result.work / best if best else 0.0
    return Score(case, goodput, 1000 * result.refused / max(1, result.sent), result)


_best: dict[tuple[Scenario, int], float] = {}


def _oracle(case: Case) -> float:
    key = (case.scenario, case.seed)
    if key not in _best:
        _best[key] = run(case._replace(governor=ORACLE, penalty=False, usage=False)).work
    return _best[key]


def score_all(cases: Iterable[Case], processes: int = 1) -> list[Score]:
    """Run many cases, in several processes if asked."""
    todo = list(cases)
    if processes <= 1:
        return [score(case) for case in todo]
    with process_pool(processes) as pool:
        return pool.map(score, todo, chunksize=1)


def process_pool(processes: int) -> "Pool":
    """Processes that share the runs; Ctrl-C is for the one that started them, and ends them all."""
    from multiprocessing import get_context

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # they inherit that
    try:
        return get_context("fork").Pool(processes)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
