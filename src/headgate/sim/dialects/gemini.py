"""Gemini's content: the model is in the path, and when to come back is in the body."""

# ruff: noqa: D102 - the `Dialect` protocol says what each method does

from headgate.sim.dialects.dialect import MESSAGE, STATUS, Json, Limits, Refusal, Reply, event, most

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_TYPE = "type.googleapis.com/google.rpc."
_MESSAGES = {"overloaded": "The model is overloaded. Please try again later."}


class Gemini:
    """`:generateContent` and `:streamGenerateContent?alt=sse`."""

    name = "gemini"
    ping = b""

    def flaw(self, body: Json) -> str:
        found = isinstance(body.get("contents"), list) and body["contents"]
        return "" if found else "contents is not specified"

    def most(self, body: Json) -> int | None:
        config = body.get("generationConfig")
        return most(config, "maxOutputTokens") if isinstance(config, dict) else None

    def whole(self, reply: Reply) -> Json:
        return _content(reply, reply.text(), last=True)

    def opening(self, reply: Reply) -> bytes:
        return b""

    def delta(self, reply: Reply, number: int, text: str) -> bytes:
        return event(_content(reply, text, last=False))

    def closing(self, reply: Reply, chunks: int) -> bytes:
        return event(_content(reply, "", last=True))

    def broken(self, reply: Reply, chunks: int) -> bytes:
        return event(self.error(Refusal("overloaded"), reply.number))

    def status(self, kind: str) -> int:
        return STATUS[kind]

    def error(self, refusal: Refusal, number: int) -> Json:
        kind = refusal.kind
        status = refusal.status or self.status(kind)
        message = refusal.message or _MESSAGES.get(kind) or MESSAGE[kind]
        error: Json = {
            "code": status,
            "message": message,
            "status": _STATUSES.get(status, "FAILED_PRECONDITION"),
        }
        details: list[Json] = []
        if kind == "quota":
            quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}
            details.append({"@type": f"{_TYPE}QuotaFailure", "violations": [quota]})
        if refusal.retry_after is not None:
            delay = f"{refusal.retry_after / 1_000:g}s"
            details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": delay})
        return {"error": {**error, "details": details} if details else error}

    def headers(self, number: int, limits: Limits, wall: float) -> dict[str, str]:
        return {}

    def wait(self, kind: str, ms: int) -> dict[str, str]:
        return {}

    def models(self, names: list[str]) -> Json:
        methods = ["generateContent", "countTokens"]
        return {
            "models": [
                {
                    "name": f"models/{name}",
                    "displayName": name,
                    "supportedGenerationMethods": methods,
                }
                for name in names
            ]
        }


def _content(reply: Reply, text: str, *, last: bool) -> Json:
    candidate: Json = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    if last:
        candidate["finishReason"] = "MAX_TOKENS" if reply.full else "STOP"
    usage = {
        "promptTokenCount": reply.asked,
        "candidatesTokenCount": reply.tokens,
        "totalTokenCount": reply.asked + reply.tokens,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage if last else {"promptTokenCount": reply.asked},
        "modelVersion": reply.model,
        "responseId": f"sim{reply.number:010d}",
    }
