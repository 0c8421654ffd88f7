"""Whole worlds drawn at random: what nobody tuned for.

A seed gives one world: a provider, who else is on the account, what the agents want, what the usage
endpoint is like. Every figure comes from a broad range, most of them evenly on a logarithmic scale.
Each world is run under several `SETTINGS`, which differ in what a governor is told and in whether
refusals are punished. Even seeds are for tuning, odd ones for judging; nobody looks at the latter
before he has finished.
"""

import math
import random
from collections.abc import Callable

from headgate.core.named_tuple import NamedTuple
from headgate.errors import UsageError
from headgate.sim.scenario import Agents, Scenario
from headgate.sim.upstream import Delay, ProviderPlan, Steps

TUNING, JUDGING = "tuning", "judging"
HALVES = (TUNING, JUDGING)
PREFIX = "world-"
_REQUESTS = 2_500
"""About how many requests an oracle gets through a world."""
_BUSIEST = 3.0
"""Requests a second beyond which a world would only be slow to simulate."""
_MINUTE, _HOUR = 60_000, 3_600_000


class Setting(NamedTuple):
    """One way to run a world: what the governor knows, and whether refusals are punished."""

    title: str
    governor: str
    penalty: bool = True
    usage: bool = False
    faults: bool = False
    """Whether the usage endpoint fails, repeats itself, lies or stops."""
    several: bool = False
    """Whether two to four governors share the account."""


SETTINGS = {
    "honest": Setting("readings, honest if late", "learn", usage=True),
    "faulty": Setting("readings that fail, repeat, lie or stop", "learn", usage=True, faults=True),
    "free": Setting("no readings, told the cap, not punished", "learn", penalty=False),
    "told": Setting("no readings, told the cap, punished", "learn"),
    "blind": Setting("told nothing, punished", "learn-blind"),
    "double": Setting("told double, punished", "learn-double"),
    "several": Setting("two to four governors with readings", "learn", usage=True, several=True),
}


def seeds(half: str, number: int, first: int = 0) -> list[int]:
    """So many seeds of one half."""
    start = 2 * first + (half == JUDGING)
    return list(range(start, start + 2 * number, 2))


def find(name: str) -> Scenario | None:
    """The world that a name such as `world-17:told` means; None if it means none."""
    if not name.startswith(PREFIX):
        return None
    number, _, setting = name.removeprefix(PREFIX).partition(":")
    if not number.isdecimal() or len(number) > 9 or (setting and setting not in SETTINGS):
        raise UsageError(
            f"bad world {name!r}: expected {PREFIX}N or {PREFIX}N:SETTING, "
            f"with one of {', '.join(SETTINGS)}"
        )
    return world(int(number), setting or "told")


def world(seed: int, setting: str) -> Scenario:
    """The world of a seed, as it is under a setting."""
    dice = random.Random(seed * 104_729 + 5)  # noqa: S311 - repeatable on purpose
    cap = round(_between(dice, 1, 60))
    agents = _agents(dice, cap)
    span = round(min(6, max(2, _REQUESTS * agents.seconds / cap / 3600)) * _HOUR)
    plan = ProviderPlan(
        cap=_caps(dice, cap, span),
        foreign=_others(dice, cap, span),
        end_lag=_delay(dice, 15_000),
        begin_lag=_delay(dice, 15_000 if dice.random() < 0.2 else 2_000),
        cancelled_lag=dice.choice((None, 0, 5_000)),
        penalty=round(_between(dice, _MINUTE, 2 * _HOUR)),
        slowdown=dice.uniform(1.2, 3.0),
        retry_after=_retry_after(dice),
        usage_lag=dice.choice((0, 200, round(_between(dice, 100, 3_000)))),
    )
    agents = agents._replace(active=_demand(dice, span))
    faults, governors = _faults(dice, cap, span), dice.randint(2, 4)
    chosen = SETTINGS[setting]
    if chosen.faults:
        plan = faults(plan)
    return Scenario(
        name=f"{PREFIX}{seed}:{setting}",
        title=f"a random world, {chosen.title}",
        kind="odd",
        hours=span / _HOUR,
        agents=agents,
        plan=plan,
        governors=governors if chosen.several else 1,
        only_usage=chosen.usage,
    )


def _between(dice: random.Random, low: float, high: float) -> float:
    """Evenly on a logarithmic scale."""
    return math.exp(dice.uniform(math.log(low), math.log(high)))


def _agents(dice: random.Random, cap: int) -> Agents:
    seconds = _between(dice, max(1.0, cap / _BUSIEST), 1_200)
    first = _between(dice, 0.1, 5)
    return Agents(
        number=math.ceil(cap * dice.choice((1.2, 1.5, 2, 3))) + 1,
        seconds=seconds,
        spread=dice.uniform(0, 1.2),
        first_token=(first, first * dice.uniform(1, 4)),
        refusal=_between(dice, 0.05, 1),
        think=dice.choice((0, 0, 0.02 * seconds)),
        cancelled=dice.choice((0, 0, 0, dice.uniform(0, 0.3))),
    )


def _delay(dice: random.Random, longest: int) -> Delay:
    """How long a provider takes to notice something: request by request."""
    usual = round(_between(dice, 50, longest))
    kind = dice.choice(("none", "constant", "uniform", "lognormal", "humps"))
    if kind == "none":
        return Delay()
    if kind == "constant":
        return Delay("uniform", usual, usual)
    if kind == "uniform":
        return Delay("uniform", dice.choice((0, usual // 2)), usual)
    if kind == "lognormal":
        return Delay("lognormal", max(1, usual // 3), longest, dice.uniform(0.2, 0.8))
    return Delay("humps", max(1, usual // 8), usual, dice.uniform(0.02, 0.5))


def _caps(dice: random.Random, cap: int, span: int) -> Steps:
    kind = dice.choice(("steady",) * 6 + ("steps", "steps", "drift", "daily", "daily"))
    if kind == "steps":
        every = _between(dice, 20 * _MINUTE, 3 * _HOUR)
        return _changes(dice, span, every, lambda _: max(1, round(cap * dice.uniform(0.3, 1))), cap)
    if kind == "drift":
        every, low = _between(dice, 10 * _MINUTE, _HOUR), max(1, cap // 2)
        return _changes(
            dice, span, every, lambda now: max(low, min(cap, now + dice.choice((-1, 1)))), cap
        )
    if kind == "daily":
        least, phase = dice.uniform(0.3, 0.8), dice.random()
        day = min(span, 24 * _HOUR)
        part = day // 24
        return tuple(
            (n * part, max(1, round(cap * (least + (1 - least) * _wave(n / 24 + phase)))))
            for n in range(math.ceil(span / part))
        )
    return ((0, cap),)


def _wave(turn: float) -> float:
    return (1 + math.cos(2 * math.pi * turn)) / 2


def _others(dice: random.Random, cap: int, span: int) -> Steps:
    kind = dice.choice(("none",) * 5 + ("stay", "come and go", "come and go", "bursts", "daily"))
    most = max(1, round(cap * dice.uniform(0.1, 0.7)))
    if kind == "none" or cap == 1:
        return ((0, 0),)
    if kind == "stay":
        return ((0, min(most, cap - 1)),)
    if kind == "come and go":
        every = _between(dice, _MINUTE, _HOUR)
        return _changes(dice, span, every, lambda _: dice.randint(0, most), 0)
    if kind == "bursts":
        every, last = _between(dice, 3 * _MINUTE, _HOUR), _between(dice, 5_000, 5 * _MINUTE)
        steps: list[tuple[int, float]] = [(0, 0)]
        at = dice.expovariate(1 / every)
        while at < span:
            steps += [(int(at), most), (int(at + last), 0)]
            at += last + 1 + dice.expovariate(1 / every)
        return tuple(steps)
    phase, part = dice.random(), span // 24
    return tuple((n * part, round(most * _wave(n / 24 + phase))) for n in range(24))


def _retry_after(dice: random.Random) -> tuple[int | None, ...]:
    """What refusals say: nothing, too little, about right, too much, or anything at all."""
    right = dice.choice((5_000, 20_000))
    return dice.choice(
        ((None,), (None,), (0,), (1_000,), (right,), (10 * right,), (None, 0, 1_000, 3_600_000))
    )


def _demand(dice: random.Random, span: int) -> Steps:
    """What share of the agents has something to do: all the time, or with idle hours and storms."""
    kind = dice.choice(("busy", "busy", "idle", "storms"))
    if kind == "busy":
        return ((0, 1.0),)
    every = _between(dice, 10 * _MINUTE, span / 3)
    values = (0.0, 1.0, 1.0) if kind == "idle" else (0.2, 0.4, 1.0)
    return _changes(dice, span, every, lambda _: dice.choice(values), 1.0)


def _faults(dice: random.Random, cap: int, span: int) -> Callable[[ProviderPlan], ProviderPlan]:
    """What goes wrong with the usage endpoint."""
    kind = dice.choice(("fails", "repeats", "lies", "stops", "rounds", "jumps"))
    some, wrong = dice.uniform(0.1, 0.95), dice.choice((-2, -1, 1, 2)) * max(1, cap // 10)
    start = round(dice.uniform(0, span - _HOUR))
    spans = tuple(
        (round(at), round(at + dice.uniform(_MINUTE, span / 8)))
        for at in sorted(dice.uniform(0, span) for _ in range(dice.randint(1, 6)))
    )
    flips = _changes(dice, span, span / 6, lambda _: dice.choice((0, wrong)), 0)
    rough = dice.choice((2, 5))

    def changed(plan: ProviderPlan) -> ProviderPlan:
        if kind == "fails":
            return plan._replace(usage_error=((0, some),))
        if kind == "repeats":
            return plan._replace(usage_stale=spans)
        if kind == "lies":
            return plan._replace(usage_bias=((0, wrong),))
        if kind == "jumps":
            return plan._replace(usage_bias=flips)
        if kind == "rounds":
            return plan._replace(usage_rounding=rough)
        return plan._replace(usage_error=((0, 0.0), (start, 1.0), (start + _HOUR, 0.0)))

    return changed


def _changes(
    dice: random.Random, span: int, every: float, value: Callable[[float], float], first: float
) -> Steps:
    """A value that changes at random moments."""
    steps, at, now = [(0, float(first))], dice.expovariate(1 / every), float(first)
    while at < span:
        now = value(now)
        steps.append((int(at), now))
        at += dice.expovariate(1 / every) + 1
    return tuple(steps)
