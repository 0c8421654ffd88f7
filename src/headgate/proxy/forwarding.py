"""One request from its head to its end: asks the policy, asks upstream, passes the answer on.

    COLLECTING   gathers as much of the body as the policy wants to see
    DECIDING     the policy decides: where to, or what to do without an answer
    ASKING       upstream is being connected to, gets the request, or thinks
    JUDGING      the policy looks at the answer's head, and at its body if it wants
    PASSING      the answer goes to the client
    OVER         the policy knows how it ended

What can be done at once is done at once, without a task: a request whose policy does not wait and
whose upstream has an idle connection leaves in the same step of the event loop in which it came.
"""

from enum import IntEnum
from functools import partial

from headgate.proxy.attempt import UPGRADE, Attempt
from headgate.proxy.client_side import ClientSide
from headgate.proxy.download import Download
from headgate.proxy.failures import plain_reply
from headgate.proxy.heads import NO_BODY, Headers, ResponseHead, write_response
from headgate.proxy.policy import (
    Decision,
    End,
    Exchange,
    Failure,
    Open,
    PassingExchange,
    PassOn,
    Remedy,
    Reply,
    Route,
    TryAgain,
    Tunnel,
    Verdict,
)
from headgate.proxy.policy_call import PolicyCall
from headgate.proxy.request_checks import CheckedRequest
from headgate.proxy.runtime import Runtime
from headgate.proxy.splice import Splice
from headgate.proxy.upload import Upload
from headgate.proxy.upstream import UpstreamConnection

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TUNNEL_OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Stage(IntEnum):
    """How far a request is."""

    COLLECTING = 0
    DECIDING = 1
    ASKING = 2
    JUDGING = 3
    PASSING = 4
    OVER = 5


class _NoExchange(PassingExchange):
    """Stands in while the policy has none."""

    def begin(self, body: bytes | bytearray, *, complete: bool) -> Decision:
        return plain_reply(502, "The proxy has no policy for this request.")


_NO_EXCHANGE = _NoExchange()


class Forwarding:
    """The life of one request."""

    __slots__ = (
        *("_answer", "_answer_ended", "_attempt", "_call", "_client", "_continued", "_cut"),
        *("_download", "_exchange", "_judged_once", "_request", "_runtime", "_stage", "_upload"),
        *("_wanted", "_who"),
    )

    def __init__(self, runtime: Runtime, client: ClientSide, request: CheckedRequest) -> None:
        self._runtime = runtime
        self._client = client
        self._request = request
        self._exchange: Exchange = _NO_EXCHANGE
        self._stage = Stage.COLLECTING
        self._upload = Upload(request.framing)
        self._download = Download(version=request.head.version, method=request.head.method)
        self._attempt: Attempt | None = None
        self._call = PolicyCall(runtime, self._policy_broke)
        self._continued = not request.expects_continue
        self._answer: list[bytes] = []
        self._answer_ended = False
        self._judged_once = False
        self._wanted = 0
        self._cut: Failure | None = None
        self._who = "Upstream"

    # The client's side.

    @property
    def body_complete(self) -> bool:
        """Whether the client has sent its whole request."""
        return self._upload.complete

    @property
    def started(self) -> bool:
        """Whether the client has been sent response headers."""
        return self._download.started

    def take_turn(self) -> None:
        """Begin: the requests before it on its connection are over."""
        try:
            exchange = self._runtime.policy.exchange(self._request.head, self._client.peer, self)
            self._exchange = exchange
            self._wanted = exchange.body_wanted
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            self._policy_broke(error)
            return
        self._upload.keep = max(self._upload.keep, self._wanted)
        if self._wanted:
            self._continue()
        self.step()

    def step(self) -> None:
        """Begin if enough of the body is there."""
        upload = self._upload
        if self._stage is Stage.COLLECTING and (
            upload.complete or len(upload.held) >= self._wanted
        ):
            self._begin()

    def body_arrived(self, data: bytes) -> None:
        """A part of the body."""
        if self._stage is Stage.OVER:
            return
        self._upload.add(data)
        if self._stage > Stage.DECIDING:
            self._call.look(self._exchange.sent, data)
            if self._upload.unsent and self._stage < Stage.OVER:
                self._client.pause()

    def body_done(self, trailers: Headers) -> None:
        """The end of the body."""
        if self._stage is not Stage.OVER:
            self._upload.finish(trailers)

    def client_writable(self, *, writable: bool) -> None:
        """Read upstream only as fast as the client takes it."""
        upstream = self._attempt.upstream if self._attempt is not None else None
        if upstream is not None and self._stage is Stage.PASSING:
            if writable:
                upstream.resume()
            else:
                upstream.pause()

    def client_gone(self) -> None:
        """Nobody waits any more."""
        self._end(End.CLIENT_GONE, "The client closed the connection.")

    def client_broke(self, reply: Reply) -> None:
        """The body is no valid HTTP: whatever was sent upstream of it is broken off."""
        self._answer_with(reply, End.BROKEN, reply.body.decode().strip(), keep=False)

    # For the policy while it waits.

    def start(self, status: int, headers: Headers) -> None:
        """Send response headers early."""
        if self._stage is not Stage.OVER and not self.started:
            self._client.write(self._download.early(status, headers, close=not self._keep))

    def keep_alive(self, data: bytes) -> None:
        """Write bytes into a body that was started early."""
        if Stage.COLLECTING < self._stage < Stage.PASSING and self.started:
            self._client.write(self._download.body(data))

    def reset(self, why: str) -> None:
        """End it at once."""
        self._reset(End.REFUSED, why)

    # Where to.

    def _begin(self) -> None:
        self._stage = Stage.DECIDING
        upload = self._upload
        if not upload.complete:
            self._client.pause()  # so that the body stays as the policy sees it
        begin = partial(self._exchange.begin, upload.held, complete=upload.complete)
        self._call.ask(begin, self._decided)

    def _decided(self, decision: Decision) -> None:
        if self._stage is Stage.OVER:
            return
        match decision:
            case Route():
                self._follow(decision)
            case Reply():
                self._answer_with(decision, End.REFUSED, f"Answered with {decision.status}.")
            case Tunnel() if self._request.head.method == b"CONNECT":
                self._stage = Stage.ASKING
                self._new_attempt().tunnel(decision)
            case Open() if self._request.head.method == b"CONNECT":
                self._client.open_tls(decision, self._opened)
            case _:
                self._policy_broke(TypeError(f"begin cannot return {decision!r}"))

    def _follow(self, route: Route) -> None:
        if self._request.head.method == b"CONNECT":
            self._policy_broke(TypeError("a CONNECT request has no route"))
            return
        self._stage = Stage.ASKING
        self._who = route.origin.host
        self._continue()
        self._client.resume()
        self._new_attempt().follow(route)

    def _new_attempt(self) -> Attempt:
        self._answer, self._answer_ended = [], False
        self._judged_once, self._cut = False, None
        self._attempt = Attempt(self._runtime, self._request, self._upload, self)
        return self._attempt

    def _continue(self) -> None:
        if not self._continued and not self._upload.complete and not self.started:
            self._client.write(_CONTINUE)
        self._continued = True

    # What upstream does.

    def informed(self, head: ResponseHead, named: frozenset[bytes]) -> None:
        """Pass an informational answer on."""
        if not self.started and self._request.head.version != "1.0":
            self._client.write(write_response(head, framing=NO_BODY, named=named))

    def answer_arrived(self, upstream: UpstreamConnection, data: bytes, *, ended: bool) -> None:
        """Take what one read brought."""
        if self._stage is Stage.PASSING:
            self._pass(upstream, b"", data, ended=ended)
            return
        if data:
            self._answer.append(data)
        self._answer_ended = ended
        if self._stage is Stage.ASKING:
            self._stage = Stage.JUDGING
            try:
                self._wanted = self._exchange.answer_wanted(upstream.head)
            except Exception as error:  # noqa: BLE001 - a policy may raise anything
                self._policy_broke(error)
                return
        if not self._judged_once and (ended or sum(map(len, self._answer)) >= self._wanted):
            self._judge(upstream)

    def switched(self, upstream: UpstreamConnection) -> None:
        """Take a 101: if the policy agrees, all that follows is raw bytes."""
        self._stage = Stage.JUDGING
        self._judge(upstream)

    def _judge(self, upstream: UpstreamConnection) -> None:
        self._judged_once = True
        ended = self._answer_ended
        seen = b"".join(self._answer)
        self._answer = [seen]
        answered = partial(self._exchange.answered, upstream.head, seen, complete=ended)
        self._call.ask(answered, partial(self._judged, upstream))
        if self._stage is Stage.JUDGING and self._judged_once and not ended:
            upstream.pause()

    def _judged(self, upstream: UpstreamConnection, verdict: Verdict) -> None:
        if self._stage is Stage.OVER:
            return
        match verdict:
            case TryAgain() if self._upload.resendable and not upstream.raw:
                self._leave_upstream()
                self._begin()
            case TryAgain() if self.started:  # its error has no place in what has begun
                words = f"{self._who} refused it, and it cannot be sent again."
                self._reset(End.UPSTREAM_FAILED, words)
            case PassOn() | TryAgain():
                self._pass_on(upstream)
            case Reply():
                self._answer_with(verdict, End.REFUSED, f"Answered with {verdict.status}.")
            case _:
                self._policy_broke(TypeError(f"answered cannot return {verdict!r}"))

    def _pass_on(self, upstream: UpstreamConnection) -> None:
        self._stage = Stage.PASSING
        self._upload.forget()
        data = b"".join(self._answer)
        self._answer = []
        if upstream.raw and not self.started:
            self._switch(upstream)
            return
        wire = b""
        if not self.started:
            keep = self._keep and self._upload.complete
            framing, named = upstream.framing, upstream.named
            wire = self._download.head(upstream.head, framing, named, close=not keep)
        elif upstream.raw or upstream.head.get(b"content-encoding") != self._download.coding:
            said = "answered in a form that the early headers had not announced"
            self._reset(End.UPSTREAM_FAILED, f"{self._who} {said}.")
            return
        self._pass(upstream, wire, data, ended=self._answer_ended)
        if self._cut is not None:
            self.attempt_failed(self._cut)
        elif self._stage is Stage.PASSING and self._client.writable:
            upstream.resume()

    def _pass(self, upstream: UpstreamConnection, wire: bytes, data: bytes, *, ended: bool) -> None:
        """Pass a part of the body on, and its end if the policy agrees that it is the end."""
        exchange, download = self._exchange, self._download
        try:
            if data:
                exchange.received(data)
            whole = not ended or exchange.finished()
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            self._policy_broke(error)
            return
        if self._stage is Stage.OVER:  # the policy has reset the client
            return
        if not whole:
            self._client.write(download.cut(wire, data))
            self._reset(End.TRUNCATED, f"{self._who} ended its answer before it was whole.")
            return
        wire += download.body(data)
        if ended:
            wire += download.end(upstream.trailers)
        if wire:
            self._client.write(wire)
        if ended:
            self._end(End.COMPLETE, "")
            self._client.response_done(keep=self._keep and not download.until_close)

    def upstream_writable(self, *, writable: bool) -> None:
        """Read the client only as fast as upstream takes it."""
        if writable:
            self._upload.pump()
        if self._upload.unsent or not writable:
            self._client.pause()
        else:
            self._client.resume()

    def attempt_failed(self, failure: Failure) -> None:
        """Ask the policy what to do, or reset a client that has a part of the answer."""
        if self._stage is Stage.PASSING:
            late = failure.end is End.UPSTREAM_TIMED_OUT
            self._reset(failure.end if late else End.TRUNCATED, failure.words)
        elif self._stage is Stage.JUDGING and self._judged_once:
            self._cut = failure  # the policy is being asked already
        elif self._stage is not Stage.OVER:
            self._stage = Stage.DECIDING
            self._leave_upstream()
            self._call.ask(
                partial(self._exchange.failed, failure), partial(self._remedied, failure)
            )

    # How it ends.

    def _remedied(self, failure: Failure, remedy: Remedy) -> None:
        if self._stage is Stage.OVER:
            return
        match remedy:
            case TryAgain() if self._upload.resendable:
                self._begin()
            case Reply():
                self._answer_with(remedy, failure.end, failure.words)
            case _ if self.started:
                self._reset(failure.end, failure.words)
            case _:
                status = 504 if failure.end is End.UPSTREAM_TIMED_OUT else 502
                self._answer_with(plain_reply(status, failure.words), failure.end, failure.words)

    def _answer_with(self, reply: Reply, how: End, words: str, *, keep: bool = True) -> None:
        """Send an answer of our own. A client that is still sending is not listened to any more."""
        keep = keep and self._keep and self._upload.complete
        self._client.write(self._download.whole(reply, close=not keep))
        self._end(how, words)
        self._client.response_done(keep=keep and not self._download.until_close)

    def _policy_broke(self, error: BaseException) -> None:
        self._runtime.report(error)
        words = "A mistake in the proxy's own rules kept it from handling this request."
        if self.started:
            self._reset(End.BROKEN, words)
        elif self._stage is not Stage.OVER:
            self._answer_with(plain_reply(502, words), End.BROKEN, words)

    def _reset(self, how: End, words: str) -> None:
        if self._stage is not Stage.OVER:
            self._end(how, words)
            self._client.reset()

    def _end(self, how: End, words: str) -> None:
        if self._stage is Stage.OVER:
            return
        self._stage = Stage.OVER
        self._call.give_up()
        self._leave_upstream()
        try:
            self._exchange.ended(how, words)
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            self._runtime.report(error)

    def _leave_upstream(self) -> None:
        attempt, self._attempt = self._attempt, None
        self._answer = []
        if attempt is not None:
            attempt.leave()

    # Raw bytes.

    def tunnel_open(self, upstream: UpstreamConnection) -> None:
        """Tell the client that its tunnel is there."""
        self._client.write(_TUNNEL_OPEN)
        self._splice(upstream)

    def _switch(self, upstream: UpstreamConnection) -> None:
        head = write_response(upstream.head, framing=NO_BODY, named=upstream.named, extra=UPGRADE)
        self._client.write(head)
        self._splice(upstream)

    def _splice(self, upstream: UpstreamConnection) -> None:
        self._stage = Stage.PASSING
        self._download.started = True
        self._attempt = None  # from here on the splice closes the connection
        splice = Splice(
            self._client,
            upstream,
            sent=partial(self._call.look, self._exchange.sent),
            received=partial(self._call.look, self._exchange.received),
            over=self._end,
        )
        early, upstream.early = upstream.early, b""
        if early:
            splice.raw_from_upstream(early)
        self._client.splice_with(splice)
        upstream.resume()

    def _opened(self, error: BaseException | None) -> None:
        if error is None:
            self._end(End.COMPLETE, "")
        else:
            self._end(End.BROKEN, f"The client broke TLS off: {type(error).__name__}.")

    @property
    def _keep(self) -> bool:
        return self._request.keep and not self._runtime.draining
