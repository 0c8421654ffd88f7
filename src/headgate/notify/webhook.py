"""A POST of the event as JSON, signed, so that its receiver can tell that it is ours.

The signature is the HMAC-SHA256 of `TIMESTAMP.BODY` under the target's secret, so that neither
can be changed nor an old one be sent again. No redirect is followed.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping

from headgate.core.answers.retry_after import retry_after
from headgate.core.times import NO_TIME, Seconds, seconds
from headgate.core.urls import split_url
from headgate.http_client import Connection, Response, Trouble, Unusable, connect, explain
from headgate.http_client import send as http_send
from headgate.notify.outcome import Cancellation, Delivered, DeliveryFailed, Outcome

_AGAIN = (408, 425, 429)
_LONGEST_WAIT = Seconds(300)


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
    cancellation: Cancellation,
    environ: Mapping[str, str],
) -> Outcome:
    """Send it once. 2xx is success; what may pass by itself is worth another try."""
    split = split_url(url)
    if split is None:
        return DeliveryFailed("its URL cannot be used; expected http://… or https://…", again=False)
    connection = Connection(timeout)
    cancellation.on_break(connection.break_off)
    try:
        connect(connection, split, environ)
        said = {"Content-Type": "application/json", **headers}
        return _judge(split.host, http_send(connection, "POST", split, said, body=body))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said and tried again
        again = not isinstance(error, Unusable)
        why = (
            "was broken off"
            if cancellation.broken.is_set()
            else explain(split.host, error, timeout)
        )
        return DeliveryFailed(why, again=again)
    finally:
        cancellation.on_break(None)
        connection.close()


def _judge(host: str, response: Response) -> Outcome:
    status = response.status
    if 200 <= status < 300:
        return Delivered()
    if not 100 <= status < 600:
        raise Trouble("sent something that is not HTTP")
    why = f"{host} answered {status}"
    if 300 <= status < 400:
        return DeliveryFailed(f"{why}, and redirects are not followed", again=False)
    if status not in _AGAIN and status < 500:
        return DeliveryFailed(why, again=False)
    said = {"retry-after": response.headers.get("retry-after", "")}
    wait = retry_after(said, (), "", Seconds(time.time()), until_reset=False)
    return DeliveryFailed(why, wait=min(seconds(wait or NO_TIME), _LONGEST_WAIT))
