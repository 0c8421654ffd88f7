"""Requests and answers pass as they were sent."""

import asyncio

import pytest

from headgate.proxy import End
from tests.proxy.harness import (
    OK,
    Seen,
    asynchronous,
    read_answer,
    reply_with,
    world,
)

GET = b"GET /v1/x?q=1 HTTP/1.1\r\nHost: a\r\n\r\n"


@asynchronous
async def test_a_request_and_its_answer_pass() -> None:
    """Method, target, headers and body go up; status, headers and body come down."""
    answer = (
        b"HTTP/1.1 207 Odd Reason\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 5\r\nZ: z\r\n\r\nhello"
    )
    async with world(reply_with(answer)) as it:
        got = await it.ask(
            b"PUT /v1/x?q=%20 HTTP/1.1\r\nhOsT: a\r\nX-B: 2\r\nx-a: 1\r\nX-B: 3\r\n"
            b"Content-Length: 3\r\n\r\nabc"
        )
        (seen,) = it.upstream.seen
        (exchange,) = it.policy.exchanges
        host = b"%b:%d" % (it.upstream.origin.host.encode(), it.upstream.origin.port)
        assert (seen.method, seen.target, seen.body) == (b"PUT", b"/v1/x?q=%20", b"abc")
        assert seen.headers == [
            *((b"hOsT", host), (b"X-B", b"2"), (b"x-a", b"1"), (b"X-B", b"3")),
            (b"Content-Length", b"3"),
        ]
        assert (got.status, got.reason, got.body) == (207, b"Odd Reason", b"hello")
        assert got.headers == [
            *((b"X-One", b"1"), (b"x-one", b"2"), (b"Content-Length", b"5"), (b"Z", b"z")),
        ]
        assert await exchange.end() is End.COMPLETE
        assert exchange.received_bytes == b"hello"


@asynchronous
async def test_what_belongs_to_one_connection_stays_there() -> None:
    """Hop-by-hop headers, and those that Connection names, are removed in both directions."""
    answer = (
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Mine\r\nKeep-Alive: timeout=5\r\n"
        b"X-Mine: 1\r\n"
        b"Proxy-Authenticate: Basic\r\nContent-Length: 2\r\nX-Kept: 1\r\n\r\nhi"
    )
    async with world(reply_with(answer)) as it:
        got = await it.ask(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Secret\r\n"
            b"Connection: x-other\r\n"
            b"X-Secret: 1\r\nX-Other: 2\r\nTE: trailers\r\nProxy-Authorization: x\r\n"
            b"Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nX-Kept: 1\r\n\r\n"
        )
        assert [name for name, _ in it.upstream.seen[0].headers] == [b"Host", b"X-Kept"]
        assert got.headers == [(b"Content-Length", b"2"), (b"X-Kept", b"1")]


@asynchronous
async def test_connection_cannot_remove_the_framing() -> None:
    """A Connection header that names Content-Length or Host leaves both in place."""
    async with world() as it:
        await it.ask(
            b"POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length, host\r\n"
            b"Content-Length: 3\r\n\r\nabc"
        )
        (seen,) = it.upstream.seen
        assert seen.body == b"abc"
        assert seen.get(b"host") is not None


@asynchronous
async def test_chunks_and_trailers_pass_both_ways() -> None:
    """Chunked bodies stay chunked, whatever their chunks, and trailers arrive."""
    answer = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        b"3;ext=1\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 7\r\nConnection: close\r\n\r\n"
    )
    async with world(reply_with(answer)) as it:
        got = await it.ask(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n"
            b"1\r\na\r\n2\r\nbc\r\n0\r\nX-Check: up\r\nHost: evil\r\n\r\n"
        )
        (seen,) = it.upstream.seen
        assert seen.body == b"abc"
        assert seen.trailers == [(b"X-Check", b"up")]
        assert [name for name, _ in seen.headers] == [b"Host", b"Transfer-Encoding", b"X"]
        assert got.body == b"abcdefg"
        assert got.trailers == [(b"X-Sum", b"7")]


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
@asynchronous
async def test_encodings_are_left_alone(encoding: str) -> None:
    """A body in some encoding passes as the bytes that it is, with its length."""
    body = bytes(range(256)) * 3
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 768\r\n\r\n"
    async with world(reply_with(head.encode() + body)) as it:
        got = await it.ask(GET)
        assert got.body == body
        assert got.get(b"content-encoding") == encoding.encode()
        assert got.get(b"content-length") == b"768"


@asynchronous
async def test_head_and_options() -> None:
    """HEAD has the length of a body that does not come; OPTIONS * works; both on one connection."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nX: y\r\n\r\n"

    async def handler(seen: Seen, _: object, writer: asyncio.StreamWriter) -> bool:
        writer.write(head if seen.method == b"HEAD" else OK)
        return True

    async with world(handler) as it, it.client() as (reader, writer):
        for method, target in ((b"HEAD", b"/"), (b"OPTIONS", b"*"), (b"HEAD", b"/a")):
            writer.write(b"%b %b HTTP/1.1\r\nHost: a\r\n\r\n" % (method, target))
            got = await read_answer(reader, method)
            assert got.get(b"content-length") == (b"5000" if method == b"HEAD" else b"5")
            assert got.body == (b"" if method == b"HEAD" else b"hello")
        assert it.upstream.connections == 1
        assert [seen.target for seen in it.upstream.seen] == [b"/", b"*", b"/a"]


@pytest.mark.parametrize("status", [204, 304])
@asynchronous
async def test_answers_without_a_body(status: int) -> None:
    """204 and 304 end with their head, and both connections go on."""
    async with (
        world(reply_with(b"HTTP/1.1 %d Fine\r\nETag: x\r\n\r\n" % status)) as it,
        it.client() as (reader, writer),
    ):
        for _ in range(2):
            writer.write(GET)
            assert (await read_answer(reader)).status == status
        assert it.upstream.connections == 1


@asynchronous
async def test_a_client_that_expects_100_is_told_to_go_on() -> None:
    """It gets one 100 before it sends its body, and upstream does not see the expectation."""
    async with world() as it, it.client() as (reader, writer):
        writer.write(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert (await read_answer(reader)).body == b"hello"
        (seen,) = it.upstream.seen
        assert seen.body == b"abc"
        assert seen.get(b"expect") is None


@asynchronous
async def test_informational_answers_pass() -> None:
    """A 103 reaches the client before the answer; a 100 of upstream's does not."""
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK
    async with world(reply_with(answer)) as it:
        got = await it.ask(GET)
        assert got.informational == [103]
        assert got.body == b"hello"


@asynchronous
async def test_a_body_that_ends_with_the_connection() -> None:
    """It is chunked for a client of HTTP/1.1, whose connection goes on."""
    answer = reply_with(b"HTTP/1.0 200 OK\r\nX: y\r\n\r\nall of it", keep=False)
    async with world(answer) as it, it.client() as (reader, writer):
        for _ in range(2):
            writer.write(GET)
            got = await read_answer(reader)
            assert got.body == b"all of it"
            assert got.get(b"transfer-encoding") == b"chunked"


@asynchronous
async def test_a_client_of_http_1_0() -> None:
    """It gets a body without chunks, and the end of the connection ends it."""
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with world(reply_with(answer)) as it, it.client() as (reader, writer):
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        got = await reader.read()
        assert got == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"
        assert it.upstream.seen[0].get(b"host") is not None


@asynchronous
async def test_connections_are_used_again() -> None:
    """Many requests of one client, and of several in turn, need one connection to upstream."""
    async with world() as it:
        for _ in range(3):
            async with it.client() as (reader, writer):
                for _ in range(5):
                    writer.write(GET)
                    assert (await read_answer(reader)).body == b"hello"
        assert it.upstream.connections == 1
        assert len(it.upstream.seen) == 15


@asynchronous
async def test_pipelined_requests_are_answered_in_order() -> None:
    """Thousands in one write, bodies among them, are answered one by one in their order."""

    async def handler(seen: Seen, _: object, writer: asyncio.StreamWriter) -> bool:
        body = seen.target + b" " + seen.body
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return True

    many = 3000
    async with world(handler) as it, it.client() as (reader, writer):
        for number in range(many):
            text = b"%d" % number
            writer.write(
                b"POST /%b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"
                % (text, len(text), text)
            )
        for number in range(many):
            assert (await read_answer(reader)).body == b"/%d %d" % (number, number)


@asynchronous
async def test_close_is_obeyed() -> None:
    """After Connection: close the answer says so too, and the connection ends cleanly."""
    async with world() as it, it.client() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        got = await read_answer(reader)
        assert got.get(b"connection") == b"close"
        assert await reader.read() == b""


@asynchronous
async def test_an_answer_that_comes_before_the_request_has_ended() -> None:
    """A refusal of a long upload reaches the client, who may go on sending for a while."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with world() as it, it.client() as (reader, writer):
        origin = it.policy.origin
        it.policy.origin = origin._replace(port=server.sockets[0].getsockname()[1])
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbegin")
        got = await read_answer(reader)
        assert (got.status, got.body) == (413, b"big")
        assert got.get(b"connection") == b"close"
        writer.write(b"x" * 1000)
        assert await reader.read() == b""
        assert await it.policy.exchanges[0].end() is End.COMPLETE
    server.close()


@asynchronous
async def test_a_refusal_of_an_upload_that_nobody_reads() -> None:
    """Upstream answers after the head and is gone: its answer counts, not that sending failed."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        writer.close()  # with much unread, so that the kernel says so with a reset

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with world() as it:
        it.policy.origin = it.policy.origin._replace(port=server.sockets[0].getsockname()[1])
        for _ in range(20):
            async with it.client() as (reader, writer):
                head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n"
                writer.write(head + b"x" * 3_000_000)
                got = await read_answer(reader)
                assert (got.status, got.body) == (413, b"big")
    server.close()
