"""Clients, their server and the network between them are killed, stopped and cut at random.

An outsider counts programs in /proc. Whatever happens, there are never more than the pool allows:
who was cut off has ended its programs before their seats are given on. Not stopped or killed within
one fence are both a client and its guardian: nothing else could end their program.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.storm import Harm, Outsider, children, processes
from tests.remote.conftest import RemoteBox, quiet_box
from tests.remote.forwarder import Forwarder
from tests.support import HEADGATE, LONG, Program, until

__all__ = ["quiet_box"]

SECONDS = float(os.environ.get("HEADGATE_CHAOS_SECONDS") or 12)
SEATS = 3
FENCE = 2.0
SHORT, LONG_NAP = 6, 3
"""How many loops there are of each kind."""

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(SECONDS * 3 + 200),
    pytest.mark.skipif(not Path("/proc/locks").exists(), reason="processes are found in /proc"),
]


@pytest.fixture
def box(quiet_box: RemoteBox) -> RemoteBox:
    quiet_box.config(f'[pools.host]\nlimit = 40\n[pools."storm/x"]\nlimit = {SEATS}\n')
    quiet_box.serve()
    return quiet_box


@pytest.fixture
def network(box: RemoteBox) -> Iterator[Forwarder]:
    it = Forwarder(box.port)
    yield it
    it.close()


class RemoteStorm:
    """Loops of clients, and what is done to them."""

    def __init__(self, box: RemoteBox, network: Forwarder) -> None:
        self.seed = int(os.environ.get("HEADGATE_CHAOS_SEED") or random.randrange(10**6))  # noqa: S311
        self.dice = random.Random(self.seed)  # noqa: S311 - it must be repeatable
        self.box, self.network = box, network
        self.harm = Harm(box, self.dice)
        serial = f"{os.getpid():07d}{self.seed:06d}"
        self.naps = {"short": f"0.3{serial}", "long": f"7.1{serial}"}
        self.outsider = Outsider(box, self.naps)
        self.clients: list[tuple[str, Program]] = []
        self.codes: Counter[tuple[str, int]] = Counter()
        self.cuts: Counter[str] = Counter()
        self.spared: dict[int, float] = {}

    def tend(self) -> None:
        """Each loop starts another client when its last has ended."""
        for kind, program in [*self.clients]:
            if not program.alive():
                self.codes[kind, program.wait()] += 1
                program.close()
                self.clients.remove((kind, program))
        wanted = Counter({"short": SHORT, "long": LONG_NAP})
        wanted.subtract(kind for kind, _ in self.clients)
        for kind in wanted.elements():
            more = {"HEADGATE_STORE": self.network.url, "HEADGATE_FENCE": f"{FENCE}s"}
            words = ("run", "-q", "-m", "storm/x", "--", "sleep", self.naps[kind])
            client = self.box.start(
                HEADGATE, *words, env=more, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self.clients.append((kind, client))

    def strike(self) -> None:
        """Do one thing to somebody."""
        does = [self.kill_client, self.stop_client, self.kill_program, self.kill_guardian]
        does += [self.kill_server, self.stop_server, self.cut, self.reset, self.stop_client]
        self.dice.choice(does)()

    def _client(self) -> int | None:
        now = time.monotonic()
        there = [
            one.pid for _, one in self.clients
            if one.alive() and self.spared.get(one.pid, 0) < now
        ]  # fmt: skip
        return self.dice.choice(there) if there else None

    def kill_client(self) -> None:
        if (pid := self._client()) is not None:
            self.harm.kill("client", pid)

    def stop_client(self) -> None:
        if (pid := self._client()) is not None:
            self.harm.stop("client", pid, self.dice.uniform(0.1, 3 * FENCE))

    def kill_program(self) -> None:
        naps = {nap.encode() for nap in self.naps.values()}
        found = processes(lambda line: line.removeprefix(b"sleep\0").rstrip(b"\0") in naps)
        if found:
            self.harm.kill("program", self.dice.choice(sorted(found)))

    def kill_guardian(self) -> None:
        """Its client is left alone until it has had time to start another."""
        pid = self._client()
        if pid is None or self._is_stopped(pid):
            return
        for one in children(pid):
            if b"guardian.py" in one.line:
                self.spared[pid] = time.monotonic() + FENCE
                self.harm.kill("guardian", one.pid)

    @staticmethod
    def _is_stopped(pid: int) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
        return True

    def kill_server(self) -> None:
        self.harm.kill("server", self.box.server.pid)
        self.box.server.wait()
        time.sleep(self.dice.uniform(0, 1))
        self.box.serve()

    def stop_server(self) -> None:
        self.harm.stop("server", self.box.server.pid, self.dice.uniform(0.1, 3))

    def cut(self) -> None:
        self.cuts["cut"] += 1
        self.network.cut()
        until_then = time.monotonic() + self.dice.uniform(0.1, 2.5 * FENCE)
        while time.monotonic() < until_then:
            self.tend()
            time.sleep(0.02)
        self.network.mend()

    def reset(self) -> None:
        self.cuts["reset"] += 1
        self.network.reset()


def test_never_more_than_may_be(
    box: RemoteBox, network: Forwarder, record_property: Callable[[str, object], None]
) -> None:
    """By an outside count, with everybody killed, stopped and cut off; and then all is well."""
    storm = RemoteStorm(box, network)
    until(lambda: len(storm.outsider.last()) > 1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        storm.tend()
        storm.strike()
        calm = time.monotonic() + storm.dice.uniform(0.05, 0.6)
        while time.monotonic() < calm:
            storm.tend()
            time.sleep(0.02)
    storm.harm.close()
    network.mend()
    if not box.server.alive():
        box.serve()
    clients, before = storm.clients, sum(storm.codes.values())
    for _, program in clients:
        with suppress(subprocess.TimeoutExpired):
            program.wait(within=3 * LONG)
    seen = storm.outsider.seen()
    most = max(sum(look.get(name, 0) for name in storm.naps) for look in seen)
    told = (
        f"remote storm (seed {storm.seed}): {storm.harm.told()}; {storm.cuts.total()} cuts; "
        f"{before} clients ended; {len(seen)} looks, at most {most} of {SEATS} at once; "
        f"codes {dict(storm.codes)}; {len(box.events('lost'))} fenced"
    )
    record_property("storm", told)
    assert most <= SEATS, told
    assert storm.codes["short", 0] > 1, told
    assert all(not program.alive() for _, program in clients), told
    assert {program.wait() for _, program in clients} <= {0, 125, 137, 143}, told
    local = box.local()
    until(lambda: not (local.queue().running or local.queue().waiting), within=3 * LONG)
    assert not processes(lambda line: any(nap.encode() in line for nap in storm.naps.values())) or (
        storm.outsider.program.alive()
    )
    os.kill(storm.outsider.program.pid, signal.SIGKILL)
