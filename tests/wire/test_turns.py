"""The order of requests that wait for a seat: by priority, then by when their prompt began."""

import asyncio
from contextlib import AsyncExitStack

from tests.core.wire.streams import MESSAGES
from tests.proxy.harness import Seen, asynchronous, read_answer
from tests.support import Box
from tests.wire.governed import KEY, governed

TOOL = (
    'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":'
    '{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}'
)
BODY = b'{"model": "claude-opus-4-6", "stream": true, "messages": []}'
ONE_SEAT = f'[defaults]\nadapt = "off"\n[pools."{KEY}"]\nlimit = 1\n'


class Provider:
    """Answers as it is told to, and remembers who asked, in their order."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.held = asyncio.Event()
        self.go_on = asyncio.Event()

    async def answer(
        self, seen: Seen, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        who = (seen.get(b"x-claude-code-session-id") or b"").decode()
        self.came.append(who)
        if who == "holder":
            self.held.set()
            await self.go_on.wait()
        events = [
            *MESSAGES.events[:1],
            *([TOOL] if seen.get(b"x-tool") else ()),
            *MESSAGES.events[1:],
        ]
        body = "".join(f"{event}\n\n" for event in events).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        return True


async def ask(port: int, who: str, *, tool: bool = False) -> None:
    """One request; its answer has the agent call a tool, if it is told to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /up/v1/messages HTTP/1.1\r\nHost: a\r\nX-Claude-Code-Session-Id: {who}\r\n"
    head += "X-Tool: yes\r\n" * tool + f"Content-Length: {len(BODY)}\r\n\r\n"
    writer.write(head.encode() + BODY)
    assert (await read_answer(reader)).status == 200
    writer.close()


async def order(
    box: Box, provider: Provider, first: tuple[int, str], second: tuple[int, str], holder: int
) -> list[str]:
    """Who of two is let in first, if they came in this order while there was no seat."""
    provider.held.clear()
    provider.go_on.clear()
    holds = asyncio.create_task(ask(holder, "holder"))
    await provider.held.wait()
    provider.came.clear()
    waits = []
    with box.gate() as gate:
        for number, (port, who) in enumerate((first, second), 1):
            waits.append(asyncio.create_task(ask(port, who)))
            while len(gate.queue().waiting) < number:  # noqa: ASYNC110 - in the store, not here
                await asyncio.sleep(0.01)
    provider.go_on.set()
    await asyncio.gather(holds, *waits)
    return provider.came


@asynchronous
async def in_a_turn(box: Box) -> None:
    provider = Provider()
    async with governed(box, provider.answer, "requests") as (port, _):
        await ask(port, "old", tool=True)
        newcomer, old = (port, "new"), (port, "old")
        assert await order(box, provider, newcomer, old, port) == ["old", "new"]
        assert await order(box, provider, newcomer, old, port) == ["new", "old"]


def test_who_is_in_a_turn_is_not_put_behind_newcomers(box: Box) -> None:
    """An agent that comes back from a tool goes before one that has just come; not when done."""
    box.config(ONE_SEAT)
    in_a_turn(box)


@asynchronous
async def by_priority(box: Box) -> None:
    provider = Provider()
    async with AsyncExitStack() as stack:
        ports = [
            (
                await stack.enter_async_context(
                    governed(box, provider.answer, "requests", priority=p)
                )
            )[0]
            for p in (0, 7)
        ]
        found = await order(box, provider, (ports[0], "usual"), (ports[1], "urgent"), ports[0])
        assert found == ["urgent", "usual"]


def test_priority_comes_first(box: Box) -> None:
    """A request of an agent that was started with a higher priority goes before those that wait."""
    box.config(ONE_SEAT)
    by_priority(box)
