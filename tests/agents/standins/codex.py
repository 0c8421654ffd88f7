"""Codex."""

from tests.agents.standins.agent import Agent, say, tool
from tests.agents.standins.wire import CUT, Failure, Json


class Codex(Agent):
    """`codex exec --json`."""

    base, key, model = "OPENAI_BASE_URL", "OPENAI_API_KEY", "gpt-5.2"
    unknown = ("Error: thread/resume: thread/resume failed: no rollout found for thread id {}", 1)

    def resumed(self) -> str | None:
        if self.words.plain[:2] != ["exec", "resume"]:
            return None
        return "" if "--last" in self.words.options else self.words.plain[2]

    def address(self) -> str:
        return f"{self.url.removesuffix('/v1')}/v1/responses"

    def headers(self, key: str) -> dict[str, str]:
        ids = {"session-id": self.session.id, "thread-id": self.session.id}
        return {"authorization": f"Bearer {key}", **ids}

    def body(self) -> Json:
        kinds = {"user": "input_text", "assistant": "output_text"}
        talk = [
            {"role": who, "content": [{"type": kinds[who], "text": text}]}
            for who, text in self.session.talk()
        ]
        return {"model": self.model, "stream": True, "input": talk}

    def pause(self, failure: Failure, tries: int) -> float | None:
        inner, outer = (tries - 1) % 5, (tries - 1) // 5
        if failure.status >= 500:
            if inner < 4:
                return 0.2 * 2.0**inner
            return None if failure.status == 503 or outer >= 5 else 0.2 * 2.0**outer
        if failure.status == CUT:
            return 0.2 * 2.0 ** (tries - 1) if tries <= 5 else None
        return failure.retry_after if failure.status == 429 and tries <= 5 else None

    def spoken(self, failure: Failure) -> str:
        if failure.status == CUT:
            return "stream disconnected before completion: stream closed before response.completed"
        if '"insufficient_quota"' in failure.body:
            return "Quota exceeded. Check your plan and billing details."
        where = f"request id: {failure.request}"
        if failure.status == 429:
            return f"exceeded retry limit, last status: 429 Too Many Requests, {where}"
        if failure.status == 503:
            return "Selected model is at capacity. Please try a different model."
        if failure.status == 500:
            return "We’re currently experiencing high demand, which may cause temporary errors."  # noqa: RUF001 - so it says
        status = f"{failure.status} <unknown status code>"
        return f"unexpected status {status}: {failure.message}, url: {self.address()}, {where}"

    def again(self, failure: Failure, tries: int) -> int | None:
        """Which reconnection this is; the tries in between are not told."""
        if failure.status < 500:
            return tries
        return tries // 5 if tries % 5 == 0 else None

    def begin(self) -> None:
        say({"type": "thread.started", "thread_id": self.session.id})
        say({"type": "turn.started"})

    def item(self, kind: str, number: int, what: str, **more: object) -> None:
        say({"type": kind, "item": {"id": f"item_{number}", "type": what, **more}})

    def step(self, number: int, text: str, *, last: bool) -> None:
        if last:
            self.item("item.completed", number, "agent_message", text=text)
            return
        command = {"command": f"/bin/bash -lc '{tool()['command']}'"}
        going: Json = {"aggregated_output": "", "exit_code": None, "status": "in_progress"}
        self.item("item.started", number, "command_execution", **command, **going)
        done: Json = {"aggregated_output": "done\n", "exit_code": 0, "status": "completed"}
        self.item("item.completed", number, "command_execution", **command, **done)

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        if number := self.again(failure, tries):
            text = f"Reconnecting... {number}/5 ({self.spoken(failure)})"
            say({"type": "error", "message": text})

    def fail(self, failure: Failure) -> int:
        say({"type": "error", "message": self.spoken(failure)})
        say({"type": "turn.failed", "error": {"message": self.spoken(failure)}})
        return 1

    def end(self) -> None:
        usage = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 10}
        say({"type": "turn.completed", "usage": usage})


class CodexText(Codex):
    """The same without `--json`: all but its last words go to stderr."""

    def begin(self) -> None:
        say(f"OpenAI Codex\n--------\nmodel: {self.model}\nsession id: {self.session.id}", 2)
        say(f"--------\nuser\n{self.prompt()}", 2)

    def step(self, number: int, text: str, *, last: bool) -> None:
        say(f"codex\n{text}" if last else f"exec\n/bin/bash -lc '{tool()['command']}'\ndone", 2)
        if last:
            say(text)

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        if number := self.again(failure, tries):
            say(f"ERROR: Reconnecting... {number}/5", 2)

    def fail(self, failure: Failure) -> int:
        say(f"ERROR: {self.spoken(failure)}", 2)
        return 1

    def end(self) -> None:
        say("tokens used\n20", 2)
