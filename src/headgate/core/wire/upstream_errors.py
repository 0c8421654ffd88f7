"""An error of upstream's for a client whose stream has begun already: as the stream's last event.

Such a client has a status, so an error can only be told inside the stream. What upstream said is
kept as it is where the API's events have the shape of its errors.
"""

import json

from headgate.core.printable_text import printable
from headgate.core.wire.apis import Api

_LONGEST = 2_000


def error_event(api: Api, status: int, body: bytes) -> bytes:
    """The event that tells of an answer with an error status."""
    error = _error(body)
    if api is Api.RESPONSES:
        said = {"code": str(error.get("code") or "server_error"), "message": _message(error)}
        response = {"id": "resp_headgate", "object": "response", "status": "failed", "error": said}
        failed = {"type": "response.failed", "sequence_number": 0, "response": response}
        return b"event: response.failed\ndata: " + _encoded(failed) + b"\n\n"
    if not error:
        error = {"type": "api_error", "message": f"upstream answered {status}", "code": status}
    if api is Api.MESSAGES:
        return b"event: error\ndata: " + _encoded({"type": "error", "error": error}) + b"\n\n"
    return b"data: " + _encoded({"error": error}) + b"\n\n"


def _error(body: bytes) -> dict[str, object]:
    """What the body of an error tells; empty if it is none that can be read."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, list):
        found = next(iter(found), None)
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def _message(error: dict[str, object]) -> str:
    said = error.get("message")
    return printable(said[:_LONGEST]) if isinstance(said, str) else "upstream refused it"


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
