"""What an agent may use up: each bound ends its job, and says so."""

import pytest

from tests.support import until
from tests.work.conftest import JobBox
from tests.work.scene import LIVE, Scene

BUDGETS = [
    (("--stale-after", "500ms"), ("--silent",), "stale", "stale_after is 500ms"),
    (("--stale-after", "500ms"), ("--requests", "3", "--silent-after", "1"), "stale", "it wrote"),
    (
        ("--message-stale-after", "500ms"),
        ("--requests", "3", "--silent-after", "1"),
        "message_stale",
        "no message and called no tool",
    ),
    (("--max-runtime", "500ms"), ("--tool-loop", "--pause", "0.1"), "max_runtime", "it ran for"),
    (
        ("--max-tool-calls", "5", "--same-tool-calls", "off"),
        ("--tool-loop", "--pause", "0.1"),
        "tool_calls",
        "max_tool_calls is 5",
    ),
    (("--same-tool-calls", "5"), ("--tool-loop", "--pause", "0.1"), "tool_loop", "in a row"),
]


@pytest.mark.parametrize("options, words, code, text", BUDGETS)
def test_a_bound_ends_the_job_and_is_its_reason(
    options: tuple[str, ...], words: tuple[str, ...], code: str, text: str, box: JobBox
) -> None:
    """The agent is ended, the job has failed, and its code and sentence say which bound it was."""
    scene = Scene(box)
    kind = scene.cast("claude", *words)
    box.worker()
    id = scene.submit(kind, *options)
    box.until_state(id, "failed")
    job = box.job(id)
    assert job["code"] == code
    assert text in job["reason"]
    assert (job["exit"], len(job["attempt_list"])) == (
        "0:15" if "--silent" in words else "143:0",
        1,
    )
    assert [row[7] for row in box.events("failed")] == [job["reason"]]
    assert scene.all_gone()
    assert not box.rows("lease")


@pytest.mark.parametrize("name", LIVE)
def test_a_loop_is_seen_in_every_agents_words(name: str, box: JobBox) -> None:
    """The same call again and again is known as such, whoever makes it."""
    scene = Scene(box)
    kind = scene.cast(name, "--tool-loop", "--pause", "0.1")
    box.worker()
    id = scene.submit(kind, "--same-tool-calls", "4")
    box.until_state(id, "failed")
    assert box.job(id)["code"] == "tool_loop"
    assert scene.all_gone()


def test_bounds_of_the_configuration_hold_for_all(box: JobBox) -> None:
    """What [jobs] says holds where a job says nothing, and a job may say otherwise."""
    scene = Scene(box, config='[jobs]\nmax_runtime = "1s"\n')
    kind = scene.cast("codex", "--requests", "8", "--pause", "0.2")
    box.worker()
    bound = scene.submit(kind)
    free = scene.submit(kind, "--max-runtime", "off")
    box.until_state(bound, "failed")
    box.until_state(free, "done")
    assert box.job(bound)["code"] == "max_runtime"
    assert [len(done.steps) for done in scene.done() if done.lines[-1]["event"] == "end"] == [8]


def test_a_bound_is_not_stretched_by_a_kill(box: JobBox) -> None:
    """Whoever goes on with an agent whose runner was killed counts from when it was started."""
    scene = Scene(box)
    kind = scene.cast("claude", "--tool-loop", "--pause", "0.1")
    box.worker()
    id = scene.submit(kind, "--max-runtime", "4s")
    until(lambda: scene.done() and len(scene.done()[0].steps) > 2)
    scene.kill_runner(id)
    until(lambda: box.events("adopted"))
    box.until_state(id, "failed")
    job = box.job(id)
    assert job["code"] == "max_runtime"
    assert job["reason"].startswith("it ran for 4")
