"""One server with many who wait: 1,000 follow their place in the line, 500 wait for seats.

Seats are given back at a steady pace, a few hundred per second. What counts is how long after that
whoever is next hears of its seat, beside the same server answering `GET /v1/health` at that moment;
that nobody is forgotten; and that the server's memory stays as it is.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from common import Figure, folder

from headgate import Gate

KEY, CLOSED = "bench/open", "bench/closed"
SEATS = 20
_SERVE = ("-m", "headgate", "serve", "--listen", "127.0.0.1:0")


class Size(NamedTuple):
    """How much of everything."""

    watchers: int
    waiters: int
    rate: float
    """Seats given back per second."""
    seconds: float


class Connection:
    """One connection of a client, asked one thing after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        """The answer, as JSON."""
        reader, _ = await self._send(method, path, body, "application/json")
        length = 0
        status = int((await reader.readline()).split()[1])
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        found = await reader.readexactly(length)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {found[:300]!r}")
        return json.loads(found) if found else None

    async def follow(self, path: str) -> asyncio.StreamReader:
        """A stream of events."""
        reader, _ = await self._send("GET", path, None, "text/event-stream")
        while await reader.readline() != b"\r\n":
            pass
        return reader

    async def _send(
        self, method: str, path: str, body: object, accept: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        _, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n"
        if data:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        writer.write(head.encode() + b"\r\n" + data)
        return self._streams

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


class Load:
    """Everybody who asks the server, in one event loop."""

    def __init__(self, port: int, size: Size) -> None:
        self.port, self.size = port, size
        self.held: deque[tuple[str, int]] = deque()
        self.released: deque[float] = deque()
        self.delays: list[float] = []
        self.health: list[float] = []
        self.granted = 0
        self.given_back = 0
        self.over = False
        self.used = 0.0
        """Seconds of processor that the server took meanwhile."""
        self.full = asyncio.Event()

    async def run(self, pid: int) -> tuple[float, float]:
        """All of it; the server's memory at the beginning and at the end, in megabytes."""
        self.members = [await self._join() for _ in range(10)]
        renewing = [asyncio.create_task(self._renew(one)) for one in self.members]
        watching = [asyncio.create_task(self._watch(one)) for one in range(self.size.watchers)]
        waiting = [asyncio.create_task(self._wait(one)) for one in range(self.size.waiters)]
        await self.full.wait()
        await asyncio.sleep(1 + self.size.watchers / 500)
        before, used = _memory(pid), _used(pid)
        asking = asyncio.create_task(self._ask_health())
        await self._give_back()
        self.over = True
        after = _memory(pid)
        self.used = _used(pid) - used
        for _ in range(500):  # whoever was let in hears of it
            if self.granted == self.given_back + SEATS:
                break
            await asyncio.sleep(0.01)
        for task in (*renewing, *watching, *waiting, asking):
            task.cancel()
        await asyncio.gather(*renewing, *watching, *waiting, asking, return_exceptions=True)
        return before, after

    async def _join(self) -> str:
        found = await Connection(self.port).ask("POST", "/v1/members", {"fence": 60.0})
        return str(found["member"])

    async def _renew(self, member: str) -> None:
        connection = Connection(self.port)
        while True:
            await connection.ask("POST", f"/v1/members/{member}/renewal", {})
            await asyncio.sleep(5)

    async def _watch(self, number: int) -> None:
        member = self.members[number % len(self.members)]
        asked = {"member": member, "key": CLOSED, "weight": 1}
        ticket = await Connection(self.port).ask("POST", "/v1/tickets", asked)
        path = f"/v1/tickets/{ticket['id']}?member={member}"
        reader = await Connection(self.port).follow(path)
        while await reader.readline():
            pass

    async def _wait(self, number: int) -> None:
        member = self.members[number % len(self.members)]
        connection = Connection(self.port)
        while True:
            asked = {"member": member, "key": KEY, "wait": 0.0}
            found = await connection.ask("POST", "/v1/tickets", asked)
            while found["lease"] is None:
                path = f"/v1/tickets/{found['id']}?member={member}&wait=60"
                found = await connection.ask("GET", path)
            self.granted += 1
            if self.granted == SEATS:
                self.full.set()
            if self.released:
                self.delays.append(time.perf_counter() - self.released.popleft())
            self.held.append((member, found["id"]))

    async def _give_back(self) -> None:
        free = [Connection(self.port) for _ in range(20)]
        begin, tasks = time.perf_counter(), set()
        number = 0
        while (at := number / self.size.rate) < self.size.seconds:
            await asyncio.sleep(max(0.0, begin + at - time.perf_counter()))
            number += 1
            if not self.held or not free:
                continue
            task = asyncio.create_task(self._release(free))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def _release(self, free: list[Connection]) -> None:
        connection, (member, id) = free.pop(), self.held.popleft()
        self.released.append(time.perf_counter())
        self.given_back += 1
        await connection.ask("DELETE", f"/v1/leases/{id}?member={member}")
        free.append(connection)

    async def _ask_health(self) -> None:
        connection = Connection(self.port)
        while True:
            began = time.perf_counter()
            await connection.ask("GET", "/v1/health")
            self.health.append(time.perf_counter() - began)
            await asyncio.sleep(0.05)


def _memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1e3


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Yield what, figure and aim."""
    size = Size(20, 30, 20.0, 1.0) if tiny else Size(1_000, 500, 200.0, 30.0)
    with folder() as here:
        os.environ["HEADGATE_STORE"] = f"sqlite://{here}/s.db"
        with Gate.open() as gate:
            gate.set_limit("host", 100_000)
            gate.set_limit(KEY, SEATS)
            gate.pause(CLOSED)
        server = subprocess.Popen(
            [sys.executable, *_SERVE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            line = server.stdout.readline() if server.stdout is not None else ""
            port = int(line.rpartition(":")[2])
            load = Load(port, size)
            before, after = asyncio.run(load.run(server.pid))
        finally:
            server.terminate()
            server.wait()
    rate = load.given_back / size.seconds
    who = f"{size.watchers} watch, {size.waiters} wait, {rate:.0f} grants/s"
    delays = sorted(load.delays)
    lost = load.given_back + SEATS - load.granted
    yield f"server, {who}: grant p50", f"{statistics.median(delays) * 1e3:.1f} ms", ""
    yield "server: grant p99", f"{delays[int(len(delays) * 0.99) - 1] * 1e3:.1f} ms", "<= 50 ms"
    yield (
        "server: GET /v1/health meanwhile, p50",
        f"{statistics.median(load.health) * 1e3:.1f} ms",
        "",
    )
    each = load.used / max(1, load.given_back) * 1e3
    yield "server: processor for each grant, with all that is watched", f"{each:.1f} ms", ""
    yield f"server: of {load.given_back} wake-ups lost", f"{lost}", "<= 0"
    yield f"server: memory {before:.0f} MB, after {size.seconds:.0f} s", f"{after:.0f} MB", ""
