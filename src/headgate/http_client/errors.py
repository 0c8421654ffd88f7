"""What went wrong with a request, in words."""

from headgate.core.times import Seconds


class Trouble(Exception):
    """What upstream did wrong, as the rest of a sentence that begins with its name."""


class Unusable(Trouble):
    """What is wrong at our end, as a whole sentence."""


def explain(who: str, error: Exception, timeout: Seconds) -> str:
    """Put an error into words. Texts of unknown origin stay out: they may quote what was sent."""
    return str(error) if isinstance(error, Unusable) else f"{who} {_said(error, timeout)}"


def _said(error: Exception, timeout: Seconds) -> str:
    import ssl

    match error:
        case Trouble():
            return str(error)
        case TimeoutError():
            return f"did not answer within {timeout:g}s"
        case ssl.SSLCertVerificationError():
            return "has a certificate that is not trusted"
        case ssl.SSLError():
            return "does not speak TLS as expected"
        case ConnectionRefusedError():
            return "refused the connection"
        case ConnectionError():
            return "closed the connection too early"
        case OSError(strerror=str(text)):
            return f"cannot be reached: {text}"
        case _:
            return f"cannot be read: {type(error).__name__}"
