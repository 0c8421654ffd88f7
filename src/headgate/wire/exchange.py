"""One request of an agent under the meter `wire`: it goes where it would have gone, and is read.

A refusal that will be over soon is waited out here, and the request sent again: the agent sees a
slow answer, and no refusal. A longer one is the agent's to see. An answer that ends without its
protocol's last event is passed on as a broken connection, never as a clean end.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Mapping

from headgate.core.answers.signals import REFUSALS, Signal
from headgate.core.key_patterns import NO_KEY
from headgate.core.times import Seconds, seconds
from headgate.core.wire.answer import Answer, AnswerHead
from headgate.core.wire.answer_events import Outcome
from headgate.core.wire.apis import key_of, plain_headers, read_head
from headgate.core.wire.keepalive import keepalive, silence
from headgate.core.wire.request_body import RequestBody
from headgate.core.wire.task_identity import task_of
from headgate.core.wire.token_usage import NO_USAGE
from headgate.core.wire.upstream_errors import error_event
from headgate.proxy import (
    PASS_ON,
    TRY_AGAIN,
    Client,
    Decision,
    End,
    Failure,
    Reply,
    RequestHead,
    ResponseHead,
    Verdict,
)
from headgate.proxy.policy import Remedy
from headgate.wire.exchange_owner import Destination, ExchangeOwner, ExchangeRecord
from headgate.wire.keep_waiting import KeepWaiting
from headgate.wire.late_calls import LateCalls
from headgate.wire.websocket import WebSocketRequests

_ERROR_BODY = 64 * 1024
_KEPT_BODY = 16 * 2**20
"""Bytes of a request that are kept, so that it can be sent again."""
_SWITCHING = 101
_PLAINLY = ((b"accept-encoding", b"identity"),)
_MOST_TRIES = 6
_LONGEST_WAIT = Seconds(60)
"""No refusal is waited out for longer."""
_SPREAD = Seconds(0.5)
"""Within at least so long, those who were refused together ask again."""
_FIRST_WAIT = Seconds(2)
"""After a refusal that does not say for how long; it doubles each time."""


class WireExchange:
    """One request."""

    gathers = False
    """Whether what it is, is read from its whole body before it is sent."""

    def __init__(
        self, owner: "ExchangeOwner", head: RequestHead, client: Client, to: Destination
    ) -> None:
        self._owner = owner
        self._client = client
        self._to = to
        self._headers = plain_headers(head.headers)
        self._request = read_head(head.method.decode("latin-1"), to.path, self._headers)
        self.body_wanted = _KEPT_BODY if self._request.takes_seat is not False else 0
        self._web_socket: WebSocketRequests | None = None
        self._body: RequestBody | None = None
        if not self.gathers and self._request.takes_seat is not False and not self._request.model:
            self._body = RequestBody(self._headers.get("content-encoding", ""))
        self._answer: Answer | None = None
        self.task = ""
        self._known_key = NO_KEY
        self._status = 0
        self._tries = self._refusals = 0
        self._began = time.monotonic()
        self._waited = 0.0
        self._first_byte: float | None = None
        self.conversation = task_of(self._headers)
        self._resendable = True
        owner.begun(self)

    @property
    def counts(self) -> bool:
        """Whether a model works for it."""
        if self._request.takes_seat is None:
            return bool(self.model)
        return self._request.takes_seat

    @property
    def model(self) -> str:
        """The model it names, as far as it has been read."""
        if self._request.model or self._body is None:
            return self._request.model
        return self._body.so_far().model

    @property
    def key(self) -> str:
        """The key it counts under."""
        if self._known_key:
            return self._known_key
        return key_of(self._to.provider, self.model) if self.counts else NO_KEY

    @property
    def streams(self) -> bool:
        """Whether a stream of events is asked for."""
        if self._request.streams is not None:
            return self._request.streams
        return self._body is not None and self._body.so_far().stream

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision | Awaitable[Decision]:
        """Send it where it would have gone."""
        self._tries += 1
        self._resendable = complete
        if self._tries == 1 and self._body is not None:
            self._body.feed(bytes(body))
        if self._client.started:  # what follows early headers cannot be compressed
            return self._to.route._replace(changes=_PLAINLY)
        return self._to.route

    def sent(self, data: bytes) -> None:
        """Look for the model in the request's body."""
        if self._web_socket is not None:
            self._web_socket.sent(data)
        elif self._body is not None and self._tries == 1:
            self._body.feed(data)
        self._owner.heard()

    def answer_wanted(self, head: ResponseHead) -> int:
        """The body of an error tells what kind of refusal it is."""
        return _ERROR_BODY if head.status >= 400 else 0

    def answered(
        self, head: ResponseHead, body: bytes, *, complete: bool
    ) -> Verdict | Awaitable[Verdict]:
        """Learn from the answer, and wait a short refusal out."""
        headers = plain_headers(head.headers)
        self._status = head.status
        if head.status == _SWITCHING:
            extensions = headers.get("sec-websocket-extensions", "")
            self._web_socket = WebSocketRequests(self._owner, self._provider, extensions)
            return PASS_ON
        self._answer = Answer(AnswerHead(head.status, headers, self._request.api, self._provider))
        key = self.key
        if key == NO_KEY:
            return PASS_ON
        self._known_key = key  # upstream has read it, so it is all there
        self._owner.told(key, headers)
        if head.status < 400:
            self._owner.accepted(key)
            return self._began_well(headers)
        read = Answer(AnswerHead(head.status, headers, self._request.api, self._provider))
        read.feed(body)
        signal = read.signal(Seconds(time.time()), self._owner.rules)
        if signal is None or signal.kind not in REFUSALS:
            return self._pass_on(body)
        self._refused(signal)
        final = headers.get("x-should-retry", "").strip().lower() == "false"
        wait = None if final else self._waits(signal)
        if wait is None:
            self._owner.passed_on(key, signal)
            return self._pass_on(body)
        return self._hold(wait)

    def _began_well(self, headers: Mapping[str, str]) -> Verdict:
        """Pass the answer on; one that is no stream has no place in a stream that has begun."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if self._client.started and kind != "text/event-stream":
            words = b'{"error": {"message": "upstream answered without a stream"}}'
            return Reply(200, (), error_event(self._request.api, 502, words))
        return PASS_ON

    def _refused(self, signal: Signal) -> None:
        """Tell the pools that upstream said no."""
        self._refusals += 1
        self._owner.refused(self.key, signal)

    def _pass_on(self, body: bytes) -> Verdict:
        """Upstream's error; as an event, if the stream has begun already."""
        if not self._client.started:
            return PASS_ON
        return Reply(200, (), error_event(self._request.api, self._status, body))

    @property
    def _provider(self) -> str:
        return self._to.provider

    def _waits(self, signal: Signal) -> Seconds | None:
        """For how long to wait before it is sent again; None if the agent is to see the refusal."""
        if not self._resendable or self._tries >= _MOST_TRIES:
            return None
        said = signal.retry_after
        wait = _FIRST_WAIT * 2 ** (self._tries - 1) if said is None else seconds(said)
        spread = max(wait / 10, _SPREAD)
        wait += spread * random.random()  # noqa: S311 - so that those who were refused together part
        patience = min(self._owner.patience, _LONGEST_WAIT) + spread
        if not self.streams:
            patience = min(patience, silence(self._headers.get("user-agent", "")))
        left = patience - (time.monotonic() - self._began)
        return Seconds(wait) if wait <= left else None

    async def _hold(self, wait: Seconds) -> Verdict:
        """Wait, keep the client waiting, and try again."""
        keeps = keepalive(
            self._request.api, self._headers.get("user-agent", ""), streams=self.streams
        )
        keeping = KeepWaiting(self._client, keeps, self._began, LateCalls())
        keeping.begin()
        try:
            await asyncio.sleep(wait)
        finally:
            keeping.end()
        self._waited += wait
        return TRY_AGAIN

    def failed(self, failure: Failure) -> Remedy:
        """Leave it to the engine: the agent sees that upstream cannot be reached."""
        return None

    def received(self, data: bytes) -> None:
        """Read the answer as it passes."""
        if self._first_byte is None:
            self._first_byte = time.monotonic() - self._began
        self._owner.heard()
        if self._web_socket is not None:
            self._web_socket.received(data)
            return
        if self._answer is not None and self._answer.feed(data):
            self._said()

    def _said(self) -> None:
        """A stream says that it is complete, or that something went wrong in it."""
        answer = self._answer
        if answer is None or not self.counts:
            return
        if answer.events is not None and answer.events.failed:
            signal = answer.signal(Seconds(time.time()), self._owner.rules)
            if signal is not None and signal.kind in REFUSALS:
                self._refused(signal)
                self._owner.passed_on(self.key, signal)

    @property
    def tools(self) -> list[str]:
        """The tools that its answer has the agent call, as far as it has come."""
        return self._answer.tool_calls() if self._answer is not None and self.counts else []

    def finished(self) -> bool:
        """Whether the answer is whole by its own protocol."""
        if self._answer is None or not self.counts or self._status >= 300:
            return True
        return self._answer.end() is not Outcome.TRUNCATED

    def _really(self, how: End) -> End:
        """How it ended. Who leaves after the last event of a stream has cancelled nothing."""
        events = self._answer.events if self._answer is not None else None
        whole = events is not None and events.outcome() is Outcome.COMPLETE
        return End.COMPLETE if whole and how is End.CLIENT_GONE else how

    def ended(self, how: End, words: str) -> None:
        """Keep what is known of it."""
        how = self._really(how)
        answer = self._answer
        usage = answer.usage() if answer is not None else NO_USAGE
        said = answer.events if answer is not None else None
        self._owner.ended(
            self,
            ExchangeRecord(
                key=self.key,
                task=self.task,
                status=self._status,
                outcome=how.value,
                waited=self._waited,
                first_byte=self._first_byte,
                took=time.monotonic() - self._began,
                usage=usage,
                tries=self._tries,
                refused=self._refusals,
                tools=self.tools,
                conversation=self.conversation,
                failed=said is not None and said.failed,
            ),
        )
