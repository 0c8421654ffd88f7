"""Server-sent events."""

from collections.abc import Iterable, Iterator


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event in a stream of bytes; one that is cut off does not count."""
    rest = b""
    data: list[bytes] = []
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r").removeprefix(b"\xef\xbb\xbf")
            name, _, value = text.partition(b":")
            if text and name == b"data":
                data.append(value.removeprefix(b" "))
            elif not text and data:
                yield b"\n".join(data)
                data = []
