"""What keeps a client waiting while its request stands in the line.

A client that hears nothing gives up, and so does one that hears what it does not know. What each
takes was seen with the real ones:

    messages    a `ping` event, as Anthropic itself sends it
    chat        a comment; events that are no chunks break clients
    responses   a `keepalive` event, as OpenAI itself sends it; a comment does not reset codex's
                timer, and the SDK for Node takes no other event that it does not know
    gemini      an empty line; comments and events break gemini

A request that asks for no stream is held without a word: its answer has a status, and cannot have
begun before that is known.
"""

from collections.abc import Mapping

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.core.wire.apis import Api

EVENT_STREAM: Mapping[str, str] = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
}
"""The headers of an answer that begins before upstream has answered."""


class Keepalive(NamedTuple):
    """How to keep a client waiting."""

    content: bytes
    """What to send again and again once the headers are out."""
    every: Seconds
    headers: Mapping[str, str]
    """What to send with the status 200 when the answer has to begin early."""
    begin_within: Seconds
    """After how long the client should have headers; until then an error can be a plain status."""


_CONTENTS = {
    Api.MESSAGES: b'event: ping\ndata: {"type": "ping"}\n\n',
    Api.CHAT: b": waiting for a seat\n\n",
    Api.RESPONSES: b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n',
    Api.GEMINI: b"\n",
}
_EVERY = Seconds(15)
_PATIENCE = (
    ("geminicli", Seconds(25)),
    ("google-genai", Seconds(25)),
    ("claude-cli", Seconds(90)),
    ("codex", Seconds(150)),
    ("opencode", Seconds(150)),
)
"""By what the user agent has in it: less than half of the time after which each gives up."""
_LEAST_PATIENCE = Seconds(25)


def keepalive(api: Api, user_agent: str = "", *, streams: bool = True) -> Keepalive | None:
    """What keeps this client waiting; None if nothing but silence does."""
    content = _CONTENTS.get(api)
    if content is None or not streams:
        return None
    return Keepalive(content, _EVERY, EVENT_STREAM, silence(user_agent))


def silence(user_agent: str) -> Seconds:
    """For how long a client can safely be left without a byte of the answer."""
    name = user_agent.lower()
    known = (patience for part, patience in _PATIENCE if part in name)
    return next(known, _LEAST_PATIENCE)
