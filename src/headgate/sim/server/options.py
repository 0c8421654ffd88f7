"""The plan and the manner as options of a command line."""

from argparse import ArgumentParser, Namespace
from typing import Any

from headgate.core.quantities import parse_duration
from headgate.errors import UsageError
from headgate.sim.server.behaviour import CUTS, Behaviour
from headgate.sim.server.changes import parse_changes
from headgate.sim.upstream import ProviderPlan, Steps

_STEPS = {
    "cap": "how many may be in flight, of one account (4); 8,40m:3 is 8, and 3 after 40 minutes",
    "foreign": "how many of them others take, in the same form",
    "lag": "how long an ended request is still counted (1s); 1s,40m:2s is 2s after 40 minutes",
    "overload": "the share of requests that meet a 529 or 503, in the same form",
    "usage_error": "the share of usage requests that fail, in the same form",
    "usage_bias": "how much too high the usage endpoint counts, in the same form",
}
_TIMES = {
    "cancelled_lag": "the same for a cancelled request (until it would have ended)",
    "penalty": "for how long each 429 makes everything slow",
    "retry_after": "what a concurrency refusal says (nothing)",
    "usage_lag": "how old the count is that the usage endpoint tells (200ms)",
    "headers": "how long the headers of a stream take (20ms)",
    "first_token": "how long the first token takes (100ms)",
    "refusal": "how long a refusal takes (10ms)",
}
_NUMBERS = {
    "slowdown": "how slow a punished account is (1.5)",
    "soft_limit": "what the usage endpoint calls the limit, if it is not the cap",
    "rpm": "requests per minute",
    "tpm": "tokens per minute",
    "rate": "tokens per second of a stream (50)",
    "tokens": "tokens of an answer, with --duration tokens (64)",
    "errors": "the share of requests that meet a 500",
    "cuts": "the share of streams that are broken off",
}
_MAPS = {"weights": "what a request of a model counts", "model_caps": "the cap of a model"}


def plan_arguments(parser: ArgumentParser) -> None:
    """What the provider is like."""
    add = parser.add_argument
    add(
        "--duration",
        metavar="DUR",
        help="how long a request takes: 2s, 1s..5s, exp:20s:2s..10m, or tokens (1s)",
    )
    add("--cut-by", choices=CUTS, help="how streams are broken off (rst)")
    for names, shape in ((_STEPS, "N[,DUR:N...]"), (_TIMES, "DUR"), (_NUMBERS, "N")):
        for name, does in names.items():
            add(f"--{name.replace('_', '-')}", metavar=shape, help=does)
    for name, does in _MAPS.items():
        option = f"--{name.replace('_', '-').removesuffix('s')}"
        add(option, dest=name, action="append", metavar="MODEL=N", help=does)


def plan_of(args: Namespace) -> tuple[ProviderPlan, Behaviour]:
    """The plan and the manner that a command line gives."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    changes: dict[str, object] = {
        name: given[name] for name in ("duration", "cut_by") if name in given
    }
    for name in _TIMES:
        if name in given:
            changes[name] = parse_duration(given[name], _option(name))
    for name in _NUMBERS:
        if name in given:
            changes[name] = _number(given[name], name)
    for name in _MAPS:
        if name in given:
            changes[name] = dict(_pair(text, name) for text in given[name])
    apply, behaviour = parse_changes(changes, 0, Behaviour())
    steps: dict[str, Any] = {
        name: parse_steps(given[name], name) for name in _STEPS if name in given
    }
    return apply(ProviderPlan())._replace(**steps), behaviour


def parse_steps(text: str, name: str) -> Steps:
    """`8`, or `8,40m:3,80m:8`: a value that changes at times."""
    first, *later = text.split(",")
    found = [(0, _checked(first, name))]
    for step in later:
        when, colon, value = step.partition(":")
        at = parse_duration(when, _option(name))
        if not colon or at <= found[-1][0]:
            raise UsageError(f"bad {_option(name)} {text[:60]!r}: expected 8,40m:3,80m:8")
        found.append((at, _checked(value, name)))
    return tuple(found)


def _checked(text: str, name: str) -> float:
    number = parse_duration(text, "--lag") if name == "lag" else _number(text, name)
    apply, _ = parse_changes({name: number}, 0, Behaviour())
    value: float = getattr(apply(ProviderPlan()), name)[-1][1]
    return value


def _pair(text: str, name: str) -> tuple[str, float]:
    model, _, number = text.rpartition("=")
    if not model:
        raise UsageError(f"bad {_option(name)} {text[:60]!r}: expected MODEL=N")
    return model, _number(number, name)


def _number(text: str, name: str) -> float:
    try:
        return float(text) if "." in text else int(text[:18])
    except ValueError:
        raise UsageError(f"bad {_option(name)} {text[:60]!r}: expected a number") from None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
