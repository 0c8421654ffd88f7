"""A wire for a program that is about to be started under a lease: for `run` and for jobs alike."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from headgate.core.agents.find_profile import find
from headgate.core.agents.meters import BASE_URL, TAP, AskedMeter, Meter, WireWay
from headgate.core.agents.replaced_variables import VARIABLE, put_back, remember
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_duration
from headgate.core.times import Seconds, seconds
from headgate.gate import Gate, Lease
from headgate.gate.liveness.process_marks import MARK
from headgate.wire.connection_owner import can_tell
from headgate.wire.order import WireOrder, remove, sweep
from headgate.wire.point_agent import WirePlan, asked_meter, plan_wire, point
from headgate.wire.prepare_tap import PreparedTap, prepare_tap
from headgate.wire.supervise import HOST, ON_THE_WAY, Wire, listen

QUEUE_TIMEOUT = "HEADGATE_QUEUE_TIMEOUT"


class Wired(NamedTuple):
    """A program's command and variables, with the wire they lead to."""

    argv: list[str]
    environment: dict[str, str]
    wire: Wire | None = None


def find_asked(
    gate: Gate, argv: Sequence[str], key: str | None, environment: Mapping[str, str]
) -> AskedMeter | None:
    """Which meter somebody wants for a program."""
    return asked_meter(gate, find(argv, gate.profiles()), key, None, environment)


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
    profile = find(argv, gate.profiles())
    asked = asked_meter(gate, profile, key, said, environment)
    plan = plan_wire(asked, profile, argv, environment, Path(cwd or Path.cwd()))
    if plan.meter is Meter.AGENT or plan.choice.way is None:
        return plan
    if gate.wire_folder is None or not can_tell():
        why = "the kernel of this system does not tell whose a connection is"
        if gate.wire_folder is None:
            why = "this store is in memory, and a wire needs one that other processes can open"
        return WirePlan(plan.choice._replace(meter=Meter.AGENT, way=None, why=why))
    why = _why_not(plan)
    return WirePlan(plan.choice._replace(meter=Meter.AGENT, way=None, why=why)) if why else plan


def _why_not(plan: WirePlan) -> str:
    """Why the requests of an agent cannot be sent on as it would send them; empty if they can."""
    if plan.known.get("NODE_TLS_REJECT_UNAUTHORIZED") == "0":
        return "it checks no certificates (NODE_TLS_REJECT_UNAUTHORIZED), and headgate would"
    if plan.choice.way is not None and plan.choice.way.way == BASE_URL:
        if not plan.upstreams:
            return "nobody knows where its requests go"
        if any("@" in url.partition("://")[2].partition("/")[0] for url in plan.upstreams.values()):
            return "its base URL has a password in it, which headgate does not keep"
    return ""


def queue_timeout(said: str | None, environment: Mapping[str, str]) -> Seconds | None:
    """For how long a request may wait, by an option or a variable; None if neither says so."""
    text = said if said is not None else environment.get(QUEUE_TIMEOUT)
    return seconds(parse_duration(text, "queue-timeout")) if text else None


class WireTerms(TypedDict, total=False):
    """What there is to say about the requests of an agent."""

    key: str | None
    priority: int
    patience: Seconds
    queue_timeout: Seconds | None
    task_given: bool
    parks: bool


def put_beside(
    gate: Gate,
    lease: Lease,
    plan: WirePlan | None,
    argv: Sequence[str],
    **about: Unpack[WireTerms],
) -> Wired:
    """Make the wire of a lease, and start its process; the program can be started at once.

    If it cannot be made, the agent is judged by its output; but it is not started if its requests
    were to be counted.
    """
    try:
        return _put_beside(gate, lease, plan, argv, **about)
    except OSError as error:
        if plan is None or plan.meter is not Meter.WIRE:
            raise
        why = f"its wire could not be made: {error.strerror or error}"
        gate.keep_meter(lease.id, plan.choice._replace(meter=Meter.AGENT, way=None, why=why))
        return Wired(list(argv), {})


def _put_beside(
    gate: Gate,
    lease: Lease,
    plan: WirePlan | None,
    argv: Sequence[str],
    *,
    key: str | None = None,
    priority: int = 0,
    patience: Seconds = Seconds(60),
    queue_timeout: Seconds | None = None,
    task_given: bool = False,
    parks: bool = False,
) -> Wired:
    if plan is not None and plan.worth_telling:
        gate.keep_meter(lease.id, plan.choice)
    if plan is None or plan.meter is Meter.AGENT or gate.wire_folder is None:
        return Wired(list(argv), {})
    gate.make_wire_folder()
    sweep(gate.wire_folder)
    folder = gate.wire_folder / str(lease.id)
    listening = listen()
    url = f"http://{HOST}:{listening.getsockname()[1]}"
    tap = None
    way = plan.choice.way
    if way is not None and way.way == TAP:
        tap = _prepare(way, plan.known, url, folder, listening)
    order = WireOrder(
        store=gate.url,
        config=gate.config_path,
        view=os.environ.get("HEADGATE_LIMITS", ""),
        lease=lease.id,
        mark=lease.environment[MARK],
        key=key or "",
        task=lease.task,
        meter=plan.meter.value,
        port=listening.getsockname()[1],
        upstreams=dict(plan.upstreams),
        priority=priority,
        patience=patience,
        queue_timeout=queue_timeout,
        task_given=task_given,
        parks=parks,
    )
    if tap is not None and way is not None:
        order = order._replace(
            hosts=list(way.hosts),
            program=plan.program,
            authorities=tap.authorities,
            proxies=tap.proxies,
        )
    order.write(folder)
    secret = tap.secret if tap else None
    wire = Wire(folder, order, listening, secret, environment=_on_the_way(plan.known))
    pointed = point(plan, argv, url, folder)
    if tap is not None:
        pointed = pointed._replace(environment=tap.environment)
    wire.start()
    replaced = {VARIABLE: remember(pointed.environment, plan.known)}
    return Wired(pointed.argv, {**pointed.environment, **replaced}, wire)


def _on_the_way(known: Mapping[str, str]) -> dict[str, str]:
    """What of an agent's variables says how to reach and whom to trust upstream."""
    return {name: known[name] for name in ON_THE_WAY if known.get(name)}


def _prepare(
    way: WireWay, known: Mapping[str, str], url: str, folder: Path, listening: socket.socket
) -> PreparedTap:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return prepare_tap(way, known, url, folder)
    except BaseException:
        listening.close()
        remove(folder)
        raise
