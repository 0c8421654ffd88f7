"""An agent that upstream refuses: told at once, ended when it only retries, parked and resumed."""

import json
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from tests.support import gone, until
from tests.work.conftest import JobBox
from tests.work.scene import BRISK, KINDS, LIVE, Scene

STEPS = ("--requests", "4", "--pause", "0.2")
PATIENT = BRISK.replace('patience = "2s"', 'patience = "1m"')
NARROW = BRISK.replace("limit = 20", "limit = 1")


def told(box: JobBox, kind: str) -> list[dict[str, Any]]:
    """The events of a kind, with their times."""
    lines = box.headgate("events", "--json", "-n", "1000").splitlines()
    return [event for line in lines if (event := json.loads(line))["event"] == kind]


def closed(box: JobBox) -> str:
    """The pool that a refusal has closed."""
    pool: str = box.events("paused")[0][6]
    return pool


def tried(box: JobBox, times: int) -> bool:
    """Whether so many attempts were made."""
    return len(box.rows("attempt")) == times


def at_work(scene: Scene) -> None:
    """Wait until an agent has done its first step."""
    until(lambda: any(done.steps for done in scene.done()))


@pytest.mark.parametrize("name", LIVE)
def test_a_refusal_is_told_while_the_agent_runs(name: str, box: JobBox) -> None:
    """Within two seconds its pool is closed, and others wait with that as the reason."""
    scene = Scene(box, config=PATIENT)
    kind = scene.cast(name, *STEPS)
    box.worker()
    first = scene.submit(kind)
    at_work(scene)
    scene.shut()
    until(lambda: box.events("paused"))
    second = scene.submit(kind)
    waits = box.job(second)
    assert (waits["code"], waits["position"]) == ("pool_paused", 1)
    assert box.state(first) == "running"
    assert not gone(scene.agents()[0])
    (paused, *_) = told(box, "paused")
    assert (paused["work"], paused["key"]) == (first, kind.key)
    refusal = next(line for line in scene.provider.lines() if line.event == "refused")
    assert datetime.fromisoformat(paused["at"]).timestamp() - refusal.wall < 2
    pools = json.loads(box.headgate("status", "--json"))["pools"]
    assert [pool["pool"] for pool in pools if pool["paused_until"]] == [paused["pool"]]


@pytest.mark.parametrize("name", LIVE)
def test_an_agent_that_only_retries_is_parked_and_resumed(name: str, box: JobBox) -> None:
    """It is ended, keeps its place, and goes on with its session when the pool opens."""
    scene = Scene(box, config=NARROW)
    kind = scene.cast(name, *STEPS)
    box.worker()
    first = scene.submit(kind)
    at_work(scene)
    scene.shut()
    until(lambda: box.events("paused"))
    later = scene.submit(kind)
    box.until_state(first, "parked")
    assert scene.all_gone()
    assert not box.rows("lease")
    assert box.job(first)["attempt_list"][0]["code"] == "rate_limited"
    until(lambda: len(box.rows("ticket")) == 2)
    assert (box.job(first)["position"], box.job(first)["code"]) == (1, "pool_paused")
    assert box.job(later)["position"] == 2
    scene.open(closed(box))
    box.until_state(later, "done")
    assert box.state(first) == "done"
    (readmitted,) = box.events("readmitted")
    assert readmitted[0] < box.events("started")[-1][0]
    dones = {tuple(done.starts): done for done in scene.done()}
    assert dones[False, True].steps == [1, 2, 3, 4]
    assert dones[False,].steps == [1, 2, 3, 4]
    assert tried(box, 3)


@pytest.mark.parametrize("name", KINDS)
def test_an_agent_that_gives_up_is_parked(name: str, box: JobBox) -> None:
    """To exit because of a rate limit is no failure: it goes on where it can, or begins again."""
    scene = Scene(box)
    kind = scene.cast(name, *STEPS, speed=500)
    box.worker()
    scene.shut()
    id = scene.submit(kind)
    box.until_state(id, "parked")
    (first,) = box.job(id)["attempt_list"]
    assert first["code"] == "rate_limited"
    assert first["exit"] == ("173:0" if name == "gemini" else "1:0")
    assert not box.rows("lease")
    scene.open(closed(box))
    box.until_state(id, "done")
    assert tried(box, 2)
    steps = sorted(done.steps for done in scene.done())
    untold = name in {"claude-text", "opencode-text"}  # they never say which session they are
    assert steps == ([[], [1, 2, 3, 4]] if untold else [[1, 2, 3, 4]])


def test_a_session_with_a_name_of_ones_own(box: JobBox) -> None:
    """An agent that never tells its session is resumed if its command line names it."""
    scene = Scene(box)
    kind = scene.cast("claude-text", *STEPS, speed=100)
    kind = kind._replace(words=("--session-id", "mine", *kind.words))
    box.worker()
    scene.shut(retry_after=None)
    id = scene.submit(kind)
    box.until_state(id, "parked")
    scene.open(closed(box))
    assert box.until_state(id, "done", "failed") == "done"
    (done,) = scene.done()
    assert (done.session, done.starts, done.steps) == ("mine", [False, True], [1, 2, 3, 4])


def test_a_parked_job_is_there_when_its_pool_opens(box: JobBox) -> None:
    """However long upstream asks to be left alone, nobody who came later gets in before it."""
    scene = Scene(box, config=NARROW.replace('longest_backoff = "1s"', ""))
    kind = scene.cast("claude", *STEPS)
    box.worker()
    first = scene.submit(kind, "--patience", "1s")
    at_work(scene)
    scene.shut(retry_after=4_000)
    until(lambda: box.events("paused"))
    scene.open()
    later = scene.submit(kind)
    box.until_state(first, "parked")
    box.until_state(later, "done")
    assert box.state(first) == "done"
    (readmitted,) = box.events("readmitted")
    assert readmitted[0] < box.events("started")[-1][0]


@pytest.mark.parametrize("name", LIVE)
def test_an_agent_that_gets_through_is_left_alone(name: str, box: JobBox) -> None:
    """Who makes progress after a refusal is no zombie, and nothing of it is done again."""
    scene = Scene(box, config=PATIENT)
    kind = scene.cast(name, *STEPS)
    box.worker()
    id = scene.submit(kind)
    at_work(scene)
    scene.shut(retry_after=1_000)
    until(lambda: box.events("paused"))
    scene.open()
    box.until_state(id, "done")
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False], [1, 2, 3, 4])
    assert not box.events("parked")


def test_others_stay_away_while_an_agent_retries(box: JobBox) -> None:
    """Where only the agent says when it will try again, nobody follows it into the same wall."""
    scene = Scene(box)
    kind = scene.cast("claude", *STEPS)
    box.worker()
    first = scene.submit(kind)
    at_work(scene)
    scene.shut(retry_after=None)
    until(lambda: box.events("paused"))
    others = [scene.submit(kind) for _ in range(3)]
    box.until_state(first, "parked")
    assert tried(box, 1)
    assert {box.state(id) for id in others} == {"queued"}


def test_a_job_that_is_refused_again_and_again(box: JobBox) -> None:
    """Its attempts are counted, the time between them grows, and in the end it has failed."""
    scene = Scene(box)
    kind = scene.cast("codex", *STEPS)
    box.worker()
    scene.shut(retry_after=None)
    id = scene.submit(kind, "--attempts", "3")
    for number in range(1, 3):
        box.until_state(id, "parked")
        assert tried(box, number)
        box.headgate("resume", closed(box))
        until(partial(tried, box, number + 1))
    box.until_state(id, "failed")
    job = box.job(id)
    assert (job["code"], job["exit"]) == ("rate_limited", "1:0")
    assert job["reason"].endswith("that was attempt 3 of 3")
    waits = [row[7].rpartition("tried again in ")[2] for row in box.events("parked")]
    assert len(set(waits)) == 2


def test_a_rate_limit_may_be_the_agents_own_business(box: JobBox) -> None:
    """With --no-park it is neither ended nor parked: as it exits, so the job ends."""
    scene = Scene(box)
    kind = scene.cast("claude", speed=200)
    box.worker()
    scene.shut(retry_after=None)
    id = scene.submit(kind, "--no-park", "--patience", "1ms")
    box.until_state(id, "failed")
    job = box.job(id)
    assert (job["code"], job["exit"], job["reason"]) == ("exit", "1:0", "exit 1")
    assert box.events("paused")
    assert not box.events("parked")
    assert scene.provider.count("refused") == 11
