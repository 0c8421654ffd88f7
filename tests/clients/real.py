"""The real agents: how each is started, resumed, pointed at a provider, and kept on loopback."""

import json
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from headgate.core.answers.classify import classify_line
from headgate.core.answers.signals import Signal
from tests.support import Box

ROOT = Path(__file__).parents[2]
KEY = "sk-test-0ddba11"
NOWHERE = "http://127.0.0.1:9"
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TERM")
"""What of the environment a client sees: not a word about accounts."""


def folder() -> Path | None:
    """Where the programs are: HEADGATE_CLIENTS, or what `make clients` installed; else None."""
    named = os.environ.get("HEADGATE_CLIENTS")
    found = Path(named or ROOT / ".clients") / "node_modules" / ".bin"
    return found if named or found.is_dir() else None


class Client(ABC):
    """One of them, in a home and a folder of its own.

    The session's name is ours where the program lets us choose; else it is read from the output.
    """

    name: str
    key: str
    """What `headgate run -m` is told."""
    chosen: bool = False
    """Whether the session can be named beforehand."""

    def __init__(self, box: Box, url: str) -> None:
        self.url = url
        self.home, self.work = box.folder / "home", box.folder / "work"
        for made in (self.home, self.work):
            made.mkdir(exist_ok=True)
        where = folder()
        self.program = str((where or Path()) / self.name)
        kept = {name: box.env[name] for name in KEPT if name in box.env}
        ours = {n: v for n, v in box.env.items() if n.startswith(("HEADGATE_", "XDG_", "PYTHON"))}
        quiet = {"HTTPS_PROXY": NOWHERE, "https_proxy": NOWHERE, "npm_config_registry": NOWHERE}
        loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        box.env = {**kept, **ours, **quiet, **loopback, "HOME": str(self.home), **self.env()}
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - not all have one
        """Write the configuration it needs."""

    @abstractmethod
    def env(self) -> dict[str, str]:
        """What it finds in its environment."""

    @abstractmethod
    def start(self, prompt: str, session: str = "") -> list[str]:
        """The command line of a new session that prints events."""

    @abstractmethod
    def work_on(self, prompt: str) -> list[str]:
        """The command line of a session that may use a shell, with the model named in it."""

    @abstractmethod
    def resume(self, session: str, prompt: str) -> list[str]:
        """The command line that goes on with a session."""

    @abstractmethod
    def session(self, output: str) -> str:
        """The session that an output names so far; empty if none."""

    @abstractmethod
    def answer(self, output: str) -> str:
        """All that the assistant said."""

    def refusals(self, output: str) -> list[Signal]:
        """What an output says of refusals."""
        found = (classify_line(line, self.name) for line in output.splitlines())
        return [signal for signal in found if signal]


class Claude(Client):
    name = "claude"
    key = "anthropic/claude-sonnet-4-5"
    chosen = True
    _EVENTS = ("--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5")

    def env(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def start(self, prompt: str, session: str = "") -> list[str]:
        named = ["--session-id", session] if session else []
        return [self.program, "-p", prompt, *named, *self._EVENTS]

    def work_on(self, prompt: str) -> list[str]:
        return [*self.start(prompt), "--allowedTools", "Bash"]

    def resume(self, session: str, prompt: str) -> list[str]:
        return [self.program, "--resume", session, "-p", prompt, *self._EVENTS]

    def session(self, output: str) -> str:
        return first(r'"session_id":"([^"]+)"', output)

    def answer(self, output: str) -> str:
        said = [e["message"]["content"] for e in events(output) if e["type"] == "assistant"]
        return "".join(part.get("text", "") for content in said for part in content)


class Opencode(Client):
    name = "opencode"
    key = "anthropic/claude-sonnet-4-5"
    _EVENTS = ("run", "--format", "json", "--print-logs")

    def prepare(self) -> None:
        provider = {
            "options": {"baseURL": f"{self.url}/v1", "apiKey": KEY},
            "models": {"claude-sonnet-4-5": {"name": "sonnet"}},
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "model": self.key,
            "small_model": self.key,
            "enabled_providers": ["anthropic"],
            "provider": {"anthropic": provider},
        }
        (self.home / "opencode.json").write_text(json.dumps(config))

    def env(self) -> dict[str, str]:
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        switches = {f"OPENCODE_DISABLE_{name}": "1" for name in off}
        return {"OPENCODE_CONFIG": str(self.home / "opencode.json"), **switches}

    def start(self, prompt: str, session: str = "") -> list[str]:
        # With a title it asks for none: one request at a time.
        return [self.program, *self._EVENTS, "--title", "test", prompt]

    def work_on(self, prompt: str) -> list[str]:
        return [*self.start(prompt), "-m", self.key]

    def resume(self, session: str, prompt: str) -> list[str]:
        return [self.program, *self._EVENTS, "--session", session, prompt]

    def session(self, output: str) -> str:
        return first(r'(?:"sessionID":"|session\.id=)(ses_\w+)', output)

    def answer(self, output: str) -> str:
        return "".join(e["part"]["text"] for e in events(output) if e["type"] == "text")


class Codex(Client):
    name = "codex"
    key = "openai/gpt-5.2"

    def prepare(self) -> None:
        (self.home / ".codex").mkdir(exist_ok=True)
        (self.home / ".codex" / "config.toml").write_text(
            'model = "gpt-5.2"\nmodel_provider = "sim"\ncheck_for_update_on_startup = false\n'
            "[analytics]\nenabled = false\n"
            f'[model_providers.sim]\nname = "sim"\nbase_url = "{self.url}/v1"\n'
            'env_key = "SIM_KEY"\nwire_api = "responses"\n'
        )

    def env(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.home / ".codex"), "SIM_KEY": KEY}

    def start(self, prompt: str, session: str = "") -> list[str]:
        return [self.program, "exec", "--skip-git-repo-check", "--json", prompt]

    def work_on(self, prompt: str) -> list[str]:
        return [*self.start(prompt), "-s", "workspace-write", "-m", "gpt-5.2"]

    def resume(self, session: str, prompt: str) -> list[str]:
        return [self.program, "exec", "--skip-git-repo-check", "--json", "resume", session, prompt]

    def session(self, output: str) -> str:
        return first(r'"thread_id":"([^"]+)"', output)

    def answer(self, output: str) -> str:
        done = [e["item"] for e in events(output) if e["type"] == "item.completed"]
        return "".join(item["text"] for item in done if item["type"] == "agent_message")


class Gemini(Client):
    name = "gemini"
    key = "google/gemini-2.5-pro"
    chosen = True
    # Without a model it first asks another one which to take.
    _EVENTS = ("--skip-trust", "--output-format", "stream-json", "-m", "gemini-2.5-pro")

    def prepare(self) -> None:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        }
        (self.home / ".gemini").mkdir(exist_ok=True)
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(settings))

    def env(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": self.url}

    def start(self, prompt: str, session: str = "") -> list[str]:
        named = ["--session-id", session] if session else []
        return [self.program, *self._EVENTS, *named, "-p", prompt]

    def work_on(self, prompt: str) -> list[str]:
        return [*self.start(prompt), "--approval-mode", "yolo"]

    def resume(self, session: str, prompt: str) -> list[str]:
        return [self.program, *self._EVENTS, "--resume", session, "-p", prompt]

    def session(self, output: str) -> str:
        return first(r'"session_id":"([^"]+)"', output)

    def answer(self, output: str) -> str:
        said = [e for e in events(output) if e["type"] == "message" and e["role"] == "assistant"]
        return "".join(e["content"] for e in said)


REAL: dict[str, type[Client]] = {kind.name: kind for kind in (Claude, Opencode, Codex, Gemini)}


def first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def events(output: str) -> list[dict[str, Any]]:
    """The whole lines of an output that are JSON."""
    lines = [line for line in output.splitlines(keepends=True) if line.startswith("{")]
    return [json.loads(line) for line in lines if line.endswith("\n")]
