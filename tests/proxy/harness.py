"""A real proxy between a client and an upstream that tests script, all on loopback."""

import asyncio
import functools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import h11

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.proxy import (
    Client,
    Decision,
    End,
    Failure,
    Origin,
    PassingExchange,
    Peer,
    ProxyServer,
    RequestHead,
    ResponseHead,
    Route,
    Timeouts,
    Verdict,
)
from headgate.proxy.policy import Remedy

HOST = "127.0.0.1"
LONG = 20.0
"""Seconds that nothing here ever takes, unless something hangs."""


def asynchronous(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Run a test in an event loop, and fail it if it hangs or leaves an error unseen."""

    @functools.wraps(test)
    def run(*args: object, **named: object) -> None:
        unseen: list[dict[str, Any]] = []

        def note(_: asyncio.AbstractEventLoop, said: dict[str, Any]) -> None:
            broken_off = "for incoming connection" in said["message"]
            if not (broken_off and isinstance(said.get("exception"), ConnectionError)):
                unseen.append(said)  # the other is TLS of upstream's that the proxy broke off

        async def bounded() -> None:
            asyncio.get_running_loop().set_exception_handler(note)
            async with asyncio.timeout(LONG * 2):
                await test(*args, **named)

        asyncio.run(bounded())
        assert not unseen, unseen

    return run


class Seen(NamedTuple):
    """A request as upstream got it."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    trailers: list[tuple[bytes, bytes]]

    def get(self, name: bytes) -> bytes | None:
        return next((value for known, value in self.headers if known.lower() == name), None)


Handler = Callable[[Seen, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request. Returns whether the connection stays open."""


class Upstream:
    """Reads requests with h11, which is not what the proxy reads with, and answers by a script."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.tls = tls
        self.seen: list[Seen] = []
        self.bad: list[BaseException] = []
        """Requests that h11 does not understand."""
        self.connections = 0
        self.gone = asyncio.Event()
        """A connection has ended."""
        self.origin = Origin("http", HOST, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0, ssl=self.tls)
        port = self._server.sockets[0].getsockname()[1]
        scheme, host = ("https", "localhost") if self.tls else ("http", HOST)
        self.origin = Origin(scheme, host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._requests(reader, writer)
        except h11.RemoteProtocolError as error:
            if "closed connection without" not in str(error):  # what a client left unfinished
                self.bad.append(error)
        finally:
            self.gone.set()
            with suppress(Exception, asyncio.CancelledError):  # 3.11 would report the latter
                writer.close()
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            parser = h11.Connection(h11.SERVER)
            seen = await _read_request(parser, reader)
            if seen is None:
                return
            self.seen.append(seen)
            if not await self.handler(seen, reader, writer):
                return


async def _read_request(parser: h11.Connection, reader: asyncio.StreamReader) -> Seen | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(65_536)
            if not data and head is None:
                return None
            parser.receive_data(data)
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            trailers = list(event.headers.raw_items())
            headers = list(head.headers.raw_items())
            return Seen(
                method=head.method,
                target=head.target,
                headers=headers,
                body=bytes(body),
                trailers=trailers,
            )
        else:
            return None


def reply_with(data: bytes, *, keep: bool = True) -> Handler:
    """Answer every request with the same bytes."""

    async def handler(_: Seen, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(data)
        await writer.drain()
        return keep

    return handler


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
ok = reply_with(OK)


class Recorded(PassingExchange):
    """An exchange that remembers what it was told. Tests override what they are about."""

    body_wanted = 0

    def __init__(
        self, policy: "RecordingPolicy", head: RequestHead, peer: Peer, client: Client
    ) -> None:
        self.policy = policy
        self.head = head
        self.peer = peer
        self.client = client
        self.sent_bytes = bytearray()
        self.received_bytes = bytearray()
        self.ends: list[tuple[End, str]] = []
        self.over = asyncio.Event()

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision | Awaitable[Decision]:
        return Route(self.policy.origin)

    def answered(
        self, head: ResponseHead, body: bytes, *, complete: bool
    ) -> Verdict | Awaitable[Verdict]:
        return super().answered(head, body, complete=complete)

    def failed(self, failure: Failure) -> Remedy | Awaitable[Remedy]:
        return None

    def sent(self, data: bytes) -> None:
        self.sent_bytes += data

    def received(self, data: bytes) -> None:
        self.received_bytes += data

    def ended(self, how: End, words: str) -> None:
        self.ends.append((how, words))
        self.over.set()

    async def end(self) -> End:
        """How it ended, once it has; and it ends once."""
        async with asyncio.timeout(LONG):
            await self.over.wait()
        await asyncio.sleep(0)
        assert len(self.ends) == 1
        return self.ends[0][0]


class RecordingPolicy:
    """Makes an exchange of one kind for each request."""

    def __init__(self, kind: type[Recorded] = Recorded) -> None:
        self.kind = kind
        self.origin = Origin("http", HOST, 1)
        self.exchanges: list[Recorded] = []
        self.errors: list[BaseException] = []
        self.made = asyncio.Event()

    def exchange(self, head: RequestHead, peer: Peer, client: Client) -> Recorded:
        made = self.kind(self, head, peer, client)
        self.exchanges.append(made)
        self.made.set()
        return made

    def error(self, error: BaseException) -> None:
        self.errors.append(error)


class World(NamedTuple):
    """What a test plays with."""

    upstream: Upstream
    policy: RecordingPolicy
    proxy: ProxyServer
    port: int

    @asynccontextmanager
    async def client(
        self, limit: int = 65_536
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to the proxy."""
        reader, writer = await asyncio.open_connection(HOST, self.port, limit=limit)
        try:
            yield reader, writer
        finally:
            with suppress(Exception):
                writer.close()
                await writer.wait_closed()

    async def ask(self, request: bytes) -> "Answer":
        """Send bytes on a connection of their own and read one answer."""
        async with self.client() as (reader, writer):
            writer.write(request)
            method = request.split(b" ", 1)[0]
            return await read_answer(reader, method)


@asynccontextmanager
async def world(
    handler: Handler = ok,
    kind: type[Recorded] = Recorded,
    *,
    tls: ssl.SSLContext | None = None,
    trust: ssl.SSLContext | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
) -> AsyncIterator[World]:
    """Upstream and proxy, running; both are gone afterwards."""
    policy = RecordingPolicy(kind)
    async with Upstream(handler, tls) as upstream:
        policy.origin = upstream.origin
        proxy = ProxyServer(policy, tls=trust, timeouts=timeouts)
        listening = socket.create_server((HOST, 0))
        port = listening.getsockname()[1]
        await proxy.start(listening)
        try:
            yield World(upstream, policy, proxy, port)
        finally:
            await proxy.drain(Seconds(0))
    assert upstream.bad == []


class Answer(NamedTuple):
    """An answer as the client got it."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    trailers: list[tuple[bytes, bytes]]
    informational: list[int]

    def get(self, name: bytes) -> bytes | None:
        return next((value for known, value in self.headers if known.lower() == name), None)


async def read_answer(reader: asyncio.StreamReader, method: bytes = b"GET") -> Answer:
    """Read one answer with h11. Raises what the connection raises, `h11` errors too."""
    parser = h11.Connection(h11.CLIENT)
    asked = h11.Request(method=method, target="/", headers=[("Host", "x")])
    parser.send(asked)
    parser.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body: list[bytes] = []
    informational = []
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            parser.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.InformationalResponse):
            informational.append(event.status_code)
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body.append(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            rest, _ = parser.trailing_data
            reader._buffer[:0] = rest  # type: ignore[attr-defined]
            return Answer(
                status=head.status_code,
                reason=head.reason,
                headers=list(head.headers.raw_items()),
                body=b"".join(body),
                trailers=list(event.headers.raw_items()),
                informational=informational,
            )
        else:
            raise AssertionError(f"h11 says {event!r}")
