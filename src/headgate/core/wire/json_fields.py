"""A few fields of a JSON object, read as its bytes pass.

The document is not kept and nothing is built of it. Of the outermost object, and of the objects in
it that have wanted fields, the keys and the wanted values are read; all else is only skipped, by
one regular expression that knows strings and brackets. So a document of many megabytes costs one
look at each byte, wherever it is cut into chunks.

As in `json.loads`, the last of several equal keys counts. What is no JSON object tells nothing.
What lies deeper is checked for its brackets only.
"""

import json
import re
from collections.abc import Collection, Mapping

Path = tuple[str, ...]
"""The keys that lead to a field: one, or two."""

_LONGEST = 4_096
"""Bytes of a key or of a value that are kept; what is longer is none of those looked for."""
_DEEPEST = 900
"""Brackets within one another, fewer than `json.loads` can take."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT = rb'[^"{}\[\]]++|' + _STRING
_SKIPPED = re.compile(
    rb"(?:" + _FLAT + rb"|\{(?:" + _FLAT + rb")*+\}|\[(?:" + _FLAT + rb")*+\])*+", re.DOTALL
)
"""All up to a bracket that has others within it, or to a string that does not end here."""
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]*+")
_IS_SCALAR = re.compile(
    rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null|NaN|-?Infinity"
)
_BOM = b"\xef\xbb\xbf"
_QUOTE, _BRACE, _BRACKET = b'"{['
_CLOSES = {_BRACE: ord("}"), _BRACKET: ord("]")}

_KEY_OR_END, _KEY, _COLON, _VALUE, _COMMA_OR_END, _SKIP, _ENDED, _INVALID = range(8)
"""What comes next, or that the reader is within something that does not matter."""
_FOLLOWS = {(_COMMA_OR_END, ord(",")): _KEY, (_COLON, ord(":")): _VALUE}


class JsonFields:
    """Where in a JSON document the reader is, and what it has found."""

    def __init__(self, wanted: Collection[Path]) -> None:
        self._wanted = wanted
        self._looked_into = {path[0] for path in wanted if len(path) == 2}
        self._state = _VALUE
        self._closers = bytearray()
        """The brackets that are still to be closed, the innermost last."""
        self._within: Path = ()
        """The key of the object that is looked into, if it is not the outermost one."""
        self._key = ""
        self._found: dict[Path, object] = {}
        self._held = b""
        """The beginning of a token that the end of a chunk cut off."""
        self._in_string = False
        """Whether the reader is in a string that does not matter; if so, perhaps `_escaped`."""
        self._escaped = False
        self._begun = False

    def feed(self, chunk: bytes) -> None:
        """Read on."""
        if self._held:
            chunk, self._held = self._held + chunk, b""
        pos = 0
        if not self._begun:
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._held = chunk
                return
            self._begun = True
            pos = len(_BOM) if chunk.startswith(_BOM) else 0
        if self._in_string:
            pos = self._leave_string(chunk, pos)
        while pos < len(chunk) and self._state != _INVALID:
            pos = self._skip(chunk, pos) if self._state == _SKIP else self._token(chunk, pos)

    def is_whole(self) -> bool:
        """Whether the document is complete."""
        return self._state == _ENDED

    def found(self) -> Mapping[Path, object]:
        """The fields that are known by now: texts, True and False; other values are False."""
        return {} if self._state == _INVALID else self._found

    def _skip(self, chunk: bytes, pos: int) -> int:
        """Go on within something that does not matter, up to its end or the chunk's."""
        closers, match = self._closers, _SKIPPED.match
        least = len(self._within) + 1
        while len(closers) > least:
            found = match(chunk, pos)
            pos = found.end() if found else pos
            if pos == len(chunk):
                return pos
            byte = chunk[pos]
            pos += 1
            if byte == _QUOTE:
                return self._leave_string(chunk, pos)
            if byte in _CLOSES:
                closers.append(_CLOSES[byte])
            elif closers.pop() != byte:
                self._state = _INVALID
                return pos
            if len(closers) > _DEEPEST:
                self._state = _INVALID
                return pos
        self._state = _COMMA_OR_END
        return pos

    def _leave_string(self, chunk: bytes, pos: int) -> int:
        """Go on within a string that does not matter, up to its end or the chunk's."""
        self._in_string = True
        if self._escaped and pos < len(chunk):
            self._escaped = False
            pos += 1
        pos = _end(_IN_STRING, chunk, pos)
        if pos == len(chunk):
            return pos
        self._in_string = self._escaped = chunk[pos] != _QUOTE  # else a backslash, cut off here
        return pos + 1

    def _token(self, chunk: bytes, pos: int) -> int:
        """Read one token where keys and values matter."""
        pos = _end(_SPACE, chunk, pos)
        if pos == len(chunk):
            return pos
        byte, state = chunk[pos], self._state
        if state == _VALUE and byte in _CLOSES:
            self._open(byte)
        elif state == _VALUE and self._closers:
            return self._value(chunk, pos)
        elif state in {_KEY, _KEY_OR_END} and byte == _QUOTE:
            return self._string(chunk, pos, is_key=True)
        elif state in {_COMMA_OR_END, _KEY_OR_END} and byte == _CLOSES[_BRACE]:
            self._close()
        elif (state, byte) in _FOLLOWS:
            self._state = _FOLLOWS[state, byte]
        else:
            self._state = _INVALID
        return pos + 1

    def _string(self, chunk: bytes, pos: int, *, is_key: bool) -> int:
        """Read a string that may matter. If it is too long to matter, it is skipped."""
        end = _end(_IN_STRING, chunk, pos + 1)
        whole = end < len(chunk) and chunk[end] == _QUOTE
        kept = end - pos <= _LONGEST
        if kept and not whole:
            self._held = chunk[pos:]
            return len(chunk)
        text = _decoded(chunk[pos : end + 1]) if kept else ""
        if text is None:
            self._state = _INVALID
        elif is_key:
            self._key, self._state = text, _COLON
        else:
            self._take(text)
        return end + 1 if whole else self._leave_string(chunk, pos + 1)

    def _value(self, chunk: bytes, pos: int) -> int:
        """Read a value that is no object and no list."""
        if chunk[pos] == _QUOTE:
            return self._string(chunk, pos, is_key=False)
        end = _end(_SCALAR, chunk, pos)
        if end == len(chunk) and end - pos <= _LONGEST:
            self._held = chunk[pos:]
            return end
        if end - pos > _LONGEST or _IS_SCALAR.fullmatch(chunk, pos, end):
            self._take(chunk[pos:end] == b"true")
        else:
            self._state = _INVALID
        return end

    def _take(self, value: object) -> None:
        """Take the value at which the reader is, in place of an earlier one of the same key."""
        path = (*self._within, self._key)
        for inner in [known for known in self._found if known[: len(path)] == path]:
            del self._found[inner]
        if path in self._wanted:
            self._found[path] = value
        self._state = _COMMA_OR_END

    def _open(self, byte: int) -> None:
        """Enter an object or a list. Into most of them nobody looks."""
        if not self._closers:
            self._state = _KEY_OR_END if byte == _BRACE else _INVALID
        else:
            self._take(None)
            if byte == _BRACE and not self._within and self._key in self._looked_into:
                self._within = (self._key,)
                self._state = _KEY_OR_END
            else:
                self._state = _SKIP
        self._closers.append(_CLOSES[byte])

    def _close(self) -> None:
        """Leave an object that was looked into."""
        self._closers.pop()
        self._within = ()
        self._state = _COMMA_OR_END if self._closers else _ENDED


def _end(pattern: re.Pattern[bytes], chunk: bytes, pos: int) -> int:
    """Where what the pattern stands for ends; it may be nothing."""
    found = pattern.match(chunk, pos)
    return found.end() if found else pos


def _decoded(raw: bytes) -> str | None:
    """The text that a string stands for; None if it is none."""
    try:
        return str(json.loads(raw.decode("utf-8", "surrogatepass")))
    except ValueError:
        return None
