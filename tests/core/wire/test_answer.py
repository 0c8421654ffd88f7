"""What an answer says while it passes: how it ended, its tokens, its signal."""

import gzip
import json
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.answers.signals import ACCEPTED, CONCURRENCY, OVERLOADED, QUOTA, RATE
from headgate.core.times import Ms, Seconds
from headgate.core.wire.answer import Answer, AnswerHead
from headgate.core.wire.answer_events import Outcome
from headgate.core.wire.apis import Api
from headgate.core.wire.server_sent_events import EventStream
from headgate.core.wire.token_usage import NO_USAGE, Usage
from headgate.sim.dialects.anthropic import Anthropic
from headgate.sim.dialects.dialect import Dialect, Refusal, Reply
from headgate.sim.dialects.gemini import Gemini
from headgate.sim.dialects.openai import Chat, Responses
from tests.core.wire.chunks import chunked, cuts
from tests.core.wire.streams import ALL, CHAT, COMPLETE_FROM, GEMINI, MESSAGES, RESPONSES, Recorded

NOW = Seconds(1_790_000_000.0)
SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON_TYPE = {"content-type": "application/json"}
NO_MORE: Mapping[str, str] = {}
DIALECTS: Mapping[Api, Dialect] = {
    Api.MESSAGES: Anthropic(),
    Api.CHAT: Chat(),
    Api.RESPONSES: Responses(),
    Api.GEMINI: Gemini(),
}


def read(
    api: Api, chunks: list[bytes], headers: Mapping[str, str] = SSE, status: int = 200
) -> Answer:
    answer = Answer(AnswerHead(status, {**SSE, **headers}, api, "anthropic"))
    for chunk in chunks:
        answer.feed(chunk)
    return answer


@settings(deadline=None)
@given(st.sampled_from(ALL), cuts(), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_streams_are_read_however_they_are_cut(
    recorded: Recorded, at: list[int], line_end: str, bom: object
) -> None:
    """A complete stream is complete and tells its tokens, whatever its chunks and line ends."""
    body = recorded.body().replace(b"\n", line_end.encode())
    answer = read(recorded.api, chunked(b"\xef\xbb\xbf" * bool(bom) + body, at))
    assert answer.end() is Outcome.COMPLETE
    assert answer.usage() == recorded.usage


@pytest.mark.parametrize("recorded", ALL, ids=lambda recorded: recorded.api)
def test_streams_that_break_off_are_truncated(recorded: Recorded) -> None:
    """Without the last event of its protocol a stream is truncated, wherever it broke off."""
    body = recorded.body()
    count = COMPLETE_FROM.get(recorded.api, len(recorded.events))
    whole = len("".join(f"{event}\n\n" for event in recorded.events[:count]).encode()) - 2
    for length in range(len(body) + 1):
        expected = Outcome.TRUNCATED if length < whole else Outcome.COMPLETE
        assert read(recorded.api, [body[:length]]).end() is expected, length


def test_the_end_is_told_when_it_passes() -> None:
    """The chunk with the last event is told from those before it."""
    answer = Answer(AnswerHead(200, SSE, Api.MESSAGES))
    told = [answer.feed(f"{event}\n\n".encode()) for event in MESSAGES.events]
    assert told == [False] * 6 + [True]
    answer = Answer(AnswerHead(200, SSE, Api.MESSAGES))
    body = MESSAGES.body()
    told = [answer.feed(body[n : n + 1]) for n in range(len(body))]
    assert told == [False] * (len(body) - 1) + [True]


@pytest.mark.parametrize("api", DIALECTS)
@settings(deadline=None)
@given(tokens=st.integers(1, 30), full=st.booleans(), at=cuts())
def test_streams_of_the_simulator(api: Api, tokens: int, at: list[int], *, full: bool) -> None:
    """What the simulator sends is complete, and its tokens are counted as it counts them."""
    dialect = DIALECTS[api]
    reply = Reply(1, "model", asked=50, tokens=tokens, full=full, tally=True)
    deltas = b"".join(dialect.delta(reply, n, f" {n}") for n in range(tokens))
    closing = dialect.closing(reply, tokens)
    answer = read(api, chunked(dialect.opening(reply) + deltas + closing, at))
    assert answer.end() is Outcome.COMPLETE
    assert answer.usage()[:2] == (50, tokens)
    assert read(api, [dialect.opening(reply) + deltas]).end() is Outcome.TRUNCATED


@pytest.mark.parametrize("api", DIALECTS)
@given(at=cuts())
def test_errors_within_streams_of_the_simulator(api: Api, at: list[int]) -> None:
    """An error in the middle of a stream fails it, and is judged like an ordinary refusal."""
    dialect = DIALECTS[api]
    reply = Reply(1, "model", asked=50, tokens=3)
    body = dialect.opening(reply) + dialect.delta(reply, 0, "0") + dialect.broken(reply, 1)
    answer = read(api, chunked(body, at))
    assert answer.end() is Outcome.FAILED
    found = answer.signal(NOW)
    assert found is not None
    assert found.kind == OVERLOADED


@pytest.mark.parametrize(
    "api,event,kind,wait",
    [
        (
            Api.MESSAGES,
            (
                'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":'
                '"Overloaded"}}'
            ),
            OVERLOADED,
            None,
        ),
        (
            Api.MESSAGES,
            (
                'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":'
                '"Number of concurrent connections has exceeded your rate limit."}}'
            ),
            CONCURRENCY,
            None,
        ),
        (
            Api.CHAT,
            (
                'data: {"id":"gen-1","object":"chat.completion.chunk","error":{"code":429,'
                '"message":"Rate limit exceeded: 20 requests per minute"},"choices":[{"index":0,'
                '"delta":{"content":""},"finish_reason":"error"}]}'
            ),
            RATE,
            None,
        ),
        (
            Api.RESPONSES,
            (
                'event: response.failed\ndata: {"type":"response.failed","response":{"id":"r",'
                '"status":"failed","error":{"code":"rate_limit_exceeded","message":"Rate limit '
                'reached for gpt on tokens per min (TPM). Please try again in 4.2s."}}}'
            ),
            RATE,
            Ms(4_200),
        ),
        (
            Api.RESPONSES,
            (
                'event: error\ndata: {"type":"error","sequence_number":3,'
                '"code":"server_is_overloaded","message":"m","param":null}'
            ),
            OVERLOADED,
            None,
        ),
        (
            Api.GEMINI,
            (
                'data: {"error": {"code": 429,"message": "Resource has been exhausted","status": '
                '"RESOURCE_EXHAUSTED","details": [{"@type": '
                '"type.googleapis.com/google.rpc.RetryInfo","retryDelay": "7s"}]}}'
            ),
            RATE,
            Ms(7_000),
        ),
    ],
)
def test_documented_errors_within_streams(api: Api, event: str, kind: str, wait: Ms | None) -> None:
    """Each provider's way to say in a stream that it refuses is understood."""
    answer = read(api, [f"{event}\n\n".encode()])
    assert answer.end() is Outcome.FAILED
    found = answer.signal(NOW)
    assert found is not None
    assert (found.kind, found.retry_after) == (kind, wait)


def test_an_error_that_says_nothing_on_capacity() -> None:
    """A stream that fails for another reason failed, and nothing is learned from it."""
    event = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"m"}}\n\n'
    answer = read(Api.MESSAGES, [event])
    assert (answer.end(), answer.signal(NOW)) == (Outcome.FAILED, None)


@pytest.mark.parametrize("recorded", [MESSAGES, CHAT, GEMINI], ids=lambda recorded: recorded.api)
def test_accepted_with_the_head(recorded: Recorded) -> None:
    """An answer is accepted when its head has come, and stays so."""
    answer = Answer(AnswerHead(200, SSE, recorded.api))
    found = answer.signal(NOW)
    answer.feed(recorded.body())
    assert found is not None
    assert found.kind == ACCEPTED
    assert answer.signal(NOW) == found


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
@given(at=cuts())
def test_compressed_streams_are_read(encoding: str, at: list[int]) -> None:
    """A compressed stream tells the same; `deflate` may be written in two ways."""
    pack = zlib.compressobj(wbits={"gzip": 31, "deflate": 15, "raw": -15}[encoding])
    body = b"".join(pack.compress(f"{event}\n\n".encode()) for event in MESSAGES.events)
    chunks = chunked(body + pack.flush(), at)
    answer = read(Api.MESSAGES, chunks, {"content-encoding": encoding.replace("raw", "deflate")})
    assert answer.end() is Outcome.COMPLETE
    assert answer.usage() == MESSAGES.usage


@pytest.mark.parametrize(
    "encoding,body",
    [("unheard-of", MESSAGES.body()), ("gzip", b"no gzip at all" * 9), ("gzip, br", b"x")],
)
def test_what_cannot_be_decoded_is_never_truncated(encoding: str, body: bytes) -> None:
    """A stream that nobody can read is not called truncated."""
    answer = read(Api.MESSAGES, [body], {"content-encoding": encoding})
    assert (answer.end(), answer.usage()) == (Outcome.UNREAD, NO_USAGE)


def test_a_bomb_is_given_up() -> None:
    """A stream that a few bytes blow up beyond all measure is not read to its end."""
    pack = zlib.compressobj(9, wbits=31)
    packed = b"".join(pack.compress(bytes(2**24)) for _ in range(17)) + pack.flush()
    answer = read(Api.MESSAGES, [packed], {"content-encoding": "gzip"})
    assert answer.end() is Outcome.UNREAD


@pytest.mark.parametrize("size", [10_000, 3_000_000])
@pytest.mark.parametrize("step", [1_000, 65_536, 10_000_000])
def test_huge_last_events(size: int, step: int) -> None:
    """The last event is known and its tokens are counted, even if it is too long to be kept."""
    response = {
        "output": [{"type": "message", "content": [{"text": "x\n\n" * (size // 3)}]}],
        "usage": {"input_tokens": 5, "output_tokens": 6},
    }
    event = {"type": "response.completed", "response": response}
    delta = b'data: {"type":"response.output_text.delta","delta":"' + b"y" * size + b'"}\n\n'
    body = delta + b"data: " + json.dumps(event).encode() + b"\n\n" + delta
    answer = read(Api.RESPONSES, [body[n : n + step] for n in range(0, len(body), step)])
    assert answer.end() is Outcome.COMPLETE
    assert answer.usage() == Usage(5, 6)
    cut = body[: body.rfind(b'"usage"')]
    answer = read(Api.RESPONSES, [cut[n : n + step] for n in range(0, len(cut), step)])
    assert answer.end() is Outcome.TRUNCATED


def test_endless_events_take_no_memory() -> None:
    """Of an event that does not end only little is kept."""
    stream = EventStream(Api.MESSAGES)
    for _ in range(500):
        stream.feed(b"data: " + b"x" * 9_994)
    assert len(stream._rest) + len(stream._head) < 100_000


@given(st.sampled_from(list(Api)), st.lists(st.binary(max_size=60)), st.integers(100, 599))
def test_hostile_bytes_are_read(api: Api, chunks: list[bytes], status: int) -> None:
    """Whatever comes, it is read without an error."""
    answer = read(api, [b'data: {"error', *chunks], status=status)
    answer.end()
    answer.signal(NOW)
    answer.usage()


@given(st.lists(st.sampled_from([*MESSAGES.events, ": a comment", "data: x", "\r", "id: 4", ""])))
def test_events_in_any_order_say_the_same_however_cut(events: list[str]) -> None:
    """A stream means the same in one chunk and byte by byte."""
    body = "\n\n".join(events).encode()
    one, many = read(Api.MESSAGES, [body]), read(Api.MESSAGES, [bytes([b]) for b in body])
    assert (one.end(), one.usage()) == (many.end(), many.usage())


@settings(deadline=None)
@given(st.data(), st.sampled_from(ALL), cuts())
def test_events_say_in_one_piece_what_they_say_one_by_one(
    data: st.DataObject, recorded: Recorded, at: list[int]
) -> None:
    """Every API, with events that hide a mark, or none, among those that say something."""
    odd = ["data: [DONE]", ': "message_stop"', 'data: {"usage": {', 'data: "[DONE]"', "", "data: x"]
    events = data.draw(st.lists(st.sampled_from([*recorded.events, *odd])))
    apart, whole, cut = (EventStream(recorded.api) for _ in range(3))
    body = "".join(f"{event}\n\n" for event in events).encode()
    for event in events:
        apart.feed(f"{event}\n\n".encode())
    whole.feed(body)
    for chunk in chunked(body, at):
        cut.feed(chunk)
    for one in (whole, cut):
        assert one.events.outcome() is apart.events.outcome()
        assert one.events.usage() == apart.events.usage()
        assert one.events.tools.found() == apart.events.tools.found()


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_data_of_several_lines(line_end: bytes) -> None:
    """The lines of data of one event are put together, wherever a line's end is cut."""
    lines = (b": c", b"event: message_stop", b'data: {"type":', b'data:"message_stop"}', b"", b"")
    body = b"\xef\xbb\xbf" + line_end.join(lines)
    for place in range(len(body)):
        assert read(Api.MESSAGES, [body[:place], body[place:]]).end() is Outcome.COMPLETE, place


def test_a_mark_of_the_encoding_is_passed_over() -> None:
    """A byte order mark before the first event does not hide it."""
    body = b'\xef\xbb\xbfdata: {"type":"message_stop"}\n\n'
    assert read(Api.MESSAGES, [body]).end() is Outcome.COMPLETE


def test_a_blocked_prompt_is_complete() -> None:
    """Gemini's refusal of a prompt is its whole answer."""
    event = b'data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{}}\n\n'
    assert read(Api.GEMINI, [event]).end() is Outcome.COMPLETE


def test_streams_without_a_known_end_are_not_judged() -> None:
    """Of APIs that are not looked into, only the end that is told counts."""
    assert read(Api.PLAIN, [b"data: {}\n\n"]).end() is Outcome.UNREAD
    assert read(Api.PLAIN, [b"data: {}\n\ndata: [DONE]\n\n"]).end() is Outcome.COMPLETE


@pytest.mark.parametrize("api", DIALECTS)
def test_whole_answers(api: Api) -> None:
    """An answer in one piece tells its tokens, also if it is compressed or very long."""
    dialect = DIALECTS[api]
    reply = Reply(1, "model", asked=50, tokens=9)
    body = json.dumps(dialect.whole(reply)).encode()
    for chunks, more in (
        ([body], NO_MORE),
        ([body[:9], body[9:]], NO_MORE),
        ([gzip.compress(body)], {"content-encoding": "gzip"}),
    ):
        answer = read(api, chunks, {**JSON_TYPE, **more})
        assert answer.end() is Outcome.COMPLETE
        assert answer.usage()[:2] == (50, 9)
    long = b'{"x":"' + b"y" * 2_000_000 + b'",' + body[1:]
    answer = read(api, [long[n : n + 9_999] for n in range(0, len(long), 9_999)], JSON_TYPE)
    assert answer.usage()[:2] == (50, 9)
    assert read(api, [body[:-1]], JSON_TYPE).end() is Outcome.UNREAD


def test_gemini_streams_as_a_list() -> None:
    """Without `alt=sse` Gemini streams one long list, whose last figures count."""
    events = [json.loads(event.removeprefix("data: ")) for event in GEMINI.events]
    answer = read(Api.GEMINI, [json.dumps(events).encode()], JSON_TYPE)
    assert answer.usage() == GEMINI.usage


@pytest.mark.parametrize("api", DIALECTS)
@pytest.mark.parametrize(
    "kind,expected",
    [("concurrency", CONCURRENCY), ("rate", RATE), ("overloaded", OVERLOADED), ("quota", QUOTA)],
)
def test_refusals_of_the_simulator(api: Api, kind: str, expected: str) -> None:
    """A refusal is judged by its status and its body, in whatever chunks that comes."""
    dialect = DIALECTS[api]
    body = json.dumps(dialect.error(Refusal(kind), 1)).encode()
    more = {"anthropic-ratelimit-unified-status": "rejected"} if kind == "quota" else {}
    answer = read(api, [body[:7], body[7:]], {**JSON_TYPE, **more}, dialect.status(kind))
    assert answer.end() is Outcome.FAILED
    found = answer.signal(NOW)
    assert found is not None
    assert found.kind == expected
    assert answer.usage() == NO_USAGE


def test_an_error_in_a_whole_answer() -> None:
    """An error with the status 200 is one."""
    body = b'{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-day"}}'
    answer = read(Api.CHAT, [body], JSON_TYPE)
    assert answer.end() is Outcome.FAILED
    found = answer.signal(NOW)
    assert found is not None
    assert found.kind == QUOTA


def test_the_responses_stream_carries_codex_limits() -> None:
    """What codex's service says of its windows in an event is kept for who asks."""
    event = b'data: {"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":42}}}\n\n'
    answer = read(Api.RESPONSES, [event, RESPONSES.body()])
    assert answer.events is not None
    assert answer.events.limits is not None
    assert answer.end() is Outcome.COMPLETE
