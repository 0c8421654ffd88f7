"""Whatever is killed: no job is lost, none runs twice, and each ends once, with its reason."""

import os
import signal
from pathlib import Path

import psutil

from tests.support import HEADGATE, gone, until
from tests.work.conftest import JobBox
from tests.work.scene import Scene

LONG_JOB = ("sh", "-c", "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; echo bye")


def _pid(box: JobBox) -> int:
    path = box.folder / "pid"
    return int(until(lambda: path.exists() and path.read_text().strip()) or 0)


def test_a_job_outlives_its_worker(box: JobBox) -> None:
    """A worker that is killed harms nothing: its jobs go on, and tell of their ends themselves."""
    worker = box.worker()
    id = box.submit("--cwd", str(box.folder), "--", *LONG_JOB)
    _pid(box)
    worker.kill()
    assert box.state(id) == "running"
    (box.folder / "go").touch()
    box.until_state(id, "done")
    assert box.log(id) == "bye\n"
    assert box.job(id)["exit"] == "0:0"


def test_a_job_outlives_its_runner(box: JobBox) -> None:
    """A runner that is killed is replaced while its program goes on; then it is tried again."""
    box.worker()
    id = box.submit("--cwd", str(box.folder), "--", *LONG_JOB)
    agent = _pid(box)
    first = until(lambda: box.runner(id))
    os.kill(first, signal.SIGKILL)
    until(lambda: box.events("adopted"))
    os.kill(agent, 0)
    assert box.runner(id) != first
    (box.folder / "go").touch()
    box.until_state(id, "done")
    assert box.job(id)["attempt_list"][0]["code"] == "lost"
    assert len(box.job(id)["attempt_list"]) == 2


def test_a_refusal_that_a_killed_runner_did_not_read(box: JobBox) -> None:
    """Whoever looks after the program next tells of it, and parks the job."""
    scene = Scene(box)
    kind = scene.cast("claude", "--requests", "4", "--pause", "0.2")
    box.worker()
    id = scene.submit(kind)
    until(lambda: any(done.steps for done in scene.done()))
    runner = box.runner(id)
    os.kill(runner, signal.SIGSTOP)
    scene.shut(retry_after=30_000)
    until(lambda: "api_retry" in box.log(id))
    assert not box.events("paused")
    os.kill(runner, signal.SIGKILL)
    until(lambda: box.events("paused"))
    box.until_state(id, "parked")
    assert box.events("adopted")
    scene.open(box.events("paused")[0][6])
    box.until_state(id, "done")
    (done,) = scene.done()
    assert (done.starts, done.steps) == ([False, True], [1, 2, 3, 4])


def test_both_killed(box: JobBox) -> None:
    """With worker and runner killed, the program keeps its seat and no second one is started."""
    worker = box.worker()
    id = box.submit("--cwd", str(box.folder), "--", *LONG_JOB)
    agent = _pid(box)
    runner = until(lambda: box.runner(id))
    worker.kill()
    os.kill(runner, signal.SIGKILL)
    assert [row["id"] for row in box.running()] == [id]
    os.kill(agent, signal.SIGKILL)
    box.until_state(id, "running")
    until(lambda: not box.running())
    assert box.state(id) == "queued"
    box.worker()
    (box.folder / "go").touch()
    box.until_state(id, "done")


def test_nobody_is_there(box: JobBox) -> None:
    """A submitted job survives everything, and is started by the first worker that comes."""
    id = box.submit("--", "sh", "-c", "echo here")
    assert box.job(id)["code"] == "no_worker"
    box.worker()
    box.until_state(id, "done")
    assert Path(box.headgate("logs", str(id), "--path").strip()).read_text() == "here\n"


def test_programs_that_cannot_be_started(box: JobBox) -> None:
    """Each fails with that as its reason, also where one runner sees to very many of them."""
    box.config("[pools.host]\nlimit = 1\n")
    batch = box.folder / "batch"
    batch.write_text(80 * '{"command": ["./no-such-program"]}\n')
    box.start("sh", "-c", f"ulimit -n 64; exec {HEADGATE} worker")
    box.headgate("submit", "--no-check", "--batch", str(batch), "-q")
    until(lambda: len(box.events("failed")) == 80)
    assert {(row[2], row[18]) for row in box.rows("job")} == {("cannot_start", "127:0")}
    assert len(box.rows("attempt")) == 80


def test_a_job_that_was_adopted_can_be_cancelled(box: JobBox) -> None:
    """Whoever looks after a program now ends it, and tells that it was cancelled."""
    box.worker()
    id = box.submit("--cwd", str(box.folder), "--", *LONG_JOB)
    agent = _pid(box)
    os.kill(until(lambda: box.runner(id)), signal.SIGKILL)
    until(lambda: box.events("adopted"))
    box.headgate("cancel", str(id))
    assert gone(agent)
    job = box.job(id)
    assert (job["state"], job["attempt_list"][0]["code"]) == ("cancelled", "cancelled")
    assert box.rows("lease") + box.rows("ticket") == []


def test_a_job_that_nobody_minds_can_be_cancelled(box: JobBox) -> None:
    """With worker and runner killed, cancel itself ends the program; the job is not tried again."""
    worker = box.worker()
    id = box.submit("--cwd", str(box.folder), "--", *LONG_JOB)
    agent = _pid(box)
    runner = until(lambda: box.runner(id))
    worker.kill()
    os.kill(runner, signal.SIGKILL)
    until(lambda: gone(runner))
    box.headgate("cancel", str(id))
    assert gone(agent)
    assert (box.state(id), len(box.rows("attempt"))) == ("cancelled", 1)
    box.worker()
    other = box.submit("--", "true")
    box.until_state(other, "done")
    assert box.state(id) == "cancelled"


def test_a_worker_whose_nursery_is_killed_begins_anew(box: JobBox) -> None:
    """It cannot fork by itself any more; so it starts itself again, and goes on."""
    worker = box.worker("-q")
    (nursery,) = psutil.Process(worker.pid).children()
    first = box.submit("--", "true")
    box.until_state(first, "done")
    nursery.kill()
    second = box.submit("--", "echo", "here")
    box.until_state(second, "done")
    assert worker.alive()
    assert box.log(second) == "here\n"


def test_two_workers_share_what_there_is(box: JobBox) -> None:
    """Forty jobs, two workers, one of them killed on the way: each job runs, and none twice."""
    box.config("[pools.host]\nlimit = 6\n")
    first, _ = box.worker("-q"), box.worker("-q")
    script = "mkdir $HEADGATE_JOB && echo $HEADGATE_JOB >> done"
    ids = box.batch(*[{"command": script, "cwd": str(box.folder)}] * 40)
    until((box.folder / "done").exists)
    first.kill()
    assert box.ask("wait", "-q", *map(str, ids)).code == 0
    assert sorted(map(int, (box.folder / "done").read_text().split())) == ids
    assert [row[:2] for row in sorted(box.rows("attempt"))] == [(id, 1) for id in ids]
    ends = [row[3] for row in box.events("done")]
    assert sorted(ends) == ids
