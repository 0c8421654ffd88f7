"""Answers that go on: server-sent events, and waits that end with the server or its client.

A stream ends in order when the server is stopped: whoever reads it is told where to go on, and asks
again. It is never silent for long, so that a dead connection is noticed on both sides.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import StreamingResponse

from headgate.api.routing import caller_of, service_of
from headgate.api.service import Service
from headgate.core.display.json_shapes import encode
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds

T = TypeVar("T")
QUIET = Seconds(15)
"""After so many seconds without anything to say a comment is sent."""
_RETRY = 1_000
MEDIA_TYPE = "text/event-stream"


class Sent(NamedTuple):
    """One event of a stream. With an id, a client that asks again says which was its last."""

    event: str
    data: object
    id: str = ""

    def encoded(self) -> bytes:
        """As it goes over the wire; JSON in ASCII has no line breaks in it."""
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.event}\ndata: {encode(self.data)}\n\n".encode()


async def until(service: Service, waits: Awaitable[T], within: float | None) -> T | None:
    """What is awaited, or None when the time is up or the server is stopped."""
    task = asyncio.ensure_future(waits)
    stopped = asyncio.ensure_future(service.draining.wait())
    try:
        await asyncio.wait({task, stopped}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for one in (task, stopped):
            if not one.done():
                one.cancel()
                with suppress(asyncio.CancelledError):
                    await one


def stream(request: Request, events: AsyncIterator[Sent]) -> StreamingResponse:
    """An answer of server-sent events, until there are no more, or the server is stopped."""
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(_encoded(request, events), headers=headers, media_type=MEDIA_TYPE)


async def _encoded(request: Request, events: AsyncIterator[Sent]) -> AsyncIterator[bytes]:
    service, caller = service_of(request), caller_of(request)
    yield f"retry: {_RETRY}\n\n".encode()
    following: asyncio.Future[Sent] = _next(events)
    stopped = asyncio.ensure_future(service.draining.wait())
    try:
        while not stopped.done():
            waits: set[asyncio.Future[Any]] = {following, stopped}
            await asyncio.wait(waits, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                try:
                    said = following.result()
                except StopAsyncIteration:
                    return
                yield said.encoded()
                following = _next(events)
            elif not stopped.done():
                if not await still_counts(service, caller.token):
                    return
                yield b":\n\n"
        yield Sent("draining", {"text": "the server is being stopped; ask again"}).encoded()
    finally:
        for one in (following, stopped):
            one.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
            await following


def _next(events: AsyncIterator[Sent]) -> "asyncio.Future[Sent]":
    return asyncio.ensure_future(anext(events))


async def still_counts(service: Service, token: str) -> bool:
    """Whether a token that was good when a request came still is."""
    if not token:
        return True
    return await service.ask(lambda gate: gate.tokens.find(token)) is not None
