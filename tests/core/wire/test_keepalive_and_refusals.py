"""What keeps a client waiting, and how headgate itself refuses."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.answers.classify import Response, classify
from headgate.core.answers.signals import OVERLOADED, RATE
from headgate.core.times import Ms, Seconds
from headgate.core.wire.answer import Answer, AnswerHead
from headgate.core.wire.answer_events import Outcome
from headgate.core.wire.apis import Api
from headgate.core.wire.keepalive import EVENT_STREAM, keepalive, silence
from headgate.core.wire.refusals import (
    REASON_HEADER,
    OwnRefusal,
    refusal_event,
    refusal_reply,
    wait_for,
)
from tests.core.wire.streams import ALL, Recorded

NOW = Seconds(1_790_000_000.0)
SENTENCE = "All 4 seats of anthropic/claude-opus-* are taken."
FULL = OwnRefusal(429, "pool_full", SENTENCE, Seconds(7.25))


@pytest.mark.parametrize("recorded", ALL, ids=lambda recorded: recorded.api)
def test_a_stream_behind_keepalives_is_read(recorded: Recorded) -> None:
    """What was sent while a client waited changes nothing about the stream behind it."""
    found = keepalive(recorded.api, "claude-cli/2.1.325 (external, cli)")
    assert found is not None
    answer = Answer(AnswerHead(200, found.headers, recorded.api))
    answer.feed(found.content * 3 + recorded.body())
    assert answer.end() is Outcome.COMPLETE
    assert answer.usage() == recorded.usage


@pytest.mark.parametrize(
    "api,content",
    [
        (Api.MESSAGES, b'event: ping\ndata: {"type": "ping"}\n\n'),
        (Api.CHAT, b": waiting for a seat\n\n"),
        (Api.RESPONSES, b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n'),
        (Api.GEMINI, b"\n"),
    ],
)
def test_each_api_has_its_keepalive(api: Api, content: bytes) -> None:
    """Each API gets what its clients were seen to take, with the headers of a stream."""
    found = keepalive(api)
    assert found is not None
    assert (found.content, found.headers) == (content, EVENT_STREAM)


@pytest.mark.parametrize("api", Api)
def test_requests_without_a_stream_are_held(api: Api) -> None:
    """Nothing is sent before the answer to a request that asks for no stream."""
    assert keepalive(api, streams=False) is None


@pytest.mark.parametrize(
    "agent,gives_up_after",
    [
        ("GeminiCLI/0.61.0 (linux; x64)", 60),
        ("claude-cli/2.1.325 (external, cli)", 182),
        ("opencode/1.18.33", 300),
        ("codex_exec/0.166.0", 300),
        ("who knows", 60),
        ("", 60),
    ],
)
def test_headers_come_before_a_client_gives_up(agent: str, gives_up_after: int) -> None:
    """A client has its headers in half of the time after which it was seen to give up."""
    assert silence(agent) <= gives_up_after / 2
    found = keepalive(Api.MESSAGES, agent)
    assert found is not None
    assert found.every <= gives_up_after / 3


@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("status,kind", [(429, RATE), (503, OVERLOADED), (529, OVERLOADED)])
def test_refusals_are_understood(api: Api, status: int, kind: str) -> None:
    """A refusal reads like the provider's own: its kind, and when to come back."""
    reply = refusal_reply(api, FULL._replace(status=status))
    assert reply.status == (status if api is Api.MESSAGES or status != 529 else 503)
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.headers[REASON_HEADER] == "pool_full"
    assert SENTENCE in str(json.loads(reply.body))
    provider = {Api.MESSAGES: "anthropic", Api.GEMINI: "google"}.get(api, "openai")
    found = classify(Response(reply.status, reply.headers, reply.body, provider), NOW)
    assert found is not None
    assert found.kind == kind
    assert found.retry_after == (Ms(8_000) if api is Api.GEMINI else Ms(7_250))


@pytest.mark.parametrize("api", [Api.MESSAGES, Api.CHAT, Api.RESPONSES, Api.GEMINI])
def test_refusals_within_streams_are_understood(api: Api) -> None:
    """A stream that has begun can still be refused, and tells why."""
    answer = Answer(AnswerHead(200, EVENT_STREAM, api, "anthropic"))
    assert answer.feed(refusal_event(api, FULL))
    assert answer.end() is Outcome.FAILED
    found = answer.signal(NOW)
    assert found is not None
    assert found.kind == RATE


def test_codex_is_told_when_to_come_back() -> None:
    """The message of a stream's error names the time, as codex reads it."""
    for status in (429, 503, 529):
        event = refusal_event(Api.RESPONSES, FULL._replace(status=status))
        data = json.loads(event.partition(b"data: ")[2])
        error = data["response"]["error"]
        assert error["code"] == "rate_limit_exceeded"
        assert error["message"] == f"{SENTENCE} Please try again in 7.3s."


@given(st.none() | st.floats(0, 1e6), st.floats(0, 1), st.sampled_from(list(Api)))
def test_nobody_is_told_to_wait_for_more_than_a_minute(
    eta: float | None, random: float, api: Api
) -> None:
    """Retry-After is whole seconds, 1 to 60, and spread around the time that is expected."""
    wait = wait_for(None if eta is None else Seconds(eta), random)
    assert 1 <= wait <= 60
    if eta is not None and 2 <= eta <= 50:
        assert math.isclose(wait, eta, rel_tol=0.151)
    reply = refusal_reply(api, FULL._replace(retry_after=wait))
    assert reply.headers["retry-after"] == str(math.ceil(wait))


@given(st.text(), st.sampled_from(list(Api)))
def test_any_sentence_can_be_told(sentence: str, api: Api) -> None:
    """A sentence cannot break out of the event it is in."""
    refusal = FULL._replace(sentence=sentence)
    event = refusal_event(api, refusal)
    assert event.count(b"\n\n") == 1
    assert json.loads(refusal_reply(api, refusal).body)
