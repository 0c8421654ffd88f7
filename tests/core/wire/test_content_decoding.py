"""Bodies that were compressed, decoded as they come."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.wire.content_decoding import Decoder, _sliced

MUCH = 2**30


def decoded(decoder: Decoder, chunks: list[bytes]) -> bytes:
    return b"".join(piece for chunk in chunks for piece in decoder.feed(chunk))


@settings(deadline=None)
@given(st.integers(0, 300_000), st.binary(max_size=300), st.sampled_from([31, 15, -15]))
def test_nothing_is_held_back(zeros: int, noise: bytes, window: int) -> None:
    """After each byte of input, all that it stands for has come out."""
    pack = zlib.compressobj(wbits=window)
    body = pack.compress(bytes(zeros) + noise) + pack.flush()
    plain = zlib.decompressobj(window)
    decoder = Decoder("gzip" if window == 31 else "deflate", MUCH)
    for place in range(len(body)):
        chunk = body[place : place + 1]
        assert decoded(decoder, [chunk]) == plain.decompress(chunk)
    assert decoder.readable


def test_nothing_is_held_back_where_a_piece_is_full() -> None:
    """A piece that is full just when the input ends is followed by what is left of it."""
    for window in (31, 15):
        pack = zlib.compressobj(9, wbits=window)
        body = pack.compress(bytes(400_000)) + pack.flush()
        for place in range(len(body)):
            decoder = Decoder("gzip" if window == 31 else "deflate", MUCH)
            plain = zlib.decompressobj(window).decompress(body[:place])
            assert decoded(decoder, [body[:place]]) == plain


def test_pieces_are_small() -> None:
    """A chunk that stands for a lot comes out in pieces."""
    pack = zlib.compressobj(wbits=31)
    body = pack.compress(bytes(10_000_000)) + pack.flush()
    pieces = list(Decoder("gzip", MUCH).feed(body))
    assert (sum(map(len, pieces)), max(map(len, pieces))) == (10_000_000, 65_536)


def test_the_output_is_bounded() -> None:
    """What grows beyond the bound is given up, and nothing comes out any more."""
    pack = zlib.compressobj(wbits=31)
    decoder = Decoder("gzip", 1_000_000)
    assert len(decoded(decoder, [pack.compress(bytes(10_000_000)) + pack.flush()])) <= 1_000_000
    assert not decoder.readable
    assert decoded(decoder, [b"more"]) == b""


def test_members_of_gzip_follow_one_another() -> None:
    """Several compressed parts in a row are one body; what follows zlib's format is no part."""
    pack = zlib.compressobj(wbits=31)
    one = pack.compress(b"one") + pack.flush()
    decoder = Decoder("gzip", MUCH)
    assert decoded(decoder, [one + one[:5], one[5:]]) == b"oneone"
    decoder = Decoder("deflate", MUCH)
    assert decoded(decoder, [zlib.compress(b"two") + b"rest", b"more"]) == b"two"


@given(st.sampled_from(["gzip", "deflate", "br", "zstd", "odd"]), st.lists(st.binary()))
def test_hostile_bytes_are_decoded(encoding: str, chunks: list[bytes]) -> None:
    """Whatever comes, it is decoded without an error, or given up."""
    decoded(Decoder(encoding, MUCH), chunks)


def test_decoders_without_a_bound_get_little_at_once() -> None:
    """A decoder that cannot bound its output is given small slices of the input."""
    sizes: list[int] = []
    made = zlib.decompressobj()

    def decompress(part: bytes) -> bytes:
        sizes.append(len(part))
        return made.decompress(part)

    body = zlib.compress(bytes(range(256)) * 40, 0)
    assert b"".join(_sliced(decompress)(body)) == bytes(range(256)) * 40
    assert max(sizes) == 256


def test_zstd_is_read_if_a_module_is_there() -> None:
    """A body in zstd is read with the module for it, and without one it cannot be read."""
    zstandard = pytest.importorskip("zstandard")
    body = zstandard.ZstdCompressor().compress(b"x" * 100_000)
    decoder = Decoder("zstd", MUCH)
    assert decoded(decoder, [body[:7], body[7:]]) == b"x" * 100_000


def test_brotli_is_read_if_a_module_is_there() -> None:
    """A body in brotli is read with the module for it, and without one it cannot be read."""
    brotli = pytest.importorskip("brotli")
    body = brotli.compress(b"x" * 100_000)
    decoder = Decoder("br", MUCH)
    assert decoded(decoder, [body[:3], body[3:]]) == b"x" * 100_000
    bomb = brotli.compress(bytes(2**26))
    assert max(map(len, Decoder("br", MUCH).feed(bomb))) < 2**20
