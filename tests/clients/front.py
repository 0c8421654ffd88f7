"""Stands before the simulated provider: keeps what is asked, and asks for a tool in the first step.

The simulated provider answers with numbers and keeps no prompts. An agent has to use a tool, a test
has to see that a resumed session carries its earlier conversation, and an answer may have to be
what a test wants to have talked about.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import urlsplit

from headgate.sim.dialects.dialect import event

WANTED = "[[tool]]"
"""A prompt with this in it is answered with a tool call, until there is a tool's result."""
CALL = "call_0ddba11"
_RESULTS = ("tool_result", "function_call_output", "functionResponse")
_TIMEOUT = 60
_HOPS = ("host", "connection", "transfer-encoding", "content-length", "accept-encoding")
Json = dict[str, Any]


class Asked(NamedTuple):
    """One request for an answer, as it was sent."""

    path: str
    text: str
    """All of its conversation, without the instructions and the tools that come with it."""

    @property
    def results(self) -> int:
        """How many results of the tool it carries."""
        return sum(self.text.count(f'"{name}"') for name in _RESULTS)


class Heard(NamedTuple):
    """A request with all that came with it."""

    path: str
    headers: dict[str, str]
    body: str


class Front:
    """A server in a thread, for as long as the block lasts."""

    def __init__(self, behind: str, command: str = "echo ran >>ran") -> None:
        self.asked: list[Asked] = []
        self.heard: list[Heard] = []
        self.command = command
        self.parts: Sequence[str] = ()
        """Prompts that are handed to sub-agents, all at once, instead of the command."""
        self.once = False
        """Whether the tool is asked for only once, whatever has become of it."""
        self.called = 0
        self.says = ""
        """What is answered once there is a tool's result; the provider answers if it is empty."""
        self.refuses_with: Json | None = None
        """What every request is refused with, if anything."""
        handler = type("Handler", (_Handler,), {"front": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.behind = urlsplit(behind).netloc
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: ClassVar[Front]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_HEAD(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        raw = self._body()
        body = json.loads(raw)
        said = _conversation(body)
        if said is None:
            self._pass_on(raw)
            return
        asked = Asked(self.path, said)
        self.front.heard.append(Heard(self.path, dict(self.headers.items()), raw.decode()))
        self.front.asked.append(asked)
        if self.front.refuses_with is not None:
            self._refuse(json.dumps(self.front.refuses_with).encode())
            return
        answer = b""
        over = self.front.once and self.front.called
        if WANTED in said and not asked.results and not over:
            self.front.called += 1
            if self.front.parts:
                answer = b"".join(_delegation(body, self.front.parts))
            else:
                answer = b"".join(_tool_call(self.path, body, self.front.command))
        elif asked.results and self.front.says:
            answer = b"".join(_text(self.path, body, self.front.says))
        if not answer:
            self._pass_on(raw)
            return
        self.send_response(200)
        self._end({"content-type": "text/event-stream"})
        self.wfile.write(answer)

    def _refuse(self, body: bytes) -> None:
        self.send_response(429)
        self._end({"content-type": "application/json", "content-length": str(len(body))})
        self.wfile.write(body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _end(self, headers: dict[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()

    def _pass_on(self, raw: bytes) -> None:
        kept = {n: v for n, v in self.headers.items() if n.lower() not in _HOPS}
        behind = HTTPConnection(self.front.behind, timeout=_TIMEOUT)
        try:
            behind.request(self.command, self.path, raw or None, kept)
            answer = behind.getresponse()
            self.send_response(answer.status)
            self._end({n: v for n, v in answer.getheaders() if n.lower() not in _HOPS})
            while piece := answer.read1(65_536):
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:  # whoever asked is gone, or the provider is
            self.close_connection = True
        finally:
            behind.close()


def _conversation(body: Json) -> str | None:
    """What was said so far; None if this is no request for an answer."""
    for name in ("messages", "input", "contents"):
        if name in body:
            return json.dumps(body[name])
    return None


def _tool_call(path: str, body: Json, command: str) -> Iterator[bytes]:
    """An answer that asks for a command to be run; nothing if the agent offers no such tool."""
    offered = json.dumps(body.get("tools", []))
    model = str(body.get("model", ""))
    if path.partition("?")[0].endswith("/messages"):
        name = next((n for n in ("Bash", "bash") if f'"name": "{n}"' in offered), "")
        if name:
            given = {"command": command, "description": "a test"}
            yield from _anthropic(model, [_use(name, given)], "tool_use")
    elif "/responses" in path:
        argument = {"exec_command": "cmd", "shell_command": "command"}
        name = next((n for n in argument if f'"name": "{n}"' in offered), "")
        if name:
            item = {"id": "fc_front", "type": "function_call", "call_id": CALL, "name": name}
            item |= {"arguments": json.dumps({argument[name]: command}), "status": "completed"}
            yield from _responses(model, item)
    elif "enerateContent" in path and '"run_shell_command"' in offered:
        call = {"name": "run_shell_command", "args": {"command": command}, "id": CALL}
        yield from _gemini({"functionCall": call})


def _delegation(body: Json, prompts: Sequence[str]) -> Iterator[bytes]:
    """An answer that hands work to sub-agents of claude or opencode."""
    offered = json.dumps(body.get("tools", []))
    kinds = {"Agent": "general-purpose", "Task": "general-purpose", "task": "general"}
    name = next(n for n in kinds if f'"name": "{n}"' in offered)
    uses = [
        _use(name, {"description": "a part", "prompt": each, "subagent_type": kinds[name]}, n)
        for n, each in enumerate(prompts)
    ]
    yield from _anthropic(str(body.get("model", "")), uses, "tool_use")


def _use(name: str, given: Json, number: int = 0) -> tuple[Json, Json]:
    """A block of an answer that calls a tool, and what follows its beginning."""
    block = {"type": "tool_use", "id": f"toolu_{CALL}{number or ''}", "name": name, "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps(given)}


def _text(path: str, body: Json, text: str) -> Iterator[bytes]:
    """An answer that is a text."""
    model = str(body.get("model", ""))
    if path.partition("?")[0].endswith("/messages"):
        delta = {"type": "text_delta", "text": text}
        yield from _anthropic(model, [({"type": "text", "text": ""}, delta)], "end_turn")
    elif "/responses" in path:
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": "msg_front", "type": "message", "role": "assistant", "content": [part]}
        yield from _responses(model, {**item, "status": "completed"})
    elif "enerateContent" in path:
        yield from _gemini({"text": text})


def _gemini(part: Json) -> Iterator[bytes]:
    content = {"parts": [part], "role": "model"}
    yield event(
        {
            "candidates": [{"content": content, "index": 0, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2},
        }
    )


def _anthropic(model: str, blocks: Sequence[tuple[Json, Json]], stop: str) -> Iterator[bytes]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_front", "type": "message", "role": "assistant", "model": model}
    message: Json = {
        **head,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, (block, delta) in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]
    for each in events:
        yield event(each, each["type"])


def _responses(model: str, item: Json) -> Iterator[bytes]:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    answer = {"id": "resp_front", "object": "response", "model": model, "output": []}
    done = {**answer, "status": "completed", "output": [item], "usage": usage}
    events: list[Json] = [
        {"type": "response.created", "response": {**answer, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    for number, each in enumerate(events):
        yield event({**each, "sequence_number": number}, each["type"])
