"""OpenAI's chat completions and responses."""

# ruff: noqa: D102 - the `Dialect` protocol says what each method does

from headgate.sim.dialects.dialect import (
    MESSAGE,
    STATUS,
    Json,
    Limits,
    Rate,
    Refusal,
    Reply,
    event,
    most,
    seconds,
)

_TYPES = {
    "concurrency": ("rate_limit_error", "concurrency_limit_exceeded"),
    "rate": ("requests", "rate_limit_exceeded"),
    "tokens": ("tokens", "rate_limit_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "overloaded": ("server_error", "server_is_overloaded"),
    "error": ("server_error", None),
    "key": ("invalid_request_error", "invalid_api_key"),
    "path": ("invalid_request_error", "unknown_url"),
    "method": ("invalid_request_error", "method_not_supported"),
    "large": ("invalid_request_error", "request_too_large"),
}
_MESSAGES = {
    "concurrency": "Too many concurrent requests. Please try again later.",
    "key": "Incorrect API key provided. You can find your API key in your settings.",
    "error": "The server had an error while processing your request. Sorry about that!",
}


class OpenAI:
    """What both APIs share."""

    ping = b""

    def status(self, kind: str) -> int:
        return STATUS[kind]

    def error(self, refusal: Refusal, number: int) -> Json:
        kind = refusal.kind
        message = refusal.message or _MESSAGES.get(kind) or MESSAGE[kind]
        if kind in {"rate", "tokens"} and not refusal.message:
            what = "requests per min (RPM)" if kind == "rate" else "tokens per min (TPM)"
            wait = _span(refusal.retry_after or 0)
            message = f"Rate limit reached on {what}. Please try again in {wait}."
        name, code = _TYPES.get(kind, ("invalid_request_error", None))
        return {"error": {"message": message, "type": name, "param": None, "code": code}}

    def headers(self, number: int, limits: Limits, wall: float) -> dict[str, str]:
        found = {"x-request-id": f"req_sim{number:010d}", "openai-processing-ms": "10"}
        for name, rate in (("requests", limits.requests), ("tokens", limits.tokens)):
            if rate:
                found |= _rate(name, rate)
        return found

    def wait(self, kind: str, ms: int) -> dict[str, str]:
        if kind == "quota":  # final, until somebody pays
            return {}
        return {"retry-after": seconds(ms), "retry-after-ms": str(ms)}

    def models(self, names: list[str]) -> Json:
        row = {"object": "model", "created": 1_767_225_600, "owned_by": "sim"}
        return {"object": "list", "data": [{"id": name, **row} for name in names]}


class Chat(OpenAI):
    """`/v1/chat/completions`."""

    name = "chat"

    def flaw(self, body: Json) -> str:
        if not isinstance(body.get("messages"), list):
            return "Missing required parameter: 'messages'."
        return "" if body["messages"] else "Invalid 'messages': empty array."

    def most(self, body: Json) -> int | None:
        return most(body, "max_completion_tokens", "max_tokens")

    def whole(self, reply: Reply) -> Json:
        message = {"role": "assistant", "content": reply.text(), "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _finish(reply),
        }
        return {
            **_chat(reply, "chat.completion"),
            "choices": [choice],
            "usage": _chat_usage(reply),
        }

    def opening(self, reply: Reply) -> bytes:
        return _chunk(reply, {"role": "assistant", "content": "", "refusal": None})

    def delta(self, reply: Reply, number: int, text: str) -> bytes:
        return _chunk(reply, {"content": text})

    def closing(self, reply: Reply, chunks: int) -> bytes:
        last = _chunk(reply, {}, _finish(reply))
        if reply.tally:
            shape = _chat(reply, "chat.completion.chunk")
            last += event({**shape, "choices": [], "usage": _chat_usage(reply)})
        return last + b"data: [DONE]\n\n"

    def broken(self, reply: Reply, chunks: int) -> bytes:
        return event(self.error(Refusal("overloaded"), reply.number))


class Responses(OpenAI):
    """`/v1/responses`."""

    name = "responses"

    def flaw(self, body: Json) -> str:
        if isinstance(body.get("input"), (str, list)) or body.get("previous_response_id"):
            return ""
        return "Missing required parameter: 'input'."

    def most(self, body: Json) -> int | None:
        return most(body, "max_output_tokens")

    def whole(self, reply: Reply) -> Json:
        return _response(reply, "incomplete" if reply.full else "completed")

    def opening(self, reply: Reply) -> bytes:
        started = {"response": _response(reply, "in_progress")}
        item = {**_item(reply, "in_progress"), "content": []}
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        return (
            _event("response.created", 0, **started)
            + _event("response.in_progress", 1, **started)
            + _event("response.output_item.added", 2, output_index=0, item=item)
            + _event("response.content_part.added", 3, **place, part=_part(""))
        )

    def delta(self, reply: Reply, number: int, text: str) -> bytes:
        place = {"item_id": _item_id(reply), "output_index": 0, "content_index": 0}
        return _event("response.output_text.delta", 4 + number, **place, delta=text, logprobs=[])

    def closing(self, reply: Reply, chunks: int) -> bytes:
        item = _item(reply, "completed")
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        n, text = 4 + chunks, reply.text()
        last = "response.incomplete" if reply.full else "response.completed"
        return (
            _event("response.output_text.done", n, **place, text=text, logprobs=[])
            + _event("response.content_part.done", n + 1, **place, part=_part(text))
            + _event("response.output_item.done", n + 2, output_index=0, item=item)
            + _event(last, n + 3, response=self.whole(reply))
        )

    def broken(self, reply: Reply, chunks: int) -> bytes:
        error = {"code": "server_is_overloaded", "message": MESSAGE["overloaded"]}
        failed = {**_response(reply, "failed"), "error": error}
        return _event("response.failed", 4 + chunks, response=failed)


def _span(ms: int) -> str:
    """A time as OpenAI writes it: `120ms`, `6.5s`, `1m0s`."""
    if ms < 1_000:
        return f"{ms}ms"
    minutes, rest = divmod(ms, 60_000)
    return f"{minutes}m{rest / 1_000:g}s" if minutes else f"{rest / 1_000:g}s"


def _rate(name: str, rate: Rate) -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{name}": str(rate.limit),
        f"x-ratelimit-remaining-{name}": str(rate.left),
        f"x-ratelimit-reset-{name}": _span(rate.reset),
    }


def _finish(reply: Reply) -> str:
    return "length" if reply.full else "stop"


def _chat(reply: Reply, kind: str) -> Json:
    return {
        "id": f"chatcmpl-sim{reply.number:010d}",
        "object": kind,
        "created": reply.wall,
        "model": reply.model,
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }


def _chunk(reply: Reply, delta: Json, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    usage = {"usage": None} if reply.tally else {}
    return event({**_chat(reply, "chat.completion.chunk"), "choices": [choice], **usage})


def _chat_usage(reply: Reply) -> Json:
    return {
        "prompt_tokens": reply.asked,
        "completion_tokens": reply.tokens,
        "total_tokens": reply.asked + reply.tokens,
    }


def _event(name: str, number: int, **fields: object) -> bytes:
    return event({"type": name, "sequence_number": number, **fields}, name)


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item_id(reply: Reply) -> str:
    return f"msg_sim{reply.number:010d}"


def _item(reply: Reply, status: str) -> Json:
    return {
        "id": _item_id(reply),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [_part(reply.text())],
    }


def _response(reply: Reply, status: str) -> Json:
    done = status in {"completed", "incomplete"}
    usage = {
        "input_tokens": reply.asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.asked + reply.tokens,
    }
    return {
        "id": f"resp_sim{reply.number:010d}",
        "object": "response",
        "created_at": reply.wall,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": [_item(reply, "completed")] if done else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if done else None,
    }
