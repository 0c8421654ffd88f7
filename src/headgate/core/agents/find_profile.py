"""Which profile a command line has, and the model and session it names."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.output_lines import read
from headgate.core.agents.profile import GENERIC, OutputLine, Profile, Tool, find
from headgate.core.agents.resume_command import SESSION, resume
from headgate.core.key_patterns import parse_key
from headgate.errors import UsageError

__all__ = [
    "GENERIC",
    "OutputLine",
    "Profile",
    "Tool",
    "find",
    "key",
    "read",
    "resume",
    "session",
    "writes_events",
]

_OFF = {"", "0", "false", "no", "off"}


def key(profile: Profile, argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The key of what an agent will use; None if it cannot be told."""
    start = unwrap(argv)
    variables = {**environment, **start.environment}
    args = argv[start.at + 1 :]
    model = _option(args, profile.model_options)
    if not model:
        named = (variables.get(name, "").strip() for name in profile.model_environment)
        model = next(filter(None, named), profile.default)
    model = _meant(profile, model, variables)
    provider = _provider(profile, model, args, variables)
    if not provider:
        provider, _, model = model.partition("/")
    provider = profile.providers.get(provider.lower(), provider)
    try:
        return parse_key(f"{provider}/{model.removeprefix(f'{provider}/')}")
    except UsageError:
        return None


def session(profile: Profile, argv: Sequence[str]) -> str:
    """The id that a command line gives its session; empty if it leaves that to the agent."""
    found = _option(argv[unwrap(argv).at + 1 :], profile.session_options)
    return found if SESSION.match(found) else ""


def writes_events(profile: Profile, argv: Sequence[str]) -> bool:
    """Whether an agent that is started so writes events, and not text."""
    if not profile.kind or not profile.event_options:
        return bool(profile.kind)
    args = list(argv[unwrap(argv).at + 1 :])
    args = args[: args.index("--")] if "--" in args else args
    for option in profile.event_options:
        name, _, value = option.partition(" ")
        if (_option(args, (name,)) == value) if value else (name in args):
            return True
    return False


def _meant(profile: Profile, model: str, variables: Mapping[str, str]) -> str:
    alias = model.lower()
    said = variables.get(profile.alias_environment.get(alias, ""), "").strip()
    return said or profile.aliases.get(alias, model)


def _provider(
    profile: Profile, model: str, args: Sequence[str], variables: Mapping[str, str]
) -> str:
    """The provider that is named, switched to, or suggested by the model's name."""
    named = _option(args, profile.provider_options)
    if named:
        return named
    for test, provider in profile.provider_when.items():
        name, equals, wanted = test.partition("=")
        value = variables.get(name, "").strip().lower()
        if fnmatchcase(value, wanted) if equals else value not in _OFF:
            return provider
    for pattern, provider in profile.families.items():
        if fnmatchcase(model.lower(), pattern):
            return provider
    return profile.provider


def _option(args: Sequence[str], options: Sequence[str]) -> str:
    """The value of the last of these options; empty if there is none."""
    value = ""
    for place, arg in enumerate(args):
        if arg == "--":
            break
        for option in options:
            name, _, start = option.partition(" ")
            if arg == name:
                following = args[place + 1] if place + 1 < len(args) else ""
                found = "" if following.startswith("-") else following
            elif name.startswith("--") and arg.startswith(f"{name}="):
                found = arg[len(name) + 1 :]
            elif not name.startswith("--") and arg.startswith(name) and arg[1:2] != "-":
                found = arg[len(name) :].removeprefix("=")
            else:
                continue
            if found.startswith(start):
                value = found[len(start) :].strip().strip("\"'") or value
    return value
