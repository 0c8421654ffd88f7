"""Jobs from submit to end, beside task-spooler, and a long list of them, page by page.

Both run `true` N times, three at a time, on the same machine in the same run, in rounds that
alternate. A job's latency is the time from handing in the first to the end of the last, per job.
task-spooler is handed its jobs by a loop of `tsp true` (it has no batch), headgate once by such a
loop of `headgate submit` and once by a batch of JSON lines. Where `tsp` is not installed (Debian:
task-spooler), only our own figures are shown.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure, folder

from headgate import Gate
from headgate.gate.submit_jobs import draft

HEADGATE = str(Path(sys.executable).with_name("headgate"))
SEATS = 3


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Latency per job, and the time for one page."""
    jobs, rounds, many = (10, 1, 200) if tiny else (200, 5, 100_000)
    with folder() as here:
        ours, single, theirs = _Ours(here / "s.db"), [], []
        batch = []
        try:
            for _ in range(rounds):
                batch.append(ours.batch(jobs))
                single.append(ours.one_by_one(jobs // 10))
                if shutil.which("tsp"):
                    theirs.append(_task_spooler(here, jobs))
        finally:
            ours.close()
        mine, alone = statistics.median(batch), statistics.median(single)
        yield "job, submit to end, in a batch", f"{mine * 1000:.1f} ms", ""
        yield "job, submit to end, one command each", f"{alone * 1000:.1f} ms", ""
        if theirs:
            peer = statistics.median(theirs)
            yield "  task-spooler, one command each", f"{peer * 1000:.1f} ms", ""
            yield "  task-spooler's latency / ours in a batch", f"{peer / mine:.2f}x", ">= 1x"
            yield "  task-spooler's latency / ours one by one", f"{peer / alone:.2f}x", ""
        yield from _resolver(here / "many.db", many, rounds)


class _Ours:
    """A worker with a store of its own."""

    def __init__(self, store: Path) -> None:
        self._env = {**os.environ, "HEADGATE_STORE": f"sqlite://{store}"}
        self._env |= {"XDG_CONFIG_HOME": str(store.parent), "HEADGATE_LIMITS": f"host={SEATS}"}
        self._worker = subprocess.Popen(
            [HEADGATE, "worker", "-q"], env=self._env, stderr=subprocess.PIPE
        )
        assert self._worker.stderr is not None  # noqa: S101 - asked for just now
        self._worker.stderr.readline()

    def _run(self, *words: str, text: str | None = None) -> str:
        return subprocess.run(
            [HEADGATE, *words], env=self._env, input=text, text=True, check=True, stdout=-1
        ).stdout

    def batch(self, jobs: int) -> float:
        began = time.perf_counter()
        lines = f"{json.dumps({'command': ['true']})}\n" * jobs
        ids = self._run("submit", "-q", "--batch", "-", text=lines).split()
        self._run("wait", "-q", *ids)
        return (time.perf_counter() - began) / jobs

    def one_by_one(self, jobs: int) -> float:
        began = time.perf_counter()
        ids = [self._run("submit", "-q", "--", "true").strip() for _ in range(jobs)]
        self._run("wait", "-q", *ids)
        return (time.perf_counter() - began) / jobs

    def close(self) -> None:
        self._worker.terminate()
        self._worker.wait()


def _task_spooler(here: Path, jobs: int) -> float:
    env = {**os.environ, "TS_SOCKET": str(here / "tsp.sock"), "TMPDIR": str(here)}

    def tsp(*words: str) -> None:
        subprocess.run(["tsp", *words], env=env, check=True, stdout=subprocess.DEVNULL)

    tsp("-S", str(SEATS))
    began = time.perf_counter()
    for _ in range(jobs):
        tsp("true")
    tsp("-N", str(SEATS), "true")  # takes all the seats, so it starts when the others have ended
    tsp("-w")
    took = (time.perf_counter() - began) / (jobs + 1)
    tsp("-K")
    return took


def _resolver(store: Path, many: int, rounds: int) -> Iterator[Figure]:
    """The first, the middle and the last of many pages, as a program reads them."""
    with Gate.open(f"sqlite://{store}") as gate:
        one = draft(["true"], key="bench/model")
        for start in range(0, many, 10_000):
            gate.jobs.submit([one] * min(10_000, many - start))
        for name, skip in (("first", 0), ("middle", many // 2), ("last", many - 100)):
            times = []
            for _ in range(rounds):
                began = time.perf_counter()
                page = gate.queue(most=100, skip=skip)
                times.append(time.perf_counter() - began)
                assert len(page.waiting) == 100  # noqa: S101 - else the figure means nothing
            took = statistics.median(times) * 1000
            yield f"{name} page of {many:,} queued jobs", f"{took:.0f} ms", "<= 200 ms"
