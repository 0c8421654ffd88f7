"""The JSON events of the known agents as lines that people read.

Each dialect is a table: the type of an event, and what it says. What no table knows is shown as it
is. Whatever is fed, nothing here raises.
"""

import json
from collections.abc import Callable, Iterator

Event = dict[str, object]
_LONGEST = 4 * 1024 * 1024
_MOST = 300
"""How much of a tool's input or output is shown."""
_TELLING = ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "prompt")
"""What tells most of a tool call."""


def readable(line: str) -> list[str] | None:
    """What an event says, on some lines; none if that is nothing for people. None if it is none."""
    text = line.strip()
    if not text.startswith("{") or len(text) > _LONGEST:
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kind = event.get("type") if isinstance(event, dict) else None
    tell = _KINDS.get(kind) if isinstance(kind, str) else None
    if tell is None:
        return None
    return [shown for said in tell(event) for shown in said.rstrip().split("\n")]


def _claude_system(event: Event) -> Iterator[str]:
    if event.get("subtype") == "init":
        yield f"* session {_word(event, 'session_id')}, {_word(event, 'model')}"


def _message(event: Event) -> Iterator[str]:
    """A message of claude's, or one of gemini's."""
    if event.get("type") == "message":
        if event.get("role") != "user":
            yield _word(event, "content")
        return
    content = _at(event, "message", "content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield from _part(part)


def _part(part: Event) -> Iterator[str]:
    match part.get("type"):
        case "text":
            yield _word(part, "text")
        case "thinking":
            yield f"~ {_short(part.get('thinking'))}"
        case "tool_use":
            yield _call(_word(part, "name"), part.get("input"))
        case "tool_result":
            yield f"< {_short(_flat(part.get('content')))}"
        case _:
            return


def _tool_use(event: Event) -> Iterator[str]:
    """A call of gemini's, or one of opencode's with what came of it."""
    part = event.get("part")
    if isinstance(part, dict):
        yield _call(_word(part, "tool"), _at(part, "state", "input"))
        if said := _short(_at(part, "state", "output")):
            yield f"< {said}"
    else:
        yield _call(_word(event, "tool_name"), event.get("parameters"))


def _tool_result(event: Event) -> Iterator[str]:
    said = _short(_flat(event.get("output"))) or _word(event, "status")
    yield f"< {said}"


def _text(event: Event) -> Iterator[str]:
    yield str(_at(event, "part", "text") or "")


def _init(event: Event) -> Iterator[str]:
    yield f"* session {_word(event, 'session_id')}, {_word(event, 'model')}"


def _result(event: Event) -> Iterator[str]:
    """How it ended; what it said last was a message of its own."""
    how = _word(event, "subtype") or _word(event, "status") or "ended"
    took = event.get("duration_ms")
    time = f" in {took / 1000:.1f}s" if isinstance(took, (int, float)) else ""
    cost = event.get("total_cost_usd")
    price = f", ${cost:.2f}" if isinstance(cost, (int, float)) else ""
    yield f"= {how}{time}{price}"
    if event.get("is_error"):
        yield f"! {_short(event.get('result'))}"


def _error(event: Event) -> Iterator[str]:
    found = event.get("error")
    data = _at(found, "data", "message") or _at(found, "message") or event.get("message") or found
    yield f"! {_short(_flat(data))}"


def _thread(event: Event) -> Iterator[str]:
    yield f"* session {_word(event, 'thread_id')}"


def _item(event: Event) -> Iterator[str]:
    """Something that codex has done."""
    item = event.get("item")
    if not isinstance(item, dict):
        return
    match item.get("type") or item.get("item_type"):
        case "agent_message" | "assistant_message":
            yield _word(item, "text")
        case "reasoning":
            yield f"~ {_short(item.get('text'))}"
        case "command_execution":
            yield f"> {_short(item.get('command'))}"
            if said := _short(item.get("aggregated_output")):
                yield f"< {said}"
        case "file_change":
            changes = item.get("changes")
            listed = changes if isinstance(changes, list) else []
            yield "> " + ", ".join(_word(one, "path") for one in listed if isinstance(one, dict))
        case "mcp_tool_call" | "web_search":
            yield _call(_word(item, "tool") or "search", item.get("arguments") or item.get("query"))
        case "error":
            yield f"! {_short(item.get('message'))}"
        case _:
            return


def _turn_failed(event: Event) -> Iterator[str]:
    yield f"! {_short(_flat(_at(event, 'error', 'message') or event.get('error')))}"


def _nothing(_: Event) -> Iterator[str]:
    return iter(())


_KINDS: dict[str, Callable[[Event], Iterator[str]]] = {
    **dict.fromkeys(("assistant", "user", "message"), _message),
    "system": _claude_system,
    "result": _result,
    "error": _error,
    "init": _init,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "text": _text,
    **dict.fromkeys(("step_start", "step_finish", "stream_event", "rate_limit_event"), _nothing),
    "thread.started": _thread,
    **dict.fromkeys(("item.started", "item.updated", "turn.started", "turn.completed"), _nothing),
    "item.completed": _item,
    "turn.failed": _turn_failed,
}
"""What is told by which type of event: claude, codex, gemini and opencode."""


def _call(name: str, given: object) -> str:
    """A tool call, with what tells most of its input."""
    if isinstance(given, dict):
        best = [given[key] for key in _TELLING if isinstance(given.get(key), str)]
        rest = next((value for value in given.values() if isinstance(value, str)), "")
        given = best[0] if best else rest
    return f"> {name or 'tool'} {_short(given)}".rstrip()


def _flat(value: object) -> object:
    """The texts of a list of parts as one."""
    if isinstance(value, list):
        texts = [part.get("text") for part in value if isinstance(part, dict)]
        return " ".join(text for text in texts if isinstance(text, str))
    return value


def _short(value: object) -> str:
    """A text on one line, or as much of it as is worth it."""
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    line = " ".join(text[: 4 * _MOST].split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def _word(event: Event, name: str) -> str:
    found = event.get(name)
    return found if isinstance(found, str) else ""


def _at(value: object, *path: str) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
