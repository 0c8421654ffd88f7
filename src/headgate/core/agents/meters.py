"""How the work of an agent is counted and watched, and the way by which its requests are seen.

    agent      it holds its seats for its life; its output tells what upstream says
    wire       it holds its seats for its life; its requests pass through headgate, and tell it
    requests   it holds a seat of its machine, and each of its requests holds seats of its model

Whoever starts an agent may say which. If nobody does, it is `wire` where that changes nothing of
what the agent sends (a *transparent* way), and else `agent`.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from headgate.core.named_tuple import NamedTuple

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OFF = {"", "0", "false", "no", "off"}


class Meter(StrEnum):
    """How the work of an agent is counted and watched."""

    AGENT = "agent"
    WIRE = "wire"
    REQUESTS = "requests"


METERS = tuple(one.value for one in Meter)
BASE_URL, TAP = "base-url", "tap"
WAYS = (BASE_URL, TAP)
"""The agent is pointed at another address, or its connections are opened on their way."""


class WireWay(NamedTuple):
    """One way to see the requests of an agent. Texts may name what is known, as in `{url}`."""

    way: str = BASE_URL
    when: tuple[str, ...] = ()
    """What must be known: `NAME`, or `NAME=text with * for any`. A variable, or how it logs in."""
    unless: tuple[str, ...] = ()
    transparent: bool = False
    """Whether the agent sends the same as it would without it."""
    environment: Mapping[str, str] = {}
    arguments: tuple[str, ...] = ()
    """What follows the name of the program."""
    files: Mapping[str, str] = {}
    """Files in a private folder, `{files}`."""
    upstreams: Mapping[str, str] = {}
    """Where requests go, by the first part of the path that the agent is pointed at."""
    hosts: tuple[str, ...] = ()
    """The hosts whose connections a tap opens; all others stay closed to it."""


class AskedMeter(NamedTuple):
    """Which meter somebody wants, and where that is said."""

    meter: Meter
    by: str


class AgentSettings(NamedTuple):
    """What is known of an agent's settings."""

    facts: Mapping[str, str] = {}
    upstreams: Mapping[str, str] = {}
    """Where its providers are, by their names."""
    overlay: Mapping[str, Any] | None = None
    """What one variable lays over its settings already; None if no variable can."""


class MeterChoice(NamedTuple):
    """The meter that counts, the way to it, and why, in a sentence for people."""

    meter: Meter
    way: WireWay | None
    why: str
    hint: str = ""
    """What could be asked for, and would know better."""


def choose(
    asked: AskedMeter | None,
    ways: Sequence[WireWay],
    known: Mapping[str, str],
    *,
    who: str,
    tap_possible: bool = True,
) -> MeterChoice:
    """Which meter an agent gets. `known` are its variables and what its settings say."""
    if asked is not None and asked.meter is Meter.AGENT:
        return MeterChoice(Meter.AGENT, None, f"{asked.by} says so")
    possible = [way for way in ways if holds(way, known) and (way.way == BASE_URL or tap_possible)]
    if asked is None:
        free = next((w for w in possible if w.transparent and w.way == BASE_URL), None)
        if free is not None:
            return MeterChoice(Meter.WIRE, free, f"{who} sends the same by way of headgate")
        if possible:
            hint = "its requests would tell more than its output: --meter wire (docs/wire.md)"
            return MeterChoice(
                Meter.AGENT, None, f"nobody asked for {who}'s requests to be seen", hint
            )
        return MeterChoice(Meter.AGENT, None, f"no way is known to see the requests of {who}")
    best = next((w for w in possible if w.transparent or w.way == TAP), None)
    way = best or next(iter(possible), None)
    if way is None:
        why = f"{asked.by} asks for {asked.meter}, but no way is known to see the requests of {who}"
        return MeterChoice(Meter.AGENT, None, why)
    return MeterChoice(asked.meter, way, f"{asked.by} says so")


def holds(way: WireWay, known: Mapping[str, str]) -> bool:
    """Whether a way is open to an agent of which this is known."""
    return all(_known(test, known) for test in way.when) and not any(
        _known(test, known) for test in way.unless
    )


def _known(test: str, known: Mapping[str, str]) -> bool:
    name, equals, wanted = test.partition("=")
    value = known.get(name, "").strip()
    return fnmatchcase(value.lower(), wanted) if equals else value.lower() not in _OFF


def filled(text: str, known: Mapping[str, str]) -> str:
    """A text with what is known in place of `{name}`; what is not known stays."""
    return _FIELD.sub(lambda found: known.get(found[1], found[0]), text)
