"""What clients do wrong, and what tests do to the provider while it runs."""

import asyncio
import gzip
import io
import json
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from headgate.sim.dialects.anthropic import Anthropic
from headgate.sim.journal import line_of
from headgate.sim.server import http
from headgate.sim.server.serve import running
from tests.sim.serve_client import (
    PROMPT,
    QUICK,
    ask,
    client,
    happened,
    play,
    post,
    posted,
    raw,
    replayed,
)

APIS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")
NO_MODEL = {"messages": [{}], "max_tokens": 1, "input": "x"}
BAD = {
    "not-json": b"{",
    "not-an-object": b"[1]",
    "not-utf8": b'{"model": "\xff"}',
    "too-deep": b'{"a":' * 100_000,
    "empty": b"",
    "no-model": json.dumps(NO_MODEL).encode(),
    "model-of-a-kind": json.dumps({**NO_MODEL, "model": 3}).encode(),
    "no-question": b'{"model": "m", "max_tokens": 3}',
    "odd-marker": json.dumps(ask("[[sim duration=never]]")).encode(),
    "odd-word": json.dumps(ask("[[sim speed=3]]")).encode(),
}


@pytest.mark.parametrize("flaw", BAD)
def test_a_bad_request_is_a_400_in_the_shape_of_its_api(flaw: str) -> None:
    """Whatever is wrong with it; and nothing of it is counted."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            for path in APIS:
                async with session.post(path, data=BAD[flaw]) as answer:
                    assert answer.status == 400
                    error = (await answer.json())["error"]
                    assert error["type"] == "invalid_request_error"
                    assert error["message"]
            lines = server.journal.lines()
            assert [(line.event, line.kind, line.status) for line in lines] == [
                ("refused", "bad", 400)
            ] * 3
            assert (await post(session, ask()))[0] == 200

    play(test)


def test_other_mistakes_have_their_own_status() -> None:
    """No key, an unknown path, a wrong method, too much, a WebSocket."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, aiohttp.ClientSession(server.url) as session:
            for path in (*APIS, "/v1beta/models/g:generateContent"):
                status, _, answer = await post(session, ask(), path)
                assert status == 401
                assert "error" in answer
            for path in ("/v1/usage", "/usage.json", "/account/concurrency/stream"):
                async with session.get(path) as found:
                    assert found.status == 401
            for path in APIS:
                async with session.get(path) as found:
                    assert (found.status, found.headers["allow"]) == (405, "POST")
                    assert "error" in await found.json()
            async with session.get("/v1/nothing", headers={"x-api-key": "k"}) as found:
                assert found.status == 404
                assert (await found.json())["error"]["type"] == "not_found_error"
            async with session.get("/v1/nothing") as found:
                assert (await found.json())["error"]["code"] == "unknown_url"
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect("/v1/responses")
            assert caught.value.status == 426
        async with (
            running(PROMPT, QUICK, anonymous=True) as server,
            aiohttp.ClientSession(server.url) as session,
        ):
            assert (await post(session, ask()))[0] == 200

    play(test)


def test_too_large_a_request_is_a_413() -> None:
    """Announced or not; one just small enough is read."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            large = b" " * (http.LARGEST + 1)
            found = await raw(server, POST + b"Content-Length: 999999999999\r\n\r\n{")
            assert found.startswith(b"HTTP/1.1 413")
            assert b"request_too_large" in found

            async def bits() -> Any:  # noqa: ANN401
                for n in range(0, len(large), 2**20):
                    yield large[n : n + 2**20]

            async with session.post("/v1/messages", data=bits()) as answer:
                assert answer.status == 413
            body = json.dumps(ask("x" * 2_000_000)).encode()
            large_one = io.BytesIO(body)
            async with session.post("/v1/messages", data=large_one, expect100=True) as answer:
                assert answer.status == 200
            packed = {"content-encoding": "gzip"}
            body = gzip.compress(json.dumps(ask()).encode())
            async with session.post("/v1/messages", data=body, headers=packed) as answer:
                assert answer.status == 200

    play(test)


POST = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: k\r\n"
RUDE = (
    b"\x00\x01\x02\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1/v1/messages HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /%ff%00%0a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /%0d/v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: \xff\xfe\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    POST + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
)


@pytest.mark.parametrize("data", RUDE)
def test_the_server_survives_what_is_no_request(
    data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """It answers with a 4xx, says nothing to anyone else, and goes on."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            found = await raw(server, data)
            assert found.split()[1].startswith(b"4")
            assert (await post(session, ask()))[0] == 200
            assert not any(line.event == "fault" for line in server.journal.lines())

    play(test)
    assert capfd.readouterr().err == ""


def test_clients_may_leave_at_any_byte() -> None:
    """Nobody who left is inside, nobody is counted twice."""

    async def test() -> None:
        async with running(PROMPT._replace(cancelled_lag=0), QUICK) as server:
            body = json.dumps(ask("[[sim duration=20 headers=0]]", stream=True)).encode()
            data = posted(body)
            host, port = server.url.removeprefix("http://").split(":")
            for n in (0, 5, 60, len(data) - len(body), len(data) - 1, *[len(data)] * 6):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(data[:n])
                await asyncio.sleep(0.002 * (n % 7))
                writer.transport.abort()
            async with client(server, "k") as session:
                assert (await post(session, ask()))[0] == 200
            entered = sum(line.event == "enter" for line in server.journal.lines())
            await happened(server, "cancelled", entered - 1)
            assert server.upstream.inside == {}
            replayed(server.journal.lines())

    play(test)


def test_a_plan_is_changed_while_it_runs() -> None:
    """By named numbers; what makes no sense changes nothing."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            change = {"cap": 0, "retry_after": 5_000, "model_caps": {"opus": 1}, "duration": 30_000}
            status, _, state = await post(session, change, "/sim/plan")
            assert (status, state["plan"]["retry_after"]) == (200, 5_000)
            status, headers, _ = await post(session, ask())
            assert (status, headers["retry-after"]) == (429, "5")
            server.change(cap=9)
            task = asyncio.create_task(post(session, ask()))
            await happened(server, "enter")
            assert (await post(session, ask()))[0] == 429
            assert (await post(session, ask("[[sim duration=0]]", "haiku")))[0] == 200
            bad: tuple[object, ...] = (
                {"cap": -1},
                {"cap": "x"},
                {"caps": 1},
                {"overload": 2},
                {"cut_by": "x"},
                {"model_caps": 3},
                {"duration": "x"},
                {"slowdown": 0},
                {"cap": 1, "rpm": None},
                [],
                3,
            )
            for odd in bad:
                status, _, answer = await post(session, odd, "/sim/plan")
                assert (status, list(answer)) == (400, ["error"])
            assert server.upstream.cap(server.provider.now()) == 9
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    play(test)


def test_the_log_and_the_state_can_be_asked_for() -> None:
    """Lines from a number on, and who is inside now."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            await post(session, ask())
            async with session.get("/sim/log?after=1") as answer:
                log = await answer.json()
            assert [line_of(line) for line in log["lines"]] == server.journal.lines()[1:]
            assert log["next"] == 2
            task = asyncio.create_task(post(session, ask("[[sim duration=30]]")))
            await happened(server, "enter", 2)
            async with session.get("/sim/state") as answer:
                state = await answer.json()
            [account] = state["accounts"].values()
            assert (state["in_flight"], account["models"], account["counted"]) == (
                1,
                {"opus": 1},
                1,
            )
            for path, status in (("/sim/log?after=x", 400), ("/sim/x", 404), ("/sim/reset", 405)):
                async with session.get(path) as answer:
                    assert answer.status == status
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    play(test)


def test_a_reset_begins_anew() -> None:
    """Requests are broken off; accounts, punishments and changes are forgotten."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 1),), penalty=60_000)
        async with running(plan, QUICK) as server, client(server) as session:
            task = asyncio.create_task(post(session, ask("[[sim duration=30]]", stream=True)))
            await happened(server, "enter")
            assert (await post(session, ask()))[0] == 429
            server.change(cap=7)
            status, _, state = await post(session, {}, "/sim/reset")
            assert (status, state["accounts"], state["in_flight"]) == (200, {}, 0)
            with pytest.raises(aiohttp.ClientError):
                await task
            assert [line.event for line in server.journal.lines()] == ["reset"]
            assert not server.upstream.punished(server.provider.now())
            assert (await post(session, ask()))[0] == 200
            assert server.journal.lines()[-1].cap == 1
            assert server.journal.lines()[-1].at < 5_000

    play(test)


def test_a_marker_may_count() -> None:
    """The first times it is asked it refuses, then it is as any other."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            body = ask("[[sim status=529 times=2]]")
            assert [(await post(session, body))[0] for _ in range(4)] == [529, 529, 200, 200]

    play(test)


@pytest.mark.parametrize(
    "address, local",
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("", False),
    ],
)
def test_only_this_machine_may_change_the_plan(address: str, local: bool) -> None:  # noqa: FBT001
    """`/sim/…` is for loopback, wherever the server listens."""
    transport = SimpleNamespace(get_extra_info=lambda _: (address, 1))
    request: Any = SimpleNamespace(transport=transport)
    assert http._local(request) is local


def test_a_fault_of_its_own_is_a_500_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the journal knows of it."""

    async def broken(*_: object) -> web.StreamResponse:
        raise RuntimeError("oh")

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            monkeypatch.setattr(http, "body_of", broken)
            status, _, answer = await post(session, ask())
            assert (status, answer["error"]["type"]) == (500, "api_error")
            assert server.journal.lines()[-1].note == "RuntimeError"
            monkeypatch.undo()
            monkeypatch.setattr(Anthropic, "delta", lambda *_: 1 / 0)
            with pytest.raises(aiohttp.ClientError):
                await post(session, ask(stream=True))
            events = [line.event for line in server.journal.lines()]
            assert events == ["fault", "enter", "cut", "fault"]

    play(test)
