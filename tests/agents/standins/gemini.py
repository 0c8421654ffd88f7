"""Gemini CLI."""

import json
import random
import time
from typing import NoReturn

from tests.agents.standins.agent import Agent, say, tool
from tests.agents.standins.wire import Failure, Json


class Gemini(Agent):
    """`gemini --output-format stream-json`. Its tries are told on stderr."""

    base, key, model = "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "gemini-2.5-pro"
    unknown = ('Error resuming session: Invalid session identifier "{}".', 42)

    def address(self) -> str:
        return f"{self.url}/v1beta/models/{self.model}:streamGenerateContent?alt=sse"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def body(self) -> Json:
        roles = {"user": "user", "assistant": "model"}
        talk = self.session.talk()
        return {"contents": [{"role": roles[who], "parts": [{"text": text}]} for who, text in talk]}

    def pause(self, failure: Failure, tries: int) -> float | None:
        if tries > 9 or (failure.status < 500 and failure.status != 429):
            return None
        if (told := delay(failure)) is not None:
            return told * random.uniform(1, 1.1)  # noqa: S311
        return min(30.0, 5 * 2.0 ** (tries - 1)) * random.uniform(0.7, 1.3)  # noqa: S311

    def event(self, kind: str, **more: object) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        say({"type": kind, "timestamp": now, **more})

    def begin(self) -> None:
        self.event("init", session_id=self.session.id, model=self.model)
        self.event("message", role="user", content=self.prompt())

    def step(self, number: int, text: str, *, last: bool) -> None:
        self.event("message", role="assistant", content=text, delta=True)
        if not last:
            id_ = f"run_shell_command_{number}"
            named = {"tool_name": "run_shell_command", "tool_id": id_}
            self.event("tool_use", **named, parameters=tool())
            self.event("tool_result", tool_id=id_, status="success", output="done")

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        if (told := delay(failure)) is not None:
            say(f"Attempt {tries} failed: {failure.message}", 2)
            say(f"Suggested retry after {told:g}s.. Retrying after {pause * 1_000:.0f}ms...", 2)
            return
        head = f"Attempt {tries} failed with status {failure.status}."
        say(f"{head} Retrying with backoff... _ApiError: {' '.join(failure.body.split())}", 2)
        say("    at throwErrorIfNotOK (chunk.js:1:1) {", 2)
        say(f"  status: {failure.status}\n}}", 2)

    def fail(self, failure: Failure) -> int:
        advice = (
            "\nPlease wait and try again later. To increase your limits, request a quota increase"
        )
        text = f"[API Error: {failure.message}]{advice if failure.status == 429 else ''}"
        error = {"type": "unknown", "message": text}
        self.event("result", status="error", error=error, stats={"total_tokens": 0})
        return failure.status % 256 or 1  # the status, as far as an exit code can hold it

    def end(self) -> None:
        self.event("result", status="success", stats={"total_tokens": 20, "tool_calls": 0})

    def terminated(self) -> NoReturn:
        raise SystemExit(0)


def delay(failure: Failure) -> float | None:
    """The seconds in an answer's body after which to come back; the header it does not read."""
    try:
        details = json.loads(failure.body)["error"]["details"]
        told = next(entry["retryDelay"] for entry in details if "retryDelay" in entry)
        return float(told.removesuffix("s"))
    except (ValueError, LookupError, TypeError, StopIteration):
        return None
