"""A stand-in for an agent's program: it asks a provider, prints and fails as the real one does.

    standin.py --like claude --speed 50 --requests 3 --state DIR -p "do it" --session-id ID

It understands the words of the real command lines (`exec resume ID TEXT`, `run --session ID TEXT`),
so that it can be put in the place of the real program. Needs nothing: `python -I -S` is enough.

    --like NAME       claude, claude-text, opencode, opencode-text, codex, codex-text, gemini, plain
    --requests N      how many steps of work there are, each one request; the last has no tool call
    --state DIR       keep sessions there, one file each; a resumed one goes on after its last step
    --speed F         divide all waits by this
    --pause S         seconds that a tool takes between two steps
    --tool-loop       the same tool call for ever
    --silent          say nothing and do nothing, for ever; --silent-after N: after so many steps
    --ignore-term     SIGTERM does nothing
    --stray           leave a process behind, in a session of its own

Where to ask: ANTHROPIC_BASE_URL, for codex OPENAI_BASE_URL, for gemini GOOGLE_GEMINI_BASE_URL.
"""

import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

Json = dict[str, Any]
VALUED = {
    "--like", "--requests", "--state", "--speed", "--pause", "--silent-after",
    "--resume", "-r", "--session-id", "--session", "-s", "--model", "-m", "--output-format", "-o",
    "--format", "--allowedTools", "--permission-mode", "--title", "--agent", "--dir", "-C", "--cd",
    "--sandbox", "-c", "--config", "--log-level",
}  # fmt: skip
OVERLOADED = (503, 529)
CUT = 0
"""The status of a stream that was broken off."""


class Failure(Exception):
    """An answer that was none."""

    def __init__(self, status: int, body: str, headers: dict[str, str]) -> None:
        super().__init__(body)
        self.status, self.body, self.headers = status, body, headers
        self.request = headers.get("request-id") or headers.get("x-request-id") or "none"

    @property
    def message(self) -> str:
        try:
            return str(json.loads(self.body)["error"]["message"])
        except (ValueError, LookupError, TypeError):
            return self.body or "terminated"

    @property
    def retry_after(self) -> float | None:
        try:
            return float(self.headers["retry-after-ms"]) / 1_000
        except (KeyError, ValueError):
            pass
        try:
            return float(self.headers["retry-after"])
        except (KeyError, ValueError):
            return None


class Words(NamedTuple):
    """A command line."""

    options: dict[str, str]
    plain: list[str]

    def get(self, *names: str) -> str:
        return next((self.options[name] for name in names if name in self.options), "")


def words_of(argv: list[str]) -> Words:
    options: dict[str, str] = {}
    plain: list[str] = []
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            plain += rest
        elif not word.startswith("-") or word == "-":
            plain.append(word)
        elif equals:
            options[name] = value
        elif word == "-c" and options.get("--like", "").startswith(("claude", "opencode")):
            options["--continue"] = "yes"
        else:
            options[word] = next(rest, "") if word in VALUED else "yes"
    return Words(options, plain)


class Session:
    """What was done so far, in a file that is only ever added to."""

    def __init__(self, folder: str, id_: str) -> None:
        self.id = id_
        self.path = f"{folder}/{id_}.jsonl" if folder else ""
        self.lines: list[Json] = []
        with suppress(FileNotFoundError), open(self.path or os.devnull) as file:  # noqa: PTH123
            self.lines = [json.loads(line) for line in file]

    @property
    def steps(self) -> int:
        return sum(line["event"] == "step" for line in self.lines)

    def add(self, event: str, **more: object) -> None:
        line = {"event": event, "pid": os.getpid(), **more}
        self.lines.append(line)
        if self.path:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(file, json.dumps(line).encode() + b"\n")
            os.close(file)

    def talk(self) -> Iterator[tuple[str, str]]:
        """The conversation up to here: who, and what."""
        for line in self.lines:
            if line["event"] == "start" and line["prompt"]:
                yield "user", line["prompt"]
            elif line["event"] == "step":
                yield "assistant", line["text"]
                yield "user", f"result of tool {line['step']}"


def latest(folder: str) -> str:
    if not folder:
        return ""
    found = [entry for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    found.sort(key=lambda entry: entry.stat().st_mtime_ns)
    return found[-1].name.removesuffix(".jsonl") if found else ""


def new_id() -> str:
    found = os.urandom(16).hex()
    return f"{found[:8]}-{found[8:12]}-4{found[13:16]}-a{found[17:20]}-{found[20:]}"


def say(text: str | Json, to: int = 1) -> None:
    """One line, at once."""
    line = text if isinstance(text, str) else json.dumps(text, separators=(",", ":"))
    os.write(to, line.encode() + b"\n")


# Asking.


def post(url: str, headers: dict[str, str], body: Json) -> Iterator[Json]:
    """The events of the answer's stream as they come; Failure if it is no good one."""
    host, _, path = url.partition("://")[2].partition("/")
    name, _, port = host.rpartition(":")
    data = json.dumps(body).encode()
    lines = [f"POST /{path} HTTP/1.0", f"Host: {host}", f"Content-Length: {len(data)}"]
    lines += ["Content-Type: application/json", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    try:
        with socket.create_connection((name or host, int(port or 80))) as connection:
            connection.sendall("\r\n".join(lines).encode() + data)
            with connection.makefile("rb") as file:
                status = int(file.readline().split()[1])
                found: dict[str, str] = {}
                while line := file.readline().strip():
                    key, _, value = line.decode("latin-1").partition(":")
                    found[key.lower()] = value.strip()
                if status != 200:
                    raise Failure(status, file.read().decode(errors="replace"), found)
                for line in file:
                    if line.startswith(b"data:"):
                        yield json.loads(line[5:])
    except (OSError, IndexError, ValueError) as error:
        raise Failure(CUT, f"terminated: {error}", {}) from None


def delta(event: Json) -> tuple[str, bool]:
    """The text in an event of any API's, and whether it is the last event."""
    match event:
        case {"type": "content_block_delta", "delta": {"text": str(text)}}:
            return text, False
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text, False
        case {"candidates": [{"content": {"parts": [{"text": str(text)}, *_]}, **more}, *_]}:
            return text, "finishReason" in more
        case {"candidates": [{"finishReason": _}, *_]}:
            return "", True
        case {"type": "message_stop" | "response.completed"}:
            return "", True
        case _:
            return "", False


# Agents.


class Agent:
    """What all of them do, and how a plain program with an SDK speaks."""

    base = "ANTHROPIC_BASE_URL"
    key = "ANTHROPIC_API_KEY"
    model = "claude-sonnet-4-5"
    unknown = ("No conversation found with session ID: {}", 1)

    def __init__(self, words: Words) -> None:
        self.words = words
        self.folder = words.get("--state") or os.environ.get("STANDIN_STATE", "")
        self.speed = float(words.get("--speed") or 1)
        self.requests = int(words.get("--requests") or 1)
        self.model = words.get("--model", "-m") or self.model
        self.url = os.environ.get(self.base, "").rstrip("/")
        if not self.url:
            raise SystemExit(f"standin: where to ask? Set {self.base}")
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103 - a fast start
        self.session = self.open()

    # A session.

    def resumed(self) -> str | None:
        """The session that the command line says to go on with; empty for the last one."""
        if "--continue" in self.words.options:
            return ""
        return self.words.get("--resume", "-r", "--session", "-s") or None

    def prompt(self) -> str:
        return self.words.plain[-1] if self.words.plain else ""

    def open(self) -> Session:
        wanted = self.resumed()
        id_ = (wanted if wanted not in {"", "latest"} else latest(self.folder)) or ""
        if wanted is None:
            id_ = self.words.get("--session-id") or self.fresh()
        session = Session(self.folder, id_)
        if wanted is None and session.lines:
            self.quit(f"Error: Session ID {id_} is already in use.")
        if wanted is not None and not session.lines:
            text, code = self.unknown
            self.quit(text.format(wanted), code)
        session.add("start", prompt=self.prompt(), resumed=wanted is not None)
        return session

    def fresh(self) -> str:
        return new_id()

    def quit(self, text: str, code: int = 1) -> NoReturn:
        say(text, 2)
        raise SystemExit(code)

    # Work.

    def work(self) -> int:
        self.begin()
        if "--stray" in self.words.options:
            self.session.add("stray", child=stray())
        loop, silent = "--tool-loop" in self.words.options, self.words.get("--silent-after")
        while loop or self.session.steps < self.requests:
            if silent and self.session.steps >= int(silent):
                wait_for_ever()
            number = self.session.steps + 1
            last = not loop and number == self.requests
            try:
                text = self.persist()
            except Failure as failure:
                self.session.add("failed", status=failure.status)
                return self.fail(failure)
            self.session.add("step", step=number, text=text)
            self.step(1 if loop else number, text, last=last)
            if not last:
                self.wait(float(self.words.get("--pause") or 0))
        self.session.add("end")
        self.end()
        return 0

    def persist(self) -> str:
        """The answer to the next request, however many tries it takes."""
        tries = 0
        while True:
            tries += 1
            self.session.add("ask", step=self.session.steps + 1, tries=tries)
            try:
                return self.ask()
            except Failure as failure:
                pause = self.pause(failure, tries)
                if pause is None:
                    raise
                self.retry(failure, tries, pause)
                self.wait(pause)

    def ask(self) -> str:
        found = ""
        key = os.environ.get(self.key) or "standin"
        for event in post(self.address(), self.headers(key), self.body()):
            text, last = delta(event)
            found += text
            if last:
                return found
        raise Failure(CUT, "terminated", {})

    def address(self) -> str:
        return f"{self.url}/v1/messages?beta=true"

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "x-claude-code-session-id": self.session.id}

    def body(self) -> Json:
        talk = [{"role": who, "content": text} for who, text in self.session.talk()]
        return {"model": self.model, "max_tokens": 32_000, "stream": True, "messages": talk}

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds / self.speed))

    # What differs.

    def pause(self, failure: Failure, tries: int) -> float | None:
        """How long it waits before it tries again; None if it gives up."""
        if tries > 2 or (400 <= failure.status < 500 and failure.status != 429):
            return None
        return failure.retry_after or 0.5 * 2 ** (tries - 1)

    def begin(self) -> None:
        """What it says first."""

    def step(self, number: int, text: str, *, last: bool) -> None:
        say(f"step {number}: {text}")

    def retry(self, failure: Failure, tries: int, pause: float) -> None:
        """What it says when it is about to wait."""

    def fail(self, failure: Failure) -> int:
        if failure.status == CUT:
            say("anthropic.APIConnectionError: Connection error.", 2)
        else:
            kind = "RateLimitError" if failure.status == 429 else "InternalServerError"
            say(f"anthropic.{kind}: Error code: {failure.status} - {failure.body}", 2)
        return 1

    def end(self) -> None:
        """What it says last."""

    def terminated(self) -> NoReturn:
        """What SIGTERM does: by default, what it does to any program."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise SystemExit(143)


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

    def begin(self) -> None:
        say(f"\x1b[0m\n> build · {self.model}\n\x1b[0m", 2)

    def step(self, number: int, text: str, *, last: bool) -> None:
        say(text)

    def fail(self, failure: Failure) -> int:
        say(f"\x1b[91m\x1b[1mError: \x1b[0m{failure.message}", 2)
        return 1


class Opencode(OpencodeText):
    """The same with `--format json`. Its session is known with its first step, not before."""

    def begin(self) -> None:
        pass

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
        head = f"Attempt {tries} failed with status {failure.status}."
        flat = " ".join(failure.body.split())
        say(f"{head} Retrying with backoff... _ApiError: {flat}", 2)
        say("    at throwErrorIfNotOK (chunk.js:1:1) {", 2)
        say(f"  status: {failure.status}\n}}", 2)

    def fail(self, failure: Failure) -> int:
        kind = "FatalError" if failure.status == CUT else "Error"
        error = {"type": kind, "message": f"[API Error: {failure.message}]"}
        self.event("result", status="error", error=error, stats={"total_tokens": 0})
        return 1

    def end(self) -> None:
        self.event("result", status="success", stats={"total_tokens": 20, "tool_calls": 0})

    def terminated(self) -> NoReturn:
        raise SystemExit(0)


def tool() -> dict[str, str]:
    return {"command": "make next", "description": "go on"}


def stray() -> int:
    """Leave a process behind, out of reach of whoever ends our group."""
    child = os.fork()
    if child == 0:
        os.setsid()
        for fd in range(3):
            os.close(fd)
            os.open(os.devnull, os.O_RDWR)
        os.execvp("sleep", ["sleep", "600"])  # noqa: S606 - there is no shell to want
    return child


def wait_for_ever() -> NoReturn:
    while True:
        signal.pause()


LIKE: dict[str, type[Agent]] = {
    "claude": Claude,
    "claude-text": ClaudeText,
    "opencode": Opencode,
    "opencode-text": OpencodeText,
    "codex": Codex,
    "codex-text": CodexText,
    "gemini": Gemini,
    "plain": Agent,
}


def main() -> int:
    words = words_of(sys.argv[1:])
    kind = LIKE.get(words.get("--like"))
    if kind is None:
        raise SystemExit(f"standin: --like: expected one of {', '.join(LIKE)}")
    if "--ignore-term" in words.options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--silent" in words.options:
        wait_for_ever()
    agent = kind(words)
    if "--ignore-term" not in words.options:
        signal.signal(signal.SIGTERM, lambda _number, _frame: agent.terminated())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return agent.work()


if __name__ == "__main__":
    sys.exit(main())
