"""One connection: how long and how large a head may be, and who is at the other end.

uvicorn reads HTTP with httptools, and has no bound for a head or for the time that it takes. What
is slow or too much is answered, if it can be, and cut off.
"""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from headgate.api.problems import MEDIA_TYPE, Problem

HEAD = 32 * 1024
"""How many bytes the head of a request may have."""
HEAD_TIME = 10.0
"""Within how many seconds it has to be there."""
STALL = 30.0
"""After how many seconds somebody who reads nothing of an answer is cut off."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds. `most_connections` is set once for all of them."""

    most_connections = 4_000
    head_time = HEAD_TIME
    stall = STALL

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **named)
        self.peer: Any = None
        """Who is at the other end, once that was asked."""
        self._head = 0
        self._problem = Problem("bad_request", "this is no HTTP/1.1 that can be read")
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > self.most_connections:
            self._refuse(Problem("too_many_connections", "try again later"))
            return
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._end_head()
        self._resume()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        if self._head_timer is None and not self._busy:
            self._begin_head()
        super().data_received(data)

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head = 0
        self.scope["state"]["connection"] = self

    def on_url(self, url: bytes) -> None:
        """A part of its target."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes | None) -> None:
        """One of its headers."""
        self._count(name, value or b"")
        super().on_header(name, value or b"")

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._end_head()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request."""
        self._refuse(self._problem)

    def pause_writing(self) -> None:
        """The other end does not read."""
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(self.stall, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self._resume()
        super().resume_writing()

    def _resume(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _count(self, *parts: bytes) -> None:
        self._head += sum(map(len, parts)) + 4
        if self._head > HEAD:
            text = f"more than {HEAD // 1024} KiB of target and headers"
            self._problem = Problem("head_too_large", text)
            raise ValueError(text)

    def _begin_head(self) -> None:
        self._end_head()
        self._head_timer = self.loop.call_later(self.head_time, self._too_slow)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._refuse(Problem("too_slow", f"no whole head within {self.head_time:g} s"))

    def _refuse(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        body = json.dumps(problem.document()).encode()
        head = [
            STATUS_LINE[problem.status],
            f"content-type: {MEDIA_TYPE}\r\n".encode(),
            f"content-length: {len(body)}\r\n".encode(),
            b"connection: close\r\n\r\n",
        ]
        self.transport.write(b"".join([*head, body]))
        self.transport.close()
