"""What could be read in two ways is refused, and nothing of it reaches upstream."""

import asyncio
import random

import pytest

from headgate.proxy import Decision, Reply, Route
from tests.proxy.harness import Recorded, asynchronous, read_answer, world

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"


class NoTunnels(Recorded):
    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        if self.head.method == b"CONNECT":
            return Reply(403)
        return Route(self.policy.origin)


SMUGGLED = b"\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
HOSTILE = {
    "length and chunks": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" + SMUGGLED,
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n" + SMUGGLED,
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 44\r\n" + SMUGGLED,
    "one length twice": HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n" + SMUGGLED,
    "a list of lengths": HEAD + b"Content-Length: 4, 4\r\n" + SMUGGLED,
    "a length with a sign": HEAD + b"Content-Length: +4\r\n" + SMUGGLED,
    "a negative length": HEAD + b"Content-Length: -4\r\n" + SMUGGLED,
    "a length in hex": HEAD + b"Content-Length: 0x4\r\n" + SMUGGLED,
    "a length beyond all numbers": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "an empty length": HEAD + b"Content-Length:\r\n" + SMUGGLED,
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n" + SMUGGLED,
    "chunked, then another": HEAD + b"Transfer-Encoding: chunked, identity\r\n" + SMUGGLED,
    "gzip, then chunked": HEAD + b"Transfer-Encoding: gzip, chunked\r\n" + SMUGGLED,
    "chunked twice": HEAD
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
    + SMUGGLED,
    "identity": HEAD + b"Transfer-Encoding: identity\r\nContent-Length: 4\r\n" + SMUGGLED,
    "a coding after a vertical tab": HEAD + b"Transfer-Encoding:\x0bchunked\r\n" + SMUGGLED,
    "a quoted coding": HEAD + b'Transfer-Encoding: "chunked"\r\n' + SMUGGLED,
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" + SMUGGLED,
    "a blank before the colon": HEAD + b"Content-Length : 4\r\n" + SMUGGLED,
    "a blank before a name": HEAD + b" Content-Length: 4\r\n" + SMUGGLED,
    "a folded header": HEAD + b"X: a\r\n Content-Length: 4\r\n" + SMUGGLED,
    "a name with a NUL": HEAD + b"X\0Y: a\r\n\r\n",
    "a value with a NUL": HEAD + b"X: a\0b\r\n\r\n",
    "a value with a bare CR": HEAD + b"X: a\rContent-Length: 4\r\n" + SMUGGLED,
    "a line that ends in LF only": HEAD + b"X: a\nContent-Length: 4\r\n" + SMUGGLED,
    "LF everywhere": b"GET / HTTP/1.1\nHost: a\n\n",
    "no name": HEAD + b": a\r\n\r\n",
    "no colon": HEAD + b"Content-Length 4\r\n" + SMUGGLED,
    "a name in UTF-8": HEAD + "X-Ä: a\r\n\r\n".encode(),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "an unknown method": b"GRAB / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target with a blank": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target in UTF-8": "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "a target with a fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target that is no path": b"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "a star for GET": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT to a path": b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT without a port": b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT to no port": b"CONNECT a:70000 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT with a body": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n" + SMUGGLED,
    "an upgrade with a body": HEAD
    + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n"
    + SMUGGLED,
    "no version": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0 in a request": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "another expectation": HEAD + b"Expect: a-miracle\r\nContent-Length: 4\r\n" + SMUGGLED,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),
    "a head without end": HEAD + b"X: " + b"a" * 200_000,
    "headers without end": HEAD + b"X: a\r\n" * 40_000,
    "a target without end": b"GET /" + b"a" * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@asynchronous
async def test_hostile_requests_are_refused(name: str) -> None:
    """Whole or byte by byte: a 4xx or 505, the connection ends, and upstream saw nothing."""
    async with world() as it:
        for step in (len(HOSTILE[name]), 1 if len(HOSTILE[name]) < 1000 else 5000):
            async with it.client() as (reader, writer):
                for at in range(0, len(HOSTILE[name]), step):
                    writer.write(HOSTILE[name][at : at + step])
                    await asyncio.sleep(0)
                got = await read_answer(reader)
                assert got.status in {400, 417, 431, 505}
                assert got.get(b"connection") == b"close"
                assert got.body.startswith(b"headgate: ")
                assert await reader.read() == b""
        assert it.upstream.seen == []
        assert it.policy.errors == []


@pytest.mark.parametrize(
    "body", [b"3\nabc\r\n0\r\n\r\n", b"3\r\nabcX0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b"-1\r\n"]
)
@asynchronous
async def test_bad_chunks_break_the_request_off(body: bytes) -> None:
    """A request whose body is no valid chunks never reaches upstream as a whole one."""
    async with world() as it, it.client() as (reader, writer):
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        assert (await read_answer(reader)).status == 400
        assert await reader.read() == b""
        assert it.upstream.seen == []
        assert it.policy.errors == []


@asynchronous
async def test_what_follows_a_good_request_cannot_harm_it() -> None:
    """A good request is answered, the bad one after it is refused, and the connection ends."""
    async with world() as it, it.client() as (reader, writer):
        writer.write(b"GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad\x00 HTTP/1.1\r\n\r\n")
        assert (await read_answer(reader)).body == b"hello"
        assert (await read_answer(reader)).status == 400
        assert await reader.read() == b""
        assert [seen.target for seen in it.upstream.seen] == [b"/good"]


@pytest.mark.parametrize("seed", range(8))
@asynchronous
async def test_fuzzed_heads_harm_nobody(seed: int) -> None:
    """Mutated requests are refused, or passed on as h11 understands them; a neighbour is served."""
    rnd = random.Random(seed)  # noqa: S311 - it has to be repeatable
    seeds = [*HOSTILE.values(), HEAD + b"Content-Length: 3\r\nX: y\r\n\r\nabc"]

    async def attack(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_mutated(rnd, rnd.choice(seeds)[:2000]))
        writer.write_eof()
        try:
            async with asyncio.timeout(10):
                await reader.read()
        except ConnectionError:
            pass
        writer.close()

    async with world(kind=NoTunnels) as it, it.client() as (reader, writer):
        for _ in range(40):
            await asyncio.gather(*(attack(it.port) for _ in range(5)))
            writer.write(b"GET /neighbour HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await read_answer(reader)).body == b"hello"
        assert it.policy.errors == []
        assert it.upstream.bad == []


def _mutated(rnd: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rnd.randint(1, 6)):
        at = rnd.randrange(len(out))
        match rnd.randrange(4):
            case 0:
                out[at] = rnd.randrange(256)
            case 1:
                out[at:at] = rnd.choice([b"\r", b"\n", b"\0", b" ", b":", b"\r\n", b"\t", b"0"])
            case 2:
                del out[at : at + rnd.randint(1, 10)]
            case _:
                out[at:at] = out[at : at + rnd.randint(1, 30)]
        if not out:
            return b"x"
    return bytes(out)
