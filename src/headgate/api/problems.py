"""What went wrong, as RFC 9457 has it: the same words and codes as on the command line.

`code` is stable, and so is `exit_code`, which is what the command line would have returned. Nothing
of a request is repeated that may be secret: neither bodies nor headers nor queries.
"""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from headgate.core.display.json_shapes import encode
from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable
from headgate.errors import (
    CancelledWorkError,
    ConfigError,
    FencedError,
    GateClosedError,
    HeadgateError,
    HoldExpiredError,
    NoRoomError,
    StoreError,
    StoreFullError,
    TooHeavyError,
    UsageError,
    WaitTimeoutError,
)

MEDIA_TYPE = "application/problem+json"
_LONGEST = 2_000


class Kind(NamedTuple):
    """One way in which a request can fail."""

    status: int
    title: str


KINDS = {
    "bad_request": Kind(400, "The request is no HTTP that can be answered"),
    "invalid_json": Kind(400, "The body is no JSON"),
    "bad_host": Kind(400, "The Host is none of this server's names"),
    "no_token": Kind(401, "A token is needed"),
    "bad_token": Kind(401, "The token is unknown or was revoked"),
    "foreign_origin": Kind(403, "Pages of other sites may not ask this server"),
    "small_scope": Kind(403, "The token is not for this"),
    "only_templates": Kind(403, "Jobs can only be made of templates"),
    "not_found": Kind(404, "There is no such thing"),
    "method_not_allowed": Kind(405, "This cannot be done with that"),
    "too_slow": Kind(408, "The request took too long to arrive"),
    "refused": Kind(409, "It cannot be done as things are"),
    "too_heavy": Kind(409, "A pool can never hold so many seats"),
    "cancelled": Kind(409, "The work was cancelled"),
    "hold_expired": Kind(409, "The work held its seats for too long"),
    "fenced": Kind(410, "The client was silent for too long, or has left"),
    "too_large": Kind(413, "The body is too large"),
    "unsupported_media_type": Kind(415, "The body has to be application/json"),
    "invalid_request": Kind(422, "Something in the request is not as it has to be"),
    "head_too_large": Kind(431, "The head of the request is too large"),
    "config": Kind(500, "The configuration is wrong"),
    "internal": Kind(500, "A mistake in headgate"),
    "no_room": Kind(503, "There is no room now"),
    "draining": Kind(503, "The server is being stopped"),
    "too_many_connections": Kind(503, "The server holds as many connections as it may"),
    "store": Kind(503, "The store did not answer as it must"),
    "wait_timeout": Kind(504, "There was no room within the time"),
    "store_full": Kind(507, "The store's disk is full"),
}
"""Every code, with its status."""

_ERRORS: tuple[tuple[type[HeadgateError], str], ...] = (
    (TooHeavyError, "too_heavy"),
    (ConfigError, "config"),
    (UsageError, "refused"),
    (NoRoomError, "no_room"),
    (WaitTimeoutError, "wait_timeout"),
    (CancelledWorkError, "cancelled"),
    (HoldExpiredError, "hold_expired"),
    (FencedError, "fenced"),
    (GateClosedError, "draining"),
    (StoreFullError, "store_full"),
    (StoreError, "store"),
)
"""The code of each error; the first that fits."""


class Problem(Exception):
    """Raised by whoever cannot do what was asked; `more` goes into the answer as it is."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        exit_code: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.exit_code = exit_code
        self.more = more

    @property
    def status(self) -> int:
        """The status of its answer."""
        return KINDS[self.code].status

    def document(self) -> dict[str, Any]:
        """The object that is answered."""
        kind = KINDS[self.code]
        return {
            "type": f"urn:headgate:problem:{self.code}",
            "title": kind.title,
            "status": kind.status,
            "detail": printable(self.detail)[:_LONGEST],
            "code": self.code,
            "exit_code": self.exit_code,
            **self.more,
        }

    def response(self) -> Response:
        """The answer."""
        body = encode(self.document())
        return Response(body, self.status, self.headers, MEDIA_TYPE)


def problem_of(error: HeadgateError) -> Problem:
    """The problem that an error is."""
    for kind, code in _ERRORS:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if KINDS[code].status == 503 else None
            return Problem(code, str(error), exit_code=error.exit_code, headers=headers)
    return Problem("internal", "see the server's log", exit_code=error.exit_code)
