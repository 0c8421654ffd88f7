"""The processes around a proxy that is measured: an instant upstream, the load, and the proxies.

    proxy_parts.py upstream                    answers each request with a stream of 20 events
    proxy_parts.py aiohttp UPSTREAM            aiohttp's server and client, with nothing in the way
    proxy_parts.py bare UPSTREAM               the engine, with a policy that passes everything
    proxy_parts.py wire UPSTREAM               the policy of the meter `wire`
    proxy_parts.py requests UPSTREAM           a seat for each request, in a durable store
    proxy_parts.py load PORT CONNECTIONS N     N requests; prints what was seen as JSON

All but the last print their port and run until they are ended. Load and upstream are protocols
on httptools as the engine is, so that they are not what is measured.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import httptools

if TYPE_CHECKING:
    from headgate.proxy import ProxyServer

HOST = "127.0.0.1"
EVENT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"text":"%d"}\n\n'
)
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
EVENTS = [*(EVENT % number for number in range(19)), STOP]
STREAM = b"".join(
    (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n",
        b"Request-Id: req_011CSHoEeqs5C35K2UUqR7Fy\r\nX-Ratelimit-Remaining: 999\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        *(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS),
        b"0\r\n\r\n",
    )
)
LENGTH = sum(map(len, EVENTS))
BODY = json.dumps(
    {
        "model": "claude-opus-4-6",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": "x" * 800}],
    }
).encode()
REQUEST = b"".join(
    (
        b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n",
        b"Content-Type: application/json\r\nUser-Agent: bench\r\nX-Api-Key: none\r\n",
        b"Anthropic-Version: 2023-06-01\r\nAccept-Encoding: gzip, br\r\n",
        b"Content-Length: %d\r\n\r\n" % len(BODY),
        BODY,
    )
)


class Instant(asyncio.Protocol):
    """Upstream: the whole stream at once, as soon as a request is whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Read."""
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Answer."""
        self.transport.write(STREAM)


class Load(asyncio.Protocol):
    """One connection that asks again as soon as it has its answer."""

    def __init__(self, left: list[int], took: list[float], done: "asyncio.Future[None]") -> None:
        self.left, self.took, self.done = left, took, done
        self.length = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        self.parser = httptools.HttpResponseParser(self)

    def ask(self) -> None:
        """Send the next request, if there is one left."""
        if not self.left[0]:
            self.transport.close()
            return
        self.left[0] -= 1
        self.length = 0
        self.since = time.perf_counter()
        self.transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Read."""
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """Count."""
        self.length += len(data)

    def on_message_complete(self) -> None:
        """See that it was whole, and go on."""
        if self.length != LENGTH or self.parser.get_status_code() != 200:
            self.done.set_exception(AssertionError("an answer was not what upstream sent"))
            return
        self.took.append(time.perf_counter() - self.since)
        self.parser = httptools.HttpResponseParser(self)
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """See that it was we who closed."""
        if not self.done.done() and (exc is not None or self.left[0]):
            self.done.set_exception(exc or ConnectionError("closed early"))


async def load(port: int, connections: int, count: int) -> None:
    """Send so many requests over so many connections, and print how it went."""
    loop = asyncio.get_running_loop()
    left, took = [count], list[float]()
    done = loop.create_future()
    all_of_them = [
        (await loop.create_connection(lambda: Load(left, took, done), HOST, port))[1]
        for _ in range(connections)
    ]
    start = time.perf_counter()
    for one in all_of_them:
        one.ask()
    while len(took) < count and not done.done():  # noqa: ASYNC110 - an event would cost each time
        await asyncio.sleep(0.002)
    if done.done():
        await done
    spent = time.perf_counter() - start
    took.sort()
    p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    print(json.dumps({"rate": count / spent, "p50": p50, "p99": p99}))


async def upstream() -> None:
    """Answer until ended."""
    server = await asyncio.get_running_loop().create_server(Instant, HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def aiohttp_proxy(port: int) -> None:
    """Forward until ended, as a proxy of the usual parts does it."""
    from aiohttp import ClientSession, TCPConnector, web

    hops = {"host", "connection", "transfer-encoding", "content-length"}

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {n: v for n, v in request.headers.items() if n.lower() not in hops}
        url = f"http://{HOST}:{port}{request.raw_path}"
        async with session.request(
            request.method, url, headers=headers, data=await request.read()
        ) as answer:
            kept = {n: v for n, v in answer.headers.items() if n.lower() not in hops}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    async with ClientSession(connector=TCPConnector(limit=0), auto_decompress=False) as session:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0, backlog=1024)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()


async def bare(port: int) -> None:
    """Forward until ended, with nothing in the way."""
    from headgate.proxy import (
        Client,
        Origin,
        PassingExchange,
        Peer,
        ProxyServer,
        RequestHead,
        Route,
    )

    route = Route(Origin("http", HOST, port))

    class Pass(PassingExchange):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Route:
            return route

    class Policy:
        def exchange(self, head: RequestHead, peer: Peer, client: Client) -> Pass:
            return Pass()

        def error(self, error: BaseException) -> None:
            raise error

    await _serve(ProxyServer(Policy()))


async def governed(meter: str, port: int) -> None:
    """Forward until ended, as the wire of an agent does; whoever asks is taken for the agent."""
    from headgate.gate import Gate
    from headgate.proxy import Peer, ProxyServer
    from headgate.wire.order import WireOrder
    from headgate.wire.policy import WirePolicy

    class Open(WirePolicy):
        def _is_ours(self, peer: Peer) -> bool:
            return True

    with Gate.open() as gate:
        gate.set_limit("*/claude-opus-*", 1_000)
        lease = await gate.slot(task="bench").acquire_async()
        order = WireOrder(
            store=gate.url,
            config="",
            view="",
            lease=lease.id,
            mark="",
            key="anthropic/claude-opus-4-6",
            task="bench",
            meter=meter,
            port=0,
            upstreams={"v1": f"http://{HOST}:{port}/v1"},
        )
        await _serve(ProxyServer(Open(order, gate, _written)))


def _written(news: Mapping[str, Any]) -> None:
    """What the runner is told is written for it, and goes nowhere."""
    json.dumps(news)


async def _serve(server: "ProxyServer") -> None:
    listening = socket.create_server((HOST, 0), backlog=1024)
    await server.start(listening)
    print(listening.getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    part, *numbers = sys.argv[1:]
    parts: dict[str, Callable[..., Coroutine[Any, Any, None]]]
    parts = {
        "load": load,
        "upstream": upstream,
        "aiohttp": aiohttp_proxy,
        "bare": bare,
        "wire": partial(governed, "wire"),
        "requests": partial(governed, "requests"),
    }
    asyncio.run(parts[part](*map(int, numbers)))
