"""Which API a request speaks, whether it takes a seat, and which key it counts under."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.key_patterns import NO_KEY, parse_key
from headgate.core.wire.apis import Api, RequestHead, key_of, plain_headers, provider_of, read_head

MESSAGES, CHAT, RESPONSES, GEMINI = Api.MESSAGES, Api.CHAT, Api.RESPONSES, Api.GEMINI


@pytest.mark.parametrize(
    "target,api,model,streams",
    [
        ("/v1/messages?beta=true", MESSAGES, "", None),
        ("/t/task-42/v1/messages", MESSAGES, "", None),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus@1:streamRawPredict",
            MESSAGES,
            "claude-opus@1",
            True,
        ),
        ("/v1/chat/completions", CHAT, "", None),
        ("/openai/deployments/d/chat/completions?api-version=1", CHAT, "", None),
        ("/api/v1/chat/completions", CHAT, "", None),
        ("/v1/responses", RESPONSES, "", None),
        ("/backend-api/codex/responses", RESPONSES, "", None),
        ("/v1/responses/compact", RESPONSES, "", False),
        ("/v1beta/models/gemini-3-pro:generateContent", GEMINI, "gemini-3-pro", False),
        ("/v1beta/models/g%2Dx:streamGenerateContent?alt=sse", GEMINI, "g-x", True),
        ("/v1internal:streamGenerateContent?alt=sse", GEMINI, "", True),
        ("/v1/embeddings", Api.PLAIN, "", False),
        ("/v1/completions", Api.PLAIN, "", None),
        ("/model/anthropic.claude-v1/converse-stream", Api.PLAIN, "anthropic.claude-v1", True),
    ],
)
def test_paths_at_which_a_model_works(
    target: str, api: Api, model: str, *, streams: bool | None
) -> None:
    """Each path is known by its end, takes a seat, and tells what it tells."""
    head = RequestHead(api, takes_seat=True, model=model, streams=streams)
    assert read_head("POST", target, {}) == head


@pytest.mark.parametrize(
    "method,target",
    [
        ("HEAD", "/api/hello"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/claude-opus-4-6"),
        ("OPTIONS", "/v1/messages"),
        ("HEAD", "/v1/messages"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/v1/messages/count_tokens?beta=true"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1beta/models/gemini-3-pro:countTokens"),
        ("POST", "/v1internal:loadCodeAssist"),
        ("POST", "/api/event_logging/batch"),
        ("POST", "/api/oauth/token"),
        ("POST", "/v1/messages/batches"),
    ],
)
def test_paths_that_cost_nothing(method: str, target: str) -> None:
    """Lists, counts, logins, telemetry and whatever is not posted take no seat."""
    assert read_head(method, target, {}).takes_seat is False


@pytest.mark.parametrize("target", ["/v1/something", "/" + "x" * 5_000, "*", ""])
def test_unknown_paths_are_left_to_the_body(target: str) -> None:
    """Of a path that nobody knows, the body tells whether it takes a seat."""
    assert read_head("POST", target, {}) == RequestHead(Api.UNKNOWN, None)


def test_websockets_are_known() -> None:
    """A WebSocket for responses takes a seat and streams; another one does not."""
    asked = {"upgrade": "WebSocket", "connection": "Upgrade"}
    head = read_head("GET", "/v1/responses", asked)
    assert head == RequestHead(RESPONSES, takes_seat=True, streams=True, websocket=True)
    assert read_head("GET", "/v1/other", asked).takes_seat is False


@given(st.text(), st.text())
def test_any_target_is_read(method: str, target: str) -> None:
    """Whatever a client asks for, it is read without an error."""
    read_head(method, target, {})


@pytest.mark.parametrize(
    "host,provider",
    [
        ("api.anthropic.com", "anthropic"),
        ("API.OpenAI.com:443", "openai"),
        ("chatgpt.com", "openai"),
        ("res.openai.azure.com", "azure"),
        ("cloudcode-pa.googleapis.com", "google"),
        ("generativelanguage.googleapis.com.", "google"),
        ("us-east5-aiplatform.googleapis.com", "google-vertex"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "amazon-bedrock"),
        ("api.code.umans.ai", "umans"),
        ("evilanthropic.com", ""),
        ("127.0.0.1:8080", ""),
        ("[::1]:80", ""),
        ("", ""),
    ],
)
def test_providers_by_host(host: str, provider: str) -> None:
    """A provider is known by its own hosts, and by no host that only looks like them."""
    assert provider_of(host) == provider


@given(st.sampled_from(["anthropic", "google", "corp-1", "", "host", "we ird"]), st.text())
def test_keys_can_be_used(provider: str, model: str) -> None:
    """Whatever a body says the model is, the key is one that pools can be asked for."""
    key = key_of(provider, model)
    assert key == (NO_KEY if provider in {"", "host", "we ird"} else parse_key(key))


def test_keys_keep_the_model() -> None:
    """The key is the provider and the model as the client names it."""
    assert key_of("anthropic", "claude-opus-4-6[1m]") == "anthropic/claude-opus-4-6[1m]"
    assert key_of("google", "models/gemini-3-pro") == "google/gemini-3-pro"
    assert key_of("openai", "gpt *") == "openai/unknown"


def test_headers_by_their_names() -> None:
    """Names are in lower case, values stripped, and several of one name are joined."""
    pairs = [(b"X-A", b" 1 "), (b"x-a", b"2"), (b"Y", b"\xe9")]
    assert plain_headers(pairs) == {"x-a": "1, 2", "y": "é"}
