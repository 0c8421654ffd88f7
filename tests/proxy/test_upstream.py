"""Upstream is reached, kept, given up on and verified as it should be."""

import asyncio
import gc
import socket
import ssl
from contextlib import suppress
from typing import Self

import pytest

from headgate.core.times import Seconds
from headgate.proxy import Decision, End, Origin, OutboundProxy, Route, Timeouts
from headgate.proxy.pool import Way
from headgate.proxy.sockets import reset
from tests.proxy.certificates import client_context, server_context
from tests.proxy.harness import (
    HOST,
    OK,
    Recorded,
    Seen,
    asynchronous,
    ok,
    read_answer,
    reply_with,
    world,
)

GET = b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


@asynchronous
async def test_a_stale_connection_is_replaced() -> None:
    """One that upstream closes as the next request comes is tried once more, unseen."""
    drops = 0

    async def handler(_: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        nonlocal drops
        if len(it.upstream.seen) == 2:  # the second request finds a closed connection
            drops += 1
            writer.transport.abort()
            return False
        writer.write(OK)
        return True

    async with world(handler) as it, it.client() as (reader, writer):
        for _ in range(3):
            writer.write(POST)
            assert (await read_answer(reader)).body == b"hello"
        assert drops == 1
        assert it.upstream.connections == 2
        assert [seen.body for seen in it.upstream.seen] == [b"abc"] * 4
        assert [await one.end() for one in it.policy.exchanges] == [End.COMPLETE] * 3


@asynchronous
async def test_a_new_connection_that_closes_is_not_tried_again() -> None:
    """Upstream had the request and said nothing: that is a 502, in words."""

    async def handler(_: Seen, __: object, ___: object) -> bool:
        return False

    async with world(handler) as it:
        got = await it.ask(POST)
        assert got.status == 502
        assert got.body == b"headgate: 127.0.0.1 closed the connection before it answered.\n"
        assert len(it.upstream.seen) == 1
        assert await it.policy.exchanges[0].end() is End.UPSTREAM_FAILED


@asynchronous
async def test_idle_connections_expire() -> None:
    """One that has been idle for too long is closed, and the next request opens another."""
    async with world(timeouts=Timeouts(pooled=Seconds(0.01))) as it:
        await it.ask(GET)
        await asyncio.wait_for(it.upstream.gone.wait(), 10)
        await it.ask(GET)
        assert it.upstream.connections == 2


@asynchronous
async def test_an_idle_connection_that_upstream_closes_is_forgotten() -> None:
    """It is not used again, nor is one on which upstream said something unasked."""
    async with world(reply_with(OK, keep=False)) as it, it.client() as (reader, writer):
        for count in range(1, 4):
            writer.write(GET)
            assert (await read_answer(reader)).body == b"hello"
            await it.upstream.gone.wait()
            it.upstream.gone.clear()
            await asyncio.sleep(0.01)
            assert it.upstream.connections == count


@asynchronous
async def test_an_answer_that_nobody_asked_for_is_given_to_nobody() -> None:
    """Bytes after an answer end its connection; the next request gets its own answer."""

    async def handler(seen: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        body = seen.target
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        writer.write(answer + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")
        return True

    async with world(handler) as it, it.client() as (reader, writer):
        for number in range(3):
            writer.write(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
            assert (await read_answer(reader)).body == b"/%d" % number
        assert it.upstream.connections == 3


BAD_ANSWERS = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "two framings": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    "an odd coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi",
    "a folded header": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nhi",
    "a bare LF": b"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 2\r\n\r\nhi",
    "a NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nhi",
    "101 unasked": b"HTTP/1.1 101 Ha\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw",
    "101 without a protocol": b"HTTP/1.1 101 Switching\r\n\r\nraw",
    "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 400_000,
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
@asynchronous
async def test_bad_answers_are_a_502(name: str) -> None:
    """What is no clear HTTP is not passed on, and its connection is not used again."""
    async with world(reply_with(BAD_ANSWERS[name])) as it, it.client() as (reader, writer):
        for count in (1, 2):
            writer.write(GET)
            got = await read_answer(reader)
            assert got.status == 502
            assert it.upstream.connections == count


CUT = {
    "by length": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbegin",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n",
    "in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nbegin",
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\nzz\r\n",
}


@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("name", CUT)
@asynchronous
async def test_an_answer_that_is_cut_is_a_reset(name: str, how: str) -> None:
    """The client has what came before, and then a reset: never a clean end."""

    async def handler(_: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        writer.write(CUT[name])
        await begun.wait()
        if how == "reset":
            assert isinstance(writer.transport, asyncio.Transport)
            reset(writer.transport)
        return False

    begun = asyncio.Event()
    async with world(handler) as it, it.client() as (reader, writer):
        writer.write(GET)
        await reader.readuntil(b"begin")
        begun.set()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert await it.policy.exchanges[0].end() is End.TRUNCATED


@pytest.mark.parametrize("begun", [False, True])
@asynchronous
async def test_a_silent_upstream_is_given_up_on(*, begun: bool) -> None:
    """Before its answer that is a 504, within it a reset."""

    async def handler(_: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if begun:
            writer.write(CUT["by length"])
        with suppress(ConnectionResetError):
            await reader.read()
        return False

    times = Timeouts(answer=Seconds(0.1))
    async with world(handler, timeouts=times) as it, it.client() as (reader, writer):
        writer.write(GET)
        if begun:
            await reader.readuntil(b"begin")
            with pytest.raises(ConnectionResetError):
                await reader.read()
        else:
            got = await read_answer(reader)
            assert got.status == 504
            assert b"127.0.0.1 sent nothing for 0.1 s" in got.body
        assert await it.policy.exchanges[0].end() is End.UPSTREAM_TIMED_OUT
        await it.upstream.gone.wait()


@asynchronous
async def test_an_upstream_that_cannot_be_reached_in_time() -> None:
    """A listener whose line is full answers nothing: a 504 after the connect timeout."""
    with socket.create_server((HOST, 0), backlog=0) as full:
        taken = []
        for _ in range(4):  # so many that the kernel takes no more
            one = socket.socket()
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(full.getsockname())
            taken.append(one)
        async with world(timeouts=Timeouts(connect=Seconds(0.2))) as it:
            it.policy.origin = Origin("http", HOST, full.getsockname()[1])
            got = await it.ask(GET)
            assert got.status == 504
            assert b"could not be reached within 0.2 s" in got.body
            assert await it.policy.exchanges[0].end() is End.UPSTREAM_TIMED_OUT
        for one in taken:
            one.close()


@asynchronous
async def test_connections_look_for_dead_peers() -> None:
    """TCP keepalive is on, on both sides."""
    found: list[int] = []

    async def handler(_: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        transports = [one.transport for one in it.proxy._connections]
        transports += [one.transport for one in it.proxy._runtime.pool.busy]
        for transport in transports:
            assert transport is not None
            sock = transport.get_extra_info("socket")
            found.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        writer.write(OK)
        return True

    async with world(handler) as it:
        await it.ask(GET)
        assert found == [1, 1]


@asynchronous
async def test_tls_to_upstream_is_verified() -> None:
    """With its authority trusted it works; without, it is a 502 that says so."""
    async with world(tls=server_context(), trust=client_context()) as it:
        assert (await it.ask(GET)).body == b"hello"
        assert it.upstream.seen[0].get(b"host") == b"localhost:%d" % it.upstream.origin.port
        it.policy.origin = it.policy.origin._replace(host=HOST)
        got = await it.ask(GET)
        assert got.status == 502
        assert b"certificate that is not trusted" in got.body
    async with world(tls=server_context(), trust=ssl.create_default_context()) as it:
        got = await it.ask(GET)
        assert got.status == 502
        assert b"certificate that is not trusted" in got.body
        assert it.upstream.seen == []


class Outbound:
    """A proxy that somebody has to go through: takes CONNECT, and whole URLs."""

    def __init__(self, refuse: bytes = b"", tls: ssl.SSLContext | None = None) -> None:
        self.refuse = refuse
        self.tls = tls
        self.heads: list[bytes] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(ConnectionError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            method, target, _ = head.split(b" ", 2)
            if self.refuse:
                writer.write(self.refuse)
            elif method == b"CONNECT":
                await self._tunnel(target, reader, writer)
            else:
                writer.write(OK)
        writer.close()

    async def _tunnel(
        self, target: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = target.decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Fine\r\nX-Proxy: yes\r\n\r\n")
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


class ThroughProxy(Recorded):
    port = 0

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        way_out = OutboundProxy(HOST, self.port, b"Basic c2VjcmV0")
        return Route(self.policy.origin, proxy=way_out)


@asynchronous
async def test_https_through_an_outbound_proxy() -> None:
    """CONNECT with the proxy's login, TLS with upstream inside, and the connection is kept."""
    async with Outbound() as proxy:

        class Through(ThroughProxy):
            port = proxy.port

        async with world(ok, Through, tls=server_context(), trust=client_context()) as it:
            for _ in range(2):
                assert (await it.ask(GET)).body == b"hello"
            where = b"localhost:%d" % it.upstream.origin.port
            assert proxy.heads == [
                b"CONNECT %b HTTP/1.1\r\nHost: %b\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n"
                % (where, where)
            ]
            assert it.upstream.seen[0].get(b"proxy-authorization") is None


@asynchronous
async def test_http_through_an_outbound_proxy() -> None:
    """The proxy is asked with the whole URL."""
    async with Outbound() as proxy:

        class Through(ThroughProxy):
            port = proxy.port

        async with world(ok, Through) as it:
            it.policy.origin = Origin("http", "example.test", 80)
            assert (await it.ask(GET)).body == b"hello"
            (head,) = proxy.heads
            assert head.startswith(
                b"GET http://example.test/v1/x HTTP/1.1\r\nHost: example.test\r\n"
            )
            assert b"Proxy-Authorization: Basic c2VjcmV0\r\n" in head


@pytest.mark.parametrize(
    "answer, said",
    [
        (b"HTTP/1.1 407 No\r\n\r\n", b"its proxy answered 407"),
        (b"what?\r\n\r\n", b"its proxy does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n", b"its proxy closed the connection"),
    ],
)
@asynchronous
async def test_an_outbound_proxy_that_refuses(answer: bytes, said: bytes) -> None:
    """A 502 says that it was the proxy."""
    async with Outbound(answer) as proxy:

        class Through(ThroughProxy):
            port = proxy.port

        async with world(ok, Through, trust=client_context()) as it:
            it.policy.origin = Origin("https", "localhost", 1)
            got = await it.ask(GET)
            assert got.status == 502
            assert said in got.body


@asynchronous
async def test_a_connection_that_was_just_opened_is_not_given_up_on() -> None:
    """A look for silent answers between its opening and its first request leaves it alone."""
    async with world() as it:
        pool = it.proxy._runtime.pool
        opened = await pool.open(Way(it.upstream.origin, None))
        pool.sweep(asyncio.get_running_loop().time(), Seconds(5))
        assert opened.transport is not None
        assert not opened.transport.is_closing()


@asynchronous
async def test_connecting_that_is_cancelled_leaves_nothing_open() -> None:
    """At whatever moment a client leaves, each socket is closed."""
    async with world(tls=server_context(), trust=client_context()) as it:
        pool = it.proxy._runtime.pool
        for turn in range(60):
            opening = asyncio.create_task(pool.open(Way(it.upstream.origin, None)))
            for _ in range(turn % 12):
                await asyncio.sleep(0)
            opening.cancel()
            with suppress(asyncio.CancelledError):
                pool.drop(await opening)
        gc.collect()  # a socket that was left open would warn, and warnings are errors


@asynchronous
async def test_a_name_that_is_not_there() -> None:
    """A 502 says that it was the name."""
    async with world() as it:
        it.policy.origin = Origin("http", "no-such-host.invalid", 80)
        got = await it.ask(GET)
        assert got.status == 502
        assert b"its name cannot be looked up" in got.body
