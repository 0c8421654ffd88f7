"""What is known about one kind of agent: data, from `config/profiles/*.toml` or a user's own table.

A **path** leads into a JSON event: `message.content`. An event's **kind** is what its `kind` paths
hold, joined by a slash: `system/init`, `item.started/command_execution`.
"""

from collections.abc import Mapping, Sequence

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.meters import WireWay
from headgate.core.named_tuple import NamedTuple


class Tool(NamedTuple):
    """How an event tells of a tool call."""

    on: str
    """The kind of event, with * for any text."""
    at: str = ""
    """The path to the call itself, with [] at its end if that is a list of several."""
    where: Mapping[str, str] = {}
    """What must be at which path of the call."""
    name: str = "name"
    input: str = "input"


class Profile(NamedTuple):
    """One kind of agent. The one without a name is for any command."""

    name: str
    programs: tuple[str, ...] = ()
    """Names of the program, and of the package it comes in."""
    speaks: str = ""
    """The profile whose rules for lines of output hold for it too."""

    # The model.
    provider: str = ""
    model_options: tuple[str, ...] = ()
    """As in `--model`, `-m`, or `-c model=`: an option whose value begins so."""
    model_environment: tuple[str, ...] = ()
    default: str = ""
    """The model if nothing names one."""
    aliases: Mapping[str, str] = {}
    alias_environment: Mapping[str, str] = {}
    """Variables that say what an alias stands for."""
    provider_options: tuple[str, ...] = ()
    provider_when: Mapping[str, str] = {}
    """Providers by `VARIABLE` (set, and not to 0 or false) or `VARIABLE=text with * for any`."""
    families: Mapping[str, str] = {}
    """Providers by what a model's name looks like."""
    providers: Mapping[str, str] = {}
    """Other names that the agent has for providers."""

    # The command line, and how to go on with a session.
    subcommands: tuple[str, ...] = ()
    """The words of which one must come first."""
    other_commands: tuple[str, ...] = ()
    """Words in that place that begin no session."""
    flags: tuple[str, ...] = ()
    valued: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Options whose value may be left out."""
    greedy: tuple[str, ...] = ()
    """Options that take all that follows, up to the next option."""
    prompt_options: tuple[str, ...] = ()
    """Options whose value is the prompt."""
    session_options: tuple[str, ...] = ()
    """Options whose value is the id that a new session gets."""
    given_since: str = ""
    """From which version on they take an id of ours, where its text tells none; empty for never."""
    resume: tuple[str, ...] = ()
    """The arguments that go on with `{session}`."""
    no_session: tuple[str, ...] = ()
    """Patterns for lines of text with which it ends because that session is not there."""
    drops: tuple[str, ...] = ()
    """Options that do not go together with them."""
    unresumable: tuple[str, ...] = ()
    """Options with which no session is kept."""
    continue_with: str = ""
    """The prompt with which it goes on."""

    # The output.
    session: tuple[str, ...] = ()
    """Paths to the id of the session."""
    session_line: str = ""
    """A pattern for a line of text; its first group is the id."""
    kind: tuple[str, ...] = ()
    event_options: tuple[str, ...] = ()
    """The options, with their values, that make it write events. In a run without them what looks
    like an event is content. If none are listed, what looks like an event always is one."""
    errors: tuple[str, ...] = ()
    """Kinds of events by which it tells of its own errors; any event may if none are listed."""
    error_text: str = "nowhere"
    """Where text is its own word on errors, and no content: see `ERROR_TEXT`."""
    progress: tuple[str, ...] = ()
    """Kinds of events that mean that work goes on."""
    messages: tuple[str, ...] = ()
    """Kinds of events that are a message of its own, or a part of one; if none are listed, those
    of `progress`."""
    finished: tuple[str, ...] = ()
    """Kinds of events, the last of a run, that mean that its work is done."""
    unless: tuple[str, ...] = ()
    """Paths (`is_error`, or `role=user`) that tell that an event is neither of these after all."""
    tools: tuple[Tool, ...] = ()
    polls: tuple[str, ...] = ()
    """Tools that ask again and again by design."""
    retries: tuple[str, ...] = ()
    """Patterns for lines of text that mean no progress."""
    asks: str = ""
    """A pattern for the line of text with which it begins a request; its first group is in the line
    of that request's refusal too. Only for an agent that waits as long as upstream tells it to."""
    silent: bool = False
    """Its text output shows nothing while it works."""
    exit_lies: bool = False
    """It may exit with 0 after a refusal."""
    builtin: bool = False
    """Whether all its patterns are headgate's own, and so harmless on any text."""

    # The wire.
    meter: str = ""
    """The meter that counts for it unless somebody says otherwise; empty if nothing is said."""
    wire: tuple[WireWay, ...] = ()
    """The ways to see its requests, best first."""
    reads: str = ""
    """Whose settings tell where it sends its requests; see `wire/agent_settings`."""


READ_SETTINGS = ("codex", "gemini", "opencode")
"""Agents whose settings are understood."""
ERROR_TEXT = ("nowhere", "beside-events", "stderr")
"""Where an agent's text may be its own word on errors; `stderr` is there and beside its events."""


class OutputLine(NamedTuple):
    """What one line of output tells."""

    progress: bool = False
    tool: str = ""
    """What identifies a tool call: its name, and a digest of its input. Several, with spaces."""
    session: str = ""
    error: bool = False
    """Whether it is an event by which the agent tells of its own errors."""
    finished: bool = False
    """Whether it tells that the agent's work is done."""
    message: bool = False
    """Whether it is a message of the agent's own, or a part of one."""
    asks: str = ""
    """Which request it begins, if it does: text that is in the line of its refusal too."""


GENERIC = Profile("")
"""Any command."""


def find(argv: Sequence[str], profiles: Sequence[Profile]) -> Profile:
    """The profile of the program that a command line starts; the generic one if none fits."""
    for name in unwrap(argv).names:
        for profile in profiles:
            if name in profile.programs:
                return profile
    return GENERIC
