"""What went wrong upstream, in words for the client. Nothing that was sent is quoted."""

import socket
import ssl

from headgate.proxy.policy import End, Failure, Reply


class UpstreamError(Exception):
    """What upstream did wrong, as the rest of a sentence that begins with its name."""


class UpstreamTimeoutError(UpstreamError):
    """Upstream took too long."""


def failure_of(who: str, error: BaseException | None) -> Failure:
    """Put an error into a sentence."""
    late = isinstance(error, TimeoutError | UpstreamTimeoutError)
    end = End.UPSTREAM_TIMED_OUT if late else End.UPSTREAM_FAILED
    return Failure(end, f"{who} {_said(error)}.")


def _said(error: BaseException | None) -> str:
    match error:
        case UpstreamError():
            return str(error)
        case TimeoutError():
            return "could not be reached in time"
        case ssl.SSLCertVerificationError():
            return f"has a certificate that is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return "does not speak TLS as expected"
        case ConnectionRefusedError():
            return "refused the connection"
        case None | ConnectionError():
            return "closed the connection before it answered"
        case socket.gaierror():
            return "has no address: its name cannot be looked up"
        case OSError(strerror=str(text)):
            return f"cannot be reached: {text}"
        case _:
            return f"cannot be asked: {type(error).__name__}"


def plain_reply(status: int, words: str) -> Reply:
    """An answer of our own, in plain text."""
    kind = (b"Content-Type", b"text/plain; charset=utf-8")
    return Reply(status, (kind,), f"headgate: {words}\n".encode())
