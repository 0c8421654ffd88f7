"""How many tokens an answer took, in the words of each API.

`input` is all that was read, with what came from a cache; `cached` is what came from it. Anthropic
counts these apart and the others together, so they are added up here.
"""

import json
import re
from collections.abc import Mapping

from headgate.core.named_tuple import NamedTuple
from headgate.core.wire.apis import Api

_MOST = 10**9
"""No answer takes as many: whoever says so is not believed."""


class Usage(NamedTuple):
    """Tokens of one request and its answer; None where it was not told."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None


NO_USAGE = Usage()

USAGE: Mapping[Api, re.Pattern[bytes]] = {
    Api.CHAT: re.compile(rb'"usage"\s*+:\s*+\{'),
    Api.GEMINI: re.compile(rb'"usageMetadata"'),
}
"""APIs in which any event may tell of tokens, and what it has in it then."""
_FIELD = re.compile(rb'"(?:usage|usageMetadata)"\s*+:\s*+(?=\{)')
_LONGEST_FIELD = 4_096


def read_usage(api: Api, event: Mapping[str, object], known: Usage = NO_USAGE) -> Usage:
    """What an event or a whole answer tells of tokens, with what was known before."""
    for found in _fields(api, event):
        if isinstance(found, dict):
            known = Usage._make(map(_larger, known, _read(api, found)))
    return known


def _larger(one: int | None, other: int | None) -> int | None:
    """The figure that counts: what a stream tells grows, and some tell 0 for what they know not."""
    return one if other is None or (one is not None and one > other) else other


def usage_in(api: Api, tail: bytes, known: Usage = NO_USAGE) -> Usage:
    """The same for an event of which only the end is left: its last field of that name counts."""
    places = [found.end() for found in _FIELD.finditer(tail)]
    if not places:
        return known
    text = tail[places[-1] : places[-1] + _LONGEST_FIELD].decode("utf-8", "replace")
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return known
    return read_usage(api, {"usageMetadata" if api is Api.GEMINI else "usage": found}, known)


def _fields(api: Api, event: Mapping[str, object]) -> list[object]:
    """The places in which this API puts its figures."""
    name = "usageMetadata" if api is Api.GEMINI else "usage"
    wrappers = [event, *(event.get(outer) for outer in ("message", "response"))]
    return [wrapper.get(name) for wrapper in wrappers if isinstance(wrapper, dict)]


def _read(api: Api, found: Mapping[str, object]) -> Usage:
    if api is Api.GEMINI:
        return Usage(
            _sum(found, "promptTokenCount", "toolUsePromptTokenCount"),
            _sum(found, "candidatesTokenCount", "thoughtsTokenCount"),
            _count(found.get("cachedContentTokenCount")),
        )
    if api is Api.MESSAGES:
        caches = ("cache_read_input_tokens", "cache_creation_input_tokens")
        fresh = _count(found.get("input_tokens"))
        return Usage(
            # The last event may tell of a part of it only, and then the first one counts.
            _sum(found, "input_tokens", *caches) if fresh is not None else None,
            _count(found.get("output_tokens")),
            _count(found.get("cache_read_input_tokens")),
        )
    details = found.get("input_tokens_details", found.get("prompt_tokens_details"))
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        _first(found, "input_tokens", "prompt_tokens"),
        _first(found, "output_tokens", "completion_tokens"),
        _count(cached if cached is not None else found.get("prompt_cache_hit_tokens")),
    )


def _sum(found: Mapping[str, object], *names: str) -> int | None:
    told = [count for name in names if (count := _count(found.get(name))) is not None]
    return sum(told) if told else None


def _first(found: Mapping[str, object], *names: str) -> int | None:
    told = (_count(found.get(name)) for name in names)
    return next((count for count in told if count is not None), None)


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None
