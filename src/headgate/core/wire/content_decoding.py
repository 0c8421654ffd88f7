"""Bodies that were compressed, decoded bit by bit as they pass.

What passes through is not changed; only what headgate reads of it is decoded. A few bytes can stand
for gigabytes, so the output comes in small pieces and ends at a bound. The modules for zstd and
brotli are loaded when they are needed.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

_PIECE = 64 * 1024
_SLICE = 256
"""Bytes of input at once for a decoder that cannot bound its output: at most some megabytes."""
_METHOD = 8
"""The lower half of the first byte in zlib's format."""


class Decode(Protocol):
    """Decodes one kind of content, in pieces."""

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        """What these bytes stand for; raises an error of its own if for nothing."""


class Decoder:
    """Decodes a body as it comes. When it cannot be read any more, it gives nothing."""

    def __init__(self, encoding: str, most: int) -> None:
        name = encoding.strip().lower()
        self._decode: Decode | None = None
        self._left = most
        self.plain = name in {"", "identity"}
        """Whether there is nothing to decode."""
        maker = None if self.plain else _MAKERS.get(name)
        if maker is not None:
            self._decode = maker()
        self.readable = self.plain or self._decode is not None
        """Whether all that came so far could be read."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What this part of the body stands for, in pieces that are not large."""
        if self.plain:
            yield chunk
        elif self._decode is not None:
            try:
                for piece in self._decode(chunk):
                    self._left -= len(piece)
                    if self._left < 0:
                        self._give_up()
                        return
                    yield piece
            except Exception:  # noqa: BLE001 - each module has its own, and all mean the same
                self._give_up()

    def _give_up(self) -> None:
        self._decode, self.readable = None, False


def _gzip() -> Decode:
    return _zlib_decode(16 + zlib.MAX_WBITS)


def _deflate() -> Decode:
    """Two formats have this name: zlib's, as it should be, and the bare one, as it often is."""
    chosen: list[Decode] = []

    def decode(chunk: bytes) -> Iterator[bytes]:
        if chunk and not chosen:
            zlibs = chunk[0] & 0x0F == _METHOD
            chosen.append(_zlib_decode(zlib.MAX_WBITS if zlibs else -zlib.MAX_WBITS))
        return chosen[0](chunk) if chosen else iter(())

    return decode


def _zlib_decode(window: int) -> Decode:
    made = zlib.decompressobj(window)

    def decode(chunk: bytes) -> Iterator[bytes]:
        nonlocal made
        full = False
        while chunk or full:
            if made.eof:
                if window < 16:
                    return  # whatever follows does not belong to it
                made = zlib.decompressobj(window)  # of gzip, several may follow one another
            piece = made.decompress(chunk, _PIECE)
            yield piece
            full = len(piece) == _PIECE  # there may be more of it, without more input
            chunk = made.unused_data if made.eof else made.unconsumed_tail

    return decode


def _zstd() -> Decode | None:
    module = _load("compression.zstd")
    if module is not None:
        return _bounded(module.ZstdDecompressor())
    module = _load("zstandard")
    return None if module is None else _sliced(module.ZstdDecompressor().decompressobj().decompress)


def _brotli() -> Decode | None:
    """Only by a module that can bound its output: a few bytes stand for hundreds of megabytes."""
    module = _load("brotli") or _load("brotlicffi")
    made: Any = None if module is None else module.Decompressor()
    if not hasattr(made, "can_accept_more_data"):
        return None

    def decode(chunk: bytes) -> Iterator[bytes]:
        while True:
            piece = made.process(chunk, output_buffer_limit=_PIECE)
            yield piece
            chunk = b""
            if made.can_accept_more_data() and len(piece) < _PIECE:
                return

    return decode


def _bounded(made: Any) -> Decode:  # noqa: ANN401 - the standard library of a later Python
    def decode(chunk: bytes) -> Iterator[bytes]:
        while not made.eof:
            yield made.decompress(chunk, _PIECE)
            chunk = b""
            if made.needs_input:
                return

    return decode


def _sliced(decompress: Callable[[bytes], bytes]) -> Decode:
    def decode(chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), _SLICE):
            yield decompress(chunk[start : start + _SLICE])

    return decode


@lru_cache(maxsize=8)
def _load(name: str) -> Any:  # noqa: ANN401 - a module that need not be there
    try:
        return import_module(name)
    except ImportError:
        return None


_MAKERS: dict[str, Callable[[], Decode | None]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
    "br": _brotli,
}
