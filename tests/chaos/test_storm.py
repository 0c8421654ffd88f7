"""Everything at once is killed, stopped and robbed of its pipes, while an outsider counts.

`headgate run`s, those that wait, their programs, workers, the processes their runners are forked
from and runners are killed with `kill -9` or stopped for 0.1 to 5 seconds. The folder with the
members' pipes, or some of them, is removed. Some workers are started inside agents. A crowd waits
for one seat. Only what anybody can see judges: /proc, what the verbs say, and a file to which the
programs of jobs append.

HEADGATE_CHAOS_SECONDS says for how long; HEADGATE_CHAOS_WAITERS and HEADGATE_CHAOS_JOBS how many
wait for the one seat, and how many jobs there are. HEADGATE_CHAOS_SEED repeats the choices.
"""

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.storm import (
    Cast,
    Harm,
    Outsider,
    cast,
    children,
    environment,
    left,
    state,
    stopped_in_a_transaction,
)
from tests.chaos.trace import Trace
from tests.support import HEADGATE, STEADY, Program, until
from tests.work.conftest import JobBox

SECONDS = float(os.environ.get("HEADGATE_CHAOS_SECONDS") or 12)
LOOKS = SECONDS * 5
WAITERS = int(os.environ.get("HEADGATE_CHAOS_WAITERS") or (300 if SECONDS >= 100 else 20))
JOBS = int(os.environ.get("HEADGATE_CHAOS_JOBS") or SECONDS * 15)
BURST = 4.0 if SECONDS < 60 else 10.0
"""Seconds of harm between two moments at which all seats must come into use again."""
RECOVERY = 20.0
"""Seconds that this may take on a machine that is busy with everything else."""
TURN = 2.0
"""Seconds in which the turn comes of those who are next in line."""
SEATS = {"model": 3, "job": 2, "crowd": 1, "lead": 1}
SHORT = 4
"""The seats for short jobs."""
HOST = 6
POOLS = "".join(
    f'[pools."storm/{name}"]\nlimit = {seats}\n'
    for name, seats in {**SEATS, "short": SHORT}.items()
)
CONFIG = f"""
[pools.host]
limit = {HOST}
{POOLS}
[jobs]
attempts = 1000
backoff = "100ms"
longest_backoff = "1s"
"""

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(SECONDS * 3 + WAITERS + 200),
    pytest.mark.skipif(not Path("/proc/locks").exists(), reason="processes are found in /proc"),
]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config(CONFIG)
    yield box
    box.close()


class Storm:
    """What both storms have in common: two workers, one of them started inside an agent."""

    def __init__(self, box: JobBox) -> None:
        self.seed = int(os.environ.get("HEADGATE_CHAOS_SEED") or random.randrange(10**6))  # noqa: S311
        self.dice = random.Random(self.seed)  # noqa: S311 - it must be repeatable
        self.box = box
        self.harm = Harm(box, self.dice)
        self.serial = f"{os.getpid():07d}{self.seed:06d}"
        self.errors = box.folder / "errors"
        self.worker: Program | None = None
        self.lead: Program | None = None
        self.lead_nap = f"2.4{self.serial}"
        self.inside = 0

    def start(self, *argv: str) -> Program:
        """Start a program whose complaints are kept."""
        with self.errors.open("ab") as errors:
            return self.box.start(
                *argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )

    def tend(self, there: Cast) -> None:
        """See to it that one worker was started outside, and one inside an agent."""
        if self.worker is None or not self.worker.alive():
            self.worker = self.start(HEADGATE, "worker", "-q")
        if len(there.workers) < 2 and (self.lead is None or not self.lead.alive()):
            script = f"{HEADGATE} worker -q & exec sleep {self.lead_nap}"
            self.lead = self.start(
                HEADGATE, "run", "-q", "-m", "storm/lead", "--", "sh", "-c", script
            )
            self.inside += 1

    def somebody(self, there: Cast, *kinds: str) -> tuple[str, int] | None:
        """One of one of the kinds, if there is any of it."""
        kind = self.dice.choice(kinds)
        pids = there.kinds[kind]
        return (kind, self.dice.choice(pids)) if pids else None

    def close(self) -> None:
        self.harm.close()

    def unfinished(self) -> list[int]:
        """The jobs that have not ended, by what `queue` says."""
        queue = json.loads(self.box.headgate("queue", "--json", "--size", "100000", within=60))
        work = queue["running"] + queue["waiting"] + queue["aside"]
        return [it["id"] for it in work if it["type"] == "job"]

    def complaints(self) -> str:
        lines = self.errors.read_text(errors="replace").splitlines() if self.errors.exists() else []
        worded = sorted({line for line in lines if " is up" not in line})
        return f"{len(worded)} complaints" + "".join(f"\n    {line}" for line in worded[:8])


class KillStorm(Storm):
    """Loops of `headgate run`, a crowd before one seat, and jobs."""

    def __init__(self, box: JobBox) -> None:
        super().__init__(box)
        self.naps = {
            "model": f"1.1{self.serial}", "job": f"0.7{self.serial}",
            "crowd": f"0.3{self.serial}", "lead": self.lead_nap,
        }  # fmt: skip
        self.programs = {f"sleep\0{nap}\0".encode() for nap in self.naps.values()}
        self.ids = box.batch(
            *[{"command": ["sleep", self.naps["job"]], "model": "storm/job"}]
            * round(SECONDS * 4 + 50)
        )
        self.outsider = Outsider(box, self.naps)
        self.loops = [self._loop("model") for _ in range(6)]
        self.loops += [self._loop("crowd") for _ in range(WAITERS)]
        self.recoveries: list[float] = []
        self.evidence = ""

    def _loop(self, name: str) -> Program:
        run = f"{HEADGATE} run -q --task loop-$$ -m storm/{name} -- sleep {self.naps[name]}"
        return self.start("sh", "-c", f"while :; do {run}; done")

    def look(self) -> Cast:
        there = cast(self.box, self.serial, self.programs.__contains__)
        self.tend(there)
        return there

    def step(self) -> None:
        """Do one harm."""
        there = self.look()
        chance = self.dice.random()
        kinds = ("wrapper", "program", "waiter", "worker", "server", "runner")
        if chance < 0.05:
            self.harm.remove()
        elif chance < 0.35:
            if victim := self.somebody(there, *kinds):
                self.harm.stop(*victim)
        elif chance < 0.5:
            if victim := self.somebody(there, "program"):
                pair = [victim, ("parent", there.programs[victim[1]].parent)]
                for kind, pid in pair[:: self.dice.choice([1, -1])]:
                    if pid in {*there.wrappers, *there.runners} or kind == "program":
                        self.harm.kill(kind, pid)
        elif victim := self.somebody(there, *kinds, "wrapper", "program", "waiter"):
            self.harm.kill(*victim)

    def calm(self) -> None:
        """All go on but one whose turn is near: the seats must come into use without it."""
        self.harm.go_on(everyone=True)
        pid = self.stop_who_is_next()
        turn = time.monotonic() + TURN
        while time.monotonic() < turn:
            self.look()
        self.recoveries.append(self.until_full(RECOVERY))
        if self.recoveries[-1] >= RECOVERY:
            self.evidence += self.inspect(pid)
        self.harm.go_on(everyone=True)

    def stop_who_is_next(self) -> int:
        """Stop one of those who wait, unless the whole store would wait for it."""
        text = self.box.headgate("queue", "--json", "--size", "10000", within=60)
        waiting = json.loads(text)["waiting"]
        tasks = [it["task"] for it in waiting if it["task"].startswith("loop-")]
        loops = [int(task.removeprefix("loop-")) for task in tasks[1:5]]
        near = [it.pid for loop in loops for it in children(loop)]
        pid = self.dice.choice(near or [0])
        if pid:
            self.harm.stop("next in line", pid, seconds=10 * RECOVERY)
            until(lambda: state(pid) in "TZX")
            if stopped_in_a_transaction(self.box, pid) or children(pid):
                self.harm.go_on(everyone=True)
                return 0
        return pid

    def inspect(self, pid: int) -> str:
        """What can be seen of a seat that stays idle while a process is stopped."""
        family = [f"{it.pid} {state(it.pid)}" for it in children(pid)]
        try:
            queue = self.box.ask("queue").out
        except subprocess.TimeoutExpired:
            queue = "queue does not answer"
        return f"\nstopped: {pid} {state(pid)}, children {family}, {self.outsider.last()}\n{queue}"

    def until_full(self, within: float) -> float:
        """How long it took until all seats were in use, or how long that was waited for."""
        begun = time.monotonic()
        while self.outsider.count() < HOST and time.monotonic() - begun < within:
            self.look()
        return time.monotonic() - begun

    def end(self) -> None:
        """Start nothing more, take out who waits, and let the rest come to its end."""
        self.close()
        for loop in self.loops:
            loop.kill()
        there = cast(self.box, self.serial, self.programs.__contains__)
        for pid in there.waiters:
            self.harm.kill("waiter", pid)
        if jobs := self.unfinished():  # the last first: those take no time, and start nothing new
            self.box.ask("cancel", *map(str, sorted(jobs, reverse=True)))
        for pid in cast(self.box, self.serial, self.programs.__contains__).workers:
            os.kill(pid, 15)


def nothing_is_left(box: JobBox, outsider: Outsider) -> None:
    """No seat is in use, nobody waits, and no process is left: by the verbs, and by /proc."""

    def idle() -> bool:
        status = json.loads(box.headgate("status", "--json"))
        return not any(pool["in_use"] or pool["queued"] for pool in status["pools"])

    until(idle, within=60)
    try:
        until(lambda: not left(box, outsider.program.pid), within=30)
    except AssertionError:
        told = [(pid, state(pid)) for pid in box.strays() if pid != outsider.program.pid]
        raise AssertionError(f"left: {told} {left(box, outsider.program.pid)}") from None
    outsider.program.close()
    status = json.loads(box.headgate("status", "--json"))
    assert (status["total_running"], status["total_waiting"]) == (0, 0)


def _too_little(storm: KillStorm, begun: float) -> bool:
    """Whether a busy machine was too slow for anything to be seen; it gets four times as long."""
    few = len(storm.outsider.seen()) <= LOOKS or storm.harm.kills.total() <= SECONDS
    return few and time.monotonic() - begun < SECONDS * 4


def test_kill_storm(box: JobBox, record_property: Callable[[str, object], None]) -> None:
    """Never one above a cap; all seats are in use again after each burst; nothing is left."""
    storm = KillStorm(box)
    try:
        storm.until_full(within=60 + WAITERS)
        begun = time.monotonic()
        pause = begun + BURST
        while time.monotonic() - begun < SECONDS or _too_little(storm, begun):
            storm.step()
            time.sleep(storm.dice.uniform(0.02, 0.15))
            if time.monotonic() > pause:
                storm.calm()
                pause = time.monotonic() + BURST
        storm.calm()
    finally:
        storm.close()
        looks = storm.outsider.seen()
        most = {name: max(look[name] for look in looks) for name in SEATS}
        host = max(sum(look[name] for name in SEATS) for look in looks)
        told = (
            f"kill storm, {SECONDS:g} s, seed {storm.seed}: {storm.harm.told()}; "
            f"{WAITERS} waiters, {storm.inside} workers started inside agents; {len(looks)} looks, "
            f"at most {most} of {SEATS}, {host:g} of {HOST} in all; seats in use again after "
            f"{', '.join(f'{it:.1f}' for it in storm.recoveries)} s; "
            f"{storm.complaints()}{storm.evidence}"
        )
        record_property("storm", told)
    storm.end()
    nothing_is_left(box, storm.outsider)
    looks = storm.outsider.seen()
    assert max(storm.recoveries) < RECOVERY, told
    assert len(looks) > LOOKS, told
    assert storm.harm.kills.total() > SECONDS, told
    for name, seats in SEATS.items():
        assert max(look[name] for look in looks) == seats, told
    assert max(sum(look[name] for name in SEATS) for look in looks) == HOST, told


class JobStorm(Storm):
    """Many short jobs; each appends to a file when it begins and when it ends."""

    def __init__(self, box: JobBox) -> None:
        super().__init__(box)
        self.nap = f"0.1{self.serial}"
        self.trace = Trace(box.folder / "trace", f"job-{self.serial}-")
        self.outsider = Outsider(box, {"job": self.nap})
        jobs = [
            {"command": self.trace.command(number, self.nap), "model": "storm/short"}
            for number in range(JOBS)
        ]
        self.ids = [id for at in range(0, JOBS, 500) for id in box.batch(*jobs[at : at + 500])]
        self.killed: set[int] = set()
        self.orphaned: dict[int, int] = {}
        self.cancelled = 0
        self.lost_to_cancel: list[int] = []

    def look(self) -> Cast:
        there = cast(self.box, self.serial, self.trace.is_program)
        self.tend(there)
        return there

    def step(self) -> None:
        there = self.look()
        chance = self.dice.random()
        if chance < 0.05:
            self.harm.remove()
        elif chance < 0.08:
            self.cancel_lead(there)
        elif victim := self.somebody(there, "program", "worker", "server", "runner", "runner"):
            kind, pid = victim
            if chance < 0.4:
                self.harm.stop(kind, pid)
            elif kind == "program":
                self.kill_program(pid, there.programs[pid].line)
            elif kind == "runner":
                self.kill_runner(pid)
            else:
                self.harm.kill(kind, pid)

    def kill_program(self, pid: int, line: bytes) -> None:
        """Kill it where it stands: what it writes comes before the note, or not at all."""
        number = self.trace.number(line)
        self.killed.add(number)
        self.harm.stop("program", pid, seconds=60)
        until(lambda: state(pid) in "TXZ")
        self.trace.note_kill(number, pid)
        self.harm.kill("program", pid)
        self.harm.stops["program"] -= 1  # it was a part of the kill

    def kill_runner(self, pid: int) -> None:
        """Kill it where it stands, and note whose run nobody can know the end of then."""
        self.harm.stop("runner", pid, seconds=60)
        until(lambda: state(pid) in "TX")
        lines = [it.line for it in children(pid) if it.line]
        if all(map(self.trace.is_program, lines)):
            numbers = {self.trace.number(line) for line in lines}
            for number in numbers or {*self.trace.last_started_by(pid)}:
                self.orphaned[number] = self.orphaned.get(number, 0) + 1
            self.harm.kill("runner", pid)
            self.harm.stops["runner"] -= 1  # it was a part of the kill
        else:
            self.harm.go_on(everyone=True)

    def cancel_lead(self, there: Cast) -> None:
        """End the agent in which a worker was started; no worker ends with it."""
        queue = json.loads(self.box.ask("queue", "--json").out or "{}")
        for work in queue.get("running", []):
            if work["key"] == "storm/lead":
                before = {pid for pid in there.workers if self.stands_alone(pid)}
                self.box.ask("cancel", "--grace", "1s", str(work["id"]))
                self.cancelled += 1
                after = {*cast(self.box, self.serial, self.trace.is_program).workers}
                self.lost_to_cancel += before - after

    def stands_alone(self, pid: int) -> bool:
        """Whether a worker has shed the mark of the agent that it was started in."""
        return b"HEADGATE_LEASE=none" in environment(pid)


def test_job_storm(box: JobBox, record_property: Callable[[str, object], None]) -> None:
    """Each job ends once, with a reason; no two runs of one overlap; the undisturbed ran once."""
    storm = JobStorm(box)
    trace = storm.trace
    try:
        until(lambda: storm.look().programs, within=60)
        begun = time.monotonic()
        while time.monotonic() - begun < SECONDS and trace.ended() < JOBS * 0.95:
            storm.step()
            time.sleep(storm.dice.uniform(0.02, 0.15))
        storm.close()

        def over() -> bool:
            storm.look()
            time.sleep(0.5)
            return not storm.unfinished()

        until(over, within=SECONDS + 120)
    finally:
        storm.close()
        runs = trace.read()
        looks = storm.outsider.seen()
        most = max(look["job"] for look in looks)
        told = (
            f"job storm, {time.monotonic() - begun:.0f} s, seed {storm.seed}: {JOBS} jobs, "
            f"{runs.starts} runs of {len(runs.started)} jobs; {storm.harm.told()}; "
            f"{storm.inside} workers started inside agents, {storm.cancelled} of those cancelled; "
            f"at most {runs.most} at once by the trace, {most:g} by {len(looks)} looks, "
            f"of {SHORT}; {storm.complaints()}"
        )
        record_property("storm", told)

    def no_worker() -> bool:  # one may just have been started
        workers = cast(box, storm.serial, trace.is_program).workers
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, 15)
        return not workers

    until(no_worker, within=30)
    nothing_is_left(box, storm.outsider)
    assert not storm.lost_to_cancel, told
    assert not runs.overlaps, told
    assert runs.most <= SHORT, told
    assert most <= SHORT, told
    killed = _each_ended_once(box, storm, runs.started)
    for number in range(JOBS):
        starts, ends = runs.started[number], runs.ended[number]
        allowed = 1 + storm.orphaned.get(number, 0)
        least = 0 if number in killed else 1  # it may have been killed before it wrote
        assert least <= starts <= allowed, f"job {number} ran {starts} times, of {allowed}: {told}"
        if number not in killed:
            assert ends == starts, f"job {number} has {starts} starts, {ends} ends: {told}"


def _each_ended_once(box: JobBox, storm: JobStorm, started: Mapping[int, int]) -> set[int]:
    """By what the verbs say: one end for each job, with a reason, and the right one.

    Returns those whose programs were killed. A process that has just been forked has its runner's
    words: who was killed so soon was taken for a runner, and is known by its end alone.
    """
    killed = {*storm.killed}
    text = box.headgate("queue", "--all", "--size", str(JOBS), "--json", within=60)
    states = {work["id"]: work for work in json.loads(text)["ended"]}
    words = {"done", "failed", "cancelled", "expired", "lost"}
    lines = box.headgate("events", "--json", "-n", str(JOBS * 20), within=60).splitlines()
    events = [json.loads(line) for line in lines]
    mine = {*storm.ids}
    ends = sorted(one["work"] for one in events if one["event"] in words and one["work"] in mine)
    if events[0]["seq"] == 1:
        assert ends == storm.ids, "each job's end is told once"
    else:  # the store keeps the latest 10,000 events
        assert len(ends) == len({*ends}), "no job's end is told twice"
    for number, id in enumerate(storm.ids):
        work = states[id]
        assert work["code"], work
        assert work["reason"], work
        if (work["code"], work["exit"]) == ("signal", "0:9") and not started[number]:
            killed.add(number)
        if number not in killed:
            assert (work["state"], work["exit"]) == ("done", "0:0"), work
        else:
            assert work["state"] in {"done", "failed"}, work
    return killed
