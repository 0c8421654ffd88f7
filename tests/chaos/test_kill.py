"""Processes are killed at random while an outsider counts what really runs.

Eight workers start agents of a model with three seats, four more start agents of another model,
on a machine with five. Wrappers, agents, waiters and whole pairs are killed with `kill -9` (and now
and then asked to stop), for HEADGATE_CHAOS_SECONDS. A separate process counts the agents from
outside, many times a second. It must never see more than the limits, and a free seat must not
stay empty.

A seat is in use again within a second after each kill; on a machine with more to do than it has
processors for, plus what a single `headgate run` takes there at that time, which is measured
during the test. Nothing is allowed for the limits themselves.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.support import HEADGATE, LONG, Box, Program, end, gone, until

SECONDS = float(os.environ.get("HEADGATE_CHAOS_SECONDS") or 12)
LOOKS = SECONDS * 10
OBSERVER = str(Path(__file__).with_name("observer.py"))
SEATS = {"model": 3, "host": 5}
WORKERS = {"model": 8, "other": 4}

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.usefixtures("steady"),
    pytest.mark.timeout(SECONDS * 4 + 100),
    pytest.mark.skipif(
        not Path("/proc/self/cmdline").exists(), reason="agents are counted in /proc"
    ),
]


class Zoo:
    """The workers, their wrappers and their agents, found from outside."""

    def __init__(self, box: Box, dice: random.Random) -> None:
        self.box = box
        self.dice = dice
        serial = f"{os.getpid():07d}{dice.randrange(10**6):06d}"
        self.naps = {"model": f"1.1{serial}", "other": f"1.2{serial}"}
        self.workers = [
            self._worker(name) for name, number in WORKERS.items() for _ in range(number)
        ]
        self.kills: list[tuple[float, str]] = []

    def _worker(self, name: str) -> Program:
        loop = f"while :; do {HEADGATE} run -q -m chaos/{name} -- sleep {self.naps[name]}; done"
        return self.box.start(
            "sh", "-c", loop, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def look(self) -> tuple[dict[int, int], dict[int, int]]:
        """Wrappers and agents that live at this moment, each with its parent."""
        homes = {worker.pid for worker in self.workers}
        commands = {f"sleep\0{nap}\0".encode() for nap in self.naps.values()}
        wrappers, agents = {}, {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of times
            if name.isdigit():
                try:
                    folder = Path("/proc", name)
                    state = (folder / "stat").read_text().rpartition(")")[2].split()
                    line = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                parent = int(state[1])
                if line in commands:
                    agents[int(name)] = parent
                elif parent in homes and b"headgate" in line:
                    wrappers[int(name)] = parent
        return wrappers, agents

    def harm(self) -> None:
        """Kill somebody."""
        wrappers, agents = self.look()
        running = {parent for parent in agents.values() if parent in wrappers}
        waiting = set(wrappers) - running
        kind = self.dice.choice(["wrapper", "agent", "both", "both", "waiter", "stop"])
        victims: list[int] = []
        number = signal.SIGKILL
        match kind:
            case "wrapper":
                victims = [*self._some(running)]
            case "agent":
                victims = [*self._some(agents)]
            case "both":
                pairs = {pid for pid, parent in agents.items() if parent in running}
                for agent in self._some(pairs):
                    victims = [agent, agents[agent]][:: self.dice.choice([1, -1])]
            case "waiter":
                victims = [*self._some(waiting)]
            case _:
                victims = [*self._some(wrappers)]
                number = self.dice.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        for victim in victims:
            try:
                os.kill(victim, number)
            except ProcessLookupError:
                continue
        if victims:
            self.kills.append((time.monotonic(), kind))

    def _some(self, pids: "dict[int, int] | set[int]") -> Iterator[int]:
        if pids:
            yield self.dice.choice(sorted(pids))

    def close(self) -> None:
        """End the workers first, then what they have started, and see all of it gone."""
        for worker in self.workers:
            worker.kill()
        wrappers, agents = self.look()
        mine = [*self.box.strays(), *wrappers, *agents]
        for pid in mine:
            end(pid)
        until(lambda: all(gone(pid) for pid in mine))


class Watch:
    """The observer, and what it has seen."""

    def __init__(self, box: Box, zoo: Zoo) -> None:
        words = [f"{name}={nap}" for name, nap in zoo.naps.items()]
        self.log = box.folder / "seen"
        with self.log.open("wb") as out:
            self.program = box.start(sys.executable, "-I", "-S", OBSERVER, *words, stdout=out)

    def seen(self) -> list[dict[str, float]]:
        *lines, _ = self.log.read_text().split("\n")
        return [json.loads(line) for line in lines]

    def full(self) -> bool:
        looks = self.seen()
        return bool(looks) and looks[-1]["model"] + looks[-1]["other"] == SEATS["host"]


def spawn_time(box: Box, out: list[float], stop: threading.Event) -> None:
    """How long one `headgate run` takes from start to end while all this goes on."""
    while not stop.wait(1.5):
        begun = time.monotonic()
        subprocess.run(
            [HEADGATE, "run", "-m", "probe/probe", "--no-wait", "--", "true"],
            env=box.env, check=False, capture_output=True, timeout=LONG,
        )  # fmt: skip
        out.append(time.monotonic() - begun)


def gaps(looks: list[dict[str, float]], kills: list[float]) -> list[float]:
    """How long seats stayed empty, each time, counted from the last kill of that time."""
    found: list[float] = []
    since: float | None = None
    for look in looks:
        if look["model"] + look["other"] >= SEATS["host"]:
            if since is not None:
                last = max([since, *(kill for kill in kills if since <= kill <= look["at"])])
                found.append(look["at"] - last)
            since = None
        elif since is None:
            since = look["at"]
    if since is not None:
        found.append(looks[-1]["at"] - max([since, *(kill for kill in kills if kill >= since)]))
    return found


def _too_little(watch: Watch, zoo: Zoo, begun: float) -> bool:
    """Whether a busy machine was too slow for anything to be seen; it gets four times as long."""
    few = sum(look["at"] >= begun for look in watch.seen()) <= LOOKS or len(zoo.kills) <= SECONDS
    return few and time.monotonic() - begun < SECONDS * 4


def test_random_kills_never_break_a_limit_and_never_waste_a_seat(box: Box) -> None:
    """Never above the limits, full again within a second of each kill, nothing left at the end."""
    seed = int(os.environ.get("HEADGATE_CHAOS_SEED") or random.randrange(10**6))  # noqa: S311
    dice = random.Random(seed)  # noqa: S311 - it must be repeatable
    gate = box.gate()
    gate.set_limit("chaos/model", SEATS["model"])
    gate.set_limit("host", SEATS["host"])
    gate.close()
    zoo = Zoo(box, dice)
    watch = Watch(box, zoo)
    spawns: list[float] = []
    stop = threading.Event()
    probe = threading.Thread(target=spawn_time, args=(box, spawns, stop))
    try:
        until(watch.full, within=40)
        begun = time.monotonic()
        probe.start()
        while time.monotonic() - begun < SECONDS or _too_little(watch, zoo, begun):
            zoo.harm()
            time.sleep(dice.uniform(0.05, 0.45))
        stop.set()
        probe.join(LONG)
        until(watch.full, within=40)
        over = time.monotonic()
    finally:
        stop.set()
        zoo.close()
        watch.program.close()
    looks = [look for look in watch.seen() if begun <= look["at"] <= over]
    times = [at for at, _ in zoo.kills]
    told = f"seed {seed}, {len(zoo.kills)} kills, {len(looks)} looks"

    assert len(looks) > LOOKS, told
    assert len(zoo.kills) > SECONDS, told
    assert max(look["model"] for look in looks) == SEATS["model"], told
    assert max(look["model"] + look["other"] for look in looks) == SEATS["host"], told
    bound = 1.0 + max(spawns)
    longest = max(gaps(looks, times), default=0.0)
    told = f"{told}, longest gap {longest:.2f}s, spawning took up to {max(spawns):.2f}s"
    assert longest <= bound, told

    assert until(lambda: not box.running(), within=LONG)
    forget_young_pipes(box)
    assert box.left_over() == {}, told
    db = apsw.Connection(str(box.path))
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()


def forget_young_pipes(box: Box) -> None:
    """Whoever was killed between making its pipes and its first row left them; they go with age."""
    long_ago = time.time() - 7200
    for path in box.members.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert box.run("--", "true").wait() == 0
