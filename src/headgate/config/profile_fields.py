"""The fields of an agent's profile, as `[profiles.NAME]` has them; see docs/profiles.md."""

import re
from collections.abc import Callable

from headgate.config.error_text import shown
from headgate.core.agents.meters import METERS, WAYS
from headgate.core.agents.profile import ERROR_TEXT, READ_SETTINGS
from headgate.core.table_fields import (
    FLAG,
    Field,
    FieldRefused,
    Fields,
    choice,
    flag,
    listed,
    pattern,
    spelled,
)
from headgate.core.user_patterns import user_pattern
from headgate.errors import UsageError

BUILTIN = ("aider", "claude", "codex", "gemini", "opencode", "sdk")
TOOLS = '{ on = "tool_use" }'
WIRE = '{ environment = { ROBO_URL = "{url}/up" }, upstreams = { up = "{ROBO_URL}" } }'
MOST = 500
"""How many entries a list or a table may have."""
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_PROVIDER = r"[a-z0-9][a-z0-9._@+-]{0,63}"


def _several(read: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    def several(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > MOST:
            raise UsageError("not a list")
        for entry in value:
            try:
                read(entry)
            except FieldRefused:
                raise
            except re.error as error:
                raise FieldRefused(f"found {shown(entry)} ({error}) in it") from None
            except UsageError:
                raise FieldRefused(f"found {shown(entry)} in it") from None
        return tuple(map(read, value))

    return several


def _table(keys: str, values: str) -> Callable[[object], dict[str, str]]:
    name, text = spelled(keys, 200), spelled(values, 2_000)

    def table(value: object) -> dict[str, str]:
        if not isinstance(value, dict) or len(value) > MOST:
            raise UsageError("not a table")
        found = {}
        for key, entry in value.items():
            try:
                found[name(key)] = text(entry)
            except UsageError:
                raise FieldRefused(f"found {shown(key)} = {shown(entry)} in it") from None
        return found

    return table


def _grouped_pattern(value: object) -> str:
    if user_pattern(pattern(value)).groups < 1:
        raise FieldRefused(f"found {shown(value)}, which has no group")
    return str(value)


_text = spelled(".*", 200)
_words = _several(spelled(".+", 200))
_TEXT = "a line of at most 200 characters"
_WORDS = f"a list of at most {MOST} texts, each a line of at most 200 characters"
_TABLE = "a table of texts"
_PATTERNS = f"a list of at most {MOST} regular expressions of at most 1000 characters"
_OPTIONS = 'a list of options, as in ["--model", "-m"]'
_VARIABLES = 'a list of environment variables, as in ["ANTHROPIC_MODEL"]'
_PROVIDERS = "a table of providers, which are lower-case letters, digits and . _ @ + -"
_options = _several(spelled(r"-.*", 200))
TOOL: Fields = {
    "on": Field(
        _text,
        "the kind of event that is a tool call",
        text="The kind of event, with * for any text.",
        required=True,
    ),
    "at": Field(
        _text,
        _TEXT,
        text="The path to the call itself, with [] at its end if that is a list of several.",
    ),
    "where": Field(_table(".+", ".+"), _TABLE, text="What must be at which path of the call."),
    "name": Field(_text, _TEXT, '"name"', "The path to the tool's name."),
    "input": Field(_text, _TEXT, '"input"', "The path to what the tool is given."),
}
FIELDS: Fields = {
    "like": Field(
        choice(*BUILTIN),
        listed(BUILTIN),
        text="The built-in profile it takes its fields and its rules for lines from.",
    ),
    "programs": Field(
        _words,
        _WORDS,
        "the profile's own name",
        "Names of the program, and of the package it comes in.",
    ),
    "provider": Field(
        spelled(f"(?:{_PROVIDER})?", 64),
        'a provider, as in "anthropic"',
        text="The provider of its models; empty if they are named provider/model.",
    ),
    "model_options": Field(
        _options,
        _OPTIONS,
        text='Options that name the model, or begin its value as in "-c model="; the last counts.',
    ),
    "model_environment": Field(
        _several(spelled(_VARIABLE, 128)),
        _VARIABLES,
        text="Environment variables that name the model, if no option does.",
    ),
    "default": Field(
        _text,
        "the name of a model",
        text="The model if nothing names one; without it such a command sits in host only.",
    ),
    "aliases": Field(
        _table(".+", ".+"),
        'a table of models, as in { opus = "claude-opus-4-6" }',
        text="What short names of models stand for.",
    ),
    "alias_environment": Field(
        _table(".+", _VARIABLE),
        "a table of environment variables",
        text="Environment variables that say what a short name stands for.",
    ),
    "provider_options": Field(_options, _OPTIONS, text="Options that name another provider."),
    "provider_when": Field(
        _table(f"{_VARIABLE}(?:=.+)?", _PROVIDER),
        _PROVIDERS,
        text='Providers by a variable that is set ("VAR"), or whose text fits ("VAR=*text*").',
    ),
    "families": Field(
        _table(".+", _PROVIDER), _PROVIDERS, text="Providers by what a model's name looks like."
    ),
    "providers": Field(
        _table(".+", _PROVIDER), _PROVIDERS, text="The agent's own names for providers."
    ),
    "subcommands": Field(_words, _WORDS, text="Words of which one must come first."),
    "other_commands": Field(_words, _WORDS, text="Words in that place that begin no session."),
    "flags": Field(_options, _OPTIONS, text="Options without a value."),
    "valued": Field(_options, _OPTIONS, text="Options with a value."),
    "optional": Field(_options, _OPTIONS, text="Options whose value may be left out."),
    "greedy": Field(
        _options, _OPTIONS, text="Options that take all that follows, up to the next option."
    ),
    "prompt_options": Field(
        _options,
        _OPTIONS,
        text="Options whose value is the prompt; else it is what belongs to no option.",
    ),
    "session_options": Field(
        _options, _OPTIONS, text="Options that give a new session its id, by which it is resumed."
    ),
    "given_since": Field(
        spelled(r"(\d{1,9}\.\d{1,9}(\.\d{1,9})?)?", 30),
        'a version, as in "2.0.0", or ""',
        text="From which version on a run that writes text gets an id of ours for its session, "
        "with the first of session_options, so that it can be resumed. Without this it gets none.",
    ),
    "no_session": Field(
        _several(pattern),
        _PATTERNS,
        text="Patterns for lines with which it ends because the session that it was to go on with "
        "is not there. Then it is started anew at once.",
    ),
    "resume": Field(
        _words,
        'a list of arguments, as in ["--resume", "{session}"]',
        text="The arguments that go on with {session}; without them a parked agent starts anew.",
    ),
    "drops": Field(_options, _OPTIONS, text="Options that are dropped when a session is resumed."),
    "unresumable": Field(_options, _OPTIONS, text="Options with which nothing can be resumed."),
    "continue_with": Field(_text, _TEXT, text="The prompt that a resumed session goes on with."),
    "session": Field(
        _words,
        'a list of paths into an event, as in ["session_id"]',
        text="Paths to the session's id.",
    ),
    "session_line": Field(
        _grouped_pattern,
        "a regular expression whose first group is the id",
        text="A pattern for a line of text that tells the session's id.",
    ),
    "kind": Field(
        _words,
        'a list of paths into an event, as in ["type"]',
        text="The paths that make an event's kind; without them all output is text.",
    ),
    "event_options": Field(
        _options,
        'a list of options, as in ["--json", "--output-format stream-json"]',
        text="Options, with their value, that make it write events; if none are listed, what looks "
        "like an event always is one.",
    ),
    "errors": Field(
        _words,
        'a list of kinds of events, as in ["error", "result/*"]',
        text="Kinds of events by which it tells of its own errors; any event may if left out.",
    ),
    "error_text": Field(
        choice(*ERROR_TEXT),
        listed(ERROR_TEXT),
        '"nowhere"',
        "Where text is its own word on errors, and no content: beside its events, or also on "
        "stderr while it writes text.",
    ),
    "progress": Field(
        _words,
        'a list of kinds of events, as in ["assistant", "tool_*"]',
        text="Kinds of events that mean that work goes on.",
    ),
    "messages": Field(
        _words,
        'a list of kinds of events, as in ["assistant"]',
        text="Kinds of events that are a message of its own, for message_stale_after; those of "
        "progress if left out.",
    ),
    "finished": Field(
        _words,
        'a list of kinds of events, as in ["result/success"]',
        text="Kinds of events, the last of a run, that mean that its work is done.",
    ),
    "unless": Field(
        _words,
        'a list of paths into an event, as in ["is_error", "role=user"]',
        text="Paths that tell that such an event means no progress, and no end, after all.",
    ),
    "tools": Field(
        None,
        f"a list of tables, as in [{TOOLS}]",
        text="How events tell of tool calls.",
    ),
    "polls": Field(
        _words, _WORDS, text="Tools that ask again and again by design, and so make no loop."
    ),
    "retries": Field(
        _several(pattern),
        _PATTERNS,
        text="Patterns, from the start of a line, for text that is no progress.",
    ),
    "asks": Field(
        _grouped_pattern,
        "a regular expression whose first group is text that a refusal of the request has too",
        text="A pattern for the line of text with which it begins a request. Only for an agent "
        "that waits between requests as upstream told it: its pool rests as long as it does.",
    ),
    "silent": Field(flag, FLAG, "false", "Whether its text output shows nothing of its work."),
    "exit_lies": Field(flag, FLAG, "false", "Whether it may exit with 0 after a refusal."),
    "meter": Field(
        choice(*METERS),
        listed(METERS),
        text="How it is counted and watched, unless somebody says otherwise; see docs/wire.md.",
    ),
    "wire": Field(
        None, f"a list of tables, as in [{WIRE}]", text="The ways to see its requests, best first."
    ),
    "reads": Field(
        choice(*READ_SETTINGS),
        listed(READ_SETTINGS),
        text="Whose settings tell where it sends its requests.",
    ),
    "base_url": Field(
        _table(_VARIABLE, r".*\{url\}.*"),
        'a table of environment variables, as in { ANTHROPIC_BASE_URL = "{url}" }',
        text="Environment variables that point it at {url}, in short for a way in `wire`.",
    ),
}
WIRE_WAY: Fields = {
    "way": Field(
        choice(*WAYS),
        listed(WAYS),
        '"base-url"',
        "Whether it is pointed at another address, or its connections are opened on their way.",
    ),
    "when": Field(
        _words,
        'a list of what must be known, as in ["ANTHROPIC_BASE_URL", "login=api-key"]',
        text="What must be known: that a variable is set, or how it logs in.",
    ),
    "unless": Field(_words, _WORDS, text="What must not be known."),
    "transparent": Field(flag, FLAG, "false", "Whether it sends the same as it would without."),
    "environment": Field(
        _table(_VARIABLE, r".*"),
        'a table of environment variables, as in { ANTHROPIC_BASE_URL = "{url}/anthropic" }',
        text="Environment variables that point it at {url}; for a tap, those that name a file with "
        "certificate authorities, {added_authorities} beside others or {all_authorities}.",
    ),
    "arguments": Field(_words, _WORDS, text="Arguments that follow the name of its program."),
    "files": Field(
        _table(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", r".*"),
        'a table of files and what is in them, as in { "settings.json" = "{}" }',
        text="Files in a private folder, {files}.",
    ),
    "upstreams": Field(
        _table(r"[a-z0-9][a-z0-9._-]{0,63}", r"https?://.+|\{[A-Za-z_]\w*\}"),
        'a table of URLs, as in { anthropic = "https://api.anthropic.com" }',
        text="Where requests go, by the first part of the path that it is pointed at.",
    ),
    "hosts": Field(
        _several(spelled(r"[a-z0-9][a-z0-9.-]{0,252}", 253)),
        'a list of hosts, as in ["api.anthropic.com"]',
        text="The hosts whose connections a tap opens.",
    ),
}
BUILTIN_FIELDS: Fields = {
    **FIELDS,
    "session_line": Field(spelled(".+", 1_000), _TEXT),
    "retries": Field(_several(spelled(".+", 1_000)), _PATTERNS),
    "asks": Field(spelled(".+", 1_000), _TEXT),
}
"""The same for the profiles in this package, whose patterns need no check when a program starts."""
