"""What an agent's own settings say about where it sends its requests, and how it logs in.

They are read, and never changed. What cannot be read is not known, and then no way that needs to
know it is taken.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.meters import AgentSettings
from headgate.core.agents.profile import Profile

_LARGEST = 4 * 2**20
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_OPENCODE_PROVIDERS = {
    "anthropic": "https://api.anthropic.com/v1",
    "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta",
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def read_settings(
    profile: Profile, argv: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> AgentSettings:
    """What the settings of an agent say, if it is one whose settings are understood."""
    reader = {"codex": _codex, "gemini": _gemini, "opencode": _opencode}.get(profile.reads)
    if reader is None:
        return AgentSettings()
    start = unwrap(argv)
    try:
        return reader(argv[start.at + 1 :], {**environment, **start.environment}, cwd)
    except (OSError, ValueError, RecursionError):
        return AgentSettings()


def _codex(args: Sequence[str], environment: Mapping[str, str], _: Path) -> AgentSettings:
    home = Path(environment.get("CODEX_HOME") or _home(environment) / ".codex")
    settings = _toml(home / "config.toml")
    profile = _overridden("profile", args, settings.get("profile"), ("-p", "--profile"))
    settings = {**settings, **_table(_table(settings.get("profiles")).get(profile))}
    facts = {"login": _codex_login(home, environment)}
    provider = _overridden("model_provider", args, settings.get("model_provider"))
    if provider and provider != "openai" and _NAME.match(provider):
        said = _table(_table(settings.get("model_providers")).get(provider))
        facts |= {"provider": provider, "provider_url": _text(said.get("base_url"))}
    facts["openai_url"] = _overridden("openai_base_url", args, settings.get("openai_base_url"))
    return AgentSettings(facts)


def _codex_login(home: Path, environment: Mapping[str, str]) -> str:
    """How codex logs in: what `codex login` has kept counts before the environment."""
    kept = _json(home / "auth.json")
    if kept.get("tokens"):
        return "chatgpt"
    return "api-key" if kept.get("OPENAI_API_KEY") or environment.get("OPENAI_API_KEY") else ""


def _overridden(name: str, args: Sequence[str], said: object, options: Sequence[str] = ()) -> str:
    """A setting, which an option `-c name=value` beats."""
    found = _text(said)
    for option, value in pairwise(args):
        if option in {"-c", "--config"} and value.startswith(f"{name}="):
            found = value.partition("=")[2].strip().strip("\"'")
        elif option in options:
            found = value
    return found


def _gemini(_: Sequence[str], environment: Mapping[str, str], cwd: Path) -> AgentSettings:
    said = ""
    for file in (_home(environment) / ".gemini" / "settings.json", cwd / ".gemini/settings.json"):
        auth = _table(_table(_json(file).get("security")).get("auth"))
        said = _text(auth.get("selectedType")) or said
    has_key = bool(environment.get("GEMINI_API_KEY"))
    if said in {"", "gemini-api-key"} and has_key and not _on(environment, "GOOGLE_GENAI_USE_GCA"):
        return AgentSettings({"login": "api-key"})
    return AgentSettings({"login": "google" if said.startswith("oauth") else said})


def _opencode(_: Sequence[str], environment: Mapping[str, str], cwd: Path) -> AgentSettings:
    overlay = environment.get("OPENCODE_CONFIG_CONTENT", "")
    known = {**_OPENCODE_PROVIDERS}
    if url := environment.get("ANTHROPIC_BASE_URL", ""):
        known["anthropic"] = url
    documents = [_json(file) for file in _opencode_files(environment, cwd)]
    laid_over = _parsed(overlay) if overlay else {}
    for document in (*documents, laid_over):
        for name, provider in _table(document.get("provider")).items():
            url = _text(_table(_table(provider).get("options")).get("baseURL"))
            if url:
                known[name] = url
    plain = {
        name: url
        for name, url in known.items()
        if _NAME.match(name) and url.startswith(("http://", "https://")) and "{" not in url
    }
    return AgentSettings({"settings": "read"}, plain, laid_over)


def opencode_overlay(settings: AgentSettings, url: str) -> str:
    """The variable that points opencode at a base URL, with all that it says already."""
    said = settings.overlay or {}
    providers = {name: dict(_table(one)) for name, one in _table(said.get("provider")).items()}
    for name in settings.upstreams:
        provider = providers.setdefault(name, {})
        provider["options"] = {**_table(provider.get("options")), "baseURL": f"{url}/{name}"}
    return json.dumps({**said, "provider": providers}, separators=(",", ":"))


def _opencode_files(environment: Mapping[str, str], cwd: Path) -> Iterator[Path]:
    """Opencode's settings, those that count most last."""
    config = Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")
    names = ("config.json", "opencode.json", "opencode.jsonc")
    yield from (config / "opencode" / name for name in names)
    if named := environment.get("OPENCODE_CONFIG"):
        yield Path(named)
    for folder in (*reversed(cwd.parents), cwd):
        yield from (folder / name for name in names[1:])
        yield from (folder / ".opencode" / name for name in names[1:])
    if own := environment.get("OPENCODE_CONFIG_DIR"):
        yield from (Path(own) / name for name in names[1:])


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - any text


def _on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").strip().lower() not in {"", "0", "false"}


def _table(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def _read(file: Path) -> str:
    """A file's text; empty if there is none. What cannot be read raises."""
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(_read(file))


def _json(file: Path) -> dict[str, Any]:
    text = _read(file)
    return _parsed(text) if text.strip() else {}


def _parsed(text: str) -> dict[str, Any]:
    """A JSON object, perhaps with comments and trailing commas."""
    try:
        return _table(json.loads(text))
    except ValueError:
        bare = _COMMENT.sub(lambda found: found[1] or " ", text)
        return _table(json.loads(_TRAILING.sub(lambda found: found[1] or "", bare)))
