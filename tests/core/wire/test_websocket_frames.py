"""The text messages in one direction of a WebSocket."""

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.answers.signals import QUOTA
from headgate.core.times import Ms, Seconds
from headgate.core.wire.answer_events import AnswerEvents, Outcome
from headgate.core.wire.apis import Api
from headgate.core.wire.request_body import read_body
from headgate.core.wire.token_usage import Usage
from headgate.core.wire.websocket_frames import Message, WebSocketReader, is_compressed
from tests.core.wire.chunks import chunked, cuts

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
NOW = Seconds(1_790_000_000.0)


def frame(kind: int, data: bytes, *, flags: int = 0x80, mask: bytes = b"") -> bytes:
    """A frame, as the standard has it."""
    size = len(data)
    masked = 0x80 if mask else 0
    if size < 126:
        length = bytes([masked | size])
    elif size < 2**16:
        length = bytes([masked | 126]) + size.to_bytes(2)
    else:
        length = bytes([masked | 127]) + size.to_bytes(8)
    return bytes([flags | kind]) + length + mask + masking(data, mask)


def masking(data: bytes, mask: bytes) -> bytes:
    """Each byte, with the byte of the mask whose turn it is."""
    found = bytearray(data)
    for turn, other in enumerate(mask):
        found[turn::4] = data[turn::4].translate(bytes(byte ^ other for byte in range(256)))
    return bytes(found)


def packed(messages: list[bytes], way: str) -> list[bytes]:
    """Messages as `permessage-deflate` writes them, in one of the ways that are allowed."""
    found = []
    pack = zlib.compressobj(wbits=-15)
    for message in messages:
        pack = pack if way == "together" else zlib.compressobj(wbits=-15)
        end = zlib.Z_FINISH if way == "ended" else zlib.Z_SYNC_FLUSH
        found.append((pack.compress(message) + pack.flush(end)).removesuffix(b"\x00\x00\xff\xff"))
    return found


def read(body: bytes, at: list[int], *, compressed: bool = False) -> tuple[list[Message], bool]:
    reader = WebSocketReader(compressed=compressed)
    found = [message for chunk in chunked(body, at) for message in reader.feed(chunk)]
    return found, reader.readable


MESSAGES = st.lists(st.tuples(st.binary(max_size=40), st.sampled_from([1, 20, 3_000])), max_size=6)
"""Messages as what they repeat, and how often: some of them need each of the three lengths."""


@settings(deadline=None)
@given(MESSAGES, st.sampled_from([b"", b"\x01\x02\x03\x04"]), st.integers(1, 200_000), cuts())
def test_messages_are_found(
    repeated: list[tuple[bytes, int]], mask: bytes, size: int, at: list[int]
) -> None:
    """Masked or not, in one frame or many, between pings, cut anywhere: the messages come out."""
    messages = [part * times for part, times in repeated]
    frames = []
    for message in messages:
        step = max(size, len(message) // 30)
        parts = [message[n : n + step] for n in range(0, len(message), step)] or [b""]
        for number, part in enumerate(parts):
            flags = 0x80 if number == len(parts) - 1 else 0
            frames.append(frame(TEXT if number == 0 else 0, part, flags=flags, mask=mask))
            frames.append(frame(PING, b"are you there", mask=mask))
        frames.append(frame(BINARY, b"not text", mask=mask))
    frames.append(frame(CLOSE, b"\x03\xe8", mask=mask))
    assert read(b"".join(frames), at) == ([Message(message) for message in messages], True)


@settings(deadline=None)
@given(MESSAGES, st.sampled_from(["together", "apart", "ended"]), cuts())
def test_compressed_messages_are_found(
    repeated: list[tuple[bytes, int]], way: str, at: list[int]
) -> None:
    """Compressed messages come out too, whether each stands by itself or builds on the others."""
    messages = [part * times for part, times in repeated]
    body = b"".join(
        frame(TEXT, data[:5], flags=0x40) + frame(0, data[5:]) for data in packed(messages, way)
    )
    found = read(body, at, compressed=True)
    assert found == ([Message(message) for message in messages], True)


def test_long_messages_are_cut() -> None:
    """Of a message that is too long the beginning is kept, and the next one is read as ever."""
    body = frame(TEXT, b"x" * 3_000_000) + frame(TEXT, b"next")
    long, following = read(body, list(range(0, len(body), 50_000)))[0]
    assert (len(long.data), long.whole, following) == (2**20, False, Message(b"next"))


def test_bombs_are_given_up() -> None:
    """A message that grows beyond all measure ends the reading."""
    pack = zlib.compressobj(9, wbits=-15)
    data = b"".join(pack.compress(bytes(2**24)) for _ in range(5)) + pack.flush(zlib.Z_SYNC_FLUSH)
    found, readable = read(frame(TEXT, data, flags=0xC0), [], compressed=True)
    assert (found, readable) == ([], False)


@pytest.mark.parametrize(
    "body",
    [
        frame(TEXT, b"x", flags=0xC0),
        frame(TEXT, b"x", flags=0xA0),
        frame(0, b"x"),
        frame(TEXT, b"x", flags=0) + frame(TEXT, b"y"),
        frame(3, b"x"),
        frame(PING, b"x" * 200),
        frame(PING, b"", flags=0),
    ],
)
def test_odd_frames_end_the_reading(body: bytes) -> None:
    """What no end may send is not guessed at."""
    found, readable = read(body + frame(TEXT, b"z"), [])
    assert (found, readable) == ([], False)


@given(st.lists(st.binary(max_size=80)), st.booleans())
def test_hostile_bytes_are_read(chunks: list[bytes], used: object) -> None:
    """Whatever comes, it is read without an error."""
    reader = WebSocketReader(compressed=bool(used))
    for chunk in chunks:
        reader.feed(chunk)


@pytest.mark.parametrize(
    "extensions,compressed",
    [
        ("", False),
        ("permessage-deflate", True),
        ("Permessage-Deflate; client_no_context_takeover; server_max_window_bits=12", True),
        ("x-webkit-deflate-frame", None),
        ("permessage-deflate, x-more", None),
    ],
)
def test_what_was_agreed_on(extensions: str, compressed: object) -> None:
    """The extensions of the handshake tell whether messages are compressed, or cannot be read."""
    assert is_compressed(extensions) is compressed


def test_codex_in_a_websocket() -> None:
    """Requests and answers of the responses API are read in their messages."""
    ask = {"type": "response.create", "model": "gpt-5-codex", "input": [], "stream": True}
    request = frame(TEXT, json.dumps(ask).encode(), mask=b"\x09\x08\x07\x06")
    fields = read_body(read(request, [3])[0][0].data)
    assert (fields.kind, fields.model, fields.stream) == ("response.create", "gpt-5-codex", True)
    usage = {"input_tokens": 7, "output_tokens": 8}
    said = [
        {"type": "response.created", "response": {"id": "r", "error": None}},
        {"type": "response.output_text.delta", "delta": '"response.completed"'},
        {"type": "response.completed", "response": {"id": "r", "usage": usage}},
    ]
    events = AnswerEvents(Api.RESPONSES)
    body = b"".join(frame(TEXT, json.dumps(event).encode()) for event in said)
    assert [events.take(message.data) for message in read(body, [])[0]] == [False, False, True]
    assert (events.outcome(), events.usage()) == (Outcome.COMPLETE, Usage(7, 8))


def test_codex_is_refused_in_a_websocket() -> None:
    """An error in a WebSocket carries the status and headers of an ordinary refusal."""
    error = {
        "type": "error",
        "status": 429,
        "error": {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
        },
        "headers": {"retry-after": 600, "x-codex-primary-used-percent": "100.0"},
    }
    events = AnswerEvents(Api.RESPONSES)
    assert events.take(json.dumps(error).encode())
    found = events.signal("openai", NOW)
    assert found is not None
    assert (found.kind, found.retry_after, found.account) == (QUOTA, Ms(600_000), True)
