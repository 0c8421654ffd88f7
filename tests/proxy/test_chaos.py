"""Bytes are exact whatever the network does, against a recorded truth.

Each round plays many clients at once. What a client sends, what upstream sends back and where it
is cut is drawn from a seed. Afterwards both sides are compared with that script.
"""

import asyncio
import random
from contextlib import suppress

import h11
import pytest

from headgate.core.named_tuple import NamedTuple
from headgate.proxy import End
from headgate.proxy.sockets import reset
from tests.proxy.certificates import client_context, server_context
from tests.proxy.harness import Answer, Recorded, Seen, World, asynchronous, read_answer, world

CLIENTS = 12
REQUESTS = 6
SIZES = (0, 1, 2, 100, 5_000, 65_535, 65_536, 65_537, 300_000, 2_000_000)
SERVED, CLOSED, RESET, LEAVES = "served", "closed", "reset", "leaves"


class Script(NamedTuple):
    """One request and what becomes of it."""

    upload: bytes
    download: bytes
    chunked_up: bool
    framing: str
    fate: str
    cut_at: int
    wanted: int
    seed: int


class Drawn(Recorded):
    """Wants as much of each body as its script says."""

    @property
    def body_wanted(self) -> int:  # type: ignore[override]
        return int(self.head.get(b"x-wanted") or 0)


def _draw(rnd: random.Random) -> Script:
    download = rnd.randbytes(rnd.choice(SIZES))
    fate = rnd.choice([SERVED] * 5 + [CLOSED, RESET, LEAVES])
    return Script(
        upload=rnd.randbytes(rnd.choice(SIZES)),
        download=download,
        chunked_up=rnd.random() < 0.5,
        framing=rnd.choice(["length", "chunked", "chunked", "until close"]),
        fate=fate if download else SERVED,
        cut_at=rnd.randrange(len(download)) if download else 0,
        wanted=rnd.choice([0, 10, 70_000, 10_000_000]),
        seed=rnd.randrange(1 << 30),
    )


async def _write(writer: asyncio.StreamWriter, data: bytes, rnd: random.Random) -> None:
    """Write in pieces of any size, with pauses."""
    at = 0
    while at < len(data):
        size = rnd.choice([1, 3, 1000, 40_000, 1 << 20])
        size = max(size, len(data) // 200)
        writer.write(data[at : at + size])
        at += size
        if rnd.random() < 0.3:
            await writer.drain()
        if rnd.random() < 0.05:
            await asyncio.sleep(rnd.random() * 0.005)
    await writer.drain()


def _chunked(data: bytes, rnd: random.Random) -> bytes:
    out = []
    at = 0
    while at < len(data):
        size = max(rnd.choice([1, 10, 5_000, 1 << 20]), len(data) // 300)
        piece = data[at : at + size]
        out.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        at += size
    return b"".join(out)


class Play:
    """What is played in one round: scripts by the name that a request carries."""

    def __init__(self) -> None:
        self.scripts: dict[bytes, Script] = {}

    async def answer(
        self, seen: Seen, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        script = self.scripts[seen.target]
        rnd = random.Random(script.seed)  # noqa: S311 - it has to be repeatable
        assert seen.body == script.upload
        cut = script.fate in {CLOSED, RESET}
        body = script.download[: script.cut_at] if cut else script.download
        head = b"HTTP/1.1 200 OK\r\nX-Name: %b\r\n" % seen.target
        if script.framing == "length":
            wire = head + b"Content-Length: %d\r\n\r\n" % len(script.download) + body
        elif script.framing == "chunked":
            wire = head + b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(body, rnd)
            wire += b"" if cut else b"0\r\n\r\n"
        else:
            wire = head + b"\r\n" + body
        with suppress(ConnectionError):
            await _write(writer, wire, rnd)
        if script.fate == RESET or (cut and script.framing == "until close"):
            assert isinstance(writer.transport, asyncio.Transport)
            reset(writer.transport)
        return script.framing != "until close" and not cut

    async def client(self, it: World, number: int, rnd: random.Random) -> None:
        connection = await asyncio.open_connection("127.0.0.1", it.port)
        for count in range(REQUESTS):
            name = b"/%d/%d" % (number, count)
            script = self.scripts[name] = _draw(rnd)
            reader, writer = connection
            try:
                got = await self._ask(reader, writer, name, script)
            except (ConnectionError, h11.RemoteProtocolError):
                assert script.fate in {CLOSED, RESET}
                got = None
            if got is not None and got.status == 502:
                assert script.fate == RESET, got.body  # which may overtake the head of the answer
            elif got is not None:
                assert script.fate == SERVED
                assert got.body == script.download
                assert (b"X-Name", name) in got.headers
            else:
                writer.transport.abort()
                connection = await asyncio.open_connection("127.0.0.1", it.port)
        connection[1].close()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        name: bytes,
        script: Script,
    ) -> Answer | None:
        rnd = random.Random(script.seed + 1)  # noqa: S311 - the same
        head = b"POST %b HTTP/1.1\r\nHost: a\r\nX-Wanted: %d\r\n" % (name, script.wanted)
        if script.chunked_up:
            body = _chunked(script.upload, rnd) + b"0\r\n\r\n"
            wire = head + b"Transfer-Encoding: chunked\r\n\r\n" + body
        else:
            wire = head + b"Content-Length: %d\r\n\r\n" % len(script.upload) + script.upload
        if script.fate == LEAVES:
            await _write(writer, wire[: rnd.randrange(len(wire))], rnd)
            return None
        await _write(writer, wire, rnd)
        return await read_answer(reader)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("seed", range(4))
@asynchronous
async def test_bytes_are_exact_under_chaos(seed: int, *, tls: bool) -> None:
    """Whole answers are whole to the byte, cut ones never look whole, and each ends once."""
    rnd = random.Random(seed)  # noqa: S311 - the same
    play = Play()
    context, trust = (server_context(), client_context()) if tls else (None, None)
    async with world(play.answer, Drawn, tls=context, trust=trust) as it:
        seeds = [random.Random(rnd.random()) for _ in range(CLIENTS)]  # noqa: S311 - the same
        await asyncio.gather(*(play.client(it, n, one) for n, one in enumerate(seeds)))
        ends = [await one.end() for one in it.policy.exchanges]
        assert it.policy.errors == []
        assert len(ends) >= CLIENTS * REQUESTS // 2
        allowed = {
            SERVED: {End.COMPLETE},
            CLOSED: {End.TRUNCATED},
            RESET: {End.TRUNCATED, End.UPSTREAM_FAILED},
            LEAVES: {End.CLIENT_GONE},
        }
        for exchange, end in zip(it.policy.exchanges, ends, strict=True):
            assert end in allowed[play.scripts[exchange.head.target].fate]
