"""Changes to the provider while it runs, as named numbers. Times are milliseconds, as in its plan.

`{"cap": 3, "retry_after": null, "quota": 5000, "model_caps": {"opus": 2}, "duration": "1s..5s"}`:
a cap of 3 from now on, no Retry-After, no quota for five seconds.
"""

from collections.abc import Callable, Mapping
from typing import Any

from headgate.core.quantities import MOST
from headgate.core.table_fields import Field, Fields, choice, read_options, real, whole
from headgate.errors import UsageError
from headgate.sim.server.behaviour import (
    CUTS,
    LONGEST,
    SHARE,
    Behaviour,
    Spread,
    fixed,
    parse_spread,
)
from headgate.sim.upstream import ProviderPlan, Steps

_KEPT = 50
"""How many earlier steps of a changing value are kept."""

Change = Callable[[ProviderPlan], ProviderPlan]


def parse_changes(changes: object, now: int, behaviour: Behaviour) -> tuple[Change, Behaviour]:
    """What to do to a plan, and the behaviour from now on."""
    if not isinstance(changes, Mapping):
        raise UsageError("expected a JSON object of names and numbers")
    wrong: list[str] = []
    values = read_options(changes, _FIELDS, wrong)
    if wrong:
        raise UsageError("\n".join(wrong))
    own = {name: values.pop(name) for name in Behaviour._fields if name in values}

    def apply(plan: ProviderPlan) -> ProviderPlan:
        fields: dict[str, Any] = {}
        for name, value in values.items():
            if name in _STEPS:
                fields[name] = _stepped(getattr(plan, name), now, value)
            elif name in _SPANS:
                fields[name] = ((now, now + value),) if value else ()
            else:
                fields[name] = value
        return plan._replace(**fields)

    return apply, behaviour._replace(**own)


def _stepped(steps: Steps, now: int, value: float) -> Steps:
    earlier = tuple(step for step in steps if step[0] < now)
    return (*earlier[-_KEPT:], (now if earlier else 0, value))


def _whole(low: int = 0, most: int = LONGEST) -> Callable[[object], int]:
    read = whole(low, most)
    return lambda value: read(
        int(value) if isinstance(value, float) and value.is_integer() else value
    )


def _by_model(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping):
        raise UsageError("not an object")
    return tuple((str(model), _whole(0, MOST)(number)) for model, number in value.items())


def _duration(value: object) -> Spread | None:
    return parse_spread(value) if isinstance(value, str) else fixed(_count(value))


_count = _whole()
_COUNT = Field(_count, f"a whole number, 0 to {LONGEST}")
_OPTIONAL = _COUNT._replace(read=lambda value: None if value is None else _count(value))
_NUMBER = Field(lambda value: float(real(0.001, MOST)(value)), "a number above 0")
_MAP = Field(_by_model, f"an object of models and whole numbers, 0 to {MOST}")
_STEPS: Fields = {
    **dict.fromkeys(("cap", "foreign", "lag"), _COUNT),
    "usage_bias": Field(_whole(-MOST), f"a whole number, {-MOST} to {LONGEST}"),
    **dict.fromkeys(("overload", "usage_error"), SHARE),
}
_SPANS: Fields = dict.fromkeys(("quota", "usage_stale"), _COUNT)
_FIELDS: Fields = {
    **_STEPS,
    **_SPANS,
    **dict.fromkeys(("penalty", "rpm", "tpm", "usage_lag"), _COUNT),
    **dict.fromkeys(("cancelled_lag", "soft_limit", "retry_after"), _OPTIONAL),
    **dict.fromkeys(("weights", "model_caps"), _MAP),
    **dict.fromkeys(("slowdown", "rate"), _NUMBER),
    **dict.fromkeys(("headers", "first_token", "refusal", "tokens"), _COUNT),
    **dict.fromkeys(("errors", "cuts"), SHARE),
    "duration": Field(
        _duration, f"2s, 1s..5s, exp:20s:2s..10m, tokens, or a whole number, 0 to {LONGEST}"
    ),
    "cut_by": Field(choice(*CUTS), f"one of {', '.join(CUTS)}"),
}
