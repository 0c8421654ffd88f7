"""One request of an agent under the meter `requests`: it waits for a seat of its model.

The model is in the body, so the body is gathered before anything is sent. A refusal of upstream's
gives the seat back and puts the request into the line again, at its old place: the agent sees a
slow answer. What it must see it gets as its provider would say it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable
from functools import partial

from headgate.core.answers.signals import ACCEPTED, REFUSALS, Signal
from headgate.core.key_patterns import NO_KEY
from headgate.core.times import Seconds, seconds
from headgate.core.wire.answer import Answer, AnswerHead
from headgate.core.wire.apis import key_of, plain_headers
from headgate.core.wire.keepalive import keepalive
from headgate.core.wire.refusals import OwnRefusal, refusal_event, refusal_reply
from headgate.core.wire.request_body import NOTHING, BodyFields, RequestBody, read_body
from headgate.core.wire.task_identity import task_of
from headgate.core.wire.upstream_errors import error_event
from headgate.errors import HeadgateError, NoRoomError, WaitTimeoutError
from headgate.gate import Lease
from headgate.proxy import (
    PASS_ON,
    TRY_AGAIN,
    Client,
    Decision,
    End,
    Reply,
    RequestHead,
    ResponseHead,
    Route,
    Verdict,
)
from headgate.wire.admission import Admission
from headgate.wire.exchange import WireExchange
from headgate.wire.exchange_owner import Destination, ExchangeOwner
from headgate.wire.keep_waiting import KeepWaiting, encoded

_LARGEST_BODY = 64 * 2**20
"""So much of a body is gathered; of a larger one, the model has to be in there."""
_PIECE = 64 * 1024
_MOST_TRIES = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds before a request that was refused asks again; its pool may rest for longer."""
_TELL_AFTER = 0.25
"""Seconds after which it is told that upstream has accepted a request."""
_IDENTITY = ((b"accept-encoding", b"identity"),)
_YES = Signal(ACCEPTED)
_NO_WEBSOCKET = Reply(
    426,
    ((b"content-type", b"text/plain; charset=utf-8"), (b"upgrade", b"HTTP/1.1")),
    b"headgate counts each request by itself here: use HTTP, not a WebSocket\n",
)


class AdmittedExchange(WireExchange):
    """One request that needs a seat."""

    gathers = True

    def __init__(
        self,
        owner: ExchangeOwner,
        head: RequestHead,
        client: Client,
        to: Destination,
        admission: Admission,
    ) -> None:
        super().__init__(owner, head, client, to)
        self._admission = admission
        self._fields: BodyFields = NOTHING
        self._key = NO_KEY
        self._turn = ("", "")
        self._since = Seconds(0)
        self._lease: Lease | None = None
        self._keeping: KeepWaiting | None = None
        self._refused_since: float | None = None
        self._over = False
        self._loop = asyncio.get_running_loop()
        if self._request.takes_seat is not False and not self._request.websocket:
            self.body_wanted = _LARGEST_BODY

    @property
    def model(self) -> str:
        """The model it names."""
        return self._request.model or self._fields.model

    @property
    def key(self) -> str:
        """The key it counts under."""
        return self._key

    @property
    def streams(self) -> bool:
        """Whether a stream of events is asked for."""
        said = self._request.streams
        return self._fields.stream if said is None else said

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision | Awaitable[Decision]:
        """Have it wait for its seat, if it needs one."""
        if self._request.websocket and self._request.takes_seat:
            return _NO_WEBSOCKET
        if not self._tries:
            self._read(body, complete=complete)
        self._resendable = complete
        self._tries += 1
        return self._to.route if self._key == NO_KEY else self._admitted()

    def _read(self, body: bytes | bytearray, *, complete: bool) -> None:
        """Find out what it is."""
        if self._request.takes_seat is False:
            return
        self._fields = self._parsed(body, complete=complete)
        if not self.counts:
            return
        self._key = key_of(self._to.provider, self.model)
        conversation = task_of(self._headers, self._fields.session)
        self.task = self._admission.task(conversation)
        self._turn = (conversation or self.task, self._key)
        self._since = self._admission.turns.since(self._turn, Seconds(time.time()))
        keeps = keepalive(
            self._request.api, self._headers.get("user-agent", ""), streams=self.streams
        )
        self._keeping = KeepWaiting(self._client, keeps, self._began, self._admission.late_calls)

    def _parsed(self, body: bytes | bytearray, *, complete: bool) -> BodyFields:
        encoding = self._headers.get("content-encoding", "")
        if complete and not encoding and len(body) <= _PIECE:
            return read_body(bytes(body))
        reads = RequestBody(encoding)
        for at in range(0, len(body), _PIECE):
            reads.feed(bytes(body[at : at + _PIECE]))
        return reads.end() if complete else reads.so_far()

    async def _admitted(self) -> Decision:
        """Wait for the seat, and keep the client waiting meanwhile."""
        keeping, asked = self._keeping, time.monotonic()
        timeout = self._admission.queue_timeout(self._key)
        left = None if timeout is None else Seconds(max(self._began + timeout - asked, 0.001))
        slot = self._admission.slot(
            self._key, task=self.task, since=self._since, timeout=left, on_end=self._stop
        )
        self._admission.wait_begins()
        if keeping is not None:
            keeping.begin()
        try:
            lease = await slot.acquire_async()
        except (WaitTimeoutError, NoRoomError):
            waited = Seconds(time.monotonic() - self._began)
            return self._say(await self._admission.no_seat(self._key, waited))
        except HeadgateError as error:
            return self._say(self._admission.no_store(error))
        finally:
            self._waited += time.monotonic() - asked
            self._admission.wait_ends()
            if keeping is not None:
                keeping.end()
        if self._over:
            lease.release(completed=False)
            raise asyncio.CancelledError
        self._lease = lease
        return self._route()

    def _route(self) -> Route:
        """Where it goes. A stream that has begun was announced as plain, and has to be."""
        route = self._to.route
        if not self._client.started:
            return route
        return route._replace(changes=(*route.changes, *_IDENTITY))

    def _say(self, refusal: OwnRefusal) -> Reply:
        """A refusal of our own, as its provider would write it."""
        api = self._request.api
        if self._client.started:
            return Reply(200, (), refusal_event(api, refusal))
        said = refusal_reply(api, refusal)
        return Reply(said.status, encoded(said.headers), said.body)

    def _stop(self, error: HeadgateError) -> None:
        """Somebody has cancelled it, or it has lasted for too long; any thread may call this."""
        self._loop.call_soon_threadsafe(partial(self._client.reset, str(error)))

    def sent(self, data: bytes) -> None:
        """What is more than was gathered passes unread."""
        self._owner.heard()

    def answered(
        self, head: ResponseHead, body: bytes, *, complete: bool
    ) -> Verdict | Awaitable[Verdict]:
        """Learn from the answer; if it is a refusal, ask again."""
        headers = plain_headers(head.headers)
        self._status = head.status
        about = AnswerHead(head.status, headers, self._request.api, self._provider)
        self._answer = Answer(about)
        lease = self._lease
        if lease is None:
            return PASS_ON
        self._admission.told(lease, headers)
        if head.status < 400:
            self._owner.accepted(self._key)
            self._admission.late_calls.add(self, _TELL_AFTER, self._tell_accepted)
            return self._began_well(headers)
        read = Answer(about)
        read.feed(body)
        signal = read.signal(Seconds(time.time()), self._owner.rules)
        if signal is None or signal.kind not in REFUSALS:
            return self._pass_on(body)
        self._refused(signal)
        lease.release(completed=False)
        self._lease = None
        final = headers.get("x-should-retry", "").strip().lower() == "false"
        if not final and self._may_ask_again(signal):
            return self._ask_again()
        self._owner.passed_on(self._key, signal)
        return self._pass_on(body)

    def _tell_accepted(self) -> None:
        """Let the pools know that it was accepted; one that ends soon tells it with its end."""
        if self._lease is not None:
            self._lease.tell(_YES)

    def _refused(self, signal: Signal) -> None:
        """Tell the pools that upstream said no to this one."""
        self._refusals += 1
        if self._refused_since is None:
            self._refused_since = time.monotonic()
        if self._lease is not None:
            self._lease.tell(signal)

    def _may_ask_again(self, signal: Signal) -> bool:
        """Whether the agent need not know of a refusal: it will be over soon enough."""
        since = self._refused_since or time.monotonic()
        left = since + self._owner.patience - time.monotonic()
        timeout = self._admission.queue_timeout(self._key)
        if timeout is not None:
            left = min(left, self._began + timeout - time.monotonic())
        wait = seconds(signal.retry_after) if signal.retry_after is not None else 0.0
        return self._resendable and self._tries < _MOST_TRIES and wait <= left and left > 0

    async def _ask_again(self) -> Verdict:
        pause = min(_FIRST_PAUSE * 2 ** (self._tries - 1), _LONGEST_PAUSE)
        pause *= 0.5 + random.random()  # noqa: S311 - so that those who were refused together part
        if self._keeping is not None:
            self._keeping.begin()
        try:
            await asyncio.sleep(pause)
        finally:
            if self._keeping is not None:
                self._keeping.end()
        self._waited += pause
        return TRY_AGAIN

    def _pass_on(self, body: bytes) -> Verdict:
        """Upstream's error, as an event if the stream has begun already."""
        if not self._client.started:
            return PASS_ON
        return Reply(200, (), error_event(self._request.api, self._status, body))

    def ended(self, how: End, words: str) -> None:
        """Give the seat back."""
        how = self._really(how)
        self._over = True
        if self._keeping is not None:
            self._keeping.end()
        served = how is End.COMPLETE and 200 <= self._status < 300
        lease, self._lease = self._lease, None
        untold = self._admission.late_calls.discard(self)
        if lease is not None:
            lease.release(completed=served, accepted=untold)
        if self._key != NO_KEY and (served or how is End.CLIENT_GONE):
            self._admission.turns.answered(self._turn, calls_tool=served and bool(self.tools))
        super().ended(how, words)
