"""One request that was let in, from its headers to its end, however it ends."""

import asyncio
import json
import struct
import time
from asyncio import Transport
from collections.abc import Iterator
from socket import SO_LINGER, SOL_SOCKET

from aiohttp import web

from headgate.core.named_tuple import NamedTuple
from headgate.sim.dialects.dialect import Dialect, Json, Refusal, Reply
from headgate.sim.server.behaviour import Script
from headgate.sim.server.provider import Provider, Visit

CHUNK = 50
"""Milliseconds between two chunks of a stream, at least."""
PING = 10_000
"""Milliseconds of silence after which a stream says that it is still there."""
_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class Play(NamedTuple):
    """What it takes to answer a request."""

    provider: Provider
    visit: Visit
    dialect: Dialect
    reply: Reply

    async def perform(self, request: web.BaseRequest, *, stream: bool) -> web.StreamResponse:
        """Answer it. Whatever happens, it is written down as ended."""
        try:
            return await (self._stream(request) if stream else self._whole(request))
        except (asyncio.CancelledError, ConnectionError):
            self.provider.end(self.visit, "cancelled")
            raise
        except Exception:
            reset(request.transport)
            raise
        finally:
            self.provider.end(self.visit, "cut", "fault")

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        script, dialect, reply = self.visit.script, self.dialect, self.reply
        response = web.StreamResponse(headers={**self._headers(), **_STREAM})
        await self._until(script.headers)
        if script.cut_by != "rst" or script.cut is None or script.cut > script.headers:
            await response.prepare(request)
            if opening := dialect.opening(reply):
                await response.write(opening)
        chunks = 0
        for at, first, end in pieces(script):
            if script.cut is not None and at >= script.cut:
                break
            await self._until(at, response)
            await response.write(dialect.delta(reply, chunks, reply.text(first, end)))
            chunks += 1
        await self._until(script.duration if script.cut is None else script.cut, response)
        # Ended before its last byte is out: whoever has read that may come again at once.
        if script.cut is None:
            self.provider.end(self.visit, "exit")
            await response.write(dialect.closing(reply, chunks))
        else:
            self.provider.end(self.visit, "cut", script.cut_by)
            if script.cut_by == "rst":
                reset(request.transport)
                return response
            if script.cut_by == "error":
                await response.write(dialect.broken(reply, chunks))
        await response.write_eof()
        return response

    async def _whole(self, request: web.BaseRequest) -> web.StreamResponse:
        script, headers = self.visit.script, self._headers()
        await self._until(script.duration if script.cut is None else script.cut)
        if script.cut is None:
            self.provider.end(self.visit, "exit")
            return document(self.dialect.whole(self.reply), headers=headers)
        self.provider.end(self.visit, "cut", script.cut_by)
        if script.cut_by == "rst":
            reset(request.transport)
        elif script.cut_by == "eof" and request.transport:
            request.transport.close()
        error = self.dialect.error(Refusal("error"), self.reply.number)
        return document(error, 500, headers)

    def _headers(self) -> dict[str, str]:
        limits = self.provider.account(self.visit.who.account).limits(self.provider.now())
        return self.dialect.headers(self.reply.number, limits, time.time())

    async def _until(self, at: int, response: web.StreamResponse | None = None) -> None:
        """Wait for a moment of the script; a stream that is silent for long says that it lives."""
        at += self.visit.begun
        while (left := at - self.provider.now()) > 0:
            await asyncio.sleep(min(left, PING) / 1_000)
            if left > PING and response is not None and self.dialect.ping:
                await response.write(self.dialect.ping)


def pieces(script: Script) -> Iterator[tuple[int, int, int]]:
    """When each chunk of a stream is due, and which tokens it has."""
    span, tokens = script.duration - script.first_token, script.tokens
    count = min(tokens, span // CHUNK + 1)
    for n in range(count):
        at = script.first_token + span * n // count
        yield at, n * tokens // count, (n + 1) * tokens // count


def reset(transport: Transport | None) -> None:
    """Break a connection off so that its other end sees an error, not an end."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if transport is None or sock is None or transport.is_closing():
        return
    sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def document(
    value: Json, status: int = 200, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    """A JSON answer."""
    body = json.dumps(value).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
