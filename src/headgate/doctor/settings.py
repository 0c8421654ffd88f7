"""The configuration file and the environment: what is in effect, and what cannot be used."""

from collections.abc import Mapping
from pathlib import Path

from headgate.config import Config, find, load
from headgate.config.error_text import hide, label
from headgate.core.admission.setting_precedence import parse_view
from headgate.core.environment import OURS
from headgate.doctor.finding import Finding, note, ok, problem, warning
from headgate.errors import ConfigError
from headgate.store.urls import show_url

_PROXIES = ("https_proxy", "HTTPS_PROXY")


def read_config(path: str | None) -> tuple[Config, list[Finding]]:
    """The configuration; the defaults, and a problem, if it cannot be used."""
    try:
        config = load(Path(path) if path else find())
    except ConfigError as error:
        advice = "correct it, then: headgate config check; until then this goes by the defaults"
        lines = str(error).split("\n")
        return load(None), [
            *(problem("config_broken", line) for line in lines[:-1]),
            problem("config_broken", lines[-1], advice),
        ]
    if config.path is None:
        return config, [ok("config", "there is no configuration file, the defaults count")]
    found = [ok("config", f"{label(config.path)} can be used")]
    return config, found + [warning("config_warning", line) for line in config.warnings]


def read_limits(environ: Mapping[str, str]) -> tuple[str, list[Finding]]:
    """HEADGATE_LIMITS, in one form; empty if there is none, or none that can be used."""
    text = environ.get("HEADGATE_LIMITS", "")
    try:
        view = parse_view(text)
    except ConfigError as error:
        advice = "correct it or unset it; with it, nothing can be started from here"
        return "", [problem("limits_broken", hide(str(error)), advice)]
    if not view:
        return "", []
    return view, [note("limits", f"HEADGATE_LIMITS beats all other limits here: {view}")]


def check_environment(config: Config, environ: Mapping[str, str], url: str | None) -> list[Finding]:
    """The other variables that have a say."""
    found = []
    if url:
        found.append(
            note("store_option", f"the store is the one named by --store: {show_url(url)}")
        )
    elif environ.get("HEADGATE_STORE", "").strip():
        shown = show_url(environ["HEADGATE_STORE"].strip())
        found.append(note("store_variable", f"HEADGATE_STORE names the store: {shown}"))
    if environ.get("HEADGATE_CONFIG"):
        named = label(environ["HEADGATE_CONFIG"])
        found.append(note("config_variable", f"HEADGATE_CONFIG names the configuration: {named}"))
    if environ.get("HEADGATE_LEASE"):
        text = "this runs under a lease: what is started from here shares its seats"
        found.append(note("under_lease", text))
    if any(pool.usage and pool.usage.url for pool in config.pools.values()):
        proxy = next((name for name in _PROXIES if environ.get(name)), None)
        if proxy:
            found.append(note("proxy", f"usage is read through the proxy in {proxy}"))
        found += _lacking(config, environ)
    return found + [_unknown(name, meant) for name, meant in sorted(_slips(environ).items())]


def _lacking(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    """Usage sources whose key is not here; another process may have it."""
    return [
        warning(
            "no_key",
            f"{name}: {pool.usage.key_env} is not set here, so its usage cannot be read",
            "set it where agents are started",
        )
        for name, pool in config.pools.items()
        if pool.usage and pool.usage.key_env and not environ.get(pool.usage.key_env)
    ]


def _slips(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that are nearly ours, and which they may be meant to be."""
    from difflib import get_close_matches

    others = [name for name in environ if name.upper().startswith("HEADGATE") and name not in OURS]
    near = {name: get_close_matches(name[:60].upper(), OURS, 1, 0.85) for name in others}
    return {name: meant[0] for name, meant in near.items() if meant}


def _unknown(name: str, meant: str) -> Finding:
    return warning(
        "unknown_variable", f"{label(name)} is set, which means nothing", f"did you mean {meant}?"
    )
