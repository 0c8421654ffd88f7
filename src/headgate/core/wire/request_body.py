"""Which model a request is for, read from its JSON body as it passes.

A body that is no JSON object, or cannot be decoded, tells nothing. One that is wrong in another way
may tell something: upstream will say what is wrong with it.
"""

import json
from collections.abc import Mapping

from headgate.core.named_tuple import NamedTuple
from headgate.core.wire.content_decoding import Decoder
from headgate.core.wire.json_fields import JsonFields, Path
from headgate.core.wire.task_identity import session_of

_LONGEST_NAME = 200
"""Characters of a model's or a session's name."""
_LARGEST = 256 * 2**20
"""Bytes that a compressed body may grow to."""
_SMALL = 32 * 1024
"""Bytes of a body that is parsed as a whole."""
_BOM = b"\xef\xbb\xbf"
_MODEL: Path = ("model",)
_STREAM: Path = ("stream",)
_KIND: Path = ("type",)
_USER: Path = ("metadata", "user_id")
_SESSION: Path = ("request", "session_id")
_WANTED = frozenset({_MODEL, _STREAM, _KIND, _USER, _SESSION})


class BodyFields(NamedTuple):
    """What a request's body tells. The model is empty if it tells none."""

    model: str = ""
    stream: bool = False
    session: str = ""
    """The conversation it belongs to, as the client calls it."""
    kind: str = ""
    """What kind of message it is, where requests are messages in a WebSocket."""


NOTHING = BodyFields()


class RequestBody:
    """Reads a request's body chunk by chunk."""

    def __init__(self, encoding: str = "") -> None:
        self._decoder = Decoder(encoding, _LARGEST)
        self._kept = bytearray()
        """All of the body, while it is small: to parse it as a whole is cheapest."""
        self._scan: JsonFields | None = None

    def feed(self, chunk: bytes) -> None:
        """Read the next part of the body."""
        if self._decoder.plain:
            self._take(chunk)
        else:
            for piece in self._decoder.feed(chunk):
                self._take(piece)

    def so_far(self) -> BodyFields:
        """What has been told up to now. Only a body that names something twice takes it back."""
        if not self._decoder.readable:
            return NOTHING
        whole = _parsed(bytes(self._kept)) if self._scan is None else None
        return _fields(self._scanned().found()) if whole is None else whole

    def end(self) -> BodyFields:
        """What the body tells, now that it is complete; nothing if it is not what it should be."""
        if not self._decoder.readable:
            return NOTHING
        if self._scan is None:
            return read_body(bytes(self._kept))
        return _fields(self._scan.found()) if self._scan.is_whole() else NOTHING

    def _take(self, chunk: bytes) -> None:
        if self._scan is None and len(self._kept) + len(chunk) <= _SMALL:
            self._kept += chunk
        else:
            self._scanned().feed(chunk)

    def _scanned(self) -> JsonFields:
        """The scan of the body, from now on of all that comes."""
        if self._scan is None:
            self._scan = JsonFields(_WANTED)
            self._scan.feed(bytes(self._kept))
            self._kept.clear()
        return self._scan


def read_body(body: bytes) -> BodyFields:
    """What a whole body tells, or a message in a WebSocket."""
    if len(body) > _SMALL:
        scan = JsonFields(_WANTED)
        scan.feed(body)
        return _fields(scan.found()) if scan.is_whole() else NOTHING
    return _parsed(body) or NOTHING


def _parsed(body: bytes) -> BodyFields | None:
    """What a small body tells; None if it is not whole, or no JSON."""
    try:
        document = json.loads(body.removeprefix(_BOM).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    user, request = document.get("metadata"), document.get("request")
    return BodyFields(
        model=_text(document.get("model")),
        stream=document.get("stream") is True,
        session=_session(
            user.get("user_id") if isinstance(user, dict) else None,
            request.get("session_id") if isinstance(request, dict) else None,
        ),
        kind=_text(document.get("type")),
    )


def _fields(found: Mapping[Path, object]) -> BodyFields:
    return BodyFields(
        model=_text(found.get(_MODEL)),
        stream=found.get(_STREAM) is True,
        session=_session(found.get(_USER), found.get(_SESSION)),
        kind=_text(found.get(_KIND)),
    )


def _session(user: object, session: object) -> str:
    """The conversation, by what Anthropic's clients tell, or Gemini's."""
    named = session_of(user) if isinstance(user, str) else ""
    return named or _text(session)


def _text(value: object) -> str:
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""
