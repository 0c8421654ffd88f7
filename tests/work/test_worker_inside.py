"""A worker that an agent has started is nobody's program: it outlives the agent, and so do jobs."""

import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import HEADGATE, Program, end, gone, until
from tests.work.conftest import JobBox

FOR_GOOD = "sleep 600"


class Inside(NamedTuple):
    """An agent, the worker that it has started, and somebody else's job that this one has."""

    agent: Program
    lease: int
    worker: int
    job: int

    def pids(self, box: JobBox) -> list[int]:
        """The processes that are none of the agent's."""
        return [self.worker, box.runner(self.job), program_of(box, self.job)]


def program_of(box: JobBox, id: int) -> int:
    """The process that a job's lease is held for, once it is known."""
    return until(lambda: next((row[13] for row in box.rows("lease") if row[0] == id), 0))


def start(box: JobBox, script: str, *words: str) -> Inside:
    """An agent that starts a worker by a script, which tells the worker's number; and a job."""
    agent = box.run("-m", "a/b", *words, "--", "sh", "-c", f"{script}\nexec cat")
    return with_job(box, agent, lease_of_agent(box))


def lease_of_agent(box: JobBox) -> int:
    return until(lambda: next((row[0] for row in box.rows("lease") if row[2] == "a/b"), 0))


def with_job(box: JobBox, agent: Program, lease: int) -> Inside:
    worker = int(agent.line())
    box.pids.append(worker)
    job = box.submit("-m", "c/d", "--", "sh", "-c", FOR_GOOD)
    box.until_state(job, "running")
    found = Inside(agent, lease, worker, job)
    box.pids += found.pids(box)
    return found


def check_untouched(box: JobBox, inside: Inside) -> None:
    """The agent's seat is free at once; worker, runner and job go on, and more jobs are started."""
    assert inside.lease not in [row[0] for row in box.rows("lease")]
    assert [pid for pid in inside.pids(box) if gone(pid)] == []
    assert box.state(inside.job) == "running"
    assert box.run("-m", "a/b", "--no-wait", "--", "true").wait() == 0
    box.finished("--", "true")
    box.headgate("cancel", str(inside.job))
    assert box.state(inside.job) == "cancelled"


@pytest.fixture
def one(box: JobBox) -> JobBox:
    """One seat for the agent's model."""
    box.headgate("limits", "set", "a/b", "1")
    return box


IN_BACKGROUND = f"{HEADGATE} worker -q 2>&1 & echo $!"
STARTS = {
    "in the background": IN_BACKGROUND,
    "up": f"{HEADGATE} up -q 2>&1 & echo $!",
    "by a module": f"{sys.executable} -m headgate worker -q 2>&1 & echo $!",
    "in a session of its own": f"setsid {HEADGATE} worker -q 2>&1 & echo $!",
    "by a program that has ended": f"sh -c '{HEADGATE} worker -q 2>&1 & echo $!'",
    "without its mark": f"env -u HEADGATE_LEASE {HEADGATE} worker -q 2>&1 & echo $!",
    "without its pipe": (
        f"{sys.executable} -c 'import subprocess, sys; "
        f'print(subprocess.Popen(["{HEADGATE}", "worker", "-q"]).pid, flush=True)\''
    ),
    "by a run inside": f"{HEADGATE} run -m a/b -- sh -c '{IN_BACKGROUND}'",
}


@pytest.mark.parametrize("how", STARTS)
def test_an_agent_is_cancelled(how: str, one: JobBox) -> None:
    """However its worker was started: only the agent's own program ends, and its seat is free."""
    inside = start(one, STARTS[how])
    one.headgate("cancel", str(inside.lease))
    assert inside.agent.wait() == 128 + signal.SIGTERM
    check_untouched(one, inside)


def test_an_agent_ends(one: JobBox) -> None:
    """Its worker is no leftover that would keep its seat, and nothing is said of one."""
    inside = start(one, IN_BACKGROUND)
    assert inside.agent.end() == 0
    assert inside.agent.process.stderr is not None
    check_untouched(one, inside)
    assert b"still runs" not in inside.agent.process.stderr.read()


def test_an_agent_holds_its_seat_for_too_long(one: JobBox) -> None:
    """`max_hold` ends the agent, not its worker."""
    one.config('[pools."a/b"]\nlimit = 1\nmax_hold = "3s"\n')
    inside = start(one, IN_BACKGROUND, "--grace", "1s")
    assert inside.agent.wait() == 128 + signal.SIGTERM
    check_untouched(one, inside)


def test_the_run_of_an_agent_is_killed_and_the_agent_cancelled(one: JobBox) -> None:
    """What nobody minds is found by its mark and its pipe: the worker has neither."""
    inside = start(one, IN_BACKGROUND)
    inside.agent.kill()
    one.headgate("cancel", str(inside.lease))
    check_untouched(one, inside)


def test_an_agent_is_killed_altogether(one: JobBox) -> None:
    """With `kill -9` its seat is free for whoever asks next, though the worker lives."""
    inside = start(one, IN_BACKGROUND)
    agent = program_of(one, inside.lease)
    inside.agent.kill()
    end(agent)
    until(lambda: gone(agent))
    assert one.run("-m", "a/b", "--no-wait", "--", "true").wait() == 0
    check_untouched(one, inside)


def test_an_agent_that_nobody_minds_holds_its_seat_for_too_long(one: JobBox) -> None:
    """Whoever is on watch ends what has the mark or the pipe: the worker has neither."""
    one.config('[pools."a/b"]\nlimit = 1\nmax_hold = "3s"\n')
    inside = start(one, IN_BACKGROUND)
    inside.agent.kill()
    waiter = one.run("-m", "a/b", "--", "sh", "-c", "echo up; exec cat")
    assert waiter.line() == "up"
    waiter.end()
    check_untouched(one, inside)


def test_a_job_starts_a_worker(one: JobBox) -> None:
    """A job's program may start one, too: it outlives the job and the runner of the job."""
    first = one.worker("-q")
    told = one.folder / "told"
    agent = one.submit("-m", "a/b", "--", "sh", "-c", f"({IN_BACKGROUND}) >{told}; exec sleep 600")
    until(lambda: told.exists() and told.read_text().count("\n") > 1)
    worker = next(int(word) for word in told.read_text().split() if word.isdigit())
    one.pids.append(worker)
    first.send(signal.SIGTERM)
    first.wait()
    job = one.submit("-m", "c/d", "--", "sh", "-c", FOR_GOOD)
    one.until_state(job, "running")
    inside = Inside(first, agent, worker, job)
    one.pids += inside.pids(one)
    one.headgate("cancel", str(agent))
    assert one.state(agent) == "cancelled"
    check_untouched(one, inside)


def test_worker_and_runner_are_killed_inside_an_agent(one: JobBox) -> None:
    """The job's program falls to the agent's `run` by parentage, and is another's all the same."""
    inside = start(one, IN_BACKGROUND)
    _, runner, program = inside.pids(one)
    for pid in (inside.worker, runner):
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: gone(pid))  # type: ignore[misc]
    one.headgate("cancel", str(inside.lease))
    assert not gone(program)
    one.worker("-q")
    until(lambda: one.events("adopted"))
    assert one.state(inside.job) == "running"


def test_a_worker_knows_nothing_of_the_agent_that_started_it(one: JobBox) -> None:
    """Its environment, and that of its jobs, tells of their own: the rest stays as it was."""
    one.env["OTHER"] = "stays"
    inside = start(one, IN_BACKGROUND, "--task", "agent-1")
    told = one.folder / "told"
    one.finished("--task", "job-1", "--", "sh", "-c", f"env >{told}; pwd >>{told}")
    of_job = dict(line.split("=", 1) for line in told.read_text().splitlines() if "=" in line)
    of_worker = environment(inside.worker)
    assert of_worker["HEADGATE_LEASE"] == "none"
    assert "HEADGATE_TASK" not in of_worker
    assert of_job["HEADGATE_TASK"] == "job-1"
    assert of_job["HEADGATE_LEASE"].endswith(f".{of_job['HEADGATE_JOB']}")
    assert of_worker["OTHER"] == of_job["OTHER"] == "stays"
    assert of_worker["HEADGATE_STORE"] == of_job["HEADGATE_STORE"] == one.url


def environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def test_a_notifier_inside_an_agent(one: JobBox) -> None:
    """`notify run` tells of everybody's events: it goes on when the agent that started it ends."""
    one.config('[[notify]]\nname = "n"\nevents = ["done"]\ncommand = ["true"]\n')
    script = f"{HEADGATE} notify run 2>&1 & echo $!\nexec cat"
    agent = one.run("-m", "a/b", "--", "sh", "-c", script)
    said = [agent.line(), agent.line()]
    notifier = next(int(line) for line in said if line.isdigit())
    one.pids.append(notifier)
    one.headgate("cancel", str(lease_of_agent(one)))
    assert agent.wait() == 128 + signal.SIGTERM
    assert not gone(notifier)
    assert one.rows("lease") == []
