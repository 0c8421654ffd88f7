"""Streams through the proxy against streams without it: 50 connections, 20 events each.

Upstream, proxy and load are a process each. What the proxy costs per stream is its own processor
time, which other processes on the machine disturb less than the rate. LiteLLM's proxy is the peer,
where it is installed (`make peers`).
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from common import Figure, folder, micro

PARTS = Path(__file__).parent / "proxy_parts.py"
MODES = ("aiohttp", "bare", "wire", "requests")
"""Ways to forward: aiohttp's parts, ours with nothing in the way, read, and with a seat each."""
_ABOVE = {"wire": "", "requests": "<= 60 µs"}
_SHARES = {"wire": ">= 0.9x", "requests": ">= 0.7x"}
_Round = dict[str, tuple[float, float]]
"""Streams a second and processor time for one of them, by the way they went."""
LITELLM = Path(__file__).parents[1] / ".peers" / "bin" / "litellm"
_LITELLM = """
model_list:
  - model_name: claude-opus-4-6
    litellm_params:
      model: anthropic/claude-opus-4-6
      api_base: http://127.0.0.1:{upstream}
      api_key: none
      max_parallel_requests: 1000
"""
LOADED = """
import sys, time, resource
import asyncio, ssl
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
import headgate.proxy
took = time.perf_counter() - start
print(took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Rounds of direct and of each mode in turn; then one connection, for what it adds."""
    count, few, rounds = (60, 5, 1) if tiny else (20_000, 2_000, 5)
    with folder() as here, ExitStack() as stack:
        upstream, _ = stack.enter_context(_running("upstream"))
        proxies = {mode: stack.enter_context(_running(mode, upstream)) for mode in MODES}
        for port, _ in proxies.values():
            _load(port, 50, count // 10)
        found = [_round(upstream, proxies, count) for _ in range(rounds)]
        yield from _rates(found)
        if not tiny:
            yield from _peer(here, upstream, proxies["requests"][0])
        for mode, (port, process) in proxies.items():
            yield from _latency(mode, _load(upstream, 1, few), _load(port, 1, few))
            size = process.memory_info().rss / 1e6
            yield f"proxy, {mode}: its process after all that", f"{size:.0f} MB", ""
    with folder():
        yield from _loading(1 if tiny else 7)


def _round(upstream: int, proxies: Mapping[str, tuple[int, psutil.Process]], count: int) -> _Round:
    """All ways in turn."""
    found: _Round = {"direct": (_load(upstream, 50, count)["rate"], 0.0)}
    for mode, (port, process) in proxies.items():
        before = _processor_time(process)
        rate = _load(port, 50, count)["rate"]
        found[mode] = (rate, (_processor_time(process) - before) / count)
    return found


def _rates(rounds: list[_Round]) -> Iterator[Figure]:
    """Ratios and differences are those of one round; the rest of the machine changes."""
    rates = {way: statistics.median(one[way][0] for one in rounds) for way in rounds[0]}
    yield (
        f"proxy: {rates['direct']:,.0f} streams/s direct, {rates['bare']:,.0f} bare",
        f"{_share(rounds, 'bare', 'direct'):.2f}x",
        "",
    )
    for mode in ("wire", "requests"):
        yield (
            f"proxy, {mode}: {rates[mode]:,.0f} streams/s, bare aiohttp {rates['aiohttp']:,.0f}",
            f"{_share(rounds, mode, 'aiohttp'):.1f}x",
            "",
        )
    for mode in MODES[1:]:
        cost = statistics.median(one[mode][1] for one in rounds)
        yield (
            f"proxy, {mode}: processor time for one stream",
            micro(cost),
            "<= 100 µs" if mode == "bare" else "",
        )
        if mode == "bare":
            continue
        more = statistics.median(one[mode][1] - one["bare"][1] for one in rounds)
        yield f"proxy, {mode}: processor time above bare", micro(more), _ABOVE[mode]
        share = f"{_share(rounds, mode, 'bare'):.2f}x bare"
        yield f"proxy, {mode}: {rates[mode]:,.0f} streams/s", share, _SHARES[mode]


def _share(rounds: list[_Round], mode: str, other: str) -> float:
    return statistics.median(one[mode][0] / one[other][0] for one in rounds)


def _peer(here: Path, upstream: int, governed: int) -> Iterator[Figure]:
    """LiteLLM's proxy, and ours again right after it."""
    if not LITELLM.exists():
        yield "  SKIPPED: LiteLLM is not installed (make peers)", "-", ""
        return
    with _litellm(here, upstream) as (port, process, started):
        _load(port, 10, 20)
        theirs = _load(port, 50, 300)["rate"]
        size = sum(one.memory_info().rss for one in (process, *process.children(True))) / 1e6
    ours = _load(governed, 50, 5_000)["rate"]
    about = f"up after {started:.0f} s, {size:.0f} MB"
    yield (
        f"proxy, requests: {ours:,.0f} streams/s; LiteLLM {theirs:,.1f} ({about})",
        f"{ours / theirs:,.0f}x LiteLLM",
        ">= 100x",
    )


@contextmanager
def _litellm(here: Path, upstream: int) -> Iterator[tuple[int, psutil.Process, float]]:
    """Its port, its process, and how long it took to start; one worker, as ours is one process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings, told = here / "litellm.yaml", here / "litellm.log"
    settings.write_text(_LITELLM.format(upstream=upstream))
    env = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "NO_PROXY": "127.0.0.1",
    }
    where = ("--host", "127.0.0.1", "--port", str(port), "--num_workers", "1")
    begun = time.monotonic()
    with (
        told.open("wb") as log,
        subprocess.Popen(
            [LITELLM, "--config", settings, *where], env=env, stdout=log, stderr=log
        ) as running,
    ):
        try:
            while not _answers(f"http://127.0.0.1:{port}/health/liveliness"):
                if running.poll() is not None or time.monotonic() - begun > 120:
                    raise RuntimeError(f"LiteLLM did not start: {told.read_text()[-2000:]}")
                time.sleep(0.2)
            yield port, psutil.Process(running.pid), time.monotonic() - begun
        finally:
            running.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - ours
            return bool(answer.status == 200)
    except OSError:
        return False


def _latency(mode: str, direct: dict[str, float], through: dict[str, float]) -> Iterator[Figure]:
    for part, aim in (("p50", "<= 1 ms"), ("p99", "<= 3 ms")):
        added = (through[part] - direct[part]) * 1e3
        yield f"proxy, {mode}: added with one connection, {part}", f"{added:.2f} ms", aim


def _loading(rounds: int) -> Iterator[Figure]:
    """What the package takes in a fresh process that has asyncio and ssl."""
    took, size = [], []
    for _ in range(rounds):
        said = subprocess.run(
            [sys.executable, "-c", LOADED], check=True, capture_output=True, text=True
        )
        seconds, megabytes = map(float, said.stdout.split())
        took.append(seconds)
        size.append(megabytes)
    yield (
        f"proxy: the package is loaded in {statistics.median(took) * 1e3:.0f} ms, and takes",
        f"{statistics.median(size):.1f} MB",
        "<= 30 MB",
    )


def _load(port: int, connections: int, count: int) -> dict[str, float]:
    said = subprocess.run(
        [sys.executable, PARTS, "load", str(port), str(connections), str(count)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    seen: dict[str, float] = json.loads(said.stdout)
    return seen


def _processor_time(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def _running(*part: object) -> Iterator[tuple[int, psutil.Process]]:
    """A part that runs meanwhile: its port and its process."""
    command = [sys.executable, str(PARTS), *map(str, part)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None  # noqa: S101 - for the type checker
            yield int(running.stdout.readline()), psutil.Process(running.pid)
        finally:
            running.kill()
