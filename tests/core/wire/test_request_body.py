"""Which model a request is for, wherever its body is cut."""

import gzip
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.wire.request_body import NOTHING, BodyFields, RequestBody, read_body
from headgate.core.wire.task_identity import session_of
from tests.core.wire.chunks import chunked, cuts

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NAMES = st.sampled_from(
    ["model", "stream", "type", "metadata", "request", "user_id", "session_id", "", "mo\\del", 'm"']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(), inner),
    max_leaves=20,
)


def expected(document: object) -> BodyFields:
    """What `json.loads` finds, as far as a name can hold it."""
    if not isinstance(document, dict):
        return NOTHING

    def text(value: object, *path: str) -> str:
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, str) else ""

    session = session_of(text(document, "metadata", "user_id"))
    return BodyFields(
        model=text(document, "model")[:200],
        stream=document.get("stream") is True,
        session=session or text(document, "request", "session_id")[:200],
        kind=text(document, "type")[:200],
    )


def read(chunks: list[bytes], encoding: str = "") -> BodyFields:
    return read_on(RequestBody(encoding), chunks)


def scanned(chunks: list[bytes]) -> BodyFields:
    """The same, as if the body were too large to be parsed as a whole."""
    body = RequestBody()
    body.so_far()
    return read_on(body, chunks)


def read_on(body: RequestBody, chunks: list[bytes]) -> BodyFields:
    for chunk in chunks:
        body.feed(chunk)
    return body.end()


@settings(deadline=None)
@given(
    document=VALUES,
    at=cuts(),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1, "\t"]),
    bom=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_agrees_with_json(
    document: object, at: list[int], *, ascii_only: bool, indent: int | str | None, bom: bytes
) -> None:
    """On any document, cut anywhere, it finds what `json.loads` finds."""
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    body = bom + text.encode("utf-8", "surrogatepass")
    chunks = chunked(body, at)
    assert read(chunks) == scanned(chunks) == expected(json.loads(text))


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), cuts())
def test_the_last_of_equal_keys_counts(pairs: list[tuple[str, object]], at: list[int]) -> None:
    """A key that comes twice means its last value, also where an object was before."""
    inner = ",".join(f"{json.dumps(key)} : {json.dumps(value)}" for key, value in pairs)
    text = f"{{{inner}}}"
    chunks = chunked(text.encode(), at)
    assert read(chunks) == scanned(chunks) == expected(json.loads(text))


@pytest.mark.parametrize("last", ['{"session_id": 5}', "{}", "[]", "null", '"text"', "7"])
def test_a_later_object_replaces_all_of_an_earlier_one(last: str) -> None:
    """What the first of two equal keys had within it does not count."""
    first = '{"model": "m", "request": {"session_id": "s"}'
    for way in (read, scanned):
        assert way([f"{first}}}".encode()]).session == "s"
        assert way([f'{first}, "request": {last}}}'.encode()]) == BodyFields(model="m")


@given(st.binary(max_size=200) | st.text('{}[]":,\\ modelstreau0', max_size=80).map(str.encode))
def test_what_is_no_json_tells_no_more_than_json(body: bytes) -> None:
    """Any bytes are read without an error; if they are JSON, as JSON."""
    found = read_body(body)
    other = scanned([body])
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        assert found == NOTHING
    else:
        assert found == other == expected(document)


@given(st.binary(max_size=300), cuts())
def test_chunks_make_no_difference_for_hostile_bytes(body: bytes, at: list[int]) -> None:
    """However hostile bytes are cut, they tell the same."""
    hostile = b'{"model":"m","a":[' + body + b'],"stream":true}'
    assert scanned(chunked(hostile, at)) == scanned([hostile])
    assert read(chunked(hostile, at)) == read_body(hostile)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"model"',
        b'{"model":"m"',
        b'{"model":"m"}}',
        b'{"model":"m"} x',
        b'{"model" "m"}',
        b'{"model":"m",}',
        b"{'model':'m'}",
        b'{"model":"m","x":[}]}',
        b'{"model":"m","x":[{]}}',
        b'{"model":"m","x":tru}',
        b'{"model":"m\n"}',
        b'{"model":"\\x"}',
        b'{"model":"\xff"}',
    ],
)
def test_invalid_bodies_tell_nothing(body: bytes) -> None:
    """A body that is no JSON object tells nothing."""
    assert read_body(body) == NOTHING
    assert scanned([body]) == NOTHING


def test_deep_nesting_does_no_harm() -> None:
    """How deep is too deep differs between Pythons; it is read, or tells nothing."""
    body = b'{"model":"m","x":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    for found in (read_body(body), scanned([body])):
        assert found in (NOTHING, BodyFields("m"))


def test_nested_sessions_are_not_the_session() -> None:
    """Only the outermost object's own parts are looked into."""
    body = b'{"request":{"request":{"session_id":"deep"}},"x":{"request":{"session_id":"y"}}}'
    assert read([body]) == scanned([body]) == NOTHING


def test_nested_models_are_not_the_model() -> None:
    """Only the outermost object names the model, even behind megabytes of others."""
    tools = [{"model": "inner", "schema": {"model": {"model": "deep"}}}]
    text = '"}],\\"model\\":\\"quoted\\"' * 50_000
    body = {"tools": tools, "messages": [{"content": text}], "x": text, "model": "outer"}
    raw = json.dumps(body).encode()
    assert read([raw[n : n + 4_099] for n in range(0, len(raw), 4_099)]).model == "outer"


@pytest.mark.parametrize("begin", [b'{"', b'{"model":"', b'{"model":', b'{"x":["'])
def test_endless_tokens_take_no_memory(begin: bytes) -> None:
    """Of a key, a text or a number that does not end, only little is kept."""
    body = RequestBody()
    body.feed(begin)
    for _ in range(200):
        body.feed(b"1" * 10_000)
    assert body._scan is not None
    assert len(body._scan._held) < 20_000
    assert body.so_far() == NOTHING


def test_so_far_tells_before_the_end() -> None:
    """A model at the beginning is known before the rest has come."""
    body = RequestBody()
    body.feed(b'{"model":"m","messages":[{"content":"a long')
    assert body.so_far().model == "m"
    assert body.end() == NOTHING


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", " GZIP "])
def test_compressed_bodies_are_read(encoding: str) -> None:
    """A body that was compressed tells the same, cut into single bytes."""
    raw = json.dumps({"messages": ["x" * 100_000], "model": "m", "stream": True}).encode()
    packed = gzip.compress(raw) if "gzip" in encoding.lower() else zlib.compress(raw)
    assert read([packed[n : n + 1] for n in range(len(packed))], encoding).model == "m"


@pytest.mark.parametrize("encoding", ["nonsense", "gzip, gzip"])
def test_unknown_encodings_tell_nothing(encoding: str) -> None:
    """What cannot be decoded tells nothing."""
    assert read([b'{"model":"m"}'], encoding) == NOTHING


def test_damaged_compression_tells_nothing() -> None:
    """A compressed body that breaks off or is no such thing tells nothing."""
    packed = gzip.compress(b'{"model":"m"}' + b" " * 1_000)
    assert read([packed[:-20]], "gzip") == NOTHING
    assert read([b"{}" + packed], "gzip") == NOTHING
