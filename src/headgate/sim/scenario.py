"""Scenarios: how a provider behaves and who asks it for what, as TOML.

    title = "the cap falls and comes back"
    kind = "moving"                       # steady, moving, humans or odd: which aim it is held to
    hours = 2

    [agents]                              # each sends a request, waits for its end, sends the next
    number = 12
    seconds = 30                          # how long a request takes, on average
    spread = 0.8                          # of the logarithm of that

    [provider]
    cap = [[0, 8], [2400, 3], [4800, 8]]  # from which second on how many may be in flight
    penalty = 1800                        # for how many seconds each 429 makes everything slow

Times in a file are seconds. Every key of `[agents]` and `[provider]` is explained at the fields of
`Agents` below and of `ProviderPlan` in `upstream`.
"""

import random
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import shown
from headgate.core.table_fields import (
    FLAG,
    Field,
    Fields,
    choice,
    flag,
    read_fields,
    real,
    shortened,
    unknown,
)
from headgate.errors import ConfigError, UsageError
from headgate.sim.upstream import ProviderPlan, Steps

FOLDER = Path(__file__).with_name("scenarios")
KINDS = ("steady", "moving", "humans", "odd")
_RANGE = "a number from {:g} to {:g}"


class Agents(NamedTuple):
    """Who asks: so many agents, each with one request at a time."""

    number: int = 12
    seconds: float = 30.0
    spread: float = 0.8
    first_token: tuple[float, float] = (0.5, 2.0)
    """An acceptance shows after so many seconds, at random between the two."""
    refusal: float = 0.3
    """A refusal shows after so many seconds."""
    think: float = 0.0
    """Seconds between the end of one request and the next."""
    cancelled: float = 0.0
    """The share of requests that are cancelled on the way."""
    tokens: int = 0
    """How many tokens a request takes."""
    models: tuple[tuple[str, int, float], ...] = (("", 1, 1.0),)
    """Name, weight and share of each model that is asked for."""
    urgent: float = 0.0
    """The share of agents with a higher priority."""
    active: Steps = ((0, 1.0),)
    """The share of agents that have something to do; the others send nothing new."""


class Scenario(NamedTuple):
    """One thing that may happen."""

    name: str
    title: str
    kind: str
    hours: float
    agents: Agents
    plan: ProviderPlan
    humans: tuple[float, float] | None = None
    """Others take between none and so many seats, and change their mind every so many seconds."""
    walk: tuple[float, float, float] | None = None
    """The cap wanders between two values, moving every so many seconds."""
    governors: int = 1
    """How many know nothing of each other."""
    restart: float | None = None
    """After so many seconds everything that runs is killed and started anew."""
    told: bool = False
    """Whether the rates are in the configuration."""
    only_usage: bool = False
    """Whether it makes sense with usage readings only."""

    @property
    def span(self) -> int:
        """How many milliseconds it takes."""
        return round(self.hours * 3_600_000)

    def planned(self, seed: int, *, penalty: bool) -> ProviderPlan:
        """The plan, with its random parts drawn for this seed."""
        plan = self.plan if penalty else self.plan._replace(penalty=0)
        dice = random.Random(seed * 7_919 + 11)  # noqa: S311 - a simulation wants it repeatable
        if self.humans is not None:
            most, every = self.humans
            steps = _draw(dice, self.span, every, lambda _: dice.randint(0, int(most)), 0.0)
            plan = plan._replace(foreign=steps)
        if self.walk is not None:
            low, high, every = self.walk

            def move(cap: float) -> float:
                return max(low, min(high, cap + dice.choice((-2, -1, 1, 2))))

            plan = plan._replace(cap=_draw(dice, self.span, every, move, (low + high) // 2))
        return plan

    @property
    def most(self) -> int:
        """The highest cap it ever has: what somebody who knows the provider would configure."""
        if self.walk is not None:
            return int(self.walk[1])
        return int(max(cap for _, cap in self.plan.cap))


def _draw(dice: random.Random, span: int, every: float, value: Any, first: float) -> Steps:  # noqa: ANN401
    """A value that changes at random moments."""
    steps, at, now = [], 0, first
    while at < span:
        now = value(now)
        steps.append((at, now))
        at += int(dice.expovariate(1 / (every * 1000))) + 1
    return tuple(steps)


def built_in() -> dict[str, Scenario]:
    """The scenarios that come with headgate, by name."""
    return {path.stem: load(path) for path in sorted(FOLDER.glob("*.toml"))}


def load(path: Path) -> Scenario:
    """Read a scenario from a file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as a scenario: {error}") from None
    wrong: list[str] = []
    scenario = _read(path.stem, document, wrong)
    if wrong:
        raise ConfigError("\n".join(f"{path}: {said}" for said in shortened(wrong)))
    return scenario


def _read(name: str, document: Mapping[str, Any], wrong: list[str]) -> Scenario:
    top = _table(document, "", _TOP, wrong)
    agents = _table(document.get("agents", {}), "agents", _AGENTS, wrong)
    plan = _table(document.get("provider", {}), "provider", _PROVIDER, wrong)
    if "models" in agents:
        agents["models"] = tuple(_model(entry, wrong) for entry in agents["models"])
    usual = {"title": name, "kind": "odd", "hours": 2}
    return Scenario(name, agents=Agents(**agents), plan=ProviderPlan(**plan), **{**usual, **top})


def _table(found: object, place: str, fields: Fields, wrong: list[str]) -> dict[str, Any]:
    if not isinstance(found, dict):
        wrong.append(f"{place}: found {shown(found)}, expected a table")
        return {}
    here = f"{place}." if place else ""
    wrong += (f"{here}{name}: {unknown(name, fields)}" for name in found if name not in fields)
    return read_fields(found, fields, lambda name, said: wrong.append(f"{here}{name}: {said}"))


def _model(entry: Mapping[str, object], wrong: list[str]) -> tuple[str, int, float]:
    said = {"weight": 1, "share": 1.0, **_table(entry, "agents.models", _MODEL, wrong)}
    return said.get("name", ""), said["weight"], said["share"]


def _models(value: object) -> list[Mapping[str, object]]:
    found = value if isinstance(value, list) else []
    named = all(isinstance(entry, dict) and "name" in entry for entry in found)
    if not named or not any(entry.get("share", 1) for entry in found):
        raise UsageError("no models, or none of them is asked for")
    return found


def _several(count: int, least: float = -1e9) -> Callable[[object], tuple[float, ...]]:
    read = real(least, 1e9)

    def several(value: object) -> tuple[float, ...]:
        if not isinstance(value, list) or len(value) != count:
            raise UsageError("not so many numbers")
        return tuple(map(read, value))

    return several


def _pair(value: object) -> tuple[float, float]:
    low, high = _several(2, 0)(value)
    return low, max(low, high)


def _walk(value: object) -> tuple[float, ...]:
    low, high, every = _several(3, 1)(value)
    if low > high:
        raise UsageError("the wrong way round")
    return low, high, every


def _steps(times: int = 1, least: float = 0) -> Field:
    """A value that changes at times; what the file says is multiplied."""

    def read(value: object) -> Steps:
        entries = value if isinstance(value, list) else [[0, value]]
        steps = list(map(_several(2, least), entries))
        if not steps or steps != sorted(steps):
            raise UsageError("not in the order of time")
        return tuple((round(at * 1000), said * times) for at, said in steps)

    return Field(read, f"{_RANGE.format(least, 1e9)}, or pairs of second and number, in order")


def _spans(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list):
        raise UsageError("not a list")
    return tuple((round(a * 1000), round(b * 1000)) for a, b in map(_several(2), value))


def _by_model(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, dict):
        raise UsageError("not a table")
    return tuple((name, int(real(1, 1e6)(number))) for name, number in value.items())


def _number(least: float, most: float, to: Callable[[float], float] = float) -> Field:
    read = real(least, most)
    return Field(lambda value: to(read(value)), _RANGE.format(least, most))


_TOP: Fields = {
    "title": Field(str, "text"),
    "kind": Field(choice(*KINDS), f"one of {', '.join(KINDS)}"),
    "hours": _number(0.01, 10_000),
    "humans": Field(_several(2, 1), "two numbers from 1 on"),
    "walk": Field(_walk, "the lower cap, the higher, and seconds, from 1 on"),
    "governors": _number(1, 10, int),
    "restart": _number(0, 1e9),
    "told": Field(flag, FLAG),
    "only_usage": Field(flag, FLAG),
    "agents": Field(None, "a table"),
    "provider": Field(None, "a table"),
}
_AGENTS: Fields = {
    **dict.fromkeys(("number", "tokens"), _number(0, 1e6, int)),
    **dict.fromkeys(("refusal", "think"), _number(0, 1e6)),
    **dict.fromkeys(("cancelled", "urgent"), _number(0, 1)),
    "active": _steps(),
    "seconds": _number(0.001, 1e6),
    "spread": _number(0, 5),
    "first_token": Field(_pair, "a list of 2 numbers from 0 on"),
    "models": Field(
        _models, 'a list such as [{ name = "big", weight = 2, share = 0.5 }], one with a share'
    ),
}
_MODEL: Fields = {
    "name": Field(str, "text"),
    "weight": _number(1, 1000, int),
    "share": _number(0, 1e6),
}
_TIME = _number(0, 1e9, lambda seconds: round(seconds * 1000))
_PROVIDER: Fields = {
    **dict.fromkeys(("cap", "foreign", "overload", "usage_error"), _steps()),
    "lag": _steps(1000),
    "usage_bias": _steps(least=-1e9),
    **dict.fromkeys(("cancelled_lag", "penalty", "retry_after", "usage_lag"), _TIME),
    **dict.fromkeys(("soft_limit", "rpm", "tpm"), _number(0, 1e9, round)),
    "slowdown": _number(0.01, 1e9),
    **dict.fromkeys(("quota", "usage_stale"), Field(_spans, "a list of pairs of seconds")),
    **dict.fromkeys(
        ("weights", "model_caps"), Field(_by_model, "a table of models and numbers from 1 to 1e6")
    ),
}
"""Times in a file are seconds, and milliseconds in a plan."""
