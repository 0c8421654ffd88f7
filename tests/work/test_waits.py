"""A program that waits for a job: its lease lends its seats to that job."""

import os
from pathlib import Path

from tests.support import HEADGATE, Program, pool_of, until
from tests.work.conftest import JobBox

WAIT = f"{HEADGATE} wait -q"
SUBMIT = f"{HEADGATE} submit -q"


def lead(box: JobBox, script: str, *words: str) -> Program:
    """A `headgate run` that has its seats, and goes on with a script when its input ends."""
    program = box.run(*words, "--", "sh", "-c", f"echo up; read x; {script}")
    assert program.line() == "up"
    return program


def gated(box: JobBox, name: str = "pipe") -> tuple[str, Path]:
    """A command that says when it runs and goes on until its pipe is written to, and the pipe."""
    pipe = box.folder / name
    os.mkfifo(pipe)
    return f"sh -c 'echo run >>{box.folder}/{name}.log; read x <{pipe}'", pipe


def runs(box: JobBox, name: str = "pipe") -> bool:
    """Whether such a command has said that it runs."""
    return Path(box.folder, f"{name}.log").exists()


def test_leads_that_wait_for_their_jobs_do_not_deadlock(box: JobBox) -> None:
    """Three leads fill the machine; each submits a job and waits for it, and all come to an end."""
    box.worker()
    script = f"id=$({SUBMIT} -- sh -c 'echo done'); {WAIT} $id; echo code $?"
    leads = [lead(box, script) for _ in range(3)]
    assert pool_of(box.gate(), "host").free == 0
    for one in leads:
        one.go()
    assert [one.line() for one in leads] == ["code 0"] * 3
    assert [one.wait() for one in leads] == [0] * 3


def test_a_job_that_waits_for_its_child(box: JobBox) -> None:
    """With one seat for all, a job's child and grandchild run, and are counted with it once."""
    box.headgate("limits", "set", "host", "1")
    box.worker()
    work, pipe = gated(box)
    child = f"{WAIT} $({SUBMIT} -- {work})"
    Path(box.folder, "child").write_text(child)
    Path(box.folder, "parent").write_text(f"{WAIT} $({SUBMIT} -- sh {box.folder}/child)")
    id = box.submit("--", "sh", f"{box.folder}/parent")
    until(lambda: runs(box))
    gate = box.gate()
    running = gate.queue().running
    assert [row.borrows for row in running] == [None, *(row.id for row in running[:-1])]
    assert len(running) == 3
    assert pool_of(gate, "host").in_use == 1
    pipe.write_text("\n")
    assert box.ask("wait", str(id)).code == 0
