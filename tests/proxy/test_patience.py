"""Clients that take too long are closed, and those that wait for something are not."""

import asyncio

import pytest

from headgate.core.times import Seconds
from headgate.proxy import Decision, End, Route, Timeouts
from tests.proxy.harness import Recorded, asynchronous, read_answer, world

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@asynchronous
async def test_a_head_that_does_not_end() -> None:
    """Is refused with 408 after its time, however steadily its bytes drip."""
    times = Timeouts(head=Seconds(0.5))
    async with world(timeouts=times) as it, it.client() as (reader, writer):
        writer.write(GET)
        assert (await read_answer(reader)).status == 200

        async def drip() -> None:
            writer.write(b"GET / HTTP/1.1\r\n")
            while True:
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert (await read_answer(reader)).status == 408
        dripping.cancel()
        assert await reader.read() == b""


@asynchronous
async def test_an_idle_connection_is_closed() -> None:
    """Cleanly, after its time."""
    async with world(timeouts=Timeouts(idle=Seconds(0.1))) as it, it.client() as (reader, writer):
        writer.write(GET)
        assert (await read_answer(reader)).body == b"hello"
        assert await reader.read() == b""


@asynchronous
async def test_a_body_that_does_not_come() -> None:
    """Its client is reset, and the policy hears of it."""

    class Whole(Recorded):
        body_wanted = 1000

    times = Timeouts(idle=Seconds(0.1))
    async with world(kind=Whole, timeouts=times) as it, it.client() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert await it.policy.exchanges[0].end() is End.CLIENT_GONE


@asynchronous
async def test_a_client_that_waits_is_not_idle() -> None:
    """A policy may take longer than any of the times that clients are given."""

    class Slow(Recorded):
        async def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
            await asyncio.sleep(2.5)  # the times are looked at once a second
            return Route(self.policy.origin)

    times = Timeouts(idle=Seconds(0.1), head=Seconds(0.1), answer=Seconds(0.1))
    async with world(kind=Slow, timeouts=times) as it:
        assert (await it.ask(GET)).body == b"hello"
