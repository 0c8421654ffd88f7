"""Which tools an answer has the agent call, by the shapes that each API has for it."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.wire.answer import Answer, AnswerHead
from headgate.core.wire.apis import Api
from tests.core.wire.chunks import chunked, cuts

STREAM = {"content-type": "text/event-stream"}
ARGUMENTS = '{"command": "ls \\"tool_use\\""}'
DELTA = {"type": "input_json_delta", "partial_json": ARGUMENTS}
BLOCK = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
ITEM = {"type": "function_call", "name": "Bash", "call_id": "c", "arguments": ARGUMENTS}
FUNCTION = {"name": "Bash", "arguments": ARGUMENTS}
DONE = {"type": "response.completed", "response": {"status": "completed", "output": [ITEM]}}
EVENTS: dict[Api, list[dict[str, Any]]] = {
    Api.MESSAGES: [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 1, "content_block": BLOCK},
        {"type": "content_block_delta", "index": 1, "delta": DELTA},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ],
    Api.CHAT: [
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": FUNCTION}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ],
    Api.RESPONSES: [
        {"type": "response.created", "response": {"parallel_tool_calls": True, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
        DONE,
    ],
    Api.GEMINI: [
        {
            "candidates": [
                {
                    "content": {"parts": [{"functionCall": {"name": "Bash", "args": {"a": 1}}}]},
                    "finishReason": "STOP",
                }
            ]
        }
    ],
}
PLAIN: dict[Api, dict[str, Any]] = {
    Api.MESSAGES: {"content": [{"type": "text", "text": "x"}, {**BLOCK, "input": {"a": 1}}]},
    Api.CHAT: {"choices": [{"index": 0, "message": {"tool_calls": [{"function": FUNCTION}]}}]},
    Api.RESPONSES: {"status": "completed", "parallel_tool_calls": True, "output": [ITEM]},
    Api.GEMINI: EVENTS[Api.GEMINI][0],
}
NONE: dict[Api, list[dict[str, Any]]] = {
    Api.MESSAGES: [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": '"tool_use"'}},
        {"type": "content_block_start", "content_block": {**BLOCK, "type": "server_tool_use"}},
    ],
    Api.CHAT: [
        {"choices": [{"index": 0, "delta": {"content": "x", "tool_calls": []}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": None}, "finish_reason": "stop"}]},
    ],
    Api.RESPONSES: [
        {"type": "response.output_item.done", "item": {"type": "web_search_call"}},
        {"type": "response.completed", "response": {"parallel_tool_calls": True, "output": []}},
    ],
    Api.GEMINI: [{"candidates": [{"content": {"parts": [{"text": '"functionCall"'}]}}]}],
}


def streamed(events: list[dict[str, Any]]) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def read(api: Api, pieces: Iterator[bytes] | list[bytes], **headers: str) -> list[str]:
    answer = Answer(AnswerHead(200, {**STREAM, **headers}, api))
    for piece in pieces:
        answer.feed(piece)
    return answer.tool_calls()


@pytest.mark.parametrize("api", EVENTS)
@pytest.mark.parametrize("encoding", ["", "gzip"])
@given(at=cuts())
def test_calls_in_a_stream(api: Api, encoding: str, at: list[int]) -> None:
    """Wherever it is cut, and compressed or not: one call, always the same."""
    body = streamed(EVENTS[api])
    packed = gzip.compress(body) if encoding else body
    headers = {"content-encoding": encoding}
    (found,) = read(api, chunked(packed, at), **headers)
    assert found == read(api, [body])[0]
    assert found.startswith("Bash#")


@pytest.mark.parametrize("api", PLAIN)
def test_calls_in_a_plain_answer(api: Api) -> None:
    """An answer that is no stream has them, too."""
    body = json.dumps(PLAIN[api]).encode()
    (found,) = read(api, [body], **{"content-type": "application/json"})
    assert found.startswith("Bash#")


@pytest.mark.parametrize("api", NONE)
def test_what_only_looks_like_a_call(api: Api) -> None:
    """Text, empty lists, settings, and what the provider does itself."""
    assert read(api, [streamed(NONE[api])]) == []


@pytest.mark.parametrize("api", [Api.MESSAGES, Api.CHAT, Api.RESPONSES])
def test_another_input_is_another_call(api: Api) -> None:
    """The digest tells a loop from progress."""
    body = streamed(EVENTS[api])
    other = body.replace(b"ls ", b"pwd ")
    assert body != other
    assert read(api, [body]) != read(api, [other])


@given(
    st.sampled_from(list(EVENTS)),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "tool_calls", "content", "item", "type", "output", "parts"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_odd_shapes_do_no_harm(api: Api, value: object) -> None:
    """Whatever an upstream sends, nothing raises."""
    body = f"data: {json.dumps({'type': 'tool_use', 'error': None, 'x': value})}\n\n".encode()
    document = json.dumps(value).encode()
    assert isinstance(read(api, [body]), list)
    assert isinstance(read(api, [document], **{"content-type": "application/json"}), list)
