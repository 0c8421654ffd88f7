"""The server against the bare framework: GET /v1/status, its start, and its memory.

The bare framework answers the same bytes from a constant. Both are asked over the same number of
connections that stay open, each with one request at a time, and judged by the processor time that
they take: the client shares the machine with them.
"""

import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from common import Figure, folder, micro

_BARE = """
import socket, sys, uvicorn
from fastapi import FastAPI, Response
app = FastAPI(openapi_url=None)
BODY = open(sys.argv[1], "rb").read()
@app.get("/v1/status")
async def status() -> Response:
    return Response(BODY, media_type="application/json")
sock = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
config = uvicorn.Config(app, log_level="critical", access_log=False, http="httptools")
uvicorn.Server(config).run(sockets=[sock])
"""
_AT_ONCE = 32
_TICK = 1 / os.sysconf("SC_CLK_TCK")
"""The system counts processor time in such steps; a tiny run takes less."""
_ASKED = b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Requests per second of processor time, then what a start takes and leaves behind."""
    rounds, requests = (1, 100) if tiny else (7, 6_000)
    headgate = str(Path(sys.executable).with_name("headgate"))
    ours = [headgate, "serve", "--listen", "127.0.0.1:0"]
    with folder() as place:
        starts = []
        for _ in range(1 if tiny else 5):
            before = time.perf_counter()
            with _server(ours) as (_, process):
                starts.append((time.perf_counter() - before, _taken(process)))
                memory = process.memory_full_info().uss
        with _server(ours) as (port, process):
            body = place / "body.json"
            body.write_bytes(_load(port, 1))
            with _server([sys.executable, "-c", _BARE, str(body)]) as (bare_port, bare):
                pairs = []
                for _ in range(rounds):
                    mine = _each(port, process, requests)
                    pairs.append((mine, _each(bare_port, bare, requests)))
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    share = statistics.median(b / a for a, b in pairs)
    yield (
        f"GET /v1/status: {micro(mine)} of processor each, the bare framework {micro(other)}",
        f"{share:.2f}x",
        ">= 0.7x",
    )
    wall, taken = (statistics.median(column) for column in zip(*starts, strict=True))
    yield (
        f"headgate serve answers after, with {taken:.2f} s of processor",
        f"{wall:.2f} s",
        "<= 1 s",
    )
    yield "its own memory, idle", f"{memory / 2**20:.0f} MiB", "<= 80 MB"


@contextmanager
def _server(command: list[str]) -> Iterator[tuple[int, psutil.Process]]:
    """A server that is up: where, and its process."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as started:
        try:
            port = int((started.stdout or sys.stdin).readline().rpartition(":")[2])
            _load(port, 1)
            yield port, psutil.Process(started.pid)
        finally:
            started.terminate()


def _taken(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _each(port: int, process: psutil.Process, requests: int) -> float:
    before = _taken(process)
    _load(port, requests)
    return max(_TICK, _taken(process) - before) / requests


def _load(port: int, requests: int) -> bytes:
    """Ask so often; the body of the last answer."""
    selector = selectors.DefaultSelector()
    left, body = requests, b""
    parts: dict[socket.socket, bytes] = {}
    for _ in range(min(_AT_ONCE, requests)):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(_ASKED)
        selector.register(sock, selectors.EVENT_READ)
        parts[sock] = b""
    asked = len(parts)
    while left:
        for key, _ in selector.select():
            sock = key.fileobj  # type: ignore[assignment]
            parts[sock] += sock.recv(262_144)
            head, gap, rest = parts[sock].partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            if not gap or len(rest) < length:
                continue
            body, parts[sock] = rest, b""
            left -= 1
            if asked < requests:
                asked += 1
                sock.sendall(_ASKED)
    for sock in parts:
        sock.close()
    return body
