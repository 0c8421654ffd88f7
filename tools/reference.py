"""Write docs/reference.md: verbs, settings, events, codes and variables, as the code has them.

Usage: `make reference`. A test fails while the page says something else.
"""

from argparse import Action, ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from headgate.cli import GROUPS, OPTIONS, VERBS, parser_of
from headgate.cli.shared.examples import EXAMPLES
from headgate.cli.shared.exit_codes import EXIT_CODES
from headgate.config.key_descriptions import all_fields
from headgate.core.environment import VARIABLES
from headgate.core.events import EVENTS, ONLY_TOLD
from headgate.core.notification_targets import USUAL
from headgate.core.reasons import REASONS

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
_LONG = 100
_TOP = """\
# Reference

<!-- Written by `make reference` from the code. Change the texts there, not here. -->

[Verbs](#verbs) · [Configuration](#configuration) · [Events](#events) ·
[Reason codes](#reason-codes) · [Exit codes](#exit-codes) ·
[Environment variables](#environment-variables)"""
_CONFIGURATION = """\
## Configuration

The file is `~/.config/headgate/config.toml`, unless `--config` or `HEADGATE_CONFIG` names another.
`headgate init` writes one to start from, and `headgate config check` checks it. `NAME` stands for
the name of a pool or a profile."""
_EVENTS = f"""\
## Events

What `headgate events` shows, and what [notifications](notifications.md) tell of. A target that does
not say which it wants is told of {", ".join(f"`{kind}`" for kind in USUAL)}."""
_REASONS = """\
## Reason codes

The `code` beside each `reason`: why something waits, or how it ended. They do not change from
version to version. Of work that is no job, and has ended, the code is its last [event](#events)."""
_EXIT_CODES = """\
## Exit codes

`headgate run` ends with the exit code of its program. All others:"""
_VARIABLES = """\
## Environment variables

The configuration may name more of them: `key_env`, `url_env`, `apprise_env`, `secret_env`, and
those in [profiles](profiles.md)."""


def main() -> None:
    """Write it."""
    TARGET.write_text(page())


def page() -> str:
    """The whole page."""
    parts = [_TOP, *_verbs(), *_configuration(), *_events(), *_reasons(), *_exit_codes()]
    return "\n\n".join([*parts, *_variables()]) + "\n"


def _verbs() -> Iterator[str]:
    yield "## Verbs"
    yield "Before the verb, as in `headgate --store URL VERB`:"
    yield _table(("option", "what it does"), OPTIONS.items())
    for heading, verbs in GROUPS.items():
        listed = ", ".join(f"[{verb}](#headgate-{verb})" for verb in verbs)
        yield f"{heading}: {listed}."
    for verb in VERBS:
        yield from _verb(parser_of(verb), "###")


def _verb(parser: ArgumentParser, level: str) -> Iterator[str]:
    """What a verb does and takes; then the same of each of its actions."""
    if fill := getattr(parser, "fill", None):
        fill()  # what it takes is known only now
    yield f"{level} {parser.prog}"
    yield _sentence(parser.description or "")
    yield f"```\n{_usage(parser)}\n```"
    options = {_names(action): _plain(_help(action)) for action in _actions(parser)}
    if options:
        yield _table(("option", "what it does"), options.items())
    if parser.epilog:
        yield _sentence(parser.epilog)
    if shown := EXAMPLES.get(parser.prog.removeprefix("headgate ")):
        lines = [f"{one.command}  # {one.does}" for one in shown]
        yield "\n".join(["```sh", *lines, "```"])
    for action in _all(parser):
        if isinstance(action.choices, Mapping):
            for below in action.choices.values():
                yield from _verb(below, f"{level}#")


def _all(parser: ArgumentParser) -> list[Action]:
    return parser._actions  # noqa: SLF001 - argparse has no other way to list them


def _actions(parser: ArgumentParser) -> list[Action]:
    """What it takes, without what every verb takes, and without the list of its actions."""
    return [
        action
        for action in _all(parser)
        if "--help" not in action.option_strings and not isinstance(action.choices, Mapping)
    ]


def _usage(parser: ArgumentParser) -> str:
    """How it is called. We put it together: what argparse makes of it differs between Pythons."""
    if parser.usage:
        return "\n".join(line.strip().removeprefix("usage: ") for line in parser.usage.split("\n"))
    actions = _actions(parser)
    words = [
        f"[{action.option_strings[0]}{_takes(action)}]"
        for action in actions
        if action.option_strings
    ]
    if len(" ".join(words)) > _LONG:
        words = ["[options]"]
    words += [_repeated(action) for action in actions if not action.option_strings]
    words += ["ACTION ..." for action in _all(parser) if isinstance(action.choices, Mapping)]
    return " ".join([parser.prog, *words])


def _repeated(action: Action) -> str:
    name = str(action.metavar)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(
        str(action.nargs), name
    )


def _names(action: Action) -> str:
    names = action.option_strings or [str(action.metavar)]
    return ", ".join(f"{name}{_takes(action)}" for name in names)


def _takes(action: Action) -> str:
    """What follows an option: nothing, or a word that stands for its value."""
    if not action.option_strings or action.nargs == 0:
        return ""
    choices = "/".join(action.choices or ())
    word = str(action.metavar or choices or action.dest.upper())
    return f" [{word}]" if action.nargs == "?" else f" {word}"


def _help(action: Action) -> str:
    return (action.help or "") % vars(action)


def _configuration() -> Iterator[str]:
    yield _CONFIGURATION
    for table, keys in groupby(all_fields(), attrgetter("table")):
        yield f"### `{table}`" if table else "### The file"
        rows = ((key.name, *map(_plain, (key.type, key.default, key.text))) for key in keys)
        yield _table(("key", "what it may be", "without it", "what it does"), rows)


def _events() -> list[str]:
    tables = {**EVENTS, "Told, but not kept": ONLY_TOLD}
    return [_EVENTS, *_tables(("event", "what happened"), tables)]


def _reasons() -> list[str]:
    return [_REASONS, *_tables(("code", "why"), REASONS)]


def _exit_codes() -> list[str]:
    return [_EXIT_CODES, _table(("exit code", "what it means"), EXIT_CODES.items())]


def _variables() -> list[str]:
    return [_VARIABLES, *_tables(("variable", "what it is for"), VARIABLES)]


def _tables(heads: Sequence[str], tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for heading, rows in tables.items():
        yield f"### {heading}"
        yield _table(heads, rows.items())


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    named = ((f"`{name}`", *texts) for name, *texts in rows)
    lines = (heads, ["---"] * len(heads), *named)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sentence(text: str) -> str:
    """Some words for a terminal as a sentence on one line."""
    words = _plain(" ".join(text.split()))
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."


def _plain(text: str) -> str:
    """A text for a terminal, so that Markdown takes nothing in it for its own."""
    for sign in "*<|":
        text = text.replace(sign, f"\\{sign}")
    return text


if __name__ == "__main__":
    main()
