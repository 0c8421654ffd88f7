"""Streams as the providers' public documentation shows them, written by hand, and what they say."""

from typing import NamedTuple

from headgate.core.wire.apis import Api
from headgate.core.wire.token_usage import Usage


class Recorded(NamedTuple):
    api: Api
    events: tuple[str, ...]
    usage: Usage

    def body(self) -> bytes:
        return "".join(f"{event}\n\n" for event in self.events).encode()


MESSAGES = Recorded(
    Api.MESSAGES,
    (
        (
            'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_01","type":'
            '"message","role":"assistant","model":"claude-opus-4-6","content":[],"stop_reason":null,'
            '"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,'
            '"cache_read_input_tokens":2000,"output_tokens":1,"service_tier":"standard"}}}'
        ),
        (
            'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            '"content_block":{"type":"text","text":""}}'
        ),
        'event: ping\ndata: {"type": "ping"}',
        (
            'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
            '{"type":"text_delta","text":"an \\"error\\" and a \\"message_stop\\" and [DONE] é"}}'
        ),
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}',
        (
            'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn",'
            '"stop_sequence":null},"usage":{"output_tokens":15}}'
        ),
        'event: message_stop\ndata: {"type":"message_stop"}',
    ),
    Usage(2_125, 15, 2_000),
)
CHAT = Recorded(
    Api.CHAT,
    (
        (
            'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-4o",'
            '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,'
            '"finish_reason":null}],"usage":null}'
        ),
        (
            'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-4o",'
            '"choices":[{"index":0,"delta":{"content":"say \\"finish_reason\\":\\"stop\\" [DONE]"},'
            '"logprobs":null,"finish_reason":null}],"usage":null}'
        ),
        (
            'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-4o",'
            '"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}'
        ),
        (
            'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-4o",'
            '"choices":[],"usage":{"prompt_tokens":1117,"completion_tokens":46,"total_tokens":1163,'
            '"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0}}}'
        ),
        "data: [DONE]",
    ),
    Usage(1_117, 46, 1_024),
)
RESPONSES = Recorded(
    Api.RESPONSES,
    (
        (
            'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
            '"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,'
            '"usage":null}}'
        ),
        'event: keepalive\ndata: {"type":"keepalive","sequence_number":1}',
        (
            'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
            '"sequence_number":2,"delta":"\\"response.completed\\" \\"error\\":{"}'
        ),
        (
            'event: response.completed\ndata: {"type":"response.completed","sequence_number":3,'
            '"response":{"id":"resp_1","object":"response","status":"completed","error":null,"tools":'
            '[{"parameters":{"usage":{"input_tokens":7}}}],"usage":{"input_tokens":37,'
            '"input_tokens_details":{"cached_tokens":32},"output_tokens":11,"output_tokens_details":'
            '{"reasoning_tokens":0},"total_tokens":48},"user":null,"metadata":{}}}'
        ),
    ),
    Usage(37, 11, 32),
)
GEMINI = Recorded(
    Api.GEMINI,
    (
        (
            'data: {"candidates": [{"content": {"parts": [{"text": '
            '"\\"finishReason\\": \\"STOP\\""}],"role": "model"},"index": 0}],'
            '"usageMetadata": {"promptTokenCount": 15,"candidatesTokenCount": 2}}'
        ),
        (
            'data: {"candidates": [{"content": {"parts": [{"text": " more"}],"role": "model"},'
            '"index": 0}],"usageMetadata": {"promptTokenCount": 15,"candidatesTokenCount": 4,'
            '"totalTokenCount": 19},"modelVersion": "gemini-3-pro"}'
        ),
        (
            'data: {"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},'
            '"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 15,'
            '"candidatesTokenCount": 6,"thoughtsTokenCount": 30,"totalTokenCount": 51,'
            '"cachedContentTokenCount": 10},"modelVersion": "gemini-3-pro"}'
        ),
    ),
    Usage(15, 36, 10),
)
CODE_ASSIST = Recorded(
    Api.GEMINI,
    (
        (
            'data: {"response": {"candidates": [{"content": {"role": "model","parts": '
            '[{"text": "x"}]}}],"usageMetadata": {"promptTokenCount": 9}},"traceId": "t"}'
        ),
        (
            'data: {"response": {"candidates": [{"content": {"role": "model","parts": '
            '[{"text": ""}]},"finishReason": "STOP"}],"usageMetadata": {"promptTokenCount": 9,'
            '"candidatesTokenCount": 3}},"traceId": "t"}'
        ),
    ),
    Usage(9, 3),
)
ALL = (MESSAGES, CHAT, RESPONSES, GEMINI, CODE_ASSIST)
COMPLETE_FROM = {Api.MESSAGES: 7, Api.CHAT: 3, Api.RESPONSES: 4}
"""With how many of their events they are complete, where that is not with the last one."""
