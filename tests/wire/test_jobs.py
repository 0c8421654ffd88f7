"""Jobs under the meter `requests`: their line is for the machine, their requests' for the model."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.sim.journal import excess
from tests.support import pool_of, until
from tests.wire.harness import AGENT, Provider, provider
from tests.wire.test_requests import FOUR, ONE
from tests.work.conftest import JobBox


@pytest.fixture
def box(tmp_path: Path, clean_environment: None) -> Iterator[JobBox]:
    """A box in which jobs are worked on."""
    it = JobBox(tmp_path)
    yield it
    it.close()


def submit(box: JobBox, to: Provider, *words: str, options: tuple[str, ...] = ()) -> int:
    """A job of the agent of these tests."""
    env = [word for name, url in to.environment.items() for word in ("--env", f"{name}={url}")]
    command = (sys.executable, str(AGENT), *words)
    return box.submit("-m", "anthropic/opus", *env, *options, "--", *command)


def test_a_job_holds_no_seat_of_its_model(box: JobBox) -> None:
    """Three jobs run side by side on one stream, and each of their requests waits for it."""
    box.config(ONE)
    gate = box.gate()
    box.worker()
    with provider(box, "--cap", "1", "--lag", "100ms", "--duration", "4s") as upstream:
        said = ("--meter", "requests", "--stale-after", "3s")
        ids = [submit(box, upstream, "--stream", f"{n}:messages", options=said) for n in range(3)]
        until(lambda: pool_of(gate, "host").in_use == 3 and pool_of(gate, "*/opus").queued == 2)
        assert pool_of(gate, "*/opus").in_use == 1
        box.headgate("wait", *map(str, ids))
        assert [box.state(id) for id in ids] == ["done"] * 3
        assert excess(upstream.lines()) == 0
        for id in ids:
            out = json.loads(box.headgate("logs", str(id)).splitlines()[0])
            assert out["status"] == 200


def test_the_meter_of_a_pool_counts_for_jobs(box: JobBox) -> None:
    """What `[pools]` says is settled when a job is submitted, and its worker keeps to it."""
    box.config(FOUR + 'meter = "requests"\nqueue_timeout = "1h"\n')
    gate = box.gate()
    box.worker()
    with provider(box, "--cap", "4", "--duration", "2s") as upstream:
        id = submit(box, upstream, "--at-once", "0:messages", "1:messages")
        until(lambda: pool_of(gate, "*/opus").in_use == 2)
        assert pool_of(gate, "host").in_use == 1
        box.headgate("wait", str(id))
        assert box.state(id) == "done"


def test_a_choice_of_models_is_made_by_the_job(box: JobBox) -> None:
    """A job that may use several models waits for a seat of one of them itself."""
    box.config(FOUR)
    with provider(box) as upstream:
        said = ("--meter", "requests", "-m", "anthropic/sonnet,anthropic/opus")
        id = submit(box, upstream, "0:messages", options=said)
    job = box.job(id)
    assert job["key"] == "anthropic/sonnet"
