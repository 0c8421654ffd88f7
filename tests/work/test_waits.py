"""A program that waits for a job: its lease lends its seats to that job."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support import HEADGATE, Program, pool_of, until
from tests.work.conftest import JobBox

WAIT = f"{HEADGATE} wait -q"
SUBMIT = f"{HEADGATE} submit -q"


@pytest.fixture
def tight(box: JobBox) -> JobBox:
    """One seat on the machine, and a worker."""
    box.headgate("limits", "set", "host", "1")
    box.worker()
    return box


def lead(box: JobBox, script: str, *words: str) -> Program:
    """A `headgate run` that has its seats, and goes on with a script when its input ends."""
    program = box.run(*words, "--", "sh", "-c", f"echo up; read x; {script}")
    assert program.line() == "up"
    return program


class Task:
    """Work that goes on until it is told to end."""

    def __init__(self, box: JobBox, name: str = "task") -> None:
        self._pipe, self._log = box.folder / f"{name}.pipe", box.folder / f"{name}.log"
        os.mkfifo(self._pipe)
        self.command = f"sh -c 'echo run >>{self._log}; read x <{self._pipe}'"

    def runs(self) -> bool:
        return self._log.exists()

    def end(self) -> None:
        self._pipe.write_text("\n")


def refused(box: JobBox) -> bool:
    """Whether nobody else is let in now."""
    return box.ask("run", "--no-wait", "--", "true").code == 75


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


def test_leads_that_wait_for_the_last_of_a_chain(box: JobBox) -> None:
    """What a job comes after borrows as well."""
    box.worker()
    script = f"a=$({SUBMIT} -- true); b=$({SUBMIT} --after $a -- true); {WAIT} $b; echo code $?"
    leads = [lead(box, script) for _ in range(3)]
    for one in leads:
        one.go()
    assert [one.line() for one in leads] == ["code 0"] * 3


def test_a_job_that_waits_for_its_child(tight: JobBox) -> None:
    """With one seat for all, a job's child and grandchild run, and are counted with it once."""
    task = Task(tight)
    (tight.folder / "child").write_text(f"{WAIT} $({SUBMIT} -- {task.command})")
    (tight.folder / "parent").write_text(f"{WAIT} $({SUBMIT} -- sh {tight.folder}/child)")
    id = tight.submit("--", "sh", f"{tight.folder}/parent")
    until(task.runs)
    gate = tight.gate()
    running = gate.queue().running
    assert [row.borrows for row in running] == [None, *(row.id for row in running[:-1])]
    assert len(running) == 3
    assert pool_of(gate, "host").in_use == 1
    assert refused(tight)
    task.end()
    assert tight.ask("wait", str(id)).code == 0
    until(lambda: not tight.rows("lease"))


def test_a_lead_that_waits_for_several_jobs(tight: JobBox) -> None:
    """They take turns with the one seat that is lent."""
    log = tight.folder / "log"
    job = f"{SUBMIT} -- sh -c 'echo + >>{log}; sleep 0.1; echo - >>{log}'"
    program = lead(tight, f"{WAIT} $({job}) $({job}) $({job}); echo code $?")
    program.go()
    assert program.line() == "code 0"
    assert log.read_text().split() == ["+", "-"] * 3


@pytest.mark.parametrize("how", ["timeout", "Ctrl-C", "kill -9"])
def test_a_wait_that_is_broken_off(tight: JobBox, how: str) -> None:
    """The job goes on, it and the lead have the one seat, and nobody else gets in."""
    task = Task(tight)
    limit = "--timeout 100ms" if how == "timeout" else ""
    os.mkfifo(tight.folder / "go")
    (tight.folder / "wait").write_text(f"echo $$; exec {WAIT} {limit} $1")
    wait = f'sh {tight.folder}/wait "$id"; echo over; read y <{tight.folder}/go'
    program = lead(tight, f"id=$({SUBMIT} -- {task.command}); {wait}")
    program.go()
    waiter = int(program.line())
    until(task.runs)
    if how != "timeout":
        os.kill(waiter, signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL)
    assert program.line() == "over"
    assert refused(tight)
    gate = tight.gate()
    assert pool_of(gate, "host").in_use == 1
    tight.headgate("limits", "set", "host", "2")
    until(lambda: pool_of(gate, "host").in_use == 2)
    assert refused(tight)
    assert [row.borrows for row in gate.queue().running] == [None, None]
    task.end()
    (tight.folder / "go").write_text("\n")
    assert program.wait() == 0
    until(lambda: not tight.rows("lease"))


def test_a_lead_that_is_killed_leaves_its_seat_to_the_job(tight: JobBox) -> None:
    """The job goes on with the seat; who waits for one gets it when the job has ended."""
    task = Task(tight)
    program = lead(tight, f"echo $$; {WAIT} $({SUBMIT} -- {task.command}); :")
    program.go()
    shell = int(program.line())
    until(task.runs)
    waiter = tight.waiter()
    program.kill()
    os.kill(shell, signal.SIGKILL)
    until(lambda: len(tight.rows("lease")) == 2)
    for pid in tight.strays():
        if b"\0wait\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    until(lambda: len(tight.rows("lease")) == 1)
    assert waiter.silent()
    assert pool_of(tight.gate(), "host").in_use == 1
    task.end()
    assert waiter.line() == "up"
    assert waiter.end() == 0


def test_a_job_that_is_tried_again_while_its_lead_waits(tight: JobBox) -> None:
    """It comes back into the line, and borrows once more."""
    tried = tight.folder / "tried"
    job = f"{SUBMIT} --retries 1 -- sh -c 'test -e {tried} || {{ touch {tried}; exit 1; }}'"
    program = lead(tight, f"{WAIT} $({job}); echo code $?")
    program.go()
    assert program.line(within=60) == "code 0"


_SUBMITS = (
    "from headgate.gate.submit_jobs import draft\n"
    "job = lambda: gate.jobs.submit([draft(['true'], key='a/b')])[0].id\n"
)


def test_python_programs_that_wait_in_their_slots(tight: JobBox) -> None:
    """The seats of the `with gate.slot` around a wait are lent, in a thread and in a task."""
    script = (
        f"{_SUBMITS}"
        "with gate.slot('a/b'):\n"
        "    print(gate.jobs.wait(job()).state, flush=True)\n"
        "import asyncio\n"
        "async def main():\n"
        "    async with gate.slot('a/b'):\n"
        "        both = [gate.jobs.wait_async(job()) for _ in range(2)]\n"
        "        print(*(one.state for one in await asyncio.gather(*both)))\n"
        "    try:\n"
        "        async with gate.slot('a/b'):\n"
        "            await asyncio.wait_for(gate.jobs.wait_async(held), 0.2)\n"
        "    except TimeoutError:\n"
        "        print(repr(gate._transactor.read(lambda it: it.tx.note('waits'))))\n"
        "held = gate.jobs.submit([draft(['true'], hold=True)])[0].id\n"
        "asyncio.run(main())\n"
        "with gate.slot('a/b'):\n"
        "    print(gate.jobs.wait(job(), timeout=0).state)\n"
        "with gate.slot('a/b'):\n"
        "    pass\n"
        "print(gate.jobs.wait(job()).state)\n"
    )
    program = tight.python(script)
    said = [program.line() for _ in range(5)]
    assert said == ["done", "done done", "''", "queued", "done"]
    assert program.wait() == 0


def test_a_deadlock_is_told_and_named(box: JobBox) -> None:
    """Two leads whose children need both seats: an event, `why` and `doctor` name them."""
    box.headgate("limits", "set", "host", "2")
    box.worker()
    script = f"id=$({SUBMIT} --weight 2 -- true); echo $id; {WAIT} $id; echo code $?"
    leads = [lead(box, script) for _ in range(2)]
    for one in leads:
        one.go()
    jobs = [int(one.line()) for one in leads]
    (event,) = until(lambda: box.events("deadlock"))
    assert "which needs host, held by" in event[7]
    for id in (*jobs, event[3]):
        assert "It is in a deadlock:" in box.headgate("why", str(id))
        assert str(jobs[0]) in json.loads(box.headgate("why", "--json", str(id)))["deadlock"]
    doctor = box.ask("doctor")
    assert doctor.code == 1
    assert "a deadlock: " in doctor.out
    box.headgate("cancel", str(jobs[1]))
    assert leads[1].line() == "code 1"
    assert leads[0].line() == "code 0"
    assert len(box.events("deadlock")) == 1
    assert box.ask("doctor").code == 0
