"""How an agent is started so that its requests come to us: its meter, its way, its surroundings.

Nothing of the user's is changed: variables, arguments and private files are for this run only. A
base URL that the agent has already is where its requests go on to.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.meters import (
    BASE_URL,
    METERS,
    TAP,
    AgentSettings,
    AskedMeter,
    Meter,
    MeterChoice,
    WireWay,
    choose,
    filled,
)
from headgate.core.agents.profile import Profile
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import shown
from headgate.core.urls import split_url
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.wire.tap_possible import why_no_tap

VARIABLE = "HEADGATE_METER"
_SDK = WireWay(
    environment={
        "ANTHROPIC_BASE_URL": "{url}/anthropic",
        "OPENAI_BASE_URL": "{url}/openai/v1",
        "GOOGLE_GEMINI_BASE_URL": "{url}/google",
    },
    upstreams={
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com",
        "google": "https://generativelanguage.googleapis.com",
    },
)
"""What programs obey that ask through an SDK. It is used if somebody asks for it."""


def asked_meter(
    gate: Gate, profile: Profile, key: str | None, said: str | None, environment: Mapping[str, str]
) -> AskedMeter | None:
    """Which meter somebody wants: by an option, a variable, the profile or the pool."""
    if said:
        return AskedMeter(parse_meter(said, "--meter"), "--meter")
    if environment.get(VARIABLE):
        return AskedMeter(parse_meter(environment[VARIABLE], VARIABLE), VARIABLE)
    if profile.meter:
        return AskedMeter(Meter(profile.meter), f"[profiles.{profile.name}]")
    return gate.meter_of(key)


def parse_meter(text: str, what: str) -> Meter:
    """A meter by its name."""
    try:
        return Meter(text.strip().lower())
    except ValueError:
        raise UsageError(f"bad {what} {shown(text)}: expected {', '.join(METERS)}") from None


class WirePlan(NamedTuple):
    """How an agent will be metered, before it is started."""

    choice: MeterChoice
    upstreams: Mapping[str, str] = {}
    """Where requests go, by the first part of their path."""
    settings: AgentSettings = AgentSettings()
    known: Mapping[str, str] = {}
    worth_telling: bool = True
    """Whether it is an agent that is known, or somebody asked for a meter."""
    program: str = ""
    """The name of the agent's profile."""

    @property
    def meter(self) -> Meter:
        """The meter that counts."""
        return self.choice.meter


class Pointed(NamedTuple):
    """An agent's command and surroundings, once the address is known."""

    argv: list[str]
    environment: dict[str, str]


def plan_wire(
    asked: AskedMeter | None,
    profile: Profile,
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
) -> WirePlan:
    """Which meter an agent gets, and where its requests go."""
    start = unwrap(argv)
    variables = {**environment, **start.environment}
    if asked is not None and asked.meter is Meter.AGENT:
        return WirePlan(choose(asked, (), {}, who=""))
    settings = _settings(profile, argv, environment, cwd)
    known = {**variables, **settings.facts}
    ways = profile.wire or ((_SDK,) if asked is not None else ())
    who = profile.name or os.path.basename(argv[0] or "it")  # noqa: PTH119 - any text
    choice = choose(asked, ways, known, who=who)
    if choice.way is not None and choice.way.way == TAP:
        why_not = why_no_tap(choice.way, known, start.environment)
        if why_not:
            choice = choose(asked, ways, known, who=who, tap_possible=False)
            choice = choice._replace(why=f"{choice.why}; no tap is possible: {why_not}")
    if choice.way is None:
        return WirePlan(choice, worth_telling=bool(profile.name) or asked is not None)
    upstreams = settings.upstreams or _upstreams(choice.way, known)
    return WirePlan(choice, upstreams, settings, known, program=profile.name)


def _settings(
    profile: Profile, argv: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> AgentSettings:
    """What the agent's own settings say, if it is one whose settings are understood."""
    if not profile.reads:
        return AgentSettings()
    from headgate.wire.agent_settings import read_settings

    return read_settings(profile, argv, environment, cwd)


def _leads_to(text: str) -> str:
    """The upstream that a variable of a profile leads to, NAME in `{url}/NAME/v1`; else nothing."""
    return text.removeprefix("{url}/").partition("/")[0] if text.startswith("{url}/") else ""


def _upstreams(way: WireWay, known: Mapping[str, str]) -> dict[str, str]:
    """Where requests go: to where the agent's variables point already, or to its provider."""
    found = {name: filled(url, known).rstrip("/") for name, url in way.upstreams.items()}
    for variable, text in way.environment.items():
        name, value = _leads_to(text), known.get(variable, "").strip()
        if name and value:
            found[name] = value.rstrip("/") if split_url(value) else ""
    return found


def point(plan: WirePlan, argv: Sequence[str], url: str, files: Path) -> Pointed:
    """The command and the variables with which the agent asks this URL."""
    way = plan.choice.way
    if way is None or way.way != BASE_URL:
        return Pointed(list(argv), {})
    known = {**plan.known, "url": url, "files": str(files)}
    environment = {}
    for variable, text in way.environment.items():
        name, value = _leads_to(text), plan.known.get(variable, "").strip()
        if name and value:
            environment[variable] = f"{url}/{name}"  # the rest is in what it pointed at
        else:
            environment[variable] = filled(text, known)
    if plan.settings.overlay is not None:
        from headgate.wire.agent_settings import opencode_overlay

        environment["OPENCODE_CONFIG_CONTENT"] = opencode_overlay(plan.settings, url)
    for name, text in way.files.items():
        files.mkdir(mode=0o700, parents=True, exist_ok=True)
        (files / name).write_text(text, encoding="utf-8")
    at = unwrap(argv).at + 1
    added = [filled(word, known) for word in way.arguments]
    no_proxy = _without_loopback(plan.known)
    return Pointed([*argv[:at], *added, *argv[at:]], {**environment, **no_proxy})


def _without_loopback(known: Mapping[str, str]) -> dict[str, str]:
    """The user's proxy is not asked for what goes to this machine itself."""
    proxies = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    if not any(known.get(name) for name in proxies):
        return {}
    found = {}
    for name, other in (("no_proxy", "NO_PROXY"), ("NO_PROXY", "no_proxy")):
        said = known.get(name) or known.get(other) or ""
        if not {"127.0.0.1", "*"} & {part.strip() for part in said.split(",")}:
            found[name] = f"{said},127.0.0.1".lstrip(",")
    return found
