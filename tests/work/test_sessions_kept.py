"""An agent that can resume goes on with its session after any try that was not its own failure."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial

import pytest

from tests.support import gone, until
from tests.work.conftest import JobBox
from tests.work.scene import BRISK, KINDS, LIVE, OPUS, Kind, Scene

RESUMES = [*LIVE, "codex-text"]
"""Kinds that tell their session by themselves."""
NAMED = "5ba5eba1-1000-4000-8000-000000000001"
NAMING = Kind(
    "claude",
    "claude-text",
    ("-p", "do it", "--model", OPUS, "--session-id", NAMED),
    f"anthropic/{OPUS}",
)


def at_work(scene: Scene) -> int:
    """The process of an agent that has done its first step."""
    until(lambda: any(done.steps for done in scene.done()))
    return scene.agents()[-1]


def adopted(box: JobBox) -> bool:
    return bool(box.events("adopted"))


@pytest.mark.parametrize("name", RESUMES)
def test_after_silence(name: str, box: JobBox) -> None:
    """One that wrote nothing for too long is ended, and goes on where it was."""
    scene = Scene(box)
    kind = scene.cast(name, "--requests", "4", "--pause", "0.2")
    box.worker()
    id = scene.submit(kind, "--stale-after", "4s", "--retries", "3")
    agent = at_work(scene)
    os.kill(agent, signal.SIGSTOP)
    box.until_state(id, "done", within=40)
    assert box.job(id)["attempt_list"][0]["code"] == "stale"
    (done,) = scene.done()
    assert (done.starts[:2], done.steps) == ([False, True], [1, 2, 3, 4])


@pytest.mark.parametrize(
    "option, value, code",
    [("--max-runtime", "2s", "max_runtime"), ("--max-tool-calls", "2", "tool_calls")],
)
def test_after_a_budget(option: str, value: str, code: str, box: JobBox) -> None:
    """What it may use for one try does not have to be enough for all of its work."""
    scene = Scene(box)
    kind = scene.cast("claude", "--requests", "8", "--pause", "0.4")
    box.worker()
    id = scene.submit(kind, option, value, "--retries", "20", "--attempts", "30")
    box.until_state(id, "done", within=60)
    assert box.job(id)["attempt_list"][0]["code"] == code
    (done,) = scene.done()
    assert (done.starts[:2], done.steps) == ([False, True], [1, 2, 3, 4, 5, 6, 7, 8])


def test_after_it_held_its_seats_too_long(box: JobBox) -> None:
    """The bound of its pool is no failure of the session either."""
    scene = Scene(box, config=f'{BRISK}\n[pools.anthropic]\nlimit = 5\nmax_hold = "2s"\n')
    kind = scene.cast("claude", "--requests", "8", "--pause", "0.4")
    box.worker()
    id = scene.submit(kind, "--retries", "20", "--attempts", "30")
    box.until_state(id, "done", within=60)
    assert box.job(id)["attempt_list"][0]["code"] == "max_hold"
    (done,) = scene.done()
    assert (done.starts[:2], done.steps) == ([False, True], [1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("kind", [KINDS["claude"], KINDS["codex"], NAMING])
def test_after_all_of_it_was_killed(kind: Kind, box: JobBox) -> None:
    """Runner and agent are gone at once, and nobody could adopt anything: it is resumed."""
    scene = Scene(box)
    name = next(name for name, one in KINDS.items() if one.like == kind.like)
    scene.cast(name, "--requests", "4", "--pause", "0.5")
    box.worker()
    id = scene.submit(kind)
    agent = at_work(scene)
    os.kill(box.runner(id), signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    scene.kill_runner(id)
    box.until_state(id, "done")
    assert box.job(id)["attempt_list"][0]["code"] == "lost"
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False, True], [1, 2, 3, 4])


def test_text_is_given_a_session(box: JobBox) -> None:
    """What never tells its session goes on with one of ours, if its version takes one."""
    scene = Scene(box)
    kind = scene.cast("claude-text", "--requests", "8", "--pause", "0.4")
    package = {"name": "@anthropic-ai/claude-code", "version": "2.1.325"}
    (scene.bin / "package.json").write_text(json.dumps(package))
    box.worker()
    id = scene.submit(kind, "--max-runtime", "2s", "--retries", "20", "--attempts", "30")
    box.until_state(id, "done", within=60)
    job = box.job(id)
    assert (job["attempt_list"][0]["code"], job["given_session"]) == ("max_runtime", True)
    assert "(given by headgate" in box.headgate("why", str(id))
    (done,) = scene.done()
    assert (done.session, done.starts[:2]) == (job["session"], [False, True])
    assert done.steps == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("words", [("--same-tool-calls", "4"), ()])
def test_its_own_failure_begins_anew(words: tuple[str, ...], box: JobBox) -> None:
    """A loop is in the session, and what failed may fail again: both start without it."""
    scene = Scene(box)
    kind = scene.cast("claude", "--tool-loop", "--pause", "0.1")
    box.worker()
    id = scene.submit(kind, *words, "--retries", "1")
    for tries in () if words else (1, 2):
        until(lambda tries=tries: sum(bool(one.steps) for one in scene.done()) == tries)  # type: ignore[misc]
        for agent in scene.agents():
            if not gone(agent):
                os.kill(agent, signal.SIGKILL)
    box.until_state(id, "failed")
    assert [done.starts for done in scene.done()] == [[False], [False]]


def test_another_model_begins_anew(box: JobBox) -> None:
    """With --escalate the next model gets the work as it was handed in."""
    scene = Scene(box)
    kind = scene.cast("claude", "--requests", "40", "--pause", "0.2")
    box.worker()
    words = [word.replace(OPUS, "{model}") for word in kind.words]
    models = f"anthropic/claude-sonnet-4-6,anthropic/{OPUS}"
    options = ("--retries", "1", "--escalate", "--max-runtime", "1s", "--cwd", str(box.folder))
    id = box.submit("-m", models, *options, "--", "claude", *words)
    box.until_state(id, "failed")
    assert [done.starts for done in scene.done()] == [[False], [False]]


def _by_its_runner(scene: Scene, id: int) -> None:
    """Another runner looks after it."""
    scene.kill_runner(id)
    until(partial(adopted, scene.box))


def _by_nobody(scene: Scene, id: int) -> None:
    """Nobody is there when it ends."""
    worker = next(row[2] for row in scene.box.rows("member") if row[5])
    os.kill(int(worker), signal.SIGKILL)
    scene.kill_runner(id)


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("lose", [_by_its_runner, _by_nobody])
def test_one_that_had_finished_is_not_asked_to_go_on(
    lose: Callable[[Scene, int], None], name: str, box: JobBox
) -> None:
    """Its exit code is not known, but its last event is: its job is done."""
    scene = Scene(box)
    kind = scene.cast(name, "--requests", "2", "--until", str(box.folder / "go"))
    box.worker()
    id = scene.submit(kind)
    agent = at_work(scene)
    lose(scene, id)
    (box.folder / "go").touch()
    until(lambda: gone(agent))
    if not box.events("adopted"):
        box.worker()
    box.until_state(id, "done")
    job = box.job(id)
    assert (job["code"], job["exit"]) == ("finished", None)
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False], [1, 2])


def test_one_that_was_killed_after_its_runner_goes_on(box: JobBox) -> None:
    """Without that event nobody knows, and it is asked to go on."""
    scene = Scene(box)
    kind = scene.cast("claude", "--requests", "3", "--pause", "0.5")
    box.worker()
    id = scene.submit(kind)
    agent = at_work(scene)
    _by_its_runner(scene, id)
    os.kill(agent, signal.SIGKILL)
    box.until_state(id, "done")
    assert [one["code"] for one in box.job(id)["attempt_list"]] == ["lost", "exit"]
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False, True], [1, 2, 3])
