"""What it adds to a `headgate run` that its agent's requests are seen: time, and memory.

The agent is a small program that asks once. The baseline is the same run without a wire.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from common import Figure, folder

HEADGATE = str(Path(sys.executable).with_name("headgate"))
PARTS = Path(__file__).parent / "proxy_parts.py"
AGENT = """
import http.client, os, sys, urllib.parse
url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
connection = http.client.HTTPConnection(url.hostname, url.port)
body = '{"model": "claude-opus-4-6", "messages": []}'
headers = {"content-type": "application/json"}
connection.request("POST", url.path + "/v1/messages", body, headers)
connection.getresponse().read(100)
print("asked", flush=True)
sys.stdin.read()
"""


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Runs with and without, in turn."""
    rounds = 1 if tiny else 11
    with folder() as here:
        upstream = subprocess.Popen(
            [sys.executable, PARTS, "upstream"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert upstream.stdout is not None  # noqa: S101 - for the type checker
            os.environ |= {
                "HEADGATE_STORE": f"sqlite://{here / 's.db'}",
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{int(upstream.stdout.readline())}",
            }
            found = [(_run("agent"), _run("wire")) for _ in range(rounds)]
        finally:
            upstream.kill()
            upstream.wait()
    plain = statistics.median(one[0] for one, _ in found) * 1e3
    added = statistics.median(two[0] - one[0] for one, two in found) * 1e3
    memory = statistics.median(two[1] - one[1] for one, two in found)
    yield (
        f"run, until its agent's first request is answered: {plain:.0f} ms; a wire adds",
        f"{added:.0f} ms",
        "<= 300 ms",
    )
    yield "run: memory of its own that a wire adds", f"{memory:.1f} MB", "<= 30 MB"


def _run(meter: str) -> tuple[float, float]:
    """Seconds until the first request is answered, and megabytes of all but the agent."""
    start = time.perf_counter()
    words = ("run", "-q", "-m", "anthropic/claude-opus-4-6", "--meter", meter, "--")
    run = subprocess.Popen(
        [HEADGATE, *words, sys.executable, "-c", AGENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert run.stdout is not None  # noqa: S101 - as above
        assert run.stdout.readline()  # noqa: S101 - else it has failed
        took = time.perf_counter() - start
        runner = psutil.Process(run.pid)
        time.sleep(0.3)  # its watchdog starts after the first answer
        beside = [
            one
            for one in runner.children(recursive=True)
            if "headgate.wire" in one.cmdline() or any("watchdog" in w for w in one.cmdline())
        ]
        size = sum(one.memory_full_info().uss for one in (runner, *beside)) / 1e6
    finally:
        run.communicate(timeout=20)
    return took, size
