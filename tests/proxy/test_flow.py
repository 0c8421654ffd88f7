"""Who is slow slows nobody else, and large bodies are held once at most."""

import asyncio
import hashlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headgate.core.times import Seconds
from headgate.proxy import End, ProxyServer
from tests.proxy.harness import HOST, OK, Seen, asynchronous, read_answer, world

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
MB = 1_000_000


@asynchronous
async def test_a_slow_client_slows_only_its_own_upstream() -> None:
    """Upstream of one who does not read is paused after little, and others are served."""
    size = 64 * MB
    progress = 0
    done = asyncio.Event()

    async def handler(seen: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        nonlocal progress
        if seen.target == b"/fast":
            writer.write(OK)
            return True
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while progress < size:
            writer.write(bytes(65_536))
            await writer.drain()
            progress += 65_536
        done.set()
        return True

    async with world(handler) as it, it.client() as (slow, slow_writer):
        slow_writer.write(GET % b"slow")
        await slow.readuntil(b"\r\n\r\n")
        assert isinstance(slow_writer.transport, asyncio.Transport)
        slow_writer.transport.pause_reading()
        async with it.client() as (fast, fast_writer):
            for _ in range(200):
                fast_writer.write(GET % b"fast")
                assert (await read_answer(fast)).body == b"hello"
        stopped = progress
        assert stopped < 40 * MB  # what kernels hold between the three, and not all of it
        await asyncio.sleep(0.05)
        assert progress <= stopped + 8 * MB
        slow_writer.transport.resume_reading()
        left = size
        while left > 0:
            left -= len(await slow.read(1 << 20))
        assert await it.policy.exchanges[0].end() is End.COMPLETE


@asynchronous
async def test_a_slow_upstream_slows_only_its_own_client() -> None:
    """A client whose upstream does not read is paused, and what came is held within bounds."""
    read_on = asyncio.Event()
    got = hashlib.sha256()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        await read_on.wait()
        writer.transport.resume_reading()
        left = 32 * MB
        while left:
            data = await reader.read(1 << 20)
            got.update(data)
            left -= len(data)
        writer.write(OK)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    body = os.urandom(MB) * 32
    async with world() as it, it.client() as (reader, writer):
        good = it.policy.origin
        it.policy.origin = good._replace(port=server.sockets[0].getsockname()[1])
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await it.policy.made.wait()
        it.policy.origin = good
        for _ in range(50):
            assert (await it.ask(GET % b"fast")).body == b"hello"
        (upload,) = [one._current._upload for one in it.proxy._connections if one._current]
        assert upload.unsent <= 2 * 65_536
        (upstream,) = it.proxy._runtime.pool.busy
        assert upstream.transport is not None
        assert upstream.transport.get_write_buffer_size() <= 4 * 65_536
        read_on.set()
        assert (await read_answer(reader)).body == b"hello"
        assert got.digest() == hashlib.sha256(body).digest()
    server.close()


PROXY = """
import asyncio, socket, sys
from headgate.proxy import *

WANTED = int(sys.argv[1])
UPSTREAM = Origin("http", "127.0.0.1", int(sys.argv[2]))

class Holding(PassingExchange):
    body_wanted = WANTED
    def begin(self, body, *, complete):
        assert complete is (WANTED > 0), (complete, len(body))
        return Route(UPSTREAM)

class Policy:
    def exchange(self, head, peer, client):
        return Holding()
    def error(self, error):
        sys.exit(repr(error))

async def main():
    listening = socket.create_server(("127.0.0.1", 0))
    await ProxyServer(Policy()).start(listening)
    print(listening.getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def proxy_process(wanted: int, upstream: int) -> Iterator[tuple[int, int]]:
    """A proxy in a process of its own: its pid and its port."""
    running = subprocess.Popen(
        [sys.executable, "-c", PROXY, str(wanted), str(upstream)], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    try:
        yield running.pid, int(running.stdout.readline())
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def peak(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    said = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert said is not None
    return int(said[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("wanted, most", [(0, 12), (100 * MB, 64 * 1.125 + 16)])
@asynchronous
async def test_64_mb_are_never_held_twice(wanted: int, most: float) -> None:
    """Streamed, an upload costs next to nothing; wanted by the policy, it is held once."""
    size = 64 * MB
    got = hashlib.sha256()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        left = size
        while left:
            data = await reader.read(1 << 20)
            got.update(data)
            left -= len(data)
        writer.write(OK)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    with proxy_process(wanted, server.sockets[0].getsockname()[1]) as (pid, port):
        before = peak(pid)
        piece = os.urandom(MB)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // MB):
            writer.write(piece)
            await writer.drain()
        assert (await read_answer(reader)).body == b"hello"
        assert got.digest() == hashlib.sha256(piece * (size // MB)).digest()
        assert (peak(pid) - before) / MB < most
        writer.close()
    server.close()


@asynchronous
async def test_a_socket_of_anothers_is_served() -> None:
    """A listening socket that came by its number, as from another process, is as good."""
    with socket.create_server((HOST, 0)) as opened:
        inherited = socket.socket(fileno=os.dup(opened.fileno()))
        async with world() as it:
            second = ProxyServer(it.policy)
            await second.start(inherited)
            reader, writer = await asyncio.open_connection(*opened.getsockname())
            writer.write(GET % b"x")
            assert (await read_answer(reader)).body == b"hello"
            writer.close()
            await second.drain(Seconds(1))
