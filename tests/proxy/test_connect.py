"""CONNECT: refused, tunnelled or opened; and connections that switch to WebSocket."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from headgate.proxy import Decision, End, Open, OutboundProxy, Reply, Route, Tunnel
from headgate.proxy.sockets import reset
from tests.proxy.certificates import client_context, server_context
from tests.proxy.harness import (
    HOST,
    OK,
    Handler,
    Recorded,
    Seen,
    World,
    asynchronous,
    ok,
    read_answer,
    world,
)
from tests.proxy.test_upstream import Outbound

CONNECT = b"CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
GET = b"GET /v1/x HTTP/1.1\r\nHost: example.test\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: k\r\n\r\n"
)


@asynccontextmanager
async def echo(banner: bytes = b"") -> AsyncIterator[int]:
    """Sends everything back in upper case, and ends when the other side has ended."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(banner)
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data.upper())
                await writer.drain()
            writer.write(b"bye")
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


class Tunnelled(Recorded):
    port = 0
    through: OutboundProxy | None = None

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        assert self.head.target == b"example.test:443"
        return Tunnel(HOST, self.port, self.through)


@asynchronous
async def test_connect_can_be_refused() -> None:
    """With a reply; the connection goes on, and what was sent along is read as a request."""

    class Refusing(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            if self.head.method == b"CONNECT":
                return Reply(403, (), b"no")
            return Route(self.policy.origin)

    async with world(kind=Refusing) as it, it.client() as (reader, writer):
        writer.write(CONNECT + GET)
        assert (await read_answer(reader)).status == 403
        assert (await read_answer(reader)).body == b"hello"
        writer.write(GET)
        assert (await read_answer(reader)).body == b"hello"


@pytest.mark.parametrize("proxied", [False, True])
@asynchronous
async def test_a_tunnel_passes_raw_bytes(*, proxied: bool) -> None:
    """Both ways, from the first byte, with half-closing; the policy sees them pass."""
    async with echo(b"banner ") as port, Outbound() as outbound:

        class Raw(Tunnelled):
            through = OutboundProxy(HOST, outbound.port) if proxied else None

        Raw.port = port
        async with world(kind=Raw) as it, it.client() as (reader, writer):
            writer.write(CONNECT + b"early ")
            assert await reader.readuntil(b"\r\n\r\n") == ESTABLISHED
            assert await reader.readexactly(13) == b"banner EARLY "
            body = bytes(range(97, 123)) * 40_000
            writer.write(body)
            assert await reader.readexactly(len(body)) == body.upper()
            if not proxied:  # the stand-in proxy closes both ways at once
                writer.write_eof()
                assert await reader.read() == b"bye"
                (exchange,) = it.policy.exchanges
                assert await exchange.end() is End.COMPLETE
                assert exchange.sent_bytes == b"early " + body
                assert exchange.received_bytes == b"banner EARLY " + body.upper() + b"bye"
        assert len(outbound.heads) == proxied


@asynchronous
async def test_a_tunnel_that_cannot_be_opened() -> None:
    """A 502 in words, and the connection goes on."""

    class Closed(Tunnelled):
        port = 1

    async with world(kind=Closed) as it, it.client() as (reader, writer):
        for _ in range(2):
            writer.write(CONNECT)
            got = await read_answer(reader)
            assert (got.status, got.body) == (502, b"headgate: 127.0.0.1 refused the connection.\n")


@pytest.mark.parametrize("by", ["client", "server"])
@asynchronous
async def test_a_reset_passes_through_a_tunnel(by: str) -> None:
    """Who is reset on one side is reset on the other."""
    there: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    there = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda r, w: there.set_result((r, w)), HOST, 0)

    class Raw(Tunnelled):
        port = server.sockets[0].getsockname()[1]

    async with world(kind=Raw) as it, it.client() as (reader, writer):
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        far_reader, far_writer = await there
        ends = {"client": (writer, far_reader), "server": (far_writer, reader)}
        broken, hears = ends[by]
        assert isinstance(broken.transport, asyncio.Transport)
        reset(broken.transport)
        with pytest.raises(ConnectionResetError):
            await hears.read()
        end = await it.policy.exchanges[0].end()
        assert end is (End.CLIENT_GONE if by == "client" else End.TRUNCATED)
        far_writer.close()
    server.close()


class Opening(Recorded):
    """Opens what is asked for, and sends the requests inside to upstream."""

    context = server_context()

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        if self.head.method == b"CONNECT":
            return Open(self.context)
        return Route(self.policy.origin)


async def open_through(it: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, it.port)
    writer.write(CONNECT)
    assert await reader.readuntil(b"\r\n\r\n") == ESTABLISHED
    await writer.start_tls(client_context(), server_hostname="example.test")
    return reader, writer


@asynchronous
async def test_an_opened_connection_serves_requests_inside() -> None:
    """Its policy knows whom the client meant, and connections are kept on both sides."""
    body = bytes(range(256)) * 2000

    async def handler(seen: Seen, _: object, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(seen.body) + seen.body)
        return True

    async with world(handler, Opening) as it:
        reader, writer = await open_through(it)
        for _ in range(3):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            assert (await read_answer(reader)).body == body
        outer, *inner = it.policy.exchanges
        assert await outer.end() is End.COMPLETE
        assert outer.peer.opened is None
        assert {one.peer.opened for one in inner} == {("https", "example.test", 443)}
        assert outer.peer.address == inner[0].peer.address
        assert outer.peer.address == writer.get_extra_info("sockname")
        assert it.upstream.connections == 1
        writer.close()


@asynchronous
async def test_tls_that_began_before_we_answered() -> None:
    """A client may send its first TLS message, or all it has, along with CONNECT."""
    async with world(ok, Opening) as it, it.client() as (reader, writer):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context().wrap_bio(incoming, outgoing, server_hostname="example.test")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        writer.write(CONNECT + outgoing.read())
        assert await reader.readuntil(b"\r\n\r\n") == ESTABLISHED

        async def until_done(step: str, *args: object) -> object:
            while True:
                try:
                    return getattr(tls, step)(*args)
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65_536))

        await until_done("do_handshake")
        tls.write(GET)
        writer.write(outgoing.read())  # the end of the handshake and a request in one piece
        got = await until_done("read", 65_536)
        assert got == OK


@asynchronous
async def test_an_opened_connection_is_reset_like_any_other() -> None:
    """A cut answer inside TLS is no clean end either."""

    async def handler(_: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbegin")
        return False

    async with world(handler, Opening) as it:
        reader, writer = await open_through(it)
        writer.write(GET)
        with pytest.raises(ConnectionError):
            await reader.read()
        assert await it.policy.exchanges[1].end() is End.TRUNCATED
        writer.transport.abort()


@asynchronous
async def test_a_client_that_does_not_trust_us() -> None:
    """Its exchange ends as broken, and nobody else notices."""
    async with world(ok, Opening) as it, it.client() as (reader, writer):
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            await writer.start_tls(ssl.create_default_context(), server_hostname="example.test")
        assert await it.policy.exchanges[0].end() is End.BROKEN
        assert it.policy.errors == []
        assert (await it.ask(GET)).body == b"hello"


def switching(rest: bytes = b"") -> Handler:
    async def handler(
        seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: a\r\n\r\n" + rest
        )
        while data := await reader.read(65_536):
            writer.write(data.upper())
        return False

    return handler


@asynchronous
async def test_a_websocket_passes() -> None:
    """101, then raw bytes both ways, seen by the policy; what came with the 101 is not lost."""
    async with world(switching(b"first "), Recorded) as it, it.client() as (reader, writer):
        writer.write(UPGRADE + b"early ")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head == (
            b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        assert await reader.readexactly(12) == b"first EARLY "
        writer.write(b"more")
        assert await reader.readexactly(4) == b"MORE"
        (seen,) = it.upstream.seen
        assert (seen.get(b"upgrade"), seen.get(b"connection")) == (b"websocket", b"Upgrade")
        assert seen.get(b"sec-websocket-key") == b"k"
        (exchange,) = it.policy.exchanges
        assert exchange.sent_bytes == b"early more"
        assert exchange.received_bytes == b"first EARLY MORE"
        writer.write_eof()
        assert await reader.read() == b""
        assert await exchange.end() is End.COMPLETE


@asynchronous
async def test_a_websocket_can_be_answered_with_426() -> None:
    """The client gets it at once and goes on with plain requests on the same connection."""

    class Plain(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            if self.head.get(b"upgrade"):
                return Reply(426, ((b"Upgrade", b"none"),))
            return Route(self.policy.origin)

    async with world(ok, Plain) as it, it.client() as (reader, writer):
        writer.write(UPGRADE)
        assert (await read_answer(reader)).status == 426
        writer.write(GET)
        assert (await read_answer(reader)).body == b"hello"


@asynchronous
async def test_an_upstream_that_does_not_switch() -> None:
    """Its ordinary answer passes, and the connection goes on."""
    async with world() as it, it.client() as (reader, writer):
        for _ in range(2):
            writer.write(UPGRADE)
            assert (await read_answer(reader)).body == b"hello"


@asynchronous
async def test_a_tunnel_that_is_asked_for_behind_other_requests() -> None:
    """What follows CONNECT is kept for the tunnel while the requests before it are answered."""

    class Both(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            if self.head.method == b"CONNECT":
                return Tunnel(HOST, port)
            return Route(self.policy.origin)

    async with echo() as port, world(kind=Both) as it, it.client() as (reader, writer):
        writer.write(GET + GET + CONNECT + GET)
        for _ in range(2):
            assert (await read_answer(reader)).body == b"hello"
        assert await reader.readuntil(b"\r\n\r\n") == ESTABLISHED
        assert await reader.readexactly(len(GET)) == GET.upper()
        assert len(it.upstream.seen) == 2


@asynchronous
async def test_a_websocket_inside_tls_on_both_sides() -> None:
    """An opened connection may switch as well, to an upstream that speaks TLS."""
    body = bytes(range(97, 123)) * 20_000
    async with world(
        switching(b"first "), Opening, tls=server_context(), trust=client_context()
    ) as it:
        reader, writer = await open_through(it)
        writer.write(UPGRADE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        writer.write(body)
        assert await reader.readexactly(6 + len(body)) == b"first " + body.upper()
        writer.close()
        exchange = it.policy.exchanges[1]
        assert await exchange.end() in {End.COMPLETE, End.CLIENT_GONE}
        assert exchange.sent_bytes == body
        await it.upstream.gone.wait()


@asynchronous
async def test_a_proxy_that_is_spoken_to_in_tls() -> None:
    """TLS with the outbound proxy, CONNECT inside, and TLS with upstream inside of that."""
    async with Outbound(tls=server_context()) as outbound:

        class Through(Recorded):
            def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
                way_out = OutboundProxy("localhost", outbound.port, tls=True)
                return Route(self.policy.origin, proxy=way_out)

        async with world(ok, Through, tls=server_context(), trust=client_context()) as it:
            assert (await it.ask(GET)).body == b"hello"
            assert len(outbound.heads) == 1
