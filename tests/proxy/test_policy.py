"""What a policy can see and say, and what becomes of the request then."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import h11
import pytest

from headgate.proxy import (
    PASS_ON,
    TRY_AGAIN,
    Client,
    Decision,
    End,
    Failure,
    Peer,
    Reply,
    RequestHead,
    ResponseHead,
    Route,
    Verdict,
)
from headgate.proxy.policy import Remedy
from tests.proxy.harness import (
    OK,
    Recorded,
    RecordingPolicy,
    Seen,
    asynchronous,
    ok,
    read_answer,
    reply_with,
    world,
)

GET = b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
SSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"8\r\ndata: 1\n\r\n0\r\n\r\n"
)
BUSY = b"HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nbusy"
EARLY = ((b"Content-Type", b"text/event-stream"),)


class Waiting(Recorded):
    """Waits in `begin` until it is let go."""

    def __init__(
        self, policy: RecordingPolicy, head: RequestHead, peer: Peer, client: Client
    ) -> None:
        super().__init__(policy, head, peer, client)
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.cancelled = False

    async def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Route(self.policy.origin)


async def waiting_one(policy: RecordingPolicy) -> Waiting:
    await policy.made.wait()
    exchange = policy.exchanges[-1]
    assert isinstance(exchange, Waiting)
    await exchange.begun.wait()
    return exchange


@pytest.mark.parametrize(
    "wanted, sees, complete", [(0, 0, False), (4, 4, False), (10, 10, True), (99, 10, True)]
)
@asynchronous
async def test_a_policy_sees_as_much_of_the_body_as_it_wants(
    wanted: int, sees: int, *, complete: bool
) -> None:
    """None, a beginning, or all of it; upstream gets the whole in any case."""
    begun = asyncio.Event()
    saw: list[tuple[bytes, bool]] = []

    class Looking(Recorded):
        body_wanted = wanted

        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            saw.append((bytes(body), complete))
            begun.set()
            return Route(self.policy.origin)

    async with world(kind=Looking) as it, it.client() as (reader, writer):
        writer.write(POST % 10)
        for letter in b"0123456789":
            await asyncio.sleep(0.002)
            if wanted and len(saw) == 0 and letter - 48 < sees:
                assert not begun.is_set()
            writer.write(bytes([letter]))
        assert (await read_answer(reader)).body == b"hello"
        assert it.upstream.seen[0].body == b"0123456789"
        ((seen, whole),) = saw
        assert whole is complete
        assert seen == b"0123456789"[: len(seen)]
        assert len(seen) >= sees
        (exchange,) = it.policy.exchanges
        assert seen + exchange.sent_bytes == b"0123456789"


@asynchronous
async def test_a_route_rewrites_target_and_headers() -> None:
    """Headers are changed where they stand, added at the end, or removed; doubles go."""

    class Rewriting(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            changes = ((b"x-key", b"new"), (b"x-gone", None), (b"x-more", b"1"), (b"host", b"h"))
            return Route(self.policy.origin, b"/other?x", changes)

    async with world(kind=Rewriting) as it:
        await it.ask(
            b"GET /t HTTP/1.1\r\nX-Key: 1\r\nHost: a\r\nX-Gone: 1\r\nx-KEY: 2\r\nA: b\r\n\r\n"
        )
        (seen,) = it.upstream.seen
        assert seen.target == b"/other?x"
        assert seen.headers == [
            *((b"X-Key", b"new"), (b"Host", b"h"), (b"A", b"b"), (b"x-more", b"1")),
        ]


@asynchronous
async def test_a_reply_of_the_policys_own() -> None:
    """It reaches the client with its length, upstream hears nothing, and the connection goes on."""

    class Refusing(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            return Reply(429, ((b"Retry-After", b"7"),), b"later")

    async with world(kind=Refusing) as it, it.client() as (reader, writer):
        for method in (b"GET", b"HEAD", b"GET"):
            writer.write(GET.replace(b"GET", method))
            got = await read_answer(reader, method)
            assert (got.status, got.get(b"retry-after")) == (429, b"7")
            assert got.get(b"content-length") == b"5"
            assert got.body == (b"" if method == b"HEAD" else b"later")
        assert it.upstream.connections == 0
        assert [await one.end() for one in it.policy.exchanges] == [End.REFUSED] * 3


@asynchronous
async def test_a_reply_before_the_body_has_come() -> None:
    """A client that waits for its 100 gets the refusal instead, and the connection ends."""

    class Refusing(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            return Reply(413, (), b"no")

    async with world(kind=Refusing) as it, it.client() as (reader, writer):
        writer.write((POST % 5).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        got = await read_answer(reader)
        assert (got.status, got.body, got.informational) == (413, b"no", [])
        assert got.get(b"connection") == b"close"
        assert await reader.read() == b""


@asynchronous
async def test_headers_and_keepalives_while_it_waits() -> None:
    """The client gets both at once, and later the body as if nothing had been."""
    async with world(reply_with(SSE), Waiting) as it, it.client() as (reader, writer):
        writer.write(GET)
        exchange = await waiting_one(it.policy)
        exchange.client.keep_alive(b"too early")
        assert not exchange.client.started
        exchange.client.start(200, EARLY)
        assert exchange.client.started
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"text/event-stream" in head
        for _ in range(2):
            exchange.client.keep_alive(b": wait\n\n")
            assert await reader.readuntil(b"wait\n\n\r\n") == b"8\r\n: wait\n\n\r\n"
        exchange.go.set()
        assert await reader.readuntil(b"0\r\n\r\n") == b"8\r\ndata: 1\n\r\n0\r\n\r\n"
        assert await exchange.end() is End.COMPLETE
        writer.write(GET)
        it.policy.made.clear()
        (await waiting_one(it.policy)).go.set()
        assert (await read_answer(reader)).body == b"data: 1\n"


@asynchronous
async def test_a_reply_after_early_headers_is_the_rest_of_the_body() -> None:
    """Its status cannot be told any more; its body is, and the answer ends cleanly."""

    class Late(Waiting):
        async def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            await super().begin(body, complete=complete)
            return Reply(503, (), b"event: error\n\n")

    async with world(kind=Late) as it, it.client() as (reader, writer):
        writer.write(GET)
        exchange = await waiting_one(it.policy)
        exchange.client.start(200, EARLY)
        exchange.go.set()
        got = await read_answer(reader)
        assert (got.status, got.body) == (200, b"event: error\n\n")
        assert await exchange.end() is End.REFUSED


@asynchronous
async def test_an_encoding_that_early_headers_did_not_announce() -> None:
    """Its bytes would be read as something else, so the client is reset."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"
    async with world(reply_with(answer), Waiting) as it, it.client() as (reader, writer):
        writer.write(GET)
        exchange = await waiting_one(it.policy)
        exchange.client.start(200, EARLY)
        exchange.go.set()
        with pytest.raises(ConnectionResetError):
            await read_answer(reader)
        assert await exchange.end() is End.UPSTREAM_FAILED


@pytest.mark.parametrize("length, comes", [(10, 10), (10_000_000, 10), (10_000_000, 100_000)])
@asynchronous
async def test_a_client_that_goes_away_leaves_at_once(length: int, comes: int) -> None:
    """`begin` is cancelled, also where the client has sent more than is read for now."""
    async with world(kind=Waiting) as it:
        async with it.client() as (_, writer):
            writer.write(POST % length + bytes(comes))
            await writer.drain()
            exchange = await waiting_one(it.policy)
            assert exchange.ends == []
        assert await exchange.end() is End.CLIENT_GONE
        assert exchange.cancelled
        assert it.upstream.connections == 0


@asynchronous
async def test_a_client_that_goes_away_while_its_answer_streams() -> None:
    """Upstream's connection is broken off at once."""
    left = asyncio.Event()

    async def handler(_: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nbegin")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        left.set()
        return False

    async with world(handler) as it:
        async with it.client() as (reader, writer):
            writer.write(GET)
            await reader.readuntil(b"begin")
        await left.wait()
        assert await it.policy.exchanges[0].end() is End.CLIENT_GONE


@pytest.mark.parametrize("slowly", [False, True])
@asynchronous
async def test_trying_again(*, slowly: bool) -> None:
    """The same body goes up again after `begin`, and the client sees the last answer only."""
    begun: list[bytes] = []

    class Patient(Recorded):
        body_wanted = 1_000_000

        def begin(
            self, body: bytes | bytearray, *, complete: bool
        ) -> Decision | Awaitable[Decision]:
            begun.append(bytes(body))
            return Route(self.policy.origin)

        def answer_wanted(self, head: ResponseHead) -> int:
            return 10 if head.status == 429 else 0

        def answered(
            self, head: ResponseHead, body: bytes, *, complete: bool
        ) -> Verdict | Awaitable[Verdict]:
            if head.status == 200:
                return PASS_ON
            assert (body, complete) == (b"busy", True)
            return self.think() if slowly else TRY_AGAIN

        async def think(self) -> Verdict:
            await asyncio.sleep(0.001)
            return TRY_AGAIN

    async def handler(_: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        writer.write(BUSY if len(it.upstream.seen) < 4 else OK)
        return True

    body = bytes(range(256)) * 1000
    async with world(handler, Patient) as it:
        got = await it.ask(POST % len(body) + body)
        assert (got.status, got.body) == (200, b"hello")
        assert begun == [body] * 4
        assert [seen.body for seen in it.upstream.seen] == [body] * 4
        assert it.upstream.connections == 1
        assert await it.policy.exchanges[0].end() is End.COMPLETE


@asynchronous
async def test_trying_again_what_was_not_kept_passes_the_answer_on() -> None:
    """A long body that streamed through cannot be sent twice, so the client gets the refusal."""

    class Hopeful(Recorded):
        def answered(self, head: ResponseHead, body: bytes, *, complete: bool) -> Verdict:
            return TRY_AGAIN

    async with world(reply_with(BUSY), Hopeful) as it:
        got = await it.ask(POST % 500_000 + bytes(500_000))
        assert (got.status, got.body) == (429, b"busy")
        assert len(it.upstream.seen) == 1


@asynchronous
async def test_a_long_error_body_is_seen_up_to_its_bound() -> None:
    """The policy sees its beginning, and the client gets all of it."""
    seen: list[tuple[int, bool]] = []

    class Curious(Recorded):
        def answer_wanted(self, head: ResponseHead) -> int:
            return 1000

        async def answered(self, head: ResponseHead, body: bytes, *, complete: bool) -> Verdict:
            seen.append((len(body), complete))
            await asyncio.sleep(0.01)
            return PASS_ON

    body = bytes(range(256)) * 4096
    answer = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with world(reply_with(answer), Curious) as it:
        got = await it.ask(GET)
        assert (got.status, got.body) == (500, body)
        ((length, complete),) = seen
        assert 1000 <= length < 200_000
        assert not complete


@asynchronous
async def test_an_answer_replaced_by_the_policys_own() -> None:
    """The client gets the policy's reply instead of upstream's."""

    class Replacing(Recorded):
        def answered(self, head: ResponseHead, body: bytes, *, complete: bool) -> Verdict:
            return Reply(503, (), b"mine")

    async with world(reply_with(BUSY), Replacing) as it:
        got = await it.ask(GET)
        assert (got.status, got.body) == (503, b"mine")
        assert await it.policy.exchanges[0].end() is End.REFUSED


NOTHING = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ndata: 1\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n"


@pytest.mark.parametrize("answer", [SSE, LENGTH, UNTIL_CLOSE, NOTHING])
@asynchronous
async def test_an_answer_that_the_policy_does_not_take_for_whole(answer: bytes) -> None:
    """Framing that ended cleanly does not help: the client is reset and never sees an end."""

    class Doubting(Recorded):
        def finished(self) -> bool:
            assert bytes(self.received_bytes) == (b"" if answer is NOTHING else b"data: 1\n")
            return False

    async with (
        world(reply_with(answer, keep=answer is not UNTIL_CLOSE), Doubting) as it,
        it.client() as (reader, writer),
    ):
        writer.write(GET)
        with pytest.raises(ConnectionResetError):
            await read_answer(reader)
        assert await it.policy.exchanges[0].end() is End.TRUNCATED


@asynchronous
async def test_a_policy_can_reset_at_any_moment() -> None:
    """In the middle of an answer, and while it waits."""

    class Resetting(Recorded):
        def received(self, data: bytes) -> None:
            self.client.reset("seen enough")

    async with world(reply_with(LENGTH), Resetting) as it, it.client() as (reader, writer):
        writer.write(GET)
        with pytest.raises(ConnectionResetError):
            await read_answer(reader)
        assert it.policy.exchanges[0].ends == [(End.REFUSED, "seen enough")]


class Broken(Exception):
    """A mistake in a policy."""


@pytest.mark.parametrize(
    "where",
    [
        *("exchange", "body_wanted", "begin", "begin later"),
        *("answer_wanted", "answered", "answered later"),
    ],
)
@asynchronous
async def test_an_exception_in_a_policy_is_a_502_for_that_request(where: str) -> None:
    """In plain words; the hook hears of it, and neither connection nor neighbours suffer."""

    class Faulty(Recorded):
        def __init__(
            self, policy: RecordingPolicy, head: RequestHead, peer: Peer, client: Client
        ) -> None:
            super().__init__(policy, head, peer, client)
            self.bad = head.target == b"/bad"
            self.fail("exchange")

        def fail(self, here: str) -> None:
            if self.bad and where == here:
                raise Broken(here)

        @property
        def body_wanted(self) -> int:  # type: ignore[override]
            self.fail("body_wanted")
            return 0

        async def later(self, here: str, said: object) -> object:
            await asyncio.sleep(0)
            self.fail(here)
            return said

        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            self.fail("begin")
            return self.later("begin later", Route(self.policy.origin))  # type: ignore[return-value]

        def answer_wanted(self, head: ResponseHead) -> int:
            self.fail("answer_wanted")
            return 0

        def answered(self, head: ResponseHead, body: bytes, *, complete: bool) -> Verdict:
            self.fail("answered")
            return self.later("answered later", PASS_ON)  # type: ignore[return-value]

    async with world(kind=Faulty) as it, it.client() as (reader, writer):
        for target, status in ((b"/", 200), (b"/bad", 502), (b"/", 200)):
            writer.write(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
            got = await read_answer(reader)
            assert got.status == status
        assert [type(error) for error in it.policy.errors] == [Broken]
        bad = [await one.end() for one in it.policy.exchanges if one.head.target == b"/bad"]
        assert bad == ([] if where == "exchange" else [End.BROKEN])


@pytest.mark.parametrize("where", ["received", "finished", "ended", "sent"])
@asynchronous
async def test_an_exception_while_bytes_pass(where: str) -> None:
    """A client that has a part already is reset; one in `ended` changes nothing."""

    class Faulty(Recorded):
        def sent(self, data: bytes) -> None:
            self.fail("sent")

        def received(self, data: bytes) -> None:
            self.fail("received")

        def finished(self) -> bool:
            self.fail("finished")
            return True

        def ended(self, how: End, words: str) -> None:
            super().ended(how, words)
            self.fail("ended")

        def fail(self, here: str) -> None:
            if where == here:
                raise Broken(here)

    async with world(kind=Faulty) as it, it.client() as (reader, writer):
        writer.write(POST % 2 + b"a")
        await it.policy.made.wait()
        await asyncio.sleep(0.01)
        writer.write(b"b")
        if where in {"received", "finished"}:
            with pytest.raises(ConnectionResetError):
                await read_answer(reader)
        else:
            assert (await read_answer(reader)).status == (502 if where == "sent" else 200)
        end = await it.policy.exchanges[0].end()
        assert end is (End.COMPLETE if where == "ended" else End.BROKEN)
        assert [str(error) for error in it.policy.errors] == [where]


@asynchronous
async def test_what_makes_no_sense_is_an_error_of_the_policys() -> None:
    """A decision of the wrong kind is a 502, and the hook hears what it was."""

    class Confused(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            return PASS_ON  # type: ignore[return-value]

    async with world(kind=Confused) as it:
        assert (await it.ask(GET)).status == 502
        assert "PassOn" in str(it.policy.errors[0])


@asynchronous
async def test_a_policy_that_knows_what_to_do_without_upstream() -> None:
    """It hears in words what failed, and may try elsewhere or answer in its own shape."""
    failures: list[Failure] = []

    class Resourceful(Recorded):
        def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            return Route(
                self.policy.origin._replace(port=1) if not failures else self.policy.origin
            )

        def failed(self, failure: Failure) -> Remedy:
            failures.append(failure)
            return TRY_AGAIN if self.head.target == b"/again" else Reply(529, (), b"{}")

    async with world(ok, Resourceful) as it:
        assert (await it.ask(GET.replace(b"/v1/x", b"/again"))).body == b"hello"
        assert failures == [
            Failure(End.UPSTREAM_FAILED, "127.0.0.1 refused the connection."),
        ]
        failures.clear()
        got = await it.ask(GET)
        assert (got.status, got.body) == (529, b"{}")
        assert await it.policy.exchanges[1].end() is End.UPSTREAM_FAILED


@asynchronous
async def test_h11_agrees_that_a_cut_answer_is_cut() -> None:
    """A client that ignores resets still cannot take what came for a whole answer."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    parser.send(h11.EndOfMessage())

    class Doubting(Recorded):
        def finished(self) -> bool:
            return False

    async with world(reply_with(LENGTH), Doubting) as it, it.client() as (reader, writer):
        writer.write(GET)
        try:
            while data := await reader.read(10):
                parser.receive_data(data)
        except ConnectionResetError:
            pass
        kinds = []
        while (event := parser.next_event()) is not h11.NEED_DATA:
            kinds.append(type(event))
        assert h11.EndOfMessage not in kinds
