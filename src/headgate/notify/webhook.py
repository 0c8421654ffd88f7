"""A POST of the event as JSON, signed, so that its receiver can tell that it is ours.

The signature is the HMAC-SHA256 of `TIMESTAMP.BODY` under the target's secret, so that neither
can be changed nor an old one be sent again. No redirect is followed.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from headgate.core.answers.retry_after import retry_after
from headgate.core.times import NO_TIME, Seconds, seconds
from headgate.notify.outcome import Cancellation, Failed, Outcome, Sent
from headgate.usage.failed import Trouble, Unusable, explain
from headgate.usage.fetch import split_url
from headgate.usage.wire import Wire

if TYPE_CHECKING:
    from http.client import HTTPResponse

_AGAIN = (408, 425, 429)
_LONGEST_WAIT = Seconds(300)
_PORTS = {"http": 80, "https": 443}


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """The signature of a message, as its header has it."""
    signed = hmac.new(secret, timestamp.encode("ascii") + b"." + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


def post(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    timeout: Seconds,
    grip: Cancellation,
    environ: Mapping[str, str],
) -> Outcome:
    """Send it once. 2xx is success; what may pass by itself is worth another try."""
    try:
        scheme, host, port, path, user = split_url(url)
    except Unusable:
        return Failed("its URL cannot be used; expected http://… or https://…", again=False)
    place = f"[{host}]" if ":" in host else host
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {place if port == _PORTS[scheme] else f'{place}:{port}'}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Accept-Encoding: identity",
        "User-Agent: headgate",
        "Connection: close",
        *([f"Authorization: {user}"] if user else ()),
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    wire = Wire(timeout)
    grip.on_break(wire.sever)
    try:
        wire.connect(scheme, host, port, environ)
        wire.send("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        return _judge(host, _answer(wire))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said and tried again
        again = not isinstance(error, Unusable)
        why = "was broken off" if grip.broken.is_set() else explain(host, error, timeout).reason
        return Failed(why, again=again)
    finally:
        grip.on_break(None)
        wire.close()


def _answer(wire: Wire) -> "HTTPResponse":
    from http.client import HTTPResponse

    response = HTTPResponse(cast("Any", wire), method="POST")
    response.begin()
    return response


def _judge(host: str, response: "HTTPResponse") -> Outcome:
    status = response.status
    if 200 <= status < 300:
        return Sent()
    if not 100 <= status < 600:
        raise Trouble("sent something that is not HTTP")
    why = f"{host} answered {status}"
    if 300 <= status < 400:
        return Failed(f"{why}, and redirects are not followed", again=False)
    if status not in _AGAIN and status < 500:
        return Failed(why, again=False)
    said = {"retry-after": response.getheader("Retry-After") or ""}
    wait = retry_after(said, (), "", Seconds(time.time()), until_reset=False)
    return Failed(why, wait=min(seconds(wait or NO_TIME), _LONGEST_WAIT))
