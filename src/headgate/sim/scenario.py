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
`Agents` below and of `Plan` in `upstream`.
"""

import random
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import shown
from headgate.errors import ConfigError
from headgate.sim.upstream import ProviderPlan, Steps

FOLDER = Path(__file__).with_name("scenarios")
KINDS = ("steady", "moving", "humans", "odd")


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
    return _Reader(str(path)).scenario(path.stem, document)


_STEPS = {"cap", "foreign", "lag", "overload", "usage_error", "usage_bias"}
_SPANS = {"quota", "usage_stale"}
_BOUNDS = {"seconds": (0.001, 1e6), "spread": (0, 5), "cancelled": (0, 1), "urgent": (0, 1)}
_MILLISECONDS = {"lag", "cancelled_lag", "penalty", "retry_after", "usage_lag"}


class _Reader:
    """Reads one file, and says where in it something is wrong."""

    def __init__(self, name: str) -> None:
        self._name = name

    def scenario(self, name: str, document: Mapping[str, Any]) -> Scenario:
        top = dict(document)
        agents = self._table(top.pop("agents", {}), "agents", set(Agents._fields))
        provider = self._table(top.pop("provider", {}), "provider", set(ProviderPlan._fields))
        known = {"title", "kind", "hours", "humans", "walk", "governors", "restart", "told"}
        self._table(top, "", {*known, "only_usage"})
        if top.get("kind", "odd") not in KINDS:
            raise self._wrong("kind", top["kind"], f"one of {', '.join(KINDS)}")
        hours = self._number(top.get("hours", 2), "hours", 0.01, 10_000)
        pair = self._numbers(top["humans"], "humans", 2) if "humans" in top else None
        walk = self._numbers(top["walk"], "walk", 3) if "walk" in top else None
        if pair and min(pair) < 1:
            raise self._wrong("humans", top["humans"], "two numbers from 1 on")
        if walk and not (1 <= walk[0] <= walk[1] and walk[2] >= 1):
            raise self._wrong("walk", top["walk"], "the lower cap, the higher, and seconds")
        if wrong := [f for f in ("told", "only_usage") if not isinstance(top.get(f, False), bool)]:
            raise self._wrong(wrong[0], top[wrong[0]], "true or false")
        return Scenario(
            name=name,
            title=str(top.get("title", name)),
            kind=top.get("kind", "odd"),
            hours=hours,
            agents=self._agents(agents),
            plan=ProviderPlan(
                **{key: self._plan_value(key, said) for key, said in provider.items()}
            ),
            humans=(pair[0], pair[1]) if pair else None,
            walk=(walk[0], walk[1], walk[2]) if walk else None,
            governors=int(self._number(top.get("governors", 1), "governors", 1, 10)),
            restart=self._number(top["restart"], "restart", 0, 1e9) if "restart" in top else None,
            told=bool(top.get("told", False)),
            only_usage=bool(top.get("only_usage", False)),
        )

    def _agents(self, table: Mapping[str, Any]) -> Agents:
        values: dict[str, Any] = {}
        for key, said in table.items():
            if key == "first_token":
                low, high = self._numbers(said, "agents.first_token", 2)
                if low < 0:
                    raise self._wrong("agents.first_token", said, "no negative number")
                values[key] = (low, max(low, high))
            elif key == "models":
                entries = self._list(said, f"agents.{key}")
                values[key] = tuple(self._model(entry) for entry in entries)
                if not sum(share for _, _, share in values[key]):
                    raise self._wrong("agents.models", said, "at least one with a share")
            elif key in {"number", "tokens"}:
                values[key] = int(self._number(said, f"agents.{key}", 0, 1_000_000))
            else:
                values[key] = self._number(said, f"agents.{key}", *_BOUNDS.get(key, (0, 1e6)))
        return Agents(**values)

    def _model(self, entry: object) -> tuple[str, int, float]:
        if not isinstance(entry, dict) or "name" not in entry:
            raise self._wrong("agents.models", entry, '{ name = "big", weight = 2, share = 0.5 }')
        self._table(entry, "agents.models", {"name", "weight", "share"})
        weight = int(self._number(entry.get("weight", 1), "agents.models.weight", 1, 1000))
        share = self._number(entry.get("share", 1.0), "agents.models.share", 0, 1e6)
        return str(entry["name"]), weight, share

    def _plan_value(self, key: str, said: object) -> Any:  # noqa: ANN401 - as the field says
        where = f"provider.{key}"
        scale = 1000 if key in _MILLISECONDS else 1
        if key in _STEPS:
            entries = said if isinstance(said, list) else [[0, said]]
            steps = [self._numbers(entry, where, 2) for entry in entries]
            if not steps or steps != sorted(steps):
                raise self._wrong(where, said, "pairs of second and value, in the order of time")
            if key != "usage_bias" and min(map(min, steps)) < 0:
                raise self._wrong(where, said, "no negative number")
            return tuple((round(at * 1000), value * scale) for at, value in steps)
        if key in _SPANS:
            spans = [self._numbers(entry, where, 2) for entry in self._list(said, where)]
            return tuple((round(a * 1000), round(b * 1000)) for a, b in spans)
        if key in {"weights", "model_caps"}:
            if not isinstance(said, dict):
                raise self._wrong(where, said, "a table of model and number")
            return tuple(
                (name, int(self._number(number, where, 1, 1e6))) for name, number in said.items()
            )
        number = self._number(said, where, 0.01 if key == "slowdown" else 0, 1e9) * scale
        return number if key == "slowdown" else round(number)

    def _table(self, found: object, where: str, known: set[str]) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self._wrong(where, found, "a table")
        for key in found:
            if key not in known:
                place = f"{where}.{key}" if where else key
                raise ConfigError(
                    f"{self._name}: {place}: unknown; allowed here: {', '.join(sorted(known))}"
                )
        return found

    def _list(self, found: object, where: str) -> list[Any]:
        if not isinstance(found, list):
            raise self._wrong(where, found, "a list")
        return found

    def _numbers(self, found: object, where: str, count: int) -> tuple[float, ...]:
        if not isinstance(found, list) or len(found) != count:
            raise self._wrong(where, found, f"a list of {count} numbers")
        return tuple(self._number(item, where, -1e9, 1e9) for item in found)

    def _number(self, found: object, where: str, low: float, high: float) -> float:
        good = isinstance(found, (int, float)) and not isinstance(found, bool)
        if not good or not low <= found <= high:  # type: ignore[operator]
            raise self._wrong(where, found, f"a number from {low:g} to {high:g}")
        return found  # type: ignore[return-value]

    def _wrong(self, where: str, found: object, allowed: str) -> ConfigError:
        return ConfigError(f"{self._name}: {where}: found {shown(found)}, expected {allowed}")
