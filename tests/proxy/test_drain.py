"""The end of a proxy: nobody new, what runs may finish, and the rest is broken off."""

import asyncio
from contextlib import suppress

import pytest

from headgate.core.times import Seconds
from headgate.proxy import End
from tests.proxy.harness import OK, Handler, Seen, asynchronous, read_answer, world

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def held(go: asyncio.Event) -> Handler:
    async def handler(_: Seen, __: object, writer: asyncio.StreamWriter) -> bool:
        await go.wait()
        with suppress(ConnectionError):
            writer.write(OK)
            await writer.drain()
        return True

    return handler


@asynchronous
async def test_what_runs_is_finished() -> None:
    """A request in flight gets its answer and is told to close; idle clients are closed at once."""
    go = asyncio.Event()
    async with (
        world(held(go)) as it,
        it.client() as (idle, _),
        it.client() as (reader, writer),
    ):
        writer.write(GET)
        await it.policy.made.wait()
        draining = asyncio.create_task(it.proxy.drain(Seconds(20)))
        assert await idle.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", it.port)
        go.set()
        got = await read_answer(reader)
        assert (got.body, got.get(b"connection")) == (b"hello", b"close")
        assert await reader.read() == b""
        await draining
        assert await it.policy.exchanges[0].end() is End.COMPLETE


@asynchronous
async def test_what_does_not_finish_is_broken_off() -> None:
    """After its time a drain ends: clients see a reset, and the policy hears of each."""
    async with world(held(asyncio.Event())) as it, it.client() as (reader, writer):
        writer.write(GET)
        await it.policy.made.wait()
        await it.proxy.drain(Seconds(0.05))
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert len(it.policy.exchanges[0].ends) == 1
