"""What becomes of a program that is run as a job: how it starts, what it gets, how it ends."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support import HEADGATE, gone, until
from tests.work.conftest import JobBox

STUBBORN = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
LOUD = """
import os, sys
for number in range(5 * 1024):
    os.write(1, b"%08d " % number + b"x" * 1014 + b"\\n")
"""


def _pid(path: Path) -> int:
    return int(until(lambda: path.exists() and path.read_text().strip()) or 0)


def _run(box: JobBox, *words: str, code: int = 0) -> int:
    """A job that has ended, well or not."""
    id = box.submit("--cwd", str(box.folder), *words)
    assert box.ask("wait", str(id)).code == code
    return id


def test_a_program_gets_the_workers_environment_and_its_own(box: JobBox) -> None:
    """The worker's variables, what --env says on top, and who it is; nothing of its submitter."""
    box.start(HEADGATE, "worker", env={"WHOSE": "worker", "BOTH": "worker"}).line(stream="stderr")
    words = ["submit", "-q", "--env", "BOTH=mine", "--env", "EMPTY=", "--task", "oracle-2"]
    said = box.ask(*words, "--", "env", env={"WHOSE": "submitter", "NEW": "submitter"})
    id = int(said.out)
    box.headgate("wait", str(id))
    found = dict(line.partition("=")[::2] for line in box.log(id).splitlines())
    assert (found["WHOSE"], found["BOTH"], found["EMPTY"]) == ("worker", "mine", "")
    assert "NEW" not in found
    assert (found["HEADGATE_JOB"], found["HEADGATE_ATTEMPT"]) == (str(id), "1")
    assert (found["HEADGATE_TASK"], found["HEADGATE_STORE"]) == ("oracle-2", box.url)


def test_what_a_program_is_told_of_itself_cannot_be_set(box: JobBox) -> None:
    """A job cannot pass for another, whatever is said with --env."""
    box.worker()
    id = _run(box, "--env", "HEADGATE_LEASE=x", "--env", "HEADGATE_JOB=9", "--", "env")
    found = dict(line.partition("=")[::2] for line in box.log(id).splitlines())
    assert found["HEADGATE_JOB"] == str(id)
    assert found["HEADGATE_LEASE"].endswith(f".{id}")


def test_a_program_starts_in_its_folder_with_nothing_to_read(box: JobBox) -> None:
    """The folder is the submitter's or the one that was named; its input is at its end."""
    box.worker()
    folder = box.folder / "with a space"
    folder.mkdir()
    id = box.finished("--cwd", str(folder), "--", "sh", "-c", "pwd; cat; echo end")
    assert box.log(id) == f"{folder}\nend\n"
    id = box.finished("--", "pwd")
    assert box.log(id).strip() == str(Path.cwd())


def test_output_and_errors_go_to_one_log_in_order(box: JobBox) -> None:
    """As on a terminal."""
    box.worker()
    id = _run(box, "--", "sh", "-c", "echo one; echo two >&2; echo three")
    assert box.log(id) == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "words, ended, code, reason",
    [
        (("sh", "-c", "exit 3"), "3:0", "exit", "exit 3"),
        (("sh", "-c", "exit 255"), "255:0", "exit", "exit 255"),
        (("sh", "-c", "kill -9 $$"), "0:9", "signal", "killed by SIGKILL"),
        (("sh", "-c", "kill -34 $$"), "0:34", "signal", "killed by "),
        (
            ("no-such-program",),
            "127:0",
            "cannot_start",
            "cannot start no-such-program: not found on the PATH of the worker",
        ),
        (("/etc/passwd",), "126:0", "cannot_start", "cannot start /etc/passwd: is not an exec"),
        (("/",), "126:0", "cannot_start", "cannot start /: is not an executable file"),
    ],
)
def test_how_a_program_failed(
    box: JobBox, words: tuple[str, ...], ended: str, code: str, reason: str
) -> None:
    """Its own code or its signal, or why it could not be started at all."""
    box.worker()
    id = _run(box, "--no-check", "--", *words, code=1)
    job = box.job(id)
    assert (job["state"], job["exit"], job["code"]) == ("failed", ended, code)
    assert job["reason"].startswith(reason)
    (run,) = job["attempt_list"]
    assert (run["exit"], run["code"], run["reason"]) == (ended, code, job["reason"])


def test_a_folder_that_is_gone(box: JobBox) -> None:
    """A job whose folder is not there has failed, and says which one."""
    box.worker()
    id = box.submit("--no-check", "--cwd", str(box.folder / "nowhere"), "--", "true")
    assert box.ask("wait", str(id)).code == 1
    job = box.job(id)
    assert (job["state"], job["code"], job["exit"]) == ("failed", "cannot_start", "127:0")
    assert job["reason"] == f"cannot start in {box.folder}/nowhere: No such file or directory"


def test_a_runner_that_cannot_start_a_hundred_goes_on(box: JobBox) -> None:
    """Programs that cannot be started use nothing up in the runner that tries them in turn."""
    box.config("[pools.host]\nlimit = 1\n")
    box.start("sh", "-c", f"ulimit -n 48; exec {HEADGATE} worker -q").line(stream="stderr")
    ids = box.batch(*[{"command": ["no-such-program"]}] * 60, {"command": ["true"]})
    assert box.ask("wait", *map(str, ids)).code == 1
    states = {row[0]: (row[1], row[18]) for row in box.rows("job")}
    assert [states[id] for id in ids] == [("failed", "127:0")] * 60 + [("done", "0:0")]


def test_what_a_program_leaves_running_ends_with_its_job(box: JobBox) -> None:
    """Also what left its session and its family, and what ignores SIGTERM, after the grace."""
    box.worker()
    script = (
        f'sh -c "{STUBBORN}" & '
        "setsid sh -c 'echo $$ > pid2; exec sleep 300' & "
        "until [ -s pid ] && [ -s pid2 ]; do sleep 0.01; done; echo done"
    )
    id = _run(box, "--grace", "200ms", "--", "sh", "-c", script)
    assert box.state(id) == "done"
    for name in ("pid", "pid2"):
        assert gone(_pid(box.folder / name))
    assert box.log(id) == "done\n"


def test_a_program_that_will_not_stop_is_killed(box: JobBox) -> None:
    """Cancelled: asked to end, and after the grace of its job made to, with all of its family."""
    box.worker()
    script = f"sh -c 'echo $$ > child; sleep 300' & {STUBBORN}"
    id = box.submit("--grace", "300ms", "--cwd", str(box.folder), "--", "sh", "-c", script)
    pids = [_pid(box.folder / name) for name in ("pid", "child")]
    said = box.ask("cancel", str(id))
    assert (said.code, said.err) == (0, f"headgate: {id} has ended\n")
    assert all(map(gone, pids))
    job = box.job(id)
    assert (job["state"], job["exit"]) == ("cancelled", "0:9")
    assert (job["code"], job["reason"]) == ("cancelled", "cancelled by hand")


def test_a_cancel_waits_no_longer_than_it_was_told(box: JobBox) -> None:
    """What has a minute to end by itself is killed when somebody gives it less."""
    box.worker()
    words = ["--grace", "1m", "--cwd", str(box.folder), "--", "sh", "-c", STUBBORN]
    id = box.submit(*words)
    pid = _pid(box.folder / "pid")
    assert box.ask("cancel", str(id), "--grace", "200ms").code == 0
    assert gone(pid)
    assert box.job(id)["exit"] == "0:9"


def test_a_program_may_end_in_its_own_way(box: JobBox) -> None:
    """Within its grace it can save what it has; it was cancelled all the same."""
    box.worker()
    script = "trap 'echo saved; exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    id = box.submit("--cwd", str(box.folder), "--", "sh", "-c", script)
    _pid(box.folder / "pid")
    box.headgate("cancel", str(id))
    assert box.log(id).endswith("saved\n")
    job = box.job(id)
    assert (job["state"], job["exit"]) == ("cancelled", "0:0")


def test_ctrl_c_ends_the_worker_and_nothing_else(box: JobBox) -> None:
    """It says what goes on without it; that ends as it would have, and is written down."""
    worker = box.worker()
    script = "echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done; echo bye"
    id = box.submit("--cwd", str(box.folder), "--", "sh", "-c", script)
    pid = _pid(box.folder / "pid")
    worker.send(signal.SIGINT)
    assert worker.line(stream="stderr") == (
        "headgate: the worker has ended; 1 job goes on without it"
    )
    assert worker.wait() == 0
    os.kill(pid, 0)
    assert box.state(id) == "running"
    (box.folder / "go").touch()
    box.until_state(id, "done")
    assert box.log(id) == "bye\n"
    assert until(lambda: not box.rows("member"))


def test_a_log_that_grows_too_large_keeps_its_beginning_and_end(box: JobBox) -> None:
    """Five megabytes into a log of a quarter: bounded on disk, and the program sees nothing."""
    box.config('[jobs]\nlog_size = "256KiB"\n')
    box.worker()
    id = _run(box, "--", sys.executable, "-c", LOUD)
    path = Path(f"{box.path}.logs", f"{id}.1.log")
    seen = path.stat()
    assert seen.st_size == 5 * 1024 * 1024
    assert seen.st_blocks * 512 <= 320 * 1024
    said = box.ask("logs", str(id))
    lines = said.out.splitlines()
    assert "\0" not in said.out
    assert lines[0] == "00000000 " + "x" * 1014
    assert lines[-1] == "00005119 " + "x" * 1014
    assert "bytes are left out here: the log had become too large" in said.err
    kept = [line for line in lines if len(line) == 1023]
    assert len(kept) >= len(lines) - 2
    assert kept == sorted(set(kept))
    assert box.headgate("logs", str(id), "-n", "2").splitlines() == lines[-2:]
    everything = box.ask("logs", str(id), "-n", "9999").out
    assert everything.splitlines()[0] == lines[0]


def test_a_log_stays_bounded_while_its_program_writes(box: JobBox) -> None:
    """Not only in the end: a program that never ends fills no disk."""
    box.config('[jobs]\nlog_size = "256KiB"\n')
    box.worker()
    script = "import os, time\nwhile True:\n os.write(1, b'y' * 4096 + b'\\n'); time.sleep(0.0005)"
    id = box.submit("--", sys.executable, "-c", script)
    path = Path(f"{box.path}.logs", f"{id}.1.log")
    until(lambda: path.exists() and path.stat().st_size > 4 * 1024 * 1024)
    until(lambda: path.stat().st_blocks * 512 < 1024 * 1024)
    box.headgate("cancel", str(id))
    assert path.stat().st_blocks * 512 <= 320 * 1024


def test_each_attempt_fills_in_its_model(box: JobBox) -> None:
    """With several models the command is a template; a retry takes the next one."""
    box.config('[jobs]\nbackoff = "10ms"\n')
    box.worker()
    words = ["-m", "a/one,b/two", "--retries", "3", "--escalate", "--", "sh", "-c"]
    id = _run(box, *words, "echo {model} {key}; test {model} = two")
    assert (box.log(id, 1), box.log(id, 2)) == ("one a/one\n", "two b/two\n")
    job = box.job(id)
    assert [run["key"] for run in job["attempt_list"]] == ["a/one", "b/two"]
    plain = _run(box, "-m", "a/one", "--", "echo", "{model}")
    assert box.log(plain) == "{model}\n"


def test_a_full_model_sends_a_job_to_the_next(box: JobBox) -> None:
    """After the time that was given, and not before there is room."""
    box.config("[pools.a]\nlimit = 1\n[pools.b]\nlimit = 1\n")
    box.worker()
    other = box.holder("b/x")
    box.holder("a/x")
    id = box.submit("-m", "a/one,b/two", "--fallback-after", "100ms", "--", "echo", "{model}")
    until(lambda: box.rows("job")[0][12] > box.rows("job")[0][11] + 1_000)  # it has looked in vain
    assert (box.state(id), box.rows("job")[0][4]) == ("queued", "a/one")
    other.end()
    box.until_state(id, "done")
    assert box.log(id) == "two\n"
    assert [row[7] for row in box.events("fallback")] == [
        "takes b/two: a/one was full for too long"
    ]


def test_a_refused_agent_is_parked_and_comes_back(box: JobBox) -> None:
    """No failure: it keeps its place, and is let in again when its pool has opened."""
    box.config('[jobs]\nbackoff = "100ms"\n')
    box.worker()
    program = box.folder / "claude"
    refusal = "API Error: Request rejected (429) · this may be a temporary capacity issue"
    program.write_text(
        f"#!/bin/sh\n[ $HEADGATE_ATTEMPT -gt 2 ] && exit 0\necho '{refusal}'\nexit 1\n"
    )
    program.chmod(0o755)
    id = box.submit("-m", "a/b", "--", str(program), "-p", "x")
    for times in (1, 2):
        until(lambda times=times: len(box.events("parked")) == times)  # type: ignore[misc]
        box.until_state(id, "parked")
        box.headgate("resume", "a/b")  # what was refused rests for a while, too
    box.until_state(id, "done")
    job = box.job(id)
    assert [run["code"] for run in job["attempt_list"]] == ["rate_limited", "rate_limited", "exit"]
    told = [row[2] for row in box.rows("event") if row[3] == id]
    assert [kind for kind in told if kind not in {"queued", "paused"}] == [
        "started",
        "parked",
        "readmitted",
        "parked",
        "readmitted",
        "done",
    ]


def test_old_jobs_and_their_logs_are_forgotten(box: JobBox) -> None:
    """A worker clears up what ended long ago; ids go on."""
    worker = box.worker()
    first = _run(box, "--", "echo", "one")
    worker.send(signal.SIGTERM)
    worker.wait()
    box.config('[jobs]\nkeep = "1ms"\n')
    box.worker()
    until(lambda: not box.rows("job"))
    until(lambda: not list(Path(f"{box.path}.logs").iterdir()))
    assert box.rows("attempt") == []
    said = box.ask("logs", str(first))
    assert (said.code, said.out) == (2, "")
    assert f"there is no job {first}" in said.err
    assert box.submit("--", "true") > first


def test_one_at_a_time_runs_them_all_in_order(box: JobBox) -> None:
    """Fifty jobs for one seat: each runs once, alone, in the order in which they came."""
    box.config("[pools.host]\nlimit = 1\n")
    box.worker("-q")
    script = "mkdir busy || exit 1; echo $HEADGATE_JOB >> order; rmdir busy"
    job = {"command": script, "cwd": str(box.folder)}
    ids = box.batch(*[job] * 50)
    assert box.ask("wait", *map(str, ids)).code == 0
    assert [int(id) for id in (box.folder / "order").read_text().split()] == ids
    assert box.rows("lease") + box.rows("ticket") == []


def test_work_that_outlives_its_pools_patience_has_failed(box: JobBox) -> None:
    """A max_hold ends it, with that as its reason."""
    box.config('[pools.a]\nmax_hold = "300ms"\n')
    box.worker()
    id = _run(box, "-m", "a/b", "--", "sleep", "300", code=1)
    job = box.job(id)
    assert (job["state"], job["code"], job["exit"]) == ("failed", "max_hold", "0:15")
    assert "max_hold of 300ms" in job["reason"]


def test_a_command_nobody_else_sees(box: JobBox) -> None:
    """No list and no event shows the arguments of a job, which may be prompts."""
    id = box.submit("-m", "a/b", "--", "echo", "s3cret-prompt")
    box.worker()
    box.headgate("wait", str(id))
    for words in (["queue", "--all"], ["why", str(id)], ["events"], ["status"]):
        assert "s3cret" not in box.headgate(*words)
        assert "s3cret" not in box.headgate(*words, "--json")
