"""What once went wrong with jobs, or with what stands beside them."""

import os
import signal
from pathlib import Path

from tests.support import HEADGATE, until
from tests.work.conftest import JobBox

MIB = 2**20


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_a_cancelled_orphan_takes_nobody_with_it(box: JobBox) -> None:
    """Who only watches a dead wrapper's pipe is none of its programs, and is left alone."""
    box.config("[pools.host]\nlimit = 1\n")
    first = box.holder("a/b")
    agent = until(lambda: next((row["pid"] for row in box.running()), 0))
    waiting = box.waiter("a/b")
    first.kill()
    box.headgate("cancel", str(box.rows("lease")[0][0]), "--grace", "1s")
    until(lambda: not Path(f"/proc/{agent}/cmdline").exists() or not _lives(agent))
    assert waiting.line() == "up"
    assert waiting.end() == 0


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_without_its_mark_is_not_started_twice(box: JobBox) -> None:
    """It is known by the pipe it inherited, whoever of those who looked after it was killed."""
    loop = "echo $$ >> pids; while [ ! -e go ]; do /bin/sleep 0.05; done"
    box.worker()
    id = box.submit("--cwd", str(box.folder), "--", "env", "-i", "/bin/sh", "-c", loop)
    pids = box.folder / "pids"
    until(lambda: pids.exists() and pids.read_text())
    for count in (1, 2):
        _kill(box.runner(id))
        until(lambda count=count: len(box.events("adopted")) == count)  # type: ignore[misc]
    assert len(pids.read_text().split()) == 1
    assert box.state(id) == "running"
    (box.folder / "go").touch()
    box.until_state(id, "done")
    assert len(pids.read_text().split()) == 2
    assert [run["code"] for run in box.job(id)["attempt_list"]] == ["lost", "exit"]


def test_a_flood_of_output_is_cut_and_stops_nothing(box: JobBox) -> None:
    """The beginning and the end are kept, the job ends in time, and can be cancelled meanwhile."""
    box.config('[jobs]\nlog_size = "256KiB"\n')
    box.worker()
    flood = "echo FIRST; yes 'a line of some length, again and again' | head -c {}; echo LAST"
    id = box.submit("--", "sh", "-c", flood.format(400 * MIB))
    box.until_state(id, "done", within=60)
    log = Path(box.headgate("logs", str(id), "--path").strip())
    assert log.stat().st_blocks * 512 < 64 * MIB
    said = box.headgate("logs", str(id))
    assert said.startswith("FIRST")
    assert said.rstrip().endswith("LAST")
    endless = box.submit("--", "sh", "-c", flood.format(10**15))
    until((log.parent / f"{endless}.1.log").exists)
    box.headgate("cancel", str(endless), "--grace", "2s")
    assert box.state(endless) == "cancelled"


def test_a_broken_configuration_stops_no_job(box: JobBox) -> None:
    """What was good last goes on to count for those who start now."""
    box.worker()
    first = box.submit("--", "true")
    box.until_state(first, "done")
    good = str(box.folder / "good.toml")
    Path(good).write_text(box.defaults)
    box.config("[pools.host\nlimit = ")
    second = int(box.headgate("--config", good, "submit", "-q", "--", "true"))
    box.until_state(second, "done")


def test_no_key_is_shown_from_a_jobs_output(box: JobBox) -> None:
    """The last line of its output is fit to be shown: short, plain, and without keys."""
    box.worker()
    line = r"\033[31mAuthorization: Bearer sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    id = box.submit("--", "sh", "-c", f"printf '{line}\\n'; exec sleep 60")
    until(lambda: "Authorization" in box.headgate("queue"))
    for words in (["queue"], ["queue", "--json"]):
        said = box.headgate(*words)
        assert "abcdefghijklmnop" not in said
        assert "\x1b" not in said
    box.headgate("cancel", str(id), "--grace", "0s")


def test_a_name_that_is_no_text_fails_once(box: JobBox) -> None:
    """A program whose name is not UTF-8 cannot be started: that is said once, and it has failed."""
    box.worker()
    program = box.start(HEADGATE, "submit", "-q", "--", os.fsdecode(b"\xff\xfe-missing"))
    id = int(program.line())
    box.until_state(id, "failed")
    assert box.job(id)["exit"] == "127:0"
    assert len(box.job(id)["attempt_list"]) == 1


def test_a_session_is_known_whatever_is_killed(box: JobBox) -> None:
    """It is kept as soon as the agent tells of it: runner and agent may die together."""
    bin_ = box.folder / "bin"
    bin_.mkdir()
    script = """#!/bin/sh
echo "$@" >> calls
case "$*" in *--resume*) exit 0;; esac
echo '{"type":"system","subtype":"init","session_id":"0f0e0d0c-0b0a-4908-8706-050403020100"}'
echo $$ > pid
exec sleep 60
"""
    (bin_ / "claude").write_text(script)
    (bin_ / "claude").chmod(0o755)
    box.worker()
    words = ("--output-format", "stream-json", "--verbose", "-p", "hello")
    id = box.submit("--cwd", str(box.folder), "--", str(bin_ / "claude"), *words)
    until(lambda: any(row[19] for row in box.rows("job")) and (box.folder / "pid").exists())
    runner, agent = box.runner(id), int((box.folder / "pid").read_text())
    os.kill(runner, signal.SIGSTOP)
    _kill(runner)
    _kill(agent)
    box.until_state(id, "done")
    last = (box.folder / "calls").read_text().splitlines()[-1]
    assert "--resume 0f0e0d0c-0b0a-4908-8706-050403020100" in last


def test_a_job_whose_orphans_keep_ending_is_known_by_its_pid(box: JobBox) -> None:
    """Its runner is woken again and again, and still says which process it looks after."""
    orphans = "while [ ! -e go ]; do (sleep 0.03 &); sleep 0.03; done"
    box.worker()
    id = box.submit("--cwd", str(box.folder), "--", "sh", "-c", orphans)
    pid = until(lambda: box.job(id)["pid"])
    assert orphans in Path(f"/proc/{pid}/cmdline").read_text()
    (box.folder / "go").touch()
    box.until_state(id, "done")
