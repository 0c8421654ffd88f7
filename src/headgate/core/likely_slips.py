"""Names of pools and keys that are likely slips of the pen for others.

A version is no slip: names that differ only in their digits and wildcards are different on purpose.
"""

import re
from collections.abc import Iterable

from headgate.core.key_patterns import HOST, matches

PROVIDERS = (
    *("anthropic", "openai", "google", "gemini", "mistral", "deepseek", "openrouter", "groq"),
    *("umans", "featherless", "bedrock", "vertex", "azure", "cerebras", "together", "fireworks"),
    *("moonshot", "alibaba", "ollama", "copilot", "github-copilot", "perplexity", "cohere"),
)
"""Providers that are known without having been seen."""

_LIKE_A_MODEL = re.compile(r"(claude|opus|sonnet|haiku|gpt|o[1-9]|gemini|llama|grok)[-*?.0-9]")
_SHORTEST = 4
"""Names with fewer letters are too near to each other by nature."""
_NEAR = 0.85


def meant_pool(name: str, pools: Iterable[str], keys: Iterable[str]) -> str:
    """The pool that was probably meant by a name that nothing fits; empty if none is near."""
    others, used = set(pools), list(keys)
    if name in {HOST, *others, *PROVIDERS} or any(matches(name, key) for key in used):
        return ""
    if "/" not in name and _LIKE_A_MODEL.match(name):
        return f"*/{name}"
    if "/" not in name and _near(name, HOST, shortest=3):
        return HOST
    return _meant(name, [*sorted(others), *used])


def meant_key(key: str, keys: Iterable[str], pools: Iterable[str] = ()) -> str:
    """The key that was probably meant by one that was never used; empty if none is near.

    A slip in the name of a family leads around the pool of that family, so those are known too.
    """
    used = sorted(keys)
    if key in used:
        return ""
    return _meant(key, used) or _of_family(key, pools)


def _of_family(key: str, pools: Iterable[str]) -> str:
    """A key with the name of its family as a pool has it; empty if it fits, or none is near."""
    provider, _, model = key.partition("/")
    for pool in sorted(pools):
        family, wild, rest = pool.partition("/")[2].partition("*")
        near = wild and not rest and _near(model[: len(family)], family)
        if near and not any(matches(one, key) for one in pools if one.endswith("*")):
            return f"{provider}/{family}{model[len(family) :]}"
    return ""


def _meant(name: str, known: Iterable[str]) -> str:
    provider, slash, model = name.partition("/")
    providers = {*PROVIDERS, *(one.partition("/")[0] for one in known)}
    right = provider if provider in providers or _is_wild(provider) else ""
    near = right or next((one for one in sorted(providers) if _near(provider, one)), "")
    if not slash:
        return "" if near == provider else near
    models = [_as_wild(one.partition("/")[2], model) for one in known]
    found = model if model in models else next((one for one in models if _near(model, one)), "")
    if right and found:
        return "" if found == model else f"{right}/{found}"
    return f"{near}/{found or model}" if near and not right else ""


def _as_wild(known: str, model: str) -> str:
    """A model as a family, if a family is what was named: as much of it as was written out."""
    if model.endswith("*") and not _is_wild(known):
        return f"{known[: len(model.rstrip('*'))]}*"
    return known


def _is_wild(text: str) -> bool:
    return "*" in text or "?" in text


def _near(one: str, other: str, shortest: int = _SHORTEST) -> bool:
    """Whether two names are so alike that one is a slip for the other."""
    a, b = (re.sub(r"[^a-z]+", "", text.lower()) for text in (one, other))
    if a == b or min(len(a), len(b)) < shortest:
        return False
    from difflib import SequenceMatcher

    return SequenceMatcher(None, a, b).ratio() >= _NEAR or sorted(a) == sorted(b)
