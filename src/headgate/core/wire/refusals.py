"""Refusals of headgate's own, written as the provider would write them.

A client knows what to do with its provider's errors: wait for as long as `Retry-After` says and try
again. Some fail at once if that is more than 60 seconds. All would come back together if they were
told the same time, so the caller passes in a random number.

The stable code of the reason is in the header `x-headgate-reason`; the body has the sentence.
"""

import json
import math
from collections.abc import Mapping

from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable
from headgate.core.times import Seconds
from headgate.core.wire.apis import Api

LONGEST_WAIT = Seconds(60)
"""claude fails at once if it is told to wait for longer."""
_SHORTEST_WAIT = Seconds(1)
_JITTER = 0.3
REASON_HEADER = "x-headgate-reason"
_LONGEST_SENTENCE = 500
_LIMITED, _UNAVAILABLE, _OVERLOADED = 429, 503, 529
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class OwnRefusal(NamedTuple):
    """Why headgate does not let a request through now."""

    status: int
    """429 if there are too many, 503 or 529 if upstream cannot be asked."""
    code: str
    """The stable code of the reason."""
    sentence: str
    retry_after: Seconds
    """When to try again, as `wait_for` gives it."""


class Reply(NamedTuple):
    """An answer to a client, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def wait_for(eta: Seconds | None, random: float) -> Seconds:
    """When a client should try again, if its turn is expected then; `random` is from 0 to 1."""
    expected = LONGEST_WAIT / 2 if eta is None else min(eta, LONGEST_WAIT)
    spread = Seconds(expected * (1 - _JITTER / 2 + _JITTER * random))
    return max(_SHORTEST_WAIT, min(spread, LONGEST_WAIT))


def refusal_reply(api: Api, refusal: OwnRefusal) -> Reply:
    """A refusal as an ordinary answer."""
    status = _status(api, refusal.status)
    headers = {"content-type": "application/json", REASON_HEADER: refusal.code}
    headers["retry-after"] = str(math.ceil(_wait(refusal)))
    if api is not Api.GEMINI:
        headers["retry-after-ms"] = str(math.ceil(_wait(refusal) * 1_000))
    body = _encoded(_error(api, status, refusal))
    headers["content-length"] = str(len(body))
    return Reply(status, headers, body)


def refusal_event(api: Api, refusal: OwnRefusal) -> bytes:
    """A refusal as the last event of a stream that has begun."""
    error = _error(api, _status(api, refusal.status), refusal)
    if api is Api.MESSAGES:
        return b"event: error\ndata: " + _encoded(error) + b"\n\n"
    if api is Api.RESPONSES:
        # codex tries again after the time in the message, and only with this code.
        wait = math.ceil(_wait(refusal) * 10) / 10
        message = f"{_sentence(refusal)} Please try again in {wait:g}s."
        failed = {
            "type": "response.failed",
            "sequence_number": 0,
            "response": {
                "id": "resp_headgate",
                "object": "response",
                "status": "failed",
                "error": {"code": "rate_limit_exceeded", "message": message},
                "output": [],
                "usage": None,
            },
        }
        return b"event: response.failed\ndata: " + _encoded(failed) + b"\n\n"
    return b"data: " + _encoded(error) + b"\n\n"


def _error(api: Api, status: int, refusal: OwnRefusal) -> dict[str, object]:
    message = _sentence(refusal)
    limited = status == _LIMITED
    match api:
        case Api.MESSAGES:
            kind = "rate_limit_error" if limited else "overloaded_error"
            return {"type": "error", "error": {"type": kind, "message": message}}
        case Api.GEMINI:
            delay = f"{math.ceil(_wait(refusal))}s"
            error = {
                "code": status,
                "message": message,
                "status": "RESOURCE_EXHAUSTED" if limited else "UNAVAILABLE",
                "details": [{"@type": _RETRY_INFO, "retryDelay": delay}],
            }
            return {"error": error}
        case Api.CHAT | Api.RESPONSES | Api.PLAIN | Api.UNKNOWN:
            kind = "requests" if limited else "server_error"
            # Of a 503, codex takes `server_is_overloaded` for final, so it has no code.
            code = "rate_limit_exceeded" if limited else None
            return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _status(api: Api, status: int) -> int:
    """The status as the API has it: only Anthropic's knows 529."""
    if status == _OVERLOADED and api is not Api.MESSAGES:
        return _UNAVAILABLE
    return status if status in {_LIMITED, _UNAVAILABLE, _OVERLOADED} else _UNAVAILABLE


def _wait(refusal: OwnRefusal) -> float:
    return max(_SHORTEST_WAIT, min(refusal.retry_after, LONGEST_WAIT))


def _sentence(refusal: OwnRefusal) -> str:
    return printable(refusal.sentence[:_LONGEST_SENTENCE])


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
