"""Clients of the stand-in provider, for its own tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from headgate.sim.journal import ENDS, JournalLine
from headgate.sim.server.behaviour import Behaviour, fixed
from headgate.sim.server.serve import Server
from headgate.sim.upstream import ProviderPlan
from tests.support import LONG, until_async

QUICK = Behaviour(duration=fixed(60), headers=2, first_token=5, refusal=1)
PROMPT = ProviderPlan(lag=((0, 0),), usage_lag=0)
"""A provider whose counts are never late."""


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), LONG))


@asynccontextmanager
async def client(server: Server, key: str = "k1") -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        server.url, headers={"x-api-key": key}, connector=connector
    ) as session:
        yield session


def ask(text: str = "hi", model: str = "opus", **more: object) -> dict[str, Any]:
    """A request that every API but Gemini's takes."""
    messages = [{"role": "user", "content": text}]
    return {"model": model, "max_tokens": 10_000, "messages": messages, "input": text, **more}


async def post(
    session: aiohttp.ClientSession, body: object, path: str = "/v1/messages"
) -> tuple[int, dict[str, str], Any]:
    """Send, and read all of the answer."""
    async with session.post(path, json=body) as answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        text = await answer.text()
        return answer.status, headers, json.loads(text) if text.startswith("{") else text


def events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream: their names and their data."""
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        data = fields["data"]
        found.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return found


def replayed(lines: list[JournalLine]) -> None:
    """Check the counts of a journal by counting anew."""
    inside: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        here = inside.setdefault((line.account, line.model), set())
        if line.event == "enter":
            assert line.session not in here
            here.add(line.session)
        elif line.event in ENDS:
            here.remove(line.session)
        if line.event in {"enter", *ENDS}:
            same = [there for (name, _), there in inside.items() if name == line.account]
            assert line.in_flight == sum(map(len, same))
            assert line.model_in_flight == len(here)


async def happened(server: Server, event: str, times: int = 1) -> None:
    """Wait until something is in the journal."""
    await until_async(lambda: sum(line.event == event for line in server.journal.lines()) >= times)


def posted(body: bytes) -> bytes:
    """A request as it goes over the wire."""
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: k\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def raw(server: Server, data: bytes) -> bytes:
    """How the server answers to bytes."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        await writer.drain()
        return await asyncio.wait_for(reader.read(65_536), 5)
    except ConnectionError:
        return b"reset"
    finally:
        writer.transport.abort()
