"""Read or counted, an answer passes to the byte, and one that is cut never looks whole."""

import asyncio
import gzip
import json
import random
from collections.abc import Callable, Mapping

import brotli  # type: ignore[import-untyped]
import h11
import pytest
import zstandard

from headgate.core.named_tuple import NamedTuple
from headgate.core.wire.apis import Api
from headgate.proxy.sockets import reset
from tests.core.wire.streams import ALL, Recorded
from tests.proxy.harness import Seen, asynchronous, read_answer
from tests.support import Box
from tests.wire.governed import governed

CLIENTS, REQUESTS = 6, 5
PATHS = {
    Api.MESSAGES: "/up/v1/messages?beta=true",
    Api.CHAT: "/up/v1/chat/completions",
    Api.RESPONSES: "/up/v1/responses",
    Api.GEMINI: "/up/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
}
STREAMS = [one for one in ALL if one.api in PATHS]
ENCODINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "br": lambda body: bytes(brotli.compress(body, quality=1)),
    "zstd": zstandard.ZstdCompressor().compress,
}
HUGE = (0, 10, 70_000, 1_100_000, 3_000_000)
SERVED, STOPPED, CLOSED, RESET = "served", "stopped", "closed", "reset"
"""What becomes of an answer. One that is stopped ends cleanly, without its last event."""


class Script(NamedTuple):
    """An answer."""

    recorded: Recorded
    fate: str
    encoding: str
    body: bytes
    cut_at: int
    seed: int


def drawn(rnd: random.Random) -> Script:
    recorded = rnd.choice(STREAMS)
    fate = rnd.choice([SERVED] * 4 + [STOPPED, CLOSED, RESET])
    encoding = rnd.choice(list(ENCODINGS))
    filler = json.dumps(
        {"type": "nothing", "odd": '"message_stop" [DONE]' + "x" * rnd.choice(HUGE)}
    )
    events = [*recorded.events]
    if fate == STOPPED:
        events = events[:1]
    events.insert(rnd.randrange(len(events)), f"data: {filler}")
    plain = "".join(f"{event}\n\n" for event in events).encode()
    body = ENCODINGS[encoding](plain)
    return Script(recorded, fate, encoding, body, rnd.randrange(len(body)), rnd.randrange(1 << 30))


class Play:
    """Answers as they are drawn, each once."""

    def __init__(self) -> None:
        self.scripts: dict[bytes, Script] = {}

    async def answer(
        self, seen: Seen, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        script = self.scripts[seen.get(b"x-name") or b""]
        rnd = random.Random(script.seed)  # noqa: S311 - it has to be repeatable
        cut = script.fate in {CLOSED, RESET}
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        if script.encoding:
            head += b"Content-Encoding: %b\r\n" % script.encoding.encode()
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        body = script.body[: script.cut_at] if cut else script.body
        at = 0
        while at < len(body):
            size = max(rnd.choice([1, 7, 300, 5_000, 1 << 18]), len(body) // 200)
            piece = body[at : at + size]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            at += size
            if rnd.random() < 0.3:
                await writer.drain()
                await asyncio.sleep(0)
        if script.fate == RESET:
            assert isinstance(writer.transport, asyncio.Transport)
            await writer.drain()
            reset(writer.transport)
        elif not cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return not cut

    async def client(self, port: int, number: int, rnd: random.Random) -> None:
        for count in range(REQUESTS):
            name = b"%d-%d" % (number, count)
            script = self.scripts[name] = drawn(rnd)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            asks = json.dumps({"messages": [], "model": "some-model", "stream": True}).encode()
            head = f"POST {PATHS[script.recorded.api]} HTTP/1.1\r\nHost: a\r\n".encode()
            head += b"X-Name: %b\r\nContent-Length: %d\r\n\r\n" % (name, len(asks))
            writer.write(head + asks)
            try:
                got = await read_answer(reader)
            except (ConnectionError, h11.RemoteProtocolError):
                assert script.fate != SERVED, script._replace(body=b"")
            else:
                assert (script.fate, got.status) in {(SERVED, 200), (RESET, 502), (CLOSED, 502)}
                assert script.fate != SERVED or got.body == script.body
            finally:
                writer.transport.abort()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("meter", ["wire", "requests"])
def test_bytes_are_exact_under_chaos(box: Box, meter: str, seed: int) -> None:
    """Every API, huge events, four encodings, cut anywhere; both meters."""

    @asynchronous
    async def played() -> None:
        rnd = random.Random(seed)  # noqa: S311 - the same
        play = Play()
        async with governed(box, play.answer, meter) as (port, _):
            seeds = [random.Random(rnd.random()) for _ in range(CLIENTS)]  # noqa: S311 - the same
            await asyncio.gather(*(play.client(port, n, one) for n, one in enumerate(seeds)))
        assert len(play.scripts) == CLIENTS * REQUESTS

    played()
