"""A client that streams is kept waiting: headers early, keepalives, and errors as events."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from headgate.core.times import Seconds
from headgate.core.wire import keepalive
from headgate.core.wire.apis import Api
from headgate.gate import Gate
from headgate.proxy import Peer, ProxyServer
from headgate.sim.server.serve import Server, running
from headgate.wire.order import WireOrder
from headgate.wire.policy import WirePolicy
from tests.sim.serve_client import PROMPT, QUICK, ask, events, happened
from tests.support import LONG, Box, until_async
from tests.wire.test_requests import ONE

PING = keepalive._CONTENTS[Api.MESSAGES].decode()


class Open(WirePolicy):
    """Takes whoever asks for the agent: here the test itself is."""

    def _is_ours(self, peer: Peer) -> bool:
        return True


@asynccontextmanager
async def wired(box: Box, server: Server, **more: Any) -> AsyncIterator[aiohttp.ClientSession]:  # noqa: ANN401
    """A client of a wire in this process, which forwards to a provider."""
    gate: Gate = box.gate()
    order = WireOrder(
        store=gate.url,
        config="",
        view="",
        lease=0,
        mark="",
        key="",
        task="t",
        meter="requests",
        port=0,
        upstreams={"anthropic": server.url},
        patience=30.0,
        **more,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = ProxyServer(Open(order, gate, lambda _: None))
    await proxy.start(listening)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    headers = {"x-api-key": "k", "accept-encoding": "gzip"}
    async with aiohttp.ClientSession(url, headers=headers, auto_decompress=False) as session:
        yield session
    await proxy.drain(Seconds(1))


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), LONG))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that want headers at once, and a word all the time."""
    monkeypatch.setattr(keepalive, "_LEAST_PATIENCE", Seconds(0.1))
    monkeypatch.setattr(keepalive, "_EVERY", Seconds(0.2))


async def post(session: aiohttp.ClientSession, body: object) -> tuple[int, str]:
    async with session.post("/anthropic/v1/messages", json=body) as answer:
        data = await answer.read()
        if answer.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        return answer.status, data.decode()


def test_a_stream_that_waits_has_headers_and_keepalives(box: Box) -> None:
    """While it waits it gets pings, and then the whole stream; the seat came in between."""
    box.config(ONE)

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, wired(box, server) as session:
            first = asyncio.create_task(post(session, ask("[[sim duration=1.5]]", stream=True)))
            await happened(server, "enter")
            async with session.post("/anthropic/v1/messages", json=ask(stream=True)) as second:
                assert second.status == 200
                assert not first.done(), "the headers came before the seat was free"
                text = (await second.read()).decode()
            assert "content-encoding" not in second.headers
            assert text.startswith(PING * 2)
            names = [name for name, _ in events(text)]
            assert names[-1] == "message_stop"
            assert "message_start" in names
            assert (await first)[0] == 200

    play(test)


def test_a_request_without_a_stream_is_held_without_a_word(box: Box) -> None:
    """Its answer is upstream's, with its status, however long it has waited."""
    box.config(ONE)

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, wired(box, server) as session:
            first = asyncio.create_task(post(session, ask("[[sim duration=1]]", stream=True)))
            await happened(server, "enter")
            status, text = await post(session, ask())
            assert (status, json.loads(text)["type"]) == (200, "message")
            await first

    play(test)


def test_an_error_after_early_headers_is_an_event(box: Box) -> None:
    """Upstream finds fault with a request whose stream has begun: its error is the last event."""
    box.config(ONE)

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, wired(box, server) as session:
            first = asyncio.create_task(post(session, ask("[[sim duration=1]]", stream=True)))
            await happened(server, "enter")
            flawed = {"model": "opus", "stream": True, "messages": []}
            status, text = await post(session, flawed)
            name, error = events(text)[-1]
            assert (status, name, error["type"]) == (200, "error", "error")
            assert error["error"]["type"] == "invalid_request_error"
            await first

    play(test)


def test_who_waits_too_long_in_a_stream_is_told_in_it(box: Box) -> None:
    """After early headers, the refusal of `--queue-timeout` is the last event of the stream."""
    box.config(ONE)

    async def test() -> None:
        async with (
            running(PROMPT, QUICK) as server,
            wired(box, server, queue_timeout=0.8) as session,
        ):
            first = asyncio.create_task(post(session, ask("[[sim duration=3]]", stream=True)))
            await happened(server, "enter")
            status, text = await post(session, ask(stream=True))
            assert status == 200
            name, error = events(text)[-1]
            assert (name, error["error"]["type"]) == ("error", "rate_limit_error")
            assert "no seat for anthropic/opus within" in error["error"]["message"]
            await first

    play(test)


def test_a_client_that_hangs_up_leaves_the_line_at_once(box: Box) -> None:
    """Its ticket is gone, and upstream never hears of it; one that runs is broken off."""
    box.config(ONE)
    gate = box.gate()

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, wired(box, server) as session:
            slow = ask("[[sim duration=15]]", stream=True)
            first = asyncio.create_task(post(session, slow))
            await happened(server, "enter")
            second = asyncio.create_task(post(session, ask(stream=True)))
            await until_async(lambda: box.rows("ticket"))
            second.cancel()
            await until_async(lambda: not box.rows("ticket"))
            assert len(box.rows("lease")) == 1
            first.cancel()
            await happened(server, "cancelled")
            await until_async(lambda: not box.rows("lease"))
            assert sum(line.event == "enter" for line in server.journal.lines()) == 1

    play(test)
    assert not gate.queue().running
