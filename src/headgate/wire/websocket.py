"""The requests inside a WebSocket, as codex makes them: they pass, and what they say is read.

A message `response.create` is a request for a model; what follows from upstream is its answer, up
to the event that ends it. Refusals come as events.
"""

import time

from headgate.core.answers.signals import REFUSALS
from headgate.core.times import Seconds
from headgate.core.wire.answer_events import AnswerEvents
from headgate.core.wire.apis import Api, key_of
from headgate.core.wire.request_body import read_body
from headgate.core.wire.websocket_frames import WebSocketReader, is_compressed
from headgate.wire.exchange_owner import ExchangeOwner

_REQUEST = "response.create"


class WebSocketRequests:
    """Reads both directions of one WebSocket."""

    def __init__(self, owner: ExchangeOwner, provider: str, extensions: str) -> None:
        compressed = is_compressed(extensions)
        self._readable = compressed is not None
        self._up = WebSocketReader(compressed=bool(compressed))
        self._down = WebSocketReader(compressed=bool(compressed))
        self._owner = owner
        self._provider = provider
        self._key = ""
        self._answer: AnswerEvents | None = None

    def sent(self, data: bytes) -> None:
        """Bytes from the agent."""
        for message in self._up.feed(data) if self._readable else ():
            said = read_body(message.data)
            if said.kind == _REQUEST and said.model:
                self._key = key_of(self._provider, said.model)
                self._answer = AnswerEvents(Api.RESPONSES)

    def received(self, data: bytes) -> None:
        """Bytes from upstream."""
        for message in self._down.feed(data) if self._readable else ():
            answer = self._answer
            if answer is None:
                continue
            if answer.take(message.data) or answer.complete or answer.failed:
                self._ended(answer)
                self._answer = None

    def _ended(self, answer: AnswerEvents) -> None:
        tools = answer.tools.found()
        self._owner.answered(
            self._key, 500 if answer.failed else 200, tools=tools, served=not answer.failed
        )
        if not answer.failed:
            self._owner.accepted(self._key)
            return
        signal = answer.signal(self._provider, Seconds(time.time()), self._owner.rules)
        if signal is not None and signal.kind in REFUSALS:
            self._owner.refused(self._key, signal)
            self._owner.passed_on(self._key, signal)
