"""From a release in one process to the grant in another."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from common import Figure, folder

from headgate import Gate

KEY = "anthropic/claude-opus-4-6"
LIMITS = {"anthropic/claude-opus-*": 1}


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Two processes take turns on one seat; each notes when it released and when it was let in."""
    rounds = "10" if tiny else "400"
    with folder() as here:
        url = f"sqlite://{here / 'handover.db'}"
        Gate.open(url).close()
        players = [
            subprocess.Popen(
                [sys.executable, __file__, url, rounds], stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        notes = [
            line.split() for player in players for line in (player.communicate()[0]).splitlines()
        ]
    grants = sorted((float(a), int(pid)) for what, a, pid in notes if what == "in")
    releases = sorted((float(a), int(pid)) for what, a, pid in notes if what == "out")
    gaps = []
    for (out, who), (entered, next_one) in zip(releases, grants[1:], strict=False):
        if who != next_one:
            gaps.append(entered - out)
    gaps.sort()
    p50, p99 = statistics.median(gaps) * 1000, gaps[int(len(gaps) * 0.99)] * 1000
    yield f"hand-over between processes, {len(gaps)} of them: p50", f"{p50:.2f} ms", "<= 5 ms"
    yield "hand-over between processes: p99", f"{p99:.2f} ms", "<= 25 ms"


def play(url: str, rounds: int) -> None:
    """Take the seat and give it back, many times."""
    import os

    with Gate.open(url, limits=LIMITS) as gate:
        for _ in range(rounds):
            with gate.slot(KEY):
                entered = time.monotonic()
                time.sleep(0.002)  # so that the other one is in line by then
                released = time.monotonic()
            print("in", entered, os.getpid())
            print("out", released, os.getpid())


if __name__ == "__main__":
    play(sys.argv[1], int(sys.argv[2]))
