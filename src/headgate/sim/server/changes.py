"""Changes to the provider while it runs, as named numbers. Times are milliseconds, as in `Plan`.

`{"cap": 3, "retry_after": null, "quota": 5000, "model_caps": {"opus": 2}, "duration": "1s..5s"}`:
a cap of 3 from now on, no Retry-After, no quota for five seconds.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from headgate.core.quantities import MOST, shown
from headgate.errors import UsageError
from headgate.sim.server.behaviour import CUTS, LONGEST, Behaviour, fixed, parse_share, parse_spread
from headgate.sim.upstream import ProviderPlan, Steps

STEPS = ("cap", "foreign", "lag", "usage_bias")
SHARES = ("overload", "usage_error")
SPANS = ("quota", "usage_stale")
NUMBERS = ("penalty", "rpm", "tpm", "usage_lag")
OPTIONAL = ("cancelled_lag", "soft_limit", "retry_after")
MAPS = ("weights", "model_caps")
MANNER_TIMES = ("headers", "first_token", "refusal", "tokens")
MANNER_SHARES = ("errors", "cuts")
MANNER = (*MANNER_TIMES, *MANNER_SHARES, "duration", "rate", "cut_by")
NAMES = (*STEPS, *SHARES, *SPANS, *NUMBERS, *OPTIONAL, *MAPS, "slowdown", *MANNER)
_KEPT = 50
"""How many earlier steps of a changing value are kept."""

Change = Callable[[ProviderPlan], ProviderPlan]


def parse_changes(changes: object, now: int, behaviour: Behaviour) -> tuple[Change, Behaviour]:
    """What to do to a plan, and the manner from now on."""
    if not isinstance(changes, Mapping):
        raise UsageError("expected a JSON object of names and numbers")
    for name in changes:
        if name not in NAMES:
            raise UsageError(f"unknown name {shown(name)}: expected one of {', '.join(NAMES)}")
    values: dict[str, Any] = {name: _value(name, value) for name, value in changes.items()}
    own: dict[str, Any] = {name: values.pop(name) for name in MANNER if name in values}

    def apply(plan: ProviderPlan) -> ProviderPlan:
        fields: dict[str, Any] = {}
        for name, value in values.items():
            if name in STEPS or name in SHARES:
                fields[name] = _stepped(getattr(plan, name), now, value)
            elif name in SPANS:
                fields[name] = ((now, now + value),) if value else ()
            else:
                fields[name] = value
        return plan._replace(**fields)

    return apply, behaviour._replace(**own)


def _stepped(steps: Steps, now: int, value: float) -> Steps:
    earlier = tuple(step for step in steps if step[0] < now)
    return (*earlier[-_KEPT:], (now if earlier else 0, value))


def _value(name: str, value: object) -> object:
    if name in SHARES or name in MANNER_SHARES:
        return parse_share(value, name)
    if name in OPTIONAL and value is None:
        return None
    if name in MAPS:
        if not isinstance(value, Mapping):
            raise UsageError(f"bad {name} {shown(value)}: expected an object of models and numbers")
        return tuple((str(model), _whole(name, number, MOST)) for model, number in value.items())
    if name == "duration":
        return parse_spread(value) if isinstance(value, str) else fixed(_whole(name, value))
    if name == "cut_by":
        if value not in CUTS:
            raise UsageError(f"bad cut_by {shown(value)}: expected one of {', '.join(CUTS)}")
        return value
    if name in {"rate", "slowdown"}:
        number = value if isinstance(value, (int, float)) and value is not True else 0
        if not (isfinite(number) and 0.001 <= number <= MOST):
            raise UsageError(f"bad {name} {shown(value)}: expected a number above 0")
        return float(number)
    low = -MOST if name == "usage_bias" else 0
    return _whole(name, value, low=low)


def _whole(name: str, value: object, most: int = LONGEST, *, low: int = 0) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= most:
        raise UsageError(f"bad {name} {shown(value)}: expected a whole number, {low} to {most}")
    return value
