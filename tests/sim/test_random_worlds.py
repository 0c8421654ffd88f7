"""Worlds drawn at random: repeatable, split in two halves, and reported as distributions."""

import random
from statistics import fmean

import pytest

from headgate.errors import UsageError
from headgate.sim import commands, world_report
from headgate.sim.baselines import OneWay, Reader
from headgate.sim.compare import ORACLE, Case, maker, run
from headgate.sim.governors import SimulatedJob
from headgate.sim.random_worlds import HALVES, SETTINGS, find, seeds, world
from headgate.sim.upstream import Delay, ProviderAnswer, ProviderPlan, Upstream, Usage
from headgate.sim.world_report import Outcome, judge, judge_all, quantile, write
from tests.cli.golden.compare import asking


def test_a_seed_is_a_world() -> None:
    """The same seed gives the same world, another seed another."""
    assert world(17, "told") == world(17, "told")
    assert world(17, "told").plan != world(19, "told").plan


def test_settings_differ_in_what_they_say_only() -> None:
    """All settings of a seed have one provider; faults and several governors are added to it."""
    told = world(4, "told")
    assert told._replace(name="", title="") == world(4, "blind")._replace(name="", title="")
    assert world(4, "several").plan == told.plan
    assert world(4, "several").governors > 1
    assert world(4, "faulty").plan != told.plan


def test_no_world_is_in_both_halves() -> None:
    """What was tuned on is never judged by."""
    tuning, judging = (set(seeds(half, 50, 3)) for half in HALVES)
    assert len(tuning) == len(judging) == 50
    assert not tuning & judging


def test_worlds_are_broad() -> None:
    """Caps, durations, lags and punishments span their ranges over some hundred worlds."""
    drawn = [world(seed, "told") for seed in range(300)]
    caps = [one.most for one in drawn]
    assert (min(caps), max(caps)) == (1, 60)
    lengths = [one.agents.seconds for one in drawn]
    assert min(lengths) < 2
    assert max(lengths) > 1_000
    assert {one.plan.end_lag.kind for one in drawn if one.plan.end_lag} == {
        "none",
        "uniform",
        "lognormal",
        "humps",
    }
    assert {len(one.plan.cap) > 1 for one in drawn} == {True, False}
    assert {one.plan.foreign[-1][1] > 0 for one in drawn} == {True, False}
    assert {len(one.agents.active) > 1 for one in drawn} == {True, False}


@pytest.mark.parametrize(
    "delay, low, high",
    [
        (Delay(), 0, 0),
        (Delay("uniform", 100, 300), 100, 300),
        (Delay("lognormal", 100, 400, 1.0), 0, 400),
        (Delay("humps", 10, 500, 0.5), 10, 500),
    ],
)
def test_delays_stay_within_their_bounds(delay: Delay, low: int, high: int) -> None:
    """Each family draws between its bounds, and reaches both where it has two."""
    dice = random.Random(1)  # noqa: S311 - repeatable on purpose
    drawn = [delay.draw(dice) for _ in range(300)]
    assert low <= min(drawn) <= max(drawn) <= high
    assert (len(set(drawn)) > 1) == (delay.kind != "none")


def test_a_provider_counts_ends_and_shows_begins_late() -> None:
    """What has begun fills a seat at once and shows later; what has ended keeps it for its lag."""
    plan = ProviderPlan(
        cap=((0, 1),),
        end_lag=Delay("uniform", 3_000, 3_000),
        begin_lag=Delay("uniform", 2_000, 2_000),
        usage_lag=0,
    )
    upstream = Upstream(plan)
    assert upstream.ask(0, 1).kind == "accepted"
    assert upstream.ask(10, 2).kind == "concurrency"
    shown = [(at, usage.in_use) for at in (1_999, 2_000) if (usage := upstream.usage(at))]
    assert shown == [(1_999, 0), (2_000, 1)]
    upstream.leave(5_000, 1)
    assert upstream.ask(7_999, 3).kind == "concurrency"
    assert upstream.ask(8_000, 4).kind == "accepted"


def test_a_rounded_count_and_several_waits() -> None:
    """The usage endpoint may count in steps, and refusals may say one of several things."""
    plan = ProviderPlan(cap=((0, 3),), usage_rounding=2, usage_lag=0, retry_after=(None, 7_000))
    upstream = Upstream(plan)
    for id in range(3):
        upstream.ask(0, id)
    usage = upstream.usage(1)
    assert usage is not None
    assert usage.in_use == 4
    assert {upstream.ask(2, id).retry_after for id in range(9, 40)} == {None, 7_000}


def test_idle_agents_send_nothing() -> None:
    """While nobody has anything to do, nothing is sent; when they have, they go on."""
    scenario = world(0, "told")
    agents = scenario.agents._replace(active=((0, 1.0), (600_000, 0.0), (5_400_000, 1.0)))
    steady = scenario.plan._replace(cap=((0, 4),), foreign=((0, 0),))
    busy = scenario._replace(hours=2, plan=steady)
    idle = busy._replace(agents=agents)
    share = run(Case(idle, ORACLE, 1)).work / run(Case(busy, ORACLE, 1)).work
    assert 0.2 < share < 0.75


def test_a_world_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`sim run world-6:told` replays what a report has printed; other names are refused."""
    assert find("steady-4") is None
    assert find("world-6") == world(6, "told")
    assert commands._scenario("world-6:honest", None) == world(6, "honest")
    for name in ("world-x", "world-6:nothing", "world-"):
        with pytest.raises(UsageError, match="bad world"):
            find(name)
    ask = asking(capsys)
    said = ask("sim", "run", "world-6:told", "--hours", "0.05", "--jobs", "1")
    assert (said.code, said.out.split("\n")[1].split()[0]) == (0, "world-6:told")


def test_baselines_are_told_what_headgate_is() -> None:
    """One that needs a limit cannot do without; one that is told double has double."""
    scenario = world(6, "told")
    plan = Upstream(scenario.plan)
    assert maker("fixed@learn-double")(scenario, plan, 1, False).limit == 2 * scenario.most
    with pytest.raises(UsageError, match="fixed cannot govern"):
        maker("fixed@learn-blind")(scenario, plan, 1, False)


def test_one_way_cuts_once_for_what_was_sent_together() -> None:
    """Refusals of requests that were sent before the last cut change nothing."""
    line = OneWay(4, 0)
    for id in range(4):
        line.ask(SimulatedJob(id, id), 0)
    assert line.granted(0) == [0, 1, 2, 3]
    for id in (1, 2):
        line.refused(id, ProviderAnswer("concurrency"), 300)
    assert line.limit == 3


def test_a_reader_counts_what_a_reading_cannot_have_seen() -> None:
    """On top of the reading come those sent since, and shortly before."""
    reader = Reader(9, 1)
    for id in range(4):
        reader.ask(SimulatedJob(id, id), 0)
    assert reader.granted(0) == [0]
    reader.read(Usage(1, 3, 3, None, 0), 1_000, 1_100)
    assert reader.granted(1_100) == [1]
    reader.read(Usage(2, 3, 3, None, 0), 3_000, 3_100)
    assert reader.granted(3_100) == [2]


def test_a_world_is_judged_beside_every_baseline() -> None:
    """The outcome is what the runs say, in one process and in two."""
    found = judge(36, "told")
    assert 0 < found.goodput <= 1.05
    assert found.best >= found.polite
    assert judge_all([36], ["told"], 2) == [found]


def outcome(
    seed: int, setting: str, goodput: float, refusals: float = 0.0, best: float = 0.6
) -> Outcome:
    """What a world might have come to."""
    return Outcome(
        seed=seed,
        setting=setting,
        goodput=goodput,
        refusals=refusals,
        best=best,
        best_name="fixed",
        polite=0.615,
    )


def test_a_report_is_a_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    """Median, 10th percentile and worst; who is ahead; which aims are missed; what to replay."""
    told = [outcome(n, "told", 0.5 + n / 100, 2.0, best=0.905) for n in range(41)]
    faulty = [outcome(n, "faulty", 0.605) for n in range(41)]
    text = write(told + faulty)
    assert "| 0.700 | 0.540 | 0.500 | 2.0, 2.0 | 24% | 0.07 | 95% |" in text
    assert "**missed**" in text
    assert "no worse than none (by 0.02) in 32%" in text
    assert "`world-0:told` 0.50, `world-1:told` 0.51" in text
    assert quantile(range(10), 0.1) == 1
    assert fmean(one.goodput for one in told) == pytest.approx(0.7)
    said = asking(capsys)("sim", "worlds", "--number", "0")
    assert "bad --number" in said.err


def test_the_command_prints_what_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many worlds of a half, under the settings that were named."""
    asked: list[tuple[int, str]] = []

    def judged(seed: int, setting: str) -> Outcome:
        asked.append((seed, setting))
        return outcome(seed, setting, 0.9)

    monkeypatch.setattr(world_report, "judge", judged)
    words = ("--half", "judging", "--number", "2", "--first", "1", "--setting", "blind")
    said = asking(capsys)("sim", "worlds", *words)
    assert (said.code, asked) == (0, [(3, "blind"), (5, "blind")])
    assert SETTINGS["blind"].title in said.out
    assert "2 of 2 runs" in said.err
