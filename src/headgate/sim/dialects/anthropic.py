"""Anthropic's messages."""

# ruff: noqa: D102 - the `Dialect` protocol says what each method does

from math import ceil

from headgate.sim.dialects.dialect import (
    MESSAGE,
    STATUS,
    Json,
    Limits,
    Refusal,
    Reply,
    event,
    moment,
    most,
    seconds,
)

_TYPES = {
    "concurrency": "rate_limit_error",
    "rate": "rate_limit_error",
    "tokens": "rate_limit_error",
    "quota": "rate_limit_error",
    "overloaded": "overloaded_error",
    "error": "api_error",
    "key": "authentication_error",
    "forbidden": "permission_error",
    "path": "not_found_error",
    "large": "request_too_large",
}
_MESSAGES = {
    "overloaded": "Overloaded",
    "quota": "This request would exceed your account's rate limit. Please try again later.",
}


class Anthropic:
    """`/v1/messages`."""

    name = "anthropic"
    ping = event({"type": "ping"}, "ping")

    def flaw(self, body: Json) -> str:
        if not isinstance(body.get("messages"), list):
            return "messages: Field required"
        if not body["messages"]:
            return "messages: at least one message is required"
        tokens = body.get("max_tokens")
        if tokens is None:
            return "max_tokens: Field required"
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
            return "max_tokens: Input should be greater than or equal to 1"
        return ""

    def most(self, body: Json) -> int | None:
        return most(body, "max_tokens")

    def whole(self, reply: Reply) -> Json:
        content = [{"type": "text", "text": reply.text()}]
        usage = {**_usage(reply), "output_tokens": reply.tokens}
        return {
            **_message(reply),
            "content": content,
            "stop_reason": _stop(reply),
            "usage": usage,
        }

    def opening(self, reply: Reply) -> bytes:
        block = {"type": "text", "text": ""}
        return (
            event({"type": "message_start", "message": _message(reply)}, "message_start")
            + event(
                {"type": "content_block_start", "index": 0, "content_block": block},
                "content_block_start",
            )
            + self.ping
        )

    def delta(self, reply: Reply, number: int, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        kind = "content_block_delta"
        return event({"type": kind, "index": 0, "delta": delta}, kind)

    def closing(self, reply: Reply, chunks: int) -> bytes:
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        usage = {"output_tokens": reply.tokens}
        return (
            event({"type": "content_block_stop", "index": 0}, "content_block_stop")
            + event({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta")
            + event({"type": "message_stop"}, "message_stop")
        )

    def broken(self, reply: Reply, chunks: int) -> bytes:
        return event(self.error(Refusal("overloaded"), reply.number), "error")

    def status(self, kind: str) -> int:
        return 529 if kind == "overloaded" else STATUS[kind]

    def error(self, refusal: Refusal, number: int) -> Json:
        kind = refusal.kind
        message = refusal.message or _MESSAGES.get(kind) or MESSAGE[kind]
        return {
            "type": "error",
            "error": {"type": _TYPES.get(kind, "invalid_request_error"), "message": message},
            "request_id": _request_id(number),
        }

    def headers(self, number: int, limits: Limits, wall: float) -> dict[str, str]:
        found = {"request-id": _request_id(number)}
        rates = {"requests": limits.requests, "tokens": limits.tokens}
        for name, rate in rates.items():
            if rate:
                head = f"anthropic-ratelimit-{name}"
                found[f"{head}-limit"] = str(rate.limit)
                found[f"{head}-remaining"] = str(rate.left)
                found[f"{head}-reset"] = moment(ceil(wall + rate.reset / 1_000))
        if limits.quota:
            head = "anthropic-ratelimit-unified"
            reset = str(ceil(wall + limits.quota_reset / 1_000))
            used = {"rejected": "1.0", "allowed_warning": "0.95"}.get(limits.quota, "0.5")
            found |= {
                f"{head}-status": limits.quota,
                f"{head}-reset": reset,
                f"{head}-representative-claim": "five_hour",
                f"{head}-5h-status": limits.quota,
                f"{head}-5h-reset": reset,
                f"{head}-5h-utilization": used,
                f"{head}-7d-status": "allowed",
                f"{head}-7d-reset": str(ceil(wall) + 3 * 86_400),
                f"{head}-7d-utilization": "0.4",
            }
        return found

    def wait(self, kind: str, ms: int) -> dict[str, str]:
        # The header has whole seconds; below one, the SDKs also know this one.
        short = {"retry-after-ms": str(ms)} if 0 < ms < 1_000 else {}
        return {"retry-after": seconds(ms), **short}

    def models(self, names: list[str]) -> Json:
        data = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-01-01T00:00:00Z",
            }
            for name in names
        ]
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return {"data": data, "has_more": False, **ends}


def _request_id(number: int) -> str:
    return f"req_sim{number:010d}"


def _stop(reply: Reply) -> str:
    return "max_tokens" if reply.full else "end_turn"


def _usage(reply: Reply) -> Json:
    return {
        "input_tokens": reply.asked,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
        "service_tier": "standard",
    }


def _message(reply: Reply) -> Json:
    return {
        "id": f"msg_sim{reply.number:010d}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(reply),
    }
