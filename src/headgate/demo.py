"""A demonstration of the real thing: real processes, a real store, real kills.

A dozen stand-in agents of two models are started at once, each by `headgate run` in a process of
its own. Each writes down when it begins and ends, and the summary is made from those notes:
from what really ran, not from what headgate says about it.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headgate.core.display.snapshots import Queue, Status
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds
from headgate.gate import Gate

OPUS, SONNET = "anthropic/claude-opus-4-6", "anthropic/claude-sonnet-4-6"
LIMITS = {"anthropic/claude-opus-*": 3, "host": 7}
_SETTINGS = '[defaults]\ncooldown = "0s"\n'
"""No provider is asked here, so no freed seat has to rest until one has noticed."""
_AGENT = """
import os, sys, time
notes, model, task, seconds = sys.argv[1:]
def note(what):
    with open(notes, "a") as file:
        file.write(f"{time.monotonic()} {what} {model} {task} {os.getpid()}\\n")
note("begins")
time.sleep(float(seconds))
note("ends")
"""


class Stay(NamedTuple):
    """One agent's time inside, from its own notes."""

    model: str
    task: str
    begin: float
    end: float


def show(agents: int, seed: int, *, plain: bool) -> int:
    """Run the demonstration and print what came of it."""
    chance = random.Random(seed)  # noqa: S311 - a demonstration, not a secret
    with tempfile.TemporaryDirectory(prefix="headgate-demo-") as folder:
        return _Demo(Path(folder), chance, plain=plain or not sys.stdout.isatty()).run(agents)


class _Demo:
    def __init__(self, folder: Path, chance: random.Random, *, plain: bool) -> None:
        self.chance = chance
        self.plain = plain
        self.notes = folder / "notes"
        settings = folder / "config.toml"
        self.notes.touch()
        settings.write_text(_SETTINGS)
        view = ",".join(f"{pool}={limit}" for pool, limit in LIMITS.items())
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")},
            "HEADGATE_STORE": f"sqlite://{folder / 'demo.db'}",
            "HEADGATE_LIMITS": view,
            "HEADGATE_CONFIG": str(settings),
        }
        self.gate = Gate.open(self.environment["HEADGATE_STORE"], config=settings, limits=LIMITS)
        self.began = time.monotonic()
        self.killed: dict[str, float] = {}
        self.said: set[tuple[str, str]] = set()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, agents: int) -> int:
        print(
            f"{agents} agents want to work at once: {(agents + 1) // 2} on opus (3 at a time), the "
            "others on sonnet (no limit\nof its own); the machine takes 7 in all. "
            "One that still runs after 3s will be killed.\n"
        )
        try:
            for number in range(agents):
                self.start(number)
            self.watch()
        finally:
            for process in self.processes.values():
                if process.poll() is None:
                    process.terminate()
                process.wait()
            self.gate.close()
        return self.summary()

    def start(self, number: int) -> None:
        model, name = (OPUS, "opus") if number % 2 == 0 else (SONNET, "sonnet")
        task = f"{name}-{number // 2 + 1}"
        seconds = f"{self.chance.uniform(1.5, 4.0):.2f}"
        agent = [sys.executable, "-c", _AGENT, str(self.notes), model, task, seconds]
        self.processes[task] = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "headgate",
                "run",
                "-q",
                "-m",
                model,
                "--task",
                task,
                "--",
                *agent,
            ],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def watch(self) -> None:
        lines = 0
        while any(process.poll() is None for process in self.processes.values()):
            queue, status = self.gate.queue(), self.gate.status()
            if not self.killed and time.monotonic() > self.began + 3:
                self.kill_one(queue)
            if self.plain:
                self.tell(queue)
            else:
                lines = _redraw(_picture(queue, status, time.monotonic() - self.began), lines)
            time.sleep(0.2)
        if not self.plain:
            _redraw(["All agents have ended.", ""], lines)

    def kill_one(self, queue: Queue) -> None:
        """End one agent and its wrapper as the kernel would when memory runs out."""
        for run in queue.running:
            process = self.processes.get(run.task)
            if process is not None and run.pid and run.key == OPUS:
                for pid in (process.pid, run.pid):
                    os.kill(pid, signal.SIGKILL)
                self.killed[run.task] = time.monotonic()
                return

    def tell(self, queue: Queue) -> None:
        for run in queue.running:
            self.say(run.task, "runs")
        for one in queue.waiting:
            self.say(one.task, f"waits, {one.reason}")
        for task in self.killed:
            self.say(task, "was killed with its wrapper (kill -9); its seat goes to the next")

    def say(self, task: str, what: str) -> None:
        if (task, what) not in self.said:
            self.said.add((task, what))
            print(f"{time.monotonic() - self.began:5.1f}s  {task:<10} {what}", flush=True)

    def stays(self) -> list[Stay]:
        """Who was inside and when, as the agents wrote it down."""
        begun: dict[str, tuple[str, float]] = {}
        found = []
        for line in self.notes.read_text().splitlines():
            at, what, model, task, _ = line.split()
            if what == "begins":
                begun[task] = (model, float(at))
            else:
                found.append(Stay(model, task, begun.pop(task)[1], float(at)))
        killed = (
            Stay(model, task, begin, self.killed.get(task, begin))
            for task, (model, begin) in begun.items()
        )
        return [*found, *killed]

    def summary(self) -> int:
        stays = self.stays()
        opus = [stay for stay in stays if stay.model == OPUS]
        took = max(stay.end for stay in stays) - self.began
        alone = sum(stay.end - stay.begin for stay in stays)
        most, most_opus = _most(stays), _most(opus)
        print(
            f"{len(stays)} agents ran in {show_seconds(Seconds(took))}; "
            f"one by one it would have been {show_seconds(Seconds(alone))}."
        )
        print(
            f"At most {most_opus} opus agents ran at once (cap 3), and {most} in all (cap 7), "
            "by their own notes."
        )
        for task, at in self.killed.items():
            soon = min((stay.begin for stay in opus if stay.begin > at), default=None)
            after = f"; the next opus agent began {(soon - at) * 1000:.0f} ms later" if soon else ""
            print(f"{task} was killed with its wrapper{after}.")
        kept = most_opus <= LIMITS["anthropic/claude-opus-*"] and most <= LIMITS["host"]
        print("The caps held." if kept else "A cap was broken. That is a bug: please report it.")
        print(
            "\nNow yours:  headgate run -m anthropic/claude-opus-4-6 -- claude -p 'fix the build'"
        )
        return 0 if kept else 1


def _most(stays: list[Stay]) -> int:
    """The greatest number of stays that overlap."""
    changes = [(s.begin, 1) for s in stays] + [(s.end, -1) for s in stays]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _picture(queue: Queue, status: Status, elapsed: float) -> list[str]:
    lines = [f"\x1b[1mheadgate\x1b[0m  {elapsed:4.1f}s", ""]
    for pool in status.pools:
        if pool.limit is not None and pool.pool in LIMITS:
            bar = "█" * pool.in_use + "░" * max(0, pool.limit - pool.in_use)
            colour = 33 if pool.in_use >= pool.limit else 32
            lines.append(
                f"  {pool.pool:<26} \x1b[{colour}m{bar}\x1b[0m {pool.in_use}/{pool.limit}"
                f"   {pool.queued} waiting"
            )
    lines.append("")
    lines.extend(
        f"  \x1b[32m▶\x1b[0m {run.task:<10} runs for {show_seconds(run.held)}"
        for run in queue.running
    )
    for one in queue.waiting:
        eta = f", about {show_seconds(one.eta)}" if one.eta else ""
        lines.append(f"  \x1b[2m{one.position:>2} {one.task:<9} {one.reason}{eta}\x1b[0m")
    return lines


def _redraw(lines: list[str], before: int) -> int:
    up = f"\x1b[{before}F" if before else ""
    sys.stdout.write(up + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
    sys.stdout.flush()
    return len(lines)
