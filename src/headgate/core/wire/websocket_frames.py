"""The text messages in one direction of a WebSocket, read as its bytes pass (RFC 6455, RFC 7692).

Nothing is answered, and what only the two ends need to check is not checked. Pings, pongs, closes
and binary messages are passed over. Of a message that is too long only the beginning is kept.
"""

import re
import zlib

from headgate.core.named_tuple import NamedTuple

_LONGEST = 1024 * 1024
_MOST_INFLATED = 64 * 2**20
"""Bytes that one message may grow to; one that grows further ends the reading."""
_PIECE = 64 * 1024
_CONTINUED, _TEXT, _BINARY, _CONTROL = 0, 1, 2, 8
_FINAL, _COMPRESSED, _RESERVED, _KIND = 0x80, 0x40, 0x30, 0x0F
_EMPTY_BLOCK = b"\x00\x00\xff\xff"
"""What a sender leaves out at the end of a compressed message."""


class Message(NamedTuple):
    """A text message."""

    data: bytes
    whole: bool = True
    """Whether this is all of it."""


def is_compressed(extensions: str) -> bool | None:
    """Whether the answer's `Sec-WebSocket-Extensions` agreed on compression.

    None if it agreed on something that cannot be read. Whether each message is compressed by
    itself makes no difference for who reads them all.
    """
    agreed = [part.strip().lower() for part in extensions.split(",") if part.strip()]
    if not agreed:
        return False
    return (
        True
        if re.fullmatch(r"permessage-deflate\s*(?:;.*)?", agreed[0]) and agreed[1:] == []
        else None
    )


class _Frame:
    """The frame that is being read."""

    def __init__(self, first: int, length: int, mask: bytes) -> None:
        self.final = bool(first & _FINAL)
        self.compressed = bool(first & _COMPRESSED)
        self.kind = first & _KIND
        self.left = length
        self._mask = mask

    def take(self, rest: bytearray) -> bytes:
        """The next part of what it carries, taken away from what has come."""
        part = bytes(rest[: self.left])
        del rest[: self.left]
        self.left -= len(part)
        mask = self._mask
        if not mask or not part:
            return part
        repeated = mask * (len(part) // 4 + 1)
        plain = int.from_bytes(part) ^ int.from_bytes(repeated[: len(part)])
        turn = len(part) % 4
        self._mask = mask[turn:] + mask[:turn]
        return plain.to_bytes(len(part))


def _inflate() -> "zlib._Decompress":
    return zlib.decompressobj(-zlib.MAX_WBITS)


class WebSocketReader:
    """Reads one direction of a WebSocket, from the first byte behind the handshake on."""

    def __init__(self, *, compressed: bool = False) -> None:
        self._inflate = _inflate() if compressed else None
        self._rest = bytearray()
        self._frame: _Frame | None = None
        self._kind = _CONTINUED
        """The kind of the message that is being read; none between two of them."""
        self._compressed = False
        self._data = bytearray()
        self._length = 0
        self.readable = True
        """Whether all that came so far was understood."""

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages that are complete now."""
        found: list[Message] = []
        if not self.readable:
            return found
        self._rest += chunk
        while frame := self._frame or self._begin_frame():
            part = frame.take(self._rest)
            if frame.kind < _CONTROL:
                self._take(part)
            self._frame = frame if frame.left else None
            if frame.left or not self.readable:
                break
            if frame.final and frame.kind < _CONTROL:
                found += self._end_message()
        return found

    def _begin_frame(self) -> _Frame | None:
        """Read the head of the next frame; None if not all of it has come, or it is an odd one."""
        rest = self._rest
        if len(rest) < 2:
            return None
        length = rest[1] & 0x7F
        more = {126: 2, 127: 8}.get(length, 0)
        masked = 4 if rest[1] & 0x80 else 0
        size = 2 + more + masked
        if len(rest) < size:
            return None
        if more:
            length = int.from_bytes(rest[2 : 2 + more])
        frame = _Frame(rest[0], length, bytes(rest[2 + more : size]))
        self.readable = not rest[0] & _RESERVED and self._belongs(frame)
        del rest[:size]
        return frame if self.readable else None

    def _belongs(self, frame: _Frame) -> bool:
        """Whether a frame can come here; the first one of a message begins it."""
        if frame.kind >= _CONTROL:
            return frame.final and frame.left < 126
        if frame.kind == _CONTINUED:
            return self._kind != _CONTINUED and not frame.compressed
        if self._kind != _CONTINUED or frame.kind > _BINARY:
            return False
        self._kind, self._compressed = frame.kind, frame.compressed
        return self._inflate is not None or not frame.compressed

    def _take(self, part: bytes) -> None:
        """Take a part of a message, and decode it if it is compressed."""
        if self._inflate is None or not self._compressed:
            self._keep(part)
            return
        try:
            while part and self.readable:
                self._keep(self._inflate.decompress(part, _PIECE))
                part = self._inflate.unconsumed_tail
                self.readable = self._length <= _MOST_INFLATED
        except zlib.error:
            self.readable = False

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._kind == _TEXT and len(self._data) < _LONGEST:
            self._data += part[: _LONGEST - len(self._data)]

    def _end_message(self) -> list[Message]:
        """The message that is complete now; none if it is no text."""
        if self._inflate is not None and self._compressed:
            self._take(_EMPTY_BLOCK)
            if self._inflate.eof:  # some senders end each message for good
                self._inflate = _inflate()
        message = Message(bytes(self._data), self._length == len(self._data))
        text = self._kind == _TEXT and self.readable
        self._kind, self._data, self._length = _CONTINUED, bytearray(), 0
        return [message] if text else []
