"""Server-sent events, read as they pass: only those that may say something are taken apart.

Chunks can be cut anywhere, lines can end in LF, CR LF or CR, an event can have several lines of
data, and comments. An ordinary chunk costs a few searches. Of an event that does not end, only its
two ends are kept.
"""

import re
from collections.abc import Mapping

from headgate.core.wire.answer_events import DONE, MARKS, AnswerEvents
from headgate.core.wire.apis import Api
from headgate.core.wire.token_usage import USAGE

_LONGEST_EVENT = 1024 * 1024
_HEAD = 4 * 1024
_TAIL = 16 * 1024
_BOM = b"\xef\xbb\xbf"
_END = b"\n\n"
_QUOTE = b'"'
_FIND: Mapping[Api, re.Pattern[bytes]] = {
    api: re.compile(
        b'"(?:%b)'
        % b"|".join(one.pattern.removeprefix(_QUOTE) for one in (marks, USAGE.get(api)) if one)
    )
    for api, marks in MARKS.items()
}
"""What any event has in it that matters; that it begins with a quotation mark makes it fast."""
_FIND_DONE: Mapping[Api, re.Pattern[bytes]] = {
    api: re.compile(rb"%b|\[DONE\]" % find.pattern) for api, find in _FIND.items()
}
_ONLY_DONE = re.compile(rb"\[DONE\]")


class EventStream:
    """Reads a stream of events, and hands on to `events` what matters."""

    def __init__(self, api: Api) -> None:
        self.events = AnswerEvents(api)
        self._marks = MARKS.get(api)
        self._usage = USAGE.get(api)
        self._find = _FIND.get(api)
        self._rest = bytearray()
        """The beginning of an event whose end has not come."""
        self._head = b""
        """The first bytes of an event that is too long; `_rest` then has the last ones."""
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> bool:
        """Read on; whether the answer said now that it is complete or failed."""
        if b"\r" in chunk or self._after_cr:
            chunk = self._with_lf(chunk)
        rest = self._rest
        if rest:
            seen = len(rest) - 1
            rest += chunk
            end = rest.rfind(_END, max(seen, 0))
            if end < 0:
                self._shorten()
                return False
            block = bytes(rest[: end + 2])
            del rest[: end + 2]
        else:
            end = chunk.rfind(_END)
            if end < 0:
                rest += chunk
                self._shorten()
                return False
            block = chunk[: end + 2] if end + 2 < len(chunk) else chunk
            rest += chunk[end + 2 :]
        if self._head:
            return self._take_long(block)
        return self._take(block)

    def end(self) -> bool:
        """Read what is left when the stream has ended: some leave out the last empty line."""
        if not self._rest:
            return False
        last, self._rest = bytes(self._rest), bytearray()
        if self._head:
            return last.rstrip().endswith(b"}") and self._take_long(last)
        return self._take(last)

    def _take(self, block: bytes) -> bool:
        """Look for events that matter in a block of whole ones."""
        if not self._begun:
            self._begun = True
            block = block.removeprefix(_BOM)
        find = self._find
        if DONE in block:
            find = _FIND_DONE.get(self.events.api, _ONLY_DONE)
        found = find.search(block) if find is not None else None
        told = False
        while found is not None and find is not None:  # nearly never
            at = found.start()
            start, end = block.rfind(_END, 0, at), block.find(_END, at)
            event = block[start + 2 if start >= 0 else 0 : end if end >= 0 else len(block)]
            told = self._take_event(event) or told
            found = find.search(block, end) if end >= 0 else None
        return told

    def _take_event(self, event: bytes) -> bool:
        """Read an event that may say something."""
        marks = self._marks
        if marks is not None and marks.search(event):
            return self.events.take_marked(_data(event))
        if DONE in event:
            return self.events.take(_data(event))
        if self._usage is not None and self._usage.search(event):
            self.events.keep_usage(_data(event))
        return False

    def _take_long(self, block: bytes) -> bool:
        """Take an event of which only the ends are left, and those behind it."""
        tail, _, others = block.partition(b"\n\n")
        head, self._head = self._head, b""
        told = self.events.take_long(head, tail)
        return (self._take(others) if others else False) or told

    def _shorten(self) -> None:
        """Forget the middle of an event that is too long."""
        if self._head:
            if len(self._rest) > 2 * _TAIL:
                del self._rest[:-_TAIL]
        elif len(self._rest) > _LONGEST_EVENT:
            self._head = bytes(self._rest[:_HEAD])
            del self._rest[:-_TAIL]

    def _with_lf(self, chunk: bytes) -> bytes:
        """A chunk whose lines all end in LF; a CR at the end of the last one may have had one."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(event: bytes) -> bytes:
    """The data of an event: nearly always what is in its last line."""
    at = event.find(b"data:")
    if at >= 0 and (not at or event[at - 1 : at] == b"\n") and event.find(b"\n", at) < 0:
        return event[at + 5 :].removeprefix(b" ")
    lines = (line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line.removeprefix(b" ") for line in lines)
