"""opencode, with Anthropic as its provider."""

import os
import random
import time

from tests.agents.standins.agent import Agent, say, tool
from tests.agents.standins.wire import CUT, Failure, Json


class OpencodeText(Agent):
    """`opencode run`: silent until its end."""

    unknown = ("\x1b[91m\x1b[1mError: \x1b[0mSession not found", 1)

    def fresh(self) -> str:
        return f"ses_{os.urandom(13).hex()}"

    def address(self) -> str:
        return f"{self.url.removesuffix('/v1')}/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "x-session-id": self.session.id}

    def pause(self, failure: Failure, tries: int) -> float | None:
        if tries > 5 or (400 <= failure.status < 500 and failure.status != 429):
            return None
        return failure.retry_after or 2.0**tries * random.uniform(1, 1.25)  # noqa: S311

    def log(self, level: str, message: str, more: str = "") -> None:
        if "--print-logs" in self.words.options:
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
            where = f"providerID=anthropic modelID={self.model} session.id={self.session.id}"
            where = f"{where} small=false agent=build mode=primary"
            said = f'"{message}"' if " " in message else message
            say(f"timestamp={now} level={level} run=1 message={said} {where} {more}".rstrip(), 2)

    def asking(self) -> None:
        self.log("INFO", "stream")

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        self.log("ERROR", "stream error", f'error.error="AI_APICallError: {failure.message}"')

    def begin(self) -> None:
        self.log("INFO", "process")
        say(f"\x1b[0m\n> build · {self.model}\n\x1b[0m", 2)

    def step(self, number: int, text: str, *, last: bool) -> None:
        say(text)

    def fail(self, failure: Failure) -> int:
        say(f"\x1b[91m\x1b[1mError: \x1b[0m{failure.message}", 2)
        return 1


class Opencode(OpencodeText):
    """The same with `--format json`. Its session is known with its first step, not before."""

    def begin(self) -> None:
        self.log("INFO", "process")

    def event(self, kind: str, part: str, **more: object) -> None:
        where = {"messageID": "msg_1", "sessionID": self.session.id, "type": part}
        self.line(kind, part={"id": f"prt_{os.urandom(13).hex()}", **where, **more})

    def line(self, kind: str, **more: object) -> None:
        now = int(time.time() * 1_000)
        say({"type": kind, "timestamp": now, "sessionID": self.session.id, **more})

    def step(self, number: int, text: str, *, last: bool) -> None:
        self.event("step_start", "step-start")
        self.event("text", "text", text=text)
        if not last:
            state = {"status": "completed", "input": tool(), "output": "done\n"}
            self.event("tool_use", "tool", tool="bash", callID=f"toolu_{number}", state=state)
        tokens = {"total": 20, "input": 10, "output": 10, "reasoning": 0}
        why = "stop" if last else "tool-calls"
        self.event("step_finish", "step-finish", reason=why, tokens=tokens, cost=0.01)

    def fail(self, failure: Failure) -> int:
        data = {
            "message": failure.message,
            "statusCode": failure.status,
            "isRetryable": True,
            "responseHeaders": failure.headers,
            "responseBody": failure.body,
        }
        if failure.status == CUT:
            error: Json = {"name": "UnknownError", "data": {"message": failure.message}}
        else:
            error = {"name": "APIError", "data": data}
        self.line("error", error=error)
        return 1
