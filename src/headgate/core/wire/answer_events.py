"""What the events of an answer say: that it is complete or failed, tokens, and calls of tools.

An event is a JSON object, in a server-sent event or in a message of a WebSocket. Each API says in
its own way that an answer is complete:

    messages    message_stop
    chat        [DONE], or a choice with a finish_reason
    responses   response.completed, response.incomplete, response.failed
    gemini      a candidate with a finishReason, or a prompt that was blocked

An answer that ends without it is truncated. Nearly all events are parts of the answer's text, and
are not parsed: `MARKS` finds those that may say something. A quotation mark within text is written
with a backslash before it, so text does not look like a mark.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.builtin_rules import BUILTIN
from headgate.core.answers.classify import Response, classify
from headgate.core.answers.retry_after import lowered
from headgate.core.answers.signals import Signal
from headgate.core.times import Seconds
from headgate.core.wire.apis import Api
from headgate.core.wire.token_usage import NO_USAGE, Usage, read_usage, usage_in
from headgate.core.wire.tool_calls import ToolCalls

_LONGEST_ERROR = 64 * 1024
DONE = b"[DONE]"
_LAST = "completed|incomplete|failed|cancelled|done"

MARKS: Mapping[Api, re.Pattern[bytes]] = {
    api: re.compile(mark.encode())
    for api, mark in {
        Api.MESSAGES: r'"(?:message_|error"|tool_use"|input_json_delta")',
        Api.CHAT: r'"(?:finish_reason"\s*+:\s*+"|error"|tool_calls"\s*+:\s*+\[\s*+\{)',
        Api.RESPONSES: rf'"(?:response\.(?:{_LAST})"|error"\s*+:\s*+[{{"]|type"\s*+:\s*+"error"'
        r'|codex\.rate_limits"|response\.output_item\.done")',
        Api.GEMINI: r'"(?:finishReason|blockReason|error|functionCall)"',
    }.items()
}
"""What an event has in it if it may say more than a part of the answer."""
_ENDS = {
    Api.MESSAGES: re.compile(rb'"type"\s*+:\s*+"message_stop"'),
    Api.CHAT: re.compile(rb'"finish_reason"\s*+:\s*+"'),
    Api.RESPONSES: re.compile(rf'"type"\s*+:\s*+"response\.(?:{_LAST})"'.encode()),
    Api.GEMINI: re.compile(rb'"finishReason"\s*+:\s*+"'),
}
"""What the last event has in it, where it is too long to be parsed."""


class Outcome(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    """It said itself that something went wrong."""
    TRUNCATED = "truncated"
    """It ended without the last event of its protocol."""
    UNREAD = "unread"
    """It could not be read, or has no last event that is known."""


class AnswerEvents:
    """What the events of one answer have said so far."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.complete = False
        self.failed = False
        self.limits: Mapping[str, object] | None = None
        """What codex's service said of its windows in an event, for `told_limits`."""
        self.tools = ToolCalls(api)
        self._usage = NO_USAGE
        self._unread_usage = b""
        self._error = b""

    def take(self, data: bytes) -> bool:
        """Take an event; whether it said that the answer is complete or failed."""
        if data.strip() == DONE:
            self.complete = True
            return True
        marks = MARKS.get(self.api)
        return marks is not None and bool(marks.search(data)) and self.take_marked(data)

    def take_marked(self, data: bytes) -> bool:
        """Take an event that has one of the marks, as `take` does."""
        event = parsed(data)
        if not isinstance(event, dict):
            return False
        if b'"usage' in data:
            self._usage = read_usage(self.api, event, self._usage)
        if _says_error(event):
            self.failed, self._error = True, data[:_LONGEST_ERROR]
            return True
        self.tools.take(event)
        if _says_complete(self.api, event):
            self.complete = True
            return True
        if event.get("type") == "codex.rate_limits":
            self.limits = event
        return False

    def keep_usage(self, data: bytes) -> None:
        """Keep an event that tells of tokens, until somebody asks: the next one tells more."""
        self._unread_usage = data

    def take_long(self, head: bytes, tail: bytes) -> bool:
        """Take an event of which only the two ends are left, as `take` does."""
        if self.api not in _ENDS:
            return False
        self._usage = usage_in(self.api, tail, self._usage)
        ends = any(_ENDS[self.api].search(part) for part in (head, tail))
        self.complete = self.complete or ends
        return ends

    def usage(self) -> Usage:
        """How many tokens it took, as far as it has told."""
        if self._unread_usage:
            event = parsed(self._unread_usage)
            self._unread_usage = b""
            if isinstance(event, dict):
                self._usage = read_usage(self.api, event, self._usage)
        return self._usage

    def outcome(self) -> Outcome:
        """How it ended, if it has ended now."""
        if self.failed:
            return Outcome.FAILED
        if self.complete:
            return Outcome.COMPLETE
        return Outcome.TRUNCATED if self.api in MARKS else Outcome.UNREAD

    def signal(self, provider: str, now: Seconds, rules: Sequence[Rule] = BUILTIN) -> Signal | None:
        """What its error says about capacity; None if there was none, or it says nothing on it."""
        event = parsed(self._error)
        if not isinstance(event, dict):
            return None
        status = event.get("status", event.get("status_code"))
        if not isinstance(status, int) or not 400 <= status < 600:
            status = 200  # as that of the answer which the error came in
        headers = lowered(event.get("headers"))
        return classify(Response(status, headers, self._error, provider), now, rules)


def parsed(data: bytes) -> object:
    """A JSON value; None if it is none."""
    try:
        return json.loads(data.decode("utf-8", "replace")) if data else None
    except (ValueError, RecursionError):
        return None


def _says_error(event: Mapping[str, object]) -> bool:
    """Whether an event is an error, or carries one. Where there is none, some write null."""
    inner = event.get("response")
    within = inner.get("error") if isinstance(inner, dict) else None
    kind = event.get("type")
    return bool(event.get("error") or within or kind in {"error", "response.failed"})


def _says_complete(api: Api, event: Mapping[str, object]) -> bool:
    kind = event.get("type")
    match api:
        case Api.MESSAGES:
            return kind == "message_stop"
        case Api.CHAT:
            return any(_texts(event.get("choices"), "finish_reason"))
        case Api.RESPONSES:
            return isinstance(kind, str) and bool(re.fullmatch(rf"response\.(?:{_LAST})", kind))
        case Api.GEMINI:
            inner = event.get("response", event)  # as Google wraps it for its own login
            if not isinstance(inner, dict):
                return False
            blocked = inner.get("promptFeedback")
            return any(_texts(inner.get("candidates"), "finishReason")) or (
                isinstance(blocked, dict) and isinstance(blocked.get("blockReason"), str)
            )
        case Api.PLAIN | Api.UNKNOWN:
            return False


def _texts(items: object, name: str) -> list[str]:
    """The texts of this name in a list of objects."""
    listed = items if isinstance(items, list) else []
    found = (item.get(name) for item in listed if isinstance(item, dict))
    return [text for text in found if isinstance(text, str)]
