"""The real agents as their users have them: logged in, and with no word on where to ask."""

import base64
import json
from datetime import UTC, datetime

from tests.clients.real import KEY, Claude, Client, Codex, Gemini, Opencode
from tests.wire.outside import Outside

ACCOUNT = {
    "id": "acc-1",
    "name": "somebody",
    "structure": "personal",
    "plan_type": "pro",
    "workspace_backend_origin": "https://chatgpt.com",
    "account_routing_override": "us",
    "profile_picture_url": None,
    "can_access_with_session": True,
    "sso_connection_name": None,
    "is_deactivated": False,
    "is_fedramp_compliant_workspace": False,
}
_CHECKED = {"accounts": [ACCOUNT], "account_ordering": ["acc-1"], "default_account_id": "acc-1"}
SIDECARS = {"/backend-api/wham/accounts/check": json.dumps(_CHECKED).encode()}
"""What codex asks for before it asks a model."""


class TappedClaude(Claude):
    trusts = "NODE_EXTRA_CA_CERTS"

    def env(self) -> dict[str, str]:
        without = {n: v for n, v in super().env().items() if n != "ANTHROPIC_BASE_URL"}
        return {**without, "CLAUDE_CODE_GZIP_REQUEST_BODIES": "1"}


class TappedCodex(Codex):
    """Logged in with ChatGPT."""

    trusts = "CODEX_CA_CERTIFICATE"

    def prepare(self) -> None:
        (self.home / ".codex").mkdir(exist_ok=True)
        (self.home / ".codex" / "config.toml").write_text(
            'model = "gpt-5.2"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n'
            "[features]\nenable_request_compression = false\n"
        )
        account = {"chatgpt_account_id": "acc-1", "chatgpt_plan_type": "pro"}
        claims = {"https://api.openai.com/auth": account, "email": "a@b.test", "exp": 4102444800}
        token = ".".join(map(_encoded, ({"alg": "none"}, claims, {})))
        tokens = {"id_token": token, "access_token": token, "refresh_token": "r"}
        kept = {
            "OPENAI_API_KEY": None,
            "tokens": {**tokens, "account_id": "acc-1"},
            "last_refresh": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        (self.home / ".codex" / "auth.json").write_text(json.dumps(kept))


class TappedGemini(Gemini):
    """With a key it would be pointed at a base URL; here it is not."""

    trusts = "NODE_EXTRA_CA_CERTS"
    host = "generativelanguage.googleapis.com"

    def env(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": KEY}


class TappedOpencode(Opencode):
    """The same."""

    trusts = "NODE_EXTRA_CA_CERTS"
    host = "api.anthropic.com"

    def prepare(self) -> None:
        self.url = "https://api.anthropic.com"
        super().prepare()


TAPPED = {kind.name: kind for kind in (TappedClaude, TappedCodex, TappedGemini, TappedOpencode)}


def point_outside(client: Client, outside: Outside) -> dict[str, str]:
    """Variables that lead an agent out through the user's own proxy."""
    trusts: str = getattr(client, "trusts", "")
    proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), outside.proxy)
    return {**proxies, trusts: str(outside.authority)}


def profile_with_a_tap(client: Client) -> str:
    """What configures a tap for an agent whose own profile has a better way; empty if none has."""
    host: str = getattr(client, "host", "")
    if not host:
        return ""
    return (
        f'[[profiles.{client.name}.wire]]\nway = "tap"\nhosts = ["{host}"]\n'
        'environment = { NODE_EXTRA_CA_CERTS = "{added_authorities}" }\n'
    )


def _encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
