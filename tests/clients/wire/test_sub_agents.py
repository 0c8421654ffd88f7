"""A real agent with sub-agents: a seat of its model for each of their requests."""

import pytest

from headgate import Gate
from headgate.sim.journal import most_at_once
from tests.clients.conftest import Run
from tests.clients.front import WANTED
from tests.clients.jobs.stage import Stage
from tests.clients.real import Client
from tests.support import pool_of, until
from tests.work.conftest import JobBox

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

POOLS = '[pools.host]\nlimit = 1\n[pools."{key}"]\nlimit = {limit}\nadapt = "off"\n'
SUB_AGENTS = 4
PARTS = [f"part {n} [[sim tokens=2{n} duration=8]]" for n in range(SUB_AGENTS)]
PROMPT = f"share this out {WANTED}"


def sub_agents(gate: Gate) -> set[str]:
    """Who has a request that runs or waits, and stands below another; claude itself goes on too."""
    queue = gate.queue()
    tasks = [row.task for row in queue.running] + [row.task for row in queue.waiting]
    return {task for task in tasks if "/" in task}


@pytest.mark.parametrize("client", ["claude", "opencode"], indirect=True)
@pytest.mark.parametrize("limit", [SUB_AGENTS, 2])
def test_each_of_its_requests_takes_a_seat(
    box: JobBox, client: Client, provider: Stage, limit: int
) -> None:
    """Four sub-agents ask at once on one seat of the machine, as many as the model has seats."""
    box.config(POOLS.format(key=client.key, limit=limit))
    box.env["HEADGATE_METER"] = "requests"
    provider.front.parts = PARTS
    gate = box.gate()
    run = Run(box, client, "shares", client.start(PROMPT))
    until(lambda: most_at_once(provider.lines()) == limit, within=60)
    assert (pool_of(gate, "host").in_use, pool_of(gate, client.key).in_use) == (1, limit)
    until(lambda: len(sub_agents(gate)) == SUB_AGENTS)
    assert run.program.wait(90) == 0, run.output
    assert most_at_once(provider.lines()) == limit
    last = provider.front.asked[-1].text
    assert all(" ".join(map(str, range(20 + n))) in last for n in range(SUB_AGENTS)), last
