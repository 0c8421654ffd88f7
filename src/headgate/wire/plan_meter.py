"""Which meter a program gets, before it stands in line: for `run`, for jobs and for `doctor`."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headgate.core.agents.meters import BASE_URL, TAP, AskedMeter, Meter
from headgate.core.agents.replaced_variables import put_back
from headgate.core.quantities import parse_duration
from headgate.core.times import Seconds, seconds
from headgate.core.urls import split_url
from headgate.gate import Gate
from headgate.wire.point_agent import WirePlan, asked_meter, plan_wire

QUEUE_TIMEOUT = "HEADGATE_QUEUE_TIMEOUT"


def find_asked(
    gate: Gate, argv: Sequence[str], key: str | None, environment: Mapping[str, str]
) -> AskedMeter | None:
    """Which meter somebody wants for a program."""
    return asked_meter(gate, gate.profile_of(argv), key, None, environment)


def plan_for(
    gate: Gate,
    argv: Sequence[str],
    key: str | None,
    *,
    said: str | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: str = "",
) -> WirePlan:
    """Which meter a program gets, in an environment that is as before any wire."""
    environment = put_back(os.environ if environment is None else environment)
    profile = gate.profile_of(argv)
    asked = asked_meter(gate, profile, key, said, environment)
    plan = plan_wire(asked, profile, argv, environment, Path(cwd or Path.cwd()))
    if plan.meter is Meter.AGENT or plan.choice.way is None:
        return plan
    if gate.wire_folder is None or sys.platform != "linux":
        why = "the kernel of this system does not tell whose a connection is"
        if gate.wire_folder is None:
            why = "this store is in memory, and a wire needs one that other processes can open"
        return WirePlan(plan.choice._replace(meter=Meter.AGENT, way=None, why=why))
    if why := _why_not(plan):
        return WirePlan(plan.choice._replace(meter=Meter.AGENT, way=None, why=why))
    if plan.choice.way.way == TAP:  # loaded before anybody waits: files may be replaced meanwhile
        import headgate.wire.prepare_tap  # noqa: F401
    return plan


def plan_installed(gate: Gate, environment: Mapping[str, str]) -> Iterator[tuple[str, WirePlan]]:
    """The agents on the PATH, each with the meter that it gets if nobody says another."""
    import shutil

    for profile in gate.profiles():
        names = [name for name in profile.programs if "/" not in name and "@" not in name]
        path = environment.get("PATH", "")
        program = next((name for name in names if shutil.which(name, path=path)), None)
        if program is None:
            continue
        key = gate.key_of([program], environment)
        if gate.wire_folder is not None:
            yield program, plan_for(gate, [program], key, environment=environment)
        else:  # no store has been made yet, where wires could be
            asked = asked_meter(gate, profile, key, None, environment)
            yield program, plan_wire(asked, profile, [program], environment, Path.cwd())


def _why_not(plan: WirePlan) -> str:
    """Why the requests of an agent cannot be sent on as it would send them; empty if they can."""
    if plan.known.get("NODE_TLS_REJECT_UNAUTHORIZED") == "0":
        return "it checks no certificates (NODE_TLS_REJECT_UNAUTHORIZED), and headgate would"
    if plan.choice.way is not None and plan.choice.way.way == BASE_URL:
        if not plan.upstreams:
            return "nobody knows where its requests go"
        if not all(map(split_url, plan.upstreams.values())):
            return "the base URL that it has is none that headgate can ask"
        if any("@" in url.partition("://")[2].partition("/")[0] for url in plan.upstreams.values()):
            return "its base URL has a password in it, which headgate does not keep"
    return ""


def queue_timeout(said: str | None, environment: Mapping[str, str]) -> Seconds | None:
    """For how long a request may wait, by an option or a variable; None if neither says so."""
    text = said if said is not None else environment.get(QUEUE_TIMEOUT)
    return seconds(parse_duration(text, "queue-timeout")) if text else None
