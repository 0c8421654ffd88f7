"""Which API a request speaks, whether it takes a seat, and which key it counts under.

A path is known by its end: a base URL may put anything before it, such as `/t/task-42` or a
gateway's own prefix. Of a path that is not known, the body decides: what names a model makes one
work.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote

from headgate.core.key_patterns import NO_KEY, parse_key
from headgate.core.named_tuple import NamedTuple
from headgate.errors import UsageError


class Api(StrEnum):
    """How a request and its answer are written."""

    MESSAGES = "messages"
    """Anthropic's messages."""
    CHAT = "chat"
    """OpenAI's chat completions, which most other providers speak too."""
    RESPONSES = "responses"
    """OpenAI's responses, over HTTP or in a WebSocket."""
    GEMINI = "gemini"
    """Google's `generateContent` and `streamGenerateContent`."""
    PLAIN = "plain"
    """A model works, and the answer is not looked into: embeddings, old completions, images."""
    UNKNOWN = "unknown"


class RequestHead(NamedTuple):
    """What the head of a request tells."""

    api: Api
    takes_seat: bool | None
    """None if that depends on whether the body names a model."""
    model: str = ""
    """The model, if the path names it; else it is in the body."""
    streams: bool | None = None
    """Whether a stream is asked for, if the path tells; None if the body does."""
    websocket: bool = False
    """Whether it asks for a WebSocket, in which many requests follow."""


_MODEL = r"(?P<model>[^/:]+)"
_PATHS = tuple(
    (re.compile(rf"(?:/.*)?{path}/?", re.DOTALL), api, streams)
    for path, api, streams in (
        (r"/messages", Api.MESSAGES, None),
        (rf"/models/{_MODEL}:rawPredict", Api.MESSAGES, False),
        (rf"/models/{_MODEL}:streamRawPredict", Api.MESSAGES, True),
        (r"/chat/completions", Api.CHAT, None),
        (r"/responses", Api.RESPONSES, None),
        (r"/responses/compact", Api.RESPONSES, False),
        (rf"/(?:models|tunedModels|endpoints)/{_MODEL}:generateContent", Api.GEMINI, False),
        (rf"/(?:models|tunedModels|endpoints)/{_MODEL}:streamGenerateContent", Api.GEMINI, True),
        (r"/v1internal:generateContent", Api.GEMINI, False),
        (r"/v1internal:streamGenerateContent", Api.GEMINI, True),
        (rf"/models/{_MODEL}:(?:predict|embedContent|batchEmbedContents)", Api.PLAIN, False),
        (rf"/model/{_MODEL}/(?:invoke|converse)", Api.PLAIN, False),
        (rf"/model/{_MODEL}/(?:invoke-with-response-stream|converse-stream)", Api.PLAIN, True),
        (r"/(?:completions|complete)", Api.PLAIN, None),
        (r"/embeddings|/moderations|/rerank", Api.PLAIN, False),
        (r"/images/(?:generations|edits)|/audio/(?:speech|transcriptions)", Api.PLAIN, None),
    )
)
"""Paths at which a model works, and whether they stream; None where the body says so."""
_FREE = re.compile(
    r"(?:/.*)?(?:/count_tokens|:countTokens|/input_tokens|/token-counters?"
    r"|/hello|/models(?:/[^/]+)?|/usage|/usage\.json|/files(?:/.*)?|/batches(?:/.*)?"
    r"|/(?:event_logging|telemetry|metrics|statsig|feedback|analytics(?:-events)?)(?:/.*)?"
    r"|/api/(?!v[0-9])(?:oauth|claude_code|claude_cli|organizations|eval|web|auth)(?:[/_].*)?"
    r"|/oauth2?(?:/.*)?|/token|/wham(?:/.*)?|/v1internal:(?!(?:streamG|g)enerateContent).*"
    r"|/responses/[^/]+/cancel)/?",
    re.DOTALL,
)
"""Paths that something may be posted to, and at which no model works."""


_LONGEST_PATH = 2_000


def read_head(method: str, target: str, headers: Mapping[str, str]) -> RequestHead:
    """What the head of a request tells; the names of its headers are in lower case."""
    path = target.partition("?")[0]
    if len(path) > _LONGEST_PATH:
        return RequestHead(Api.UNKNOWN, None if method == "POST" else False)
    head = _read_path(path)
    if method == "GET" and headers.get("upgrade", "").lower() == "websocket":
        return head._replace(takes_seat=head.api is Api.RESPONSES, streams=True, websocket=True)
    return head if method == "POST" else head._replace(takes_seat=False, streams=False)


@lru_cache(maxsize=256)
def _read_path(path: str) -> RequestHead:
    """What a path tells if something is posted to it."""
    for pattern, api, streams in _PATHS:
        found = pattern.fullmatch(path)
        if found:
            model = unquote(found.groupdict("").get("model", ""))
            return RequestHead(api, takes_seat=True, model=model, streams=streams)
    if _FREE.fullmatch(path):
        return RequestHead(_neighbour(path), takes_seat=False, streams=False)
    return RequestHead(Api.UNKNOWN, takes_seat=None)


def _neighbour(path: str) -> Api:
    """The API beside a path that costs nothing: errors have its shape."""
    if "/messages/" in path:
        return Api.MESSAGES
    if "/responses/" in path:
        return Api.RESPONSES
    return Api.GEMINI if re.search(r"/v1(?:beta|alpha|internal)\b", path) else Api.UNKNOWN


def plain_headers(pairs: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as they came, by their names in lower case; several of one name are joined."""
    found = {_plain_name(name): value.decode("latin-1").strip() for name, value in pairs}
    if len(found) == len(pairs):
        return found
    found = {}
    for raw_name, raw_value in pairs:
        name, value = _plain_name(raw_name), raw_value.decode("latin-1").strip()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


@lru_cache(maxsize=256)
def _plain_name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()


_PROVIDERS = (
    ("anthropic.com", "anthropic"),
    ("claude.ai", "anthropic"),
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("openai.com", "openai"),
    ("chatgpt.com", "openai"),
    ("aiplatform.googleapis.com", "google-vertex"),
    ("googleapis.com", "google"),
    ("amazonaws.com", "amazon-bedrock"),
    ("openrouter.ai", "openrouter"),
    ("umans.ai", "umans"),
    ("z.ai", "zai"),
    ("bigmodel.cn", "zai"),
    ("moonshot.ai", "moonshotai"),
    ("moonshot.cn", "moonshotai"),
    ("deepseek.com", "deepseek"),
    ("featherless.ai", "featherless"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral"),
    ("x.ai", "xai"),
)
"""By the end of the host's name; the first that fits. The names are those of the profiles."""


@lru_cache(maxsize=256)
def provider_of(host: str) -> str:
    """The provider at a host, as in a key; empty if the host is nobody's that is known."""
    name = host.lower().rstrip(".")
    if not name.startswith("["):
        name = name.partition(":")[0].rstrip(".")
    for end, provider in _PROVIDERS:
        if name == end or name.endswith((f".{end}", f"-{end}")):
            return provider
    return ""


UNNAMED = "unknown"
"""Stands for the model of a request that names none, or none that a key can hold."""


@lru_cache(maxsize=256)
def key_of(provider: str, model: str) -> str:
    """The key a request counts under; the empty key if nobody knows the provider."""
    if not provider:
        return NO_KEY
    for name in (model.strip().removeprefix("models/"), UNNAMED):
        try:
            return parse_key(f"{provider}/{name}")
        except UsageError:
            continue
    return NO_KEY
