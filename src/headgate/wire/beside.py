"""A wire for a program that is about to be started under a lease: for `run` and for jobs alike."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from headgate.core.agents.meters import TAP, Meter, WireWay
from headgate.core.agents.replaced_variables import VARIABLE, remember
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.gate import Gate, Lease
from headgate.gate.liveness.process_marks import MARK
from headgate.wire.order import WireOrder, remove, sweep
from headgate.wire.point_agent import WirePlan, point
from headgate.wire.spawn import ON_THE_WAY
from headgate.wire.supervise import HOST, Wire, listen

if TYPE_CHECKING:
    from headgate.wire.prepare_tap import PreparedTap


class Wired(NamedTuple):
    """A program's command and variables, with the wire they lead to."""

    argv: list[str]
    environment: dict[str, str]
    wire: Wire | None = None


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
        view=gate.view,
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
) -> "PreparedTap":
    from headgate.wire.prepare_tap import prepare_tap

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return prepare_tap(way, known, url, folder)
    except BaseException:
        listening.close()
        remove(folder)
        raise
