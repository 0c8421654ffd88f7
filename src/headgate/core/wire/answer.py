"""An answer as it passes: what its head and its body say, however it is written.

A stream of events is read event by event. Of another body so much is kept that its tokens or its
error can be read at the end. What cannot be decoded is not read, and not called truncated.
"""

from collections.abc import Mapping, Sequence

from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.builtin_rules import BUILTIN
from headgate.core.answers.classify import Response, classify
from headgate.core.answers.signals import Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.core.wire.answer_events import AnswerEvents, Outcome, parsed
from headgate.core.wire.apis import Api
from headgate.core.wire.content_decoding import Decoder
from headgate.core.wire.server_sent_events import EventStream
from headgate.core.wire.token_usage import NO_USAGE, Usage, read_usage, usage_in
from headgate.core.wire.tool_calls import ToolCalls

_LARGEST = 256 * 2**20
"""Bytes that a compressed answer may grow to."""
_LONGEST_BODY = 1024 * 1024
_LONGEST_ERROR = 64 * 1024
_TAIL = 16 * 1024


class AnswerHead(NamedTuple):
    """How an answer begins. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    api: Api
    provider: str = ""
    """As in a key; empty if nobody knows."""


class Answer:
    """Reads an answer chunk by chunk."""

    def __init__(self, head: AnswerHead) -> None:
        self._head = head
        self._accepted = 200 <= head.status < 300
        self._decoder = Decoder(head.headers.get("content-encoding", ""), _LARGEST)
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._stream: EventStream | None = None
        if self._accepted and kind == "text/event-stream":
            self._stream = EventStream(head.api)
        text = kind in {"", "application/json", "text/plain"} or kind.endswith("+json")
        self._kept = _LONGEST_ERROR if not self._accepted else _LONGEST_BODY if text else 0
        self._body = bytearray()
        self._cut = False
        """Whether only the end of the body is left."""
        self._parsed: list[dict[str, object]] | None = None

    def feed(self, chunk: bytes) -> bool:
        """Read on; whether a stream said now that it is complete or failed."""
        if self._decoder.plain:
            return self._read(chunk)
        told = False
        for piece in self._decoder.feed(chunk):
            told = self._read(piece) or told
        return told

    def end(self) -> Outcome:
        """How it ended. Of a body that is no stream and cannot be read, HTTP itself tells."""
        if not self._accepted:
            return Outcome.FAILED
        if self._stream is None:
            found = self._documents()
            if any(isinstance(event.get("error"), dict) for event in found):
                return Outcome.FAILED
            return Outcome.COMPLETE if found else Outcome.UNREAD
        self._stream.end()
        outcome = self._stream.events.outcome()
        unsure = outcome is Outcome.TRUNCATED and not self._decoder.readable
        return Outcome.UNREAD if unsure else outcome

    def signal(self, now: Seconds, rules: Sequence[Rule] = BUILTIN) -> Signal | None:
        """What it says about capacity, as far as it has come; None if nothing."""
        status, headers, _, provider = self._head
        if self._stream is not None and self._stream.events.failed:
            return self._stream.events.signal(provider, now, rules)
        body = b"" if self._stream is not None or self._cut else bytes(self._body)
        return classify(Response(status, headers, body, provider), now, rules)

    def usage(self) -> Usage:
        """How many tokens it took, as far as it has told."""
        if self._stream is not None:
            return self._stream.events.usage()
        if not self._accepted:
            return NO_USAGE
        if self._cut:
            return usage_in(self._head.api, bytes(self._body))
        known = NO_USAGE
        for event in self._documents():
            known = read_usage(self._head.api, event, known)
        return known

    def tool_calls(self) -> list[str]:
        """What identifies each tool call that it asks for, as far as it has come."""
        if self._stream is not None:
            return self._stream.events.tools.found()
        tools = ToolCalls(self._head.api)
        for event in self._documents() if self._accepted else ():
            tools.take(event)
        return tools.found()

    @property
    def events(self) -> AnswerEvents | None:
        """What the events of a stream have said; None if it is no stream."""
        return None if self._stream is None else self._stream.events

    def _read(self, chunk: bytes) -> bool:
        if self._stream is not None:
            return self._stream.feed(chunk)
        if self._kept and (self._accepted or len(self._body) < self._kept):
            self._body += chunk
            self._parsed = None
            if self._accepted and len(self._body) > self._kept:
                self._cut = True
                del self._body[:-_TAIL]
                self._kept = 2 * _TAIL
        return False

    def _documents(self) -> list[dict[str, object]]:
        """What the body has in it: one object, or a list of them as Gemini streams it."""
        if self._parsed is None:
            found = parsed(bytes(self._body)) if self._body and not self._cut else None
            listed = found if isinstance(found, list) else [found]
            self._parsed = [event for event in listed if isinstance(event, dict)]
        return self._parsed
