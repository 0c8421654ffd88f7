"""Keys and patterns.

A **key** is what work uses: `provider/model`. The provider is case-insensitive; the model is
kept as given and may itself contain slashes (`openrouter/anthropic/claude-opus-4`). Work that
names no model has the empty key and sits in `host` only.

A **pattern** names a pool and picks keys:

    host                          every piece of work on one machine
    anthropic                     every model of one provider
    anthropic/claude-opus-4-6     one model
    anthropic/claude-opus-*       a family of models; `*` stands for any text, `?` for one character
    */claude-opus-*               the same family at any provider
    role:reviewer                 all work that carries this role, whatever it uses
    role:*                        all work that carries any role

What work **uses** is its key and its roles, as one text: `anthropic/claude-opus-4-6 role:reviewer`.

Only `*` and `?` are special: model names like `claude-sonnet-4[1m]` contain brackets.
"""

import re
from functools import lru_cache

from headgate.core.quantities import shown
from headgate.errors import UsageError

HOST = "host"
NO_KEY = ""
ROLE = "role:"
_LONGEST = 200
_PROVIDER = re.compile(r"[a-z0-9][a-z0-9._@+-]*\Z")
_PROVIDER_GLOB = re.compile(r"[a-z0-9*?][a-z0-9._@+*?-]*\Z")
_ROLE_GLOB = re.compile(r"[a-z0-9*?][a-z0-9._*?-]*\Z")
_NOT_IN_MODEL = re.compile(r"[\s,;=\"'\\`|]")
_WILD = re.compile(r"[*?]")


def parse_key(text: str) -> str:
    """Normalise a key, or say what is wrong with it."""
    _check_text(text, "key")
    return _parse_key(text)


@lru_cache(maxsize=1024)
def _parse_key(text: str) -> str:
    whole = _tidy(text, "key")
    provider, slash, model = whole.partition("/")
    provider = provider.lower()
    if not slash or not model or not provider:
        hint = "; run without -m for work that uses no model" if not whole else ""
        raise UsageError(
            f"bad key {shown(text)}: expected PROVIDER/MODEL, as in anthropic/claude-opus-4-6{hint}"
        )
    if _WILD.search(whole):
        raise UsageError(
            f"bad key {shown(text)}: a key names one model; wildcards belong in the name of a pool"
        )
    if provider == HOST:
        raise UsageError(f"bad key {shown(text)}: 'host' is the machine's pool, not a provider")
    if not _PROVIDER.match(provider):
        raise UsageError(
            f"bad key {shown(text)}: a provider is letters, digits and . _ @ + -, "
            f"found {shown(provider)}"
        )
    _check_model(text, model, "key")
    return f"{provider}/{model}"


def parse_pattern(text: str) -> str:
    """Normalise the name of a pool, or say what is wrong with it."""
    _check_text(text, "pool")
    whole = _tidy(text, "pool")
    if whole.lower().startswith(ROLE):
        return _parse_role_pattern(text, whole.lower())
    provider, slash, model = whole.partition("/")
    provider = provider.lower()
    if not provider or (slash and not model):
        raise UsageError(
            f"bad pool {shown(text)}: "
            "expected host, a PROVIDER, PROVIDER/MODEL, or role:NAME with * and ? allowed"
        )
    if not _PROVIDER_GLOB.match(provider):
        raise UsageError(
            f"bad pool {shown(text)}: a provider is letters, digits and . _ @ + - (or * ?), "
            f"found {provider!r}"
        )
    if not slash:
        return provider
    if provider == HOST:
        raise UsageError(
            f"bad pool {shown(text)}: 'host' stands alone; it counts all work of a machine"
        )
    _check_model(text, model, "pool")
    return f"{provider}/{model}"


def _parse_role_pattern(text: str, whole: str) -> str:
    if not _ROLE_GLOB.match(whole.removeprefix(ROLE)):
        raise UsageError(
            f"bad pool {shown(text)}: a role is letters, digits and . _ - (or * ?), "
            "as in role:reviewer"
        )
    return whole


def is_pattern(name: str) -> bool:
    """Whether this is the name of a pool, as it is kept."""
    try:
        return parse_pattern(name) == name
    except UsageError:
        return False


def is_wild(pattern: str) -> bool:
    """Whether a pattern can stand for more than one name."""
    return _WILD.search(pattern) is not None


@lru_cache(maxsize=4096)
def matches(pattern: str, uses: str) -> bool:
    """Whether work that uses this sits in the pool of this (normalised) name."""
    if pattern == HOST:
        return True
    key, _, roles = uses.partition(" ")
    if pattern.startswith(ROLE):
        return any(glob(pattern).match(role) for role in roles.split(" "))
    if key == NO_KEY:
        return False
    wanted_provider, slash, wanted_model = pattern.partition("/")
    provider, _, model = key.partition("/")
    if not glob(wanted_provider).match(provider):
        return False
    return not slash or bool(glob(wanted_model).match(model))


def specificity(pattern: str) -> tuple[bool, bool, int]:
    """How much a pattern says: a model more than a provider, a full name more than a wildcard."""
    return "/" in pattern, not _WILD.search(pattern), len(_WILD.sub("", pattern))


def as_glob(pattern: str) -> str:
    """A pattern for whole keys, in which brackets are plain characters, as shells write it."""
    whole = pattern if "/" in pattern else f"{pattern}/*"
    return whole.replace("[", "[[]")


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    """A pattern as an expression that never goes back on a star: linear, whatever the pattern."""
    first, *others = (
        "".join("." if c == "?" else re.escape(c) for c in part)
        for part in re.split(r"\*+", pattern)
    )
    if not others:
        return re.compile(rf"{first}\Z", re.DOTALL)
    *middle, last = others
    stars = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(rf"{first}{stars}.*{last}\Z", re.DOTALL)


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"bad {what}: expected text, found {type(text).__name__}")


def _tidy(text: str, what: str) -> str:
    whole = text.strip()
    if len(whole) > _LONGEST:
        raise UsageError(
            f"bad {what} {whole[:40]!r}…: {len(whole)} characters, at most {_LONGEST} are allowed"
        )
    return whole


def _check_model(text: str, model: str, what: str) -> None:
    if model.startswith("/") or model.endswith("/") or "//" in model:
        raise UsageError(f"bad {what} {shown(text)}: nothing between two slashes, or after one")
    odd = _NOT_IN_MODEL.search(model)
    if odd or not model.isprintable():
        found = odd.group() if odd else next(c for c in model if not c.isprintable())
        raise UsageError(f"bad {what} {shown(text)}: a model name cannot contain {found!r}")
