"""The tools that an answer has the agent call, each as its name and a digest of its input.

    messages    a block of type `tool_use`; in a stream its input follows in `input_json_delta`
    chat        `tool_calls` of a choice; in a stream their arguments follow piece by piece
    responses   an item of the output such as `function_call`
    gemini      a part with a `functionCall`

Tools that the provider runs itself, such as its web search, are none of the agent's.
"""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from headgate.core.wire.apis import Api

_MOST_CALLS = 64
_LONGEST_INPUT = 256 * 1024
_ODD = re.compile(r"[^\w.:/-]+")
_BY_PROVIDER = {
    *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
    *("mcp_call", "tool_search_call"),
}
Call = tuple[object, object]
"""The name of a tool and its input."""


class ToolCalls:
    """Gathers the tool calls of one answer."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._calls: dict[object, list[str]] = {}
        """By their place in the answer: the name, and the parts of the input."""

    def take(self, event: Mapping[str, object]) -> None:
        """Take an event of a stream, or a whole answer."""
        match self._api:
            case Api.MESSAGES:
                self._messages(event)
            case Api.CHAT:
                self._chat(event)
            case Api.RESPONSES:
                self._responses(event)
            case Api.GEMINI:
                self._gemini(event)
            case Api.PLAIN | Api.UNKNOWN:
                pass

    def found(self) -> list[str]:
        """What identifies each call, in their order."""
        return [_identity(name, "".join(parts)) for name, *parts in self._calls.values()]

    def __bool__(self) -> bool:
        return bool(self._calls)

    def _add(self, place: object, name: object, given: object) -> None:
        """Note a call, or one more piece of its input."""
        call = self._calls.get(place)
        if call is None:
            if len(self._calls) >= _MOST_CALLS:
                return
            call = self._calls[place] = [name if isinstance(name, str) else ""]
        text = given if isinstance(given, str) else _written(given)
        if text and sum(map(len, call)) < _LONGEST_INPUT:
            call.append(text)

    def _messages(self, event: Mapping[str, object]) -> None:
        block, delta = event.get("content_block"), event.get("delta")
        if isinstance(block, dict) and block.get("type") == "tool_use":
            self._add(event.get("index"), block.get("name"), block.get("input") or "")
        elif isinstance(delta, dict) and delta.get("type") == "input_json_delta":
            if event.get("index") in self._calls:
                self._add(event.get("index"), "", delta.get("partial_json"))
        else:
            for number, one in enumerate(_objects(event.get("content"))):
                if one.get("type") == "tool_use":
                    self._add(number, one.get("name"), one.get("input"))

    def _chat(self, event: Mapping[str, object]) -> None:
        for choice in _objects(event.get("choices")):
            said = choice.get("delta", choice.get("message"))
            for number, call in enumerate(_objects(_inside(said, "tool_calls"))):
                place = (choice.get("index"), call.get("index", number))
                tool = call.get("function", call.get("custom"))
                given = _inside(tool, "arguments") or _inside(tool, "input")
                self._add(place, _inside(tool, "name"), given or "")

    def _responses(self, event: Mapping[str, object]) -> None:
        item, inner = event.get("item"), event.get("response", event)
        if event.get("type") == "response.output_item.done" and isinstance(item, dict):
            self._item(item)
        elif not self._calls and isinstance(inner, dict):
            for one in _objects(inner.get("output")):
                self._item(one)

    def _item(self, item: Mapping[str, object]) -> None:
        kind = item.get("type")
        if isinstance(kind, str) and kind.endswith("_call") and kind not in _BY_PROVIDER:
            given = item.get("arguments") or item.get("input") or item.get("action")
            self._add(len(self._calls), item.get("name") or kind, given or "")

    def _gemini(self, event: Mapping[str, object]) -> None:
        inner = event.get("response", event)  # as Google wraps it for its own login
        for candidate in _objects(_inside(inner, "candidates")):
            for part in _objects(_inside(candidate.get("content"), "parts")):
                call = part.get("functionCall")
                if isinstance(call, dict):
                    self._add(len(self._calls), call.get("name"), call.get("args"))


def _objects(found: object) -> Iterator[Mapping[str, object]]:
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield one


def _inside(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None


def _written(given: object) -> str:
    try:
        return "" if given is None else json.dumps(given, sort_keys=True)
    except (ValueError, RecursionError):
        return ""


def _identity(name: str, given: str) -> str:
    digest = blake2b(given.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{_ODD.sub('_', name[:60]) or 'tool'}#{digest}"
