"""Scenarios as files, and what the law must make of those that come with headgate.

The figures for the law are floors: what it reaches on these seeds is well above them, what a broken
one reaches is well below.
"""

import string
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.answers.signals import Reading
from headgate.core.learning import usage_readings
from headgate.errors import ConfigError
from headgate.sim.compare import ORACLE, Case, Score, run
from headgate.sim.scenario import FOLDER, KINDS, Agents, Scenario, built_in, load
from headgate.sim.upstream import ProviderPlan
from headgate.sim.virtual_time import Point

KNOWN = built_in()
SEED = 101
"""None of those the law was tuned on."""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_what_happens(tmp_path: Path) -> None:
    """Seconds become milliseconds, steps and spans become plans, the rest is as usual."""
    found = load(
        written(
            tmp_path,
            """
            title = "all of it"
            kind = "moving"
            hours = 1.5
            humans = [3, 60]
            walk = [2, 9, 30]
            governors = 2
            restart = 90
            told = true
            only_usage = true
            [agents]
            number = 3
            seconds = 2.5
            spread = 0
            first_token = [0.1, 0.2]
            refusal = 0.05
            think = 1
            cancelled = 0.5
            tokens = 100
            urgent = 0.1
            models = [{ name = "big", weight = 2, share = 0.4 }, { name = "small" }]
            [provider]
            cap = [[0, 8], [2400, 3]]
            foreign = 1
            lag = [[0, 0.2], [60, 2]]
            cancelled_lag = 0.5
            penalty = 1800
            slowdown = 2.5
            soft_limit = 6
            rpm = 40
            tpm = 60000
            overload = [[0, 0], [10, 0.5]]
            quota = [[5, 10.5]]
            retry_after = 7
            usage_lag = 0.3
            usage_error = 0.25
            usage_stale = [[1, 2], [3, 4]]
            usage_bias = [[0, -2]]
            weights = { big = 2 }
            model_caps = { big = 4 }
            """,
        )
    )
    models = (("big", 2, 0.4), ("small", 1, 1.0))
    agents = Agents(3, 2.5, 0, (0.1, 0.2), 0.05, 1, 0.5, 100, models, 0.1)
    plan = ProviderPlan(
        cap=((0, 8), (2_400_000, 3)),
        foreign=((0, 1),),
        lag=((0, 200), (60_000, 2_000)),
        cancelled_lag=500,
        penalty=1_800_000,
        slowdown=2.5,
        soft_limit=6,
        rpm=40,
        tpm=60_000,
        overload=((0, 0), (10_000, 0.5)),
        quota=((5_000, 10_500),),
        retry_after=7_000,
        usage_lag=300,
        usage_error=((0, 0.25),),
        usage_stale=((1_000, 2_000), (3_000, 4_000)),
        usage_bias=((0, -2),),
        weights=(("big", 2),),
        model_caps=(("big", 4),),
    )
    assert found == Scenario(
        *("mine", "all of it", "moving", 1.5),
        *(agents, plan),
        humans=(3, 60),
        walk=(2, 9, 30),
        governors=2,
        restart=90,
        told=True,
        only_usage=True,
    )
    assert set(found.plan._fields) == set(ProviderPlan._fields)
    assert (found.span, found.most) == (5_400_000, 9)


def test_an_empty_file_is_a_scenario(tmp_path: Path) -> None:
    """Everything has a usual value, and the name is the file's."""
    assert load(written(tmp_path, "")) == Scenario(
        "mine", "mine", "odd", 2, Agents(), ProviderPlan()
    )


@pytest.mark.parametrize(
    "text, where",
    [
        ("hour = 2", "hour"),
        ("agents = 3", "agents"),
        ("provider = []", "provider"),
        ("[agents]\nnumbers = 3", "agents.numbers"),
        ('kind = "calm"', "kind"),
        ("kind = []", "kind"),
        ("hours = 0", "hours"),
        ("hours = nan", "hours"),
        ("hours = true", "hours"),
        ("hours = 0x" + "f" * 5_000, "hours"),
        ("humans = 4", "humans"),
        ("humans = [4, 0]", "humans"),
        ("humans = [-4, 10]", "humans"),
        ('humans = [4, "x"]', "humans"),
        ("walk = [3, 8]", "walk"),
        ("walk = [8, 3, 60]", "walk"),
        ("governors = 0", "governors"),
        ("governors = 11", "governors"),
        ("restart = -1", "restart"),
        ('told = "no"', "told"),
        ("only_usage = 1", "only_usage"),
        ("[agents]\nnumber = -1", "agents.number"),
        ("[agents]\nseconds = 0", "agents.seconds"),
        ("[agents]\nspread = 1000", "agents.spread"),
        ("[agents]\nfirst_token = 3", "agents.first_token"),
        ("[agents]\nfirst_token = [-5, 3]", "agents.first_token"),
        ("[agents]\nurgent = 1.5", "agents.urgent"),
        ("[agents]\nmodels = 3", "agents.models"),
        ("[agents]\nmodels = []", "agents.models"),
        ('[agents]\nmodels = ["big"]', "agents.models"),
        ("[agents]\nmodels = [{ weight = 2 }]", "agents.models"),
        ('[agents]\nmodels = [{ name = "a", wait = 2 }]', "agents.models.wait"),
        ('[agents]\nmodels = [{ name = "a", weight = 0 }]', "agents.models.weight"),
        ('[agents]\nmodels = [{ name = "a", share = -1 }]', "agents.models.share"),
        ('[agents]\nmodels = [{ name = "a", share = 0 }]', "agents.models"),
        ('[provider]\ncap = "4"', "provider.cap"),
        ("[provider]\ncap = []", "provider.cap"),
        ("[provider]\ncap = [3]", "provider.cap"),
        ("[provider]\ncap = [[10, 3], [0, 4]]", "provider.cap"),
        ("[provider]\nlag = -1", "provider.lag"),
        ("[provider]\nlag = 2024-01-01", "provider.lag"),
        ("[provider]\npenalty = [1]", "provider.penalty"),
        ("[provider]\nquota = 5", "provider.quota"),
        ("[provider]\nusage_stale = [[1, 2, 3]]", "provider.usage_stale"),
        ("[provider]\nweights = 3", "provider.weights"),
        ("[provider]\nmodel_caps = { big = 0 }", "provider.model_caps"),
        ("[provider]\nweights = { big = [] }", "provider.weights"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, where: str) -> None:
    """File, key, what was found and what is allowed, in one line."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load(path)
    said = str(error.value)
    assert said.startswith(f"{path}: {where}: ")
    assert "unknown; allowed here: " in said or ("found " in said and ", expected " in said)
    assert len(said) < 600
    assert "\n" not in said


@pytest.mark.parametrize(
    "data",
    [
        b"hours = ",
        b"hours = 1\nhours = 2",
        b"\xff\xfe",
        b"a = " + b"[" * 5_000 + b"]" * 5_000,
        b"hours = " + b"9" * 5_000,
    ],
)
def test_what_is_no_toml_is_a_mistake_in_the_file(tmp_path: Path, data: bytes) -> None:
    """Broken text, other encodings, endless depth and endless numbers."""
    path = tmp_path / "mine.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="cannot be read as a scenario") as error:
        load(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """And a folder is none."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read as a scenario") as error:
            load(path)
        assert str(path) in str(error.value)


NUMBERS = st.integers(-3, 2_000) | st.floats(allow_nan=True, allow_infinity=True)
SCALARS = NUMBERS | st.booleans() | st.text(string.ascii_letters, max_size=6).map(repr)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6
)
TOP = ("kind", "hours", "humans", "walk", "governors", "restart", "told", "title", "x")


def toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)


def lines(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    found = st.dictionaries(st.sampled_from(names), VALUES, max_size=4)
    return found.map(lambda drawn: "".join(f"{k} = {toml(v)}\n" for k, v in drawn.items()))


@given(
    top=lines(TOP),
    agents=lines((*Agents._fields, "x")),
    provider=lines((*ProviderPlan._fields, "x")),
)
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_a_file_loads_and_runs_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, top: str, agents: str, provider: str
) -> None:
    """Whatever is in it: a scenario that can be run, or a ConfigError that names it."""
    text = f"{top}\n[agents]\n{agents}\n[provider]\n{provider}"
    path = written(tmp_path_factory.getbasetemp(), text)
    try:
        found = load(path)
    except ConfigError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017 - either is right
        return
    few = found.agents._replace(number=min(found.agents.number, 5))
    tiny = found._replace(hours=0.01, agents=few)
    plan = tiny.planned(1, penalty=True)
    assert all(when >= 0 for when, _ in plan.foreign)
    assert tiny.most >= 0
    run(Case(tiny, "fixed", 1))


@given(data=st.binary(max_size=200))
@settings(deadline=None, max_examples=100)
def test_bytes_are_a_scenario_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """Nothing but a ConfigError comes out of a file."""
    path = tmp_path_factory.getbasetemp() / "bytes.toml"
    path.write_bytes(data)
    try:
        assert isinstance(load(path), Scenario)
    except ConfigError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is right


def test_every_file_that_comes_with_headgate_loads() -> None:
    """All that CONTROL asks for are there, each with a title, a kind and somebody who asks."""
    assert set(KNOWN) == {path.stem for path in FOLDER.iterdir()}
    wanted = {
        *("steady-4", "moving", "humans", "short", "herd", "cap-1", "lag-steps", "usage-stale"),
        *("usage-lies", "usage-fails", "cancelled", "rpm", "tpm", "two-governors", "weighted"),
        *("restart", "late-token"),
    }
    assert wanted <= set(KNOWN)
    assert {scenario.kind for scenario in KNOWN.values()} == set(KINDS)
    for name, scenario in KNOWN.items():
        assert (scenario.name, bool(scenario.title)) == (name, True)
        assert scenario.title != name
        assert scenario.agents.number >= scenario.most or scenario.told
        assert scenario.hours >= 1


@pytest.mark.parametrize("name", KNOWN)
def test_a_file_is_of_its_kind(name: str) -> None:
    """Steady caps stay, moving ones move, humans come and go."""
    scenario = KNOWN[name]
    plan = scenario.planned(SEED, penalty=True)
    caps = {cap for _, cap in plan.cap}
    others = {seats for _, seats in plan.foreign}
    if scenario.kind == "steady":
        assert (len(caps), others) == (1, {0})
    elif scenario.kind == "moving":
        assert len(caps) > 1
        assert others == {0}
    elif scenario.kind == "humans":
        assert len(caps) == 1
        assert len(others) > 1
    assert max(caps) <= scenario.most
    assert min(caps) - max(others) >= 1
    assert scenario.planned(SEED, penalty=True) == plan
    assert scenario.planned(SEED, penalty=False) == plan._replace(penalty=0)
    assert scenario.only_usage == bool(name.startswith("usage-"))


@lru_cache
def judged(
    name: str,
    hours: float,
    governor: str = "learn",
    *,
    usage: bool = False,
    penalty: bool = True,
) -> tuple[Score, tuple[Point, ...]]:
    """A short run under fixed dice, and how it went over time."""
    points: list[Point] = []
    case = Case(KNOWN[name]._replace(hours=hours), governor, SEED, penalty, usage)
    result = run(case, points.append)
    best = run(case._replace(governor=ORACLE, penalty=False, usage=False)).work
    per_thousand = 1000 * result.refused / result.sent
    return Score(case, result.work / best, per_thousand, result), tuple(points)


@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize("name", ["steady-4", "cap-1", "herd"])
def test_a_cap_that_is_known_is_used_in_full(name: str, usage: bool) -> None:  # noqa: FBT001
    """Told the cap, nobody is refused, and nearly all of it is used; with readings as without."""
    found, points = judged(name, 0.4, usage=usage)
    assert found.result.refused == 0
    assert found.goodput >= (0.92 if name == "herd" else 0.95)
    assert {point.limit for point in points} == {KNOWN[name].most}


@pytest.mark.parametrize("name, hours", [("steady-4", 0.4), ("steady-16", 0.2)])
def test_a_cap_that_nobody_told_is_found(name: str, hours: float) -> None:
    """From nothing, within two minutes, at the price of one refusal; and it is then kept."""
    found, points = judged(name, hours, "learn-blind")
    cap = KNOWN[name].most
    assert found.result.refused <= 2
    assert found.result.reached is not None
    assert found.result.reached <= 120
    assert all(point.limit == cap for point in points if point.at > 300_000)
    assert points[0].limit < cap


@pytest.mark.parametrize("name, hours", [("steady-4", 0.5), ("herd", 0.2), ("steady-16", 0.2)])
def test_a_limit_that_is_twice_the_cap_comes_down_to_it(name: str, hours: float) -> None:
    """One burst is one cut, whoever it hit: the limit goes to the cap, not through the floor."""
    found, points = judged(name, hours, "learn-double", penalty=False)
    cap = KNOWN[name].most
    assert found.result.refused <= cap * 1.5 + 4
    assert found.goodput >= 0.75
    assert min(point.limit for point in points) >= cap - 1
    assert all(cap - 1 <= point.limit <= cap + 1 for point in points if point.at > 300_000)
    late = [point.refused for point in points if point.at > 300_000]
    assert late[-1] - late[0] <= 2


def test_readings_do_without_the_limit() -> None:
    """Twice the cap is configured: with the provider's own count nobody is ever refused."""
    found, _ = judged("steady-4", 0.4, "learn-double", usage=True)
    assert found.result.refused == 0
    assert found.goodput >= 0.94


@pytest.mark.parametrize("penalty", [False, True])
def test_a_cap_that_falls_is_followed_and_found_again(penalty: bool) -> None:  # noqa: FBT001
    """From 8 to 3 with few refusals, and within ten minutes of its return back to 8."""
    found, points = judged("moving", 1.55, penalty=penalty)
    assert found.refusals <= 30
    assert found.goodput >= (0.75 if penalty else 0.85)
    assert min(point.limit for point in points) >= 2
    low = [point.limit for point in points if 2_700_000 < point.at < 4_800_000]
    assert sorted(low)[len(low) // 2] <= 4
    back = [point for point in points if point.at >= 4_800_000 + 600_000]
    assert back
    assert all(point.limit == 8 for point in back)
    assert found.result.found_again is not None
    assert found.result.found_again <= 600


def test_with_readings_a_moving_cap_costs_nothing() -> None:
    """The fall and the return are seen before anybody is refused."""
    found, _ = judged("moving", 1.4, usage=True)
    assert found.refusals <= 1
    assert found.goodput >= 0.93
    assert found.result.found_again is not None
    assert found.result.found_again <= 60


def test_with_readings_humans_are_left_alone() -> None:
    """At most one refusal in a thousand requests, and what they leave is used."""
    found, _ = judged("humans", 1.0, usage=True)
    assert found.refusals <= 1
    assert found.goodput >= 0.9


@pytest.mark.parametrize("name", ["usage-fails", "usage-stale", "usage-lies"])
def test_bad_readings_do_not_open_the_gate(name: str) -> None:
    """Failing, repeated and wrong counts: no more refusals than without any, and work goes on."""
    found, _ = judged(name, 0.6 if name != "usage-lies" else 0.9, usage=True)
    assert found.refusals <= 15
    assert found.goodput >= 0.6


def test_a_free_seat_is_not_lost_for_good() -> None:
    """Three long requests, readings of 3 of 4 for as long as one likes: a fourth is let in.

    The times are from the journal of a real run: two short requests beside two people, who leave;
    two more; then three that last. Nothing changes any more, so nothing but a grant can change it.
    """
    lives = ((520, 784), (520, 784), (1081, 1345), (1081, 1348), (1701, 0), (1701, 0), (1993, 0))
    sight = usage_readings.Sight()
    for asked, count in ((520, 2), (1990, 2), *((2249 + 255 * n, 3) for n in range(40))):
        own = [
            usage_readings.Own(1, 10**6 + sent, 10**6 + ended if 0 < ended <= asked else None)
            for sent, ended in lives
            if sent < asked
        ]
        now = 10**6 + asked
        sight = usage_readings.take(
            sight, Reading(count, 4, 4), own, usage_readings.Question(now, 4), now
        )
    assert usage_readings.estimate(sight, own, 250, now) == 3
    assert usage_readings.stance(sight, 250, now) == usage_readings.FRESH


@pytest.mark.parametrize("name, hours", [("moving", 1.5), ("humans", 0.6)])
def test_step_down_never_rises(name: str, hours: float) -> None:
    """One less per incident, never below one, until somebody restores it."""
    found, points = judged(name, hours, "step-down")
    limits = [point.limit for point in points]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] == 8
    assert 1 <= limits[-1] < 8
    drops = {a - b for a, b in pairwise(limits)}
    assert drops <= {0, 1}
    assert found.result.refused >= limits[0] - limits[-1]


@pytest.mark.parametrize("name", ["rpm", "tpm"])
def test_rates_that_are_told_are_never_exceeded(name: str) -> None:
    """And nearly all of them is used."""
    found, points = judged(name, 0.3)
    assert found.result.refused == 0
    assert found.goodput >= 0.85
    assert {point.limit for point in points} == {KNOWN[name].most}


def test_what_was_learned_survives_a_restart() -> None:
    """Killed in the middle of a penalty, it goes on with the limit that it had found."""
    found, points = judged("restart", 0.75)
    before = [point.limit for point in points if point.at < 2_100_000][-1]
    after = next(point.limit for point in points if point.at > 2_100_000)
    assert before == after < 8
    assert found.refusals <= 40
