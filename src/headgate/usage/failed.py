"""Why there is no reading."""

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.http_client.errors import explain as in_words


class Failed(NamedTuple):
    """No reading this time."""

    reason: str
    """A sentence for people; never a key, nor a part of a URL but its host."""


def explain(who: str, error: Exception, timeout: Seconds) -> Failed:
    """Put an error into words."""
    return Failed(in_words(who, error, timeout))
