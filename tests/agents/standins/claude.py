"""Claude Code."""

import os
import random
from typing import NoReturn

from tests.agents.standins.agent import Agent, say, tool
from tests.agents.standins.session import new_id
from tests.agents.standins.wire import CUT, Failure, Json


class ClaudeText(Agent):
    """Claude Code with `-p`: silent until its end."""

    def pause(self, failure: Failure, tries: int) -> float | None:
        most = int(os.environ.get("CLAUDE_CODE_MAX_RETRIES") or 10)
        if failure.status == 529:
            most = min(most, 2)
        told = failure.retry_after
        final = 400 <= failure.status < 500 and failure.status not in {401, 408, 409, 429}
        if tries > most or final or (told or 0) > 60:
            return None
        return told or min(32.0, 0.5 * 2 ** (tries - 1)) * random.uniform(1, 1.25)  # noqa: S311

    def spoken(self, failure: Failure) -> str:
        status, words = failure.status, failure.message
        if status == CUT:
            return "API Error: Connection error."
        if status == 429:
            return f"API Error: Request rejected (429) · {words}"
        if status == 529:
            return "API Error: Repeated 529 Overloaded errors"
        if status >= 500:
            return f"API Error: {status} {words}. This is a server-side issue, usually temporary"
        return f"API Error: {status} {words}"

    def step(self, number: int, text: str, *, last: bool) -> None:
        if last:
            say(text)

    def fail(self, failure: Failure) -> int:
        say(self.spoken(failure))
        return 1

    def terminated(self) -> NoReturn:
        raise SystemExit(143)


class Claude(ClaudeText):
    """The same with `--output-format stream-json --verbose`."""

    def event(self, kind: str, **more: object) -> None:
        say({"type": kind, **more, "session_id": self.session.id, "uuid": new_id()})

    def begin(self) -> None:
        self.event(
            "system",
            subtype="init",
            cwd=os.getcwd(),  # noqa: PTH109 - a fast start
            tools=["Bash"],
            model=self.model,
            permissionMode="default",
            apiKeySource=self.key,
        )

    def message(self, model: str, *content: Json) -> Json:
        usage = {"input_tokens": 10, "output_tokens": 1}
        whole = {"id": f"msg_{new_id()}", "type": "message", "role": "assistant", "model": model}
        return {**whole, "content": list(content), "stop_reason": None, "usage": usage}

    def step(self, number: int, text: str, *, last: bool) -> None:
        block = {"type": "text", "text": text}
        self.event("assistant", message=self.message(self.model, block), parent_tool_use_id=None)
        if not last:
            use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": tool()}
            self.event("assistant", message=self.message(self.model, use), parent_tool_use_id=None)
            done = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": "done"}
            self.event("user", message={"role": "user", "content": [{**done, "is_error": False}]})

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        kinds = {CUT: "unknown", 401: "authentication_failed", 429: "rate_limit", 529: "overloaded"}
        self.event(
            "system",
            subtype="api_retry",
            attempt=tries,
            max_retries=int(os.environ.get("CLAUDE_CODE_MAX_RETRIES") or 10),
            retry_delay_ms=round(pause * 1_000),
            error_status=failure.status or None,
            error=kinds.get(failure.status, "server_error"),
        )

    def result(self, text: str, status: int | None) -> None:
        self.event(
            "result",
            subtype="success",
            is_error=status is not None,
            num_turns=self.session.steps,
            api_error_status=status or None,
            result=text,
            total_cost_usd=0.01,
            usage={"input_tokens": 10, "output_tokens": 10},
        )

    def fail(self, failure: Failure) -> int:
        text = self.spoken(failure)
        said = self.message("<synthetic>", {"type": "text", "text": text})
        self.event("assistant", message=said, is_api_error_message=True)
        self.result(text, failure.status)
        return 1

    def end(self) -> None:
        done = [line["text"] for line in self.session.lines if line["event"] == "step"]
        self.result(done[-1] if done else "", None)
