"""The command line that goes on with an agent's session.

Which argument is the prompt can be told only where every option is known: after an unknown one, the
next word may be its value. Then the prompt stays as it is.
"""

import re
from collections.abc import Sequence

from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.profile import Profile
from headgate.core.named_tuple import NamedTuple

SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
"""What may be the id of a session. It becomes an argument, so it must never look like an option."""


class _Parsed(NamedTuple):
    """The arguments of an agent, told apart."""

    options: list[str]
    """All but the free words, in their order; the subcommand too."""
    words: list[str]
    certain: bool
    kept: bool
    """Whether a session is kept at all."""


def resume(profile: Profile, argv: Sequence[str], session: str) -> list[str] | None:
    """The command line that goes on with a session; None where that is impossible."""
    if not profile.resume or not _fits(profile, session):
        return None
    start = unwrap(argv)
    if start.at >= len(argv):
        return None
    head, args = list(argv[: start.at + 1]), list(argv[start.at + 1 :])
    if profile.subcommands and not set(profile.subcommands) & set(args):
        return None
    more = [word.replace("{session}", session) for word in profile.resume]
    parsed = _parse(profile, args)
    if not parsed.kept:
        return None
    words = parsed.words
    if words and words[0] == more[0]:  # it goes on with a session already
        words = words[len(more) :]
    if words and words[0] in profile.other_commands:
        return None
    if not parsed.certain:
        kept = _without(profile, args)
        place = next((n + 1 for n, arg in enumerate(kept) if arg in profile.subcommands), 0)
        return [*head, *kept[:place], *more, *kept[place:]]
    return [*head, *parsed.options, *more, *_prompt(profile, parsed.options, words)]


def free_words(profile: Profile, args: Sequence[str]) -> list[str]:
    """The words of a command line that belong to no option, as far as that can be told."""
    return _parse(profile, args).words


def _prompt(profile: Profile, options: Sequence[str], words: list[str]) -> list[str]:
    """The words of the new prompt. One that came through a pipe must be replaced too."""
    if not profile.continue_with:
        return words
    if any(arg.partition("=")[0] in profile.prompt_options for arg in options):
        return []
    if not words and profile.prompt_options:
        return [profile.prompt_options[0], profile.continue_with]
    return [profile.continue_with]


def _fits(profile: Profile, session: str) -> bool:
    if not any("{session}" in word for word in profile.resume):
        return True
    return bool(SESSION.match(session))


def _parse(profile: Profile, args: Sequence[str]) -> _Parsed:
    options: list[str] = []
    words: list[str] = []
    certain = True
    waiting = list(profile.subcommands)
    place = 0
    while place < len(args):
        arg = args[place]
        place += 1
        if arg == "--":
            words += args[place:]
            break
        if not arg.startswith("-") or arg == "-":
            if waiting and arg in waiting:
                waiting = []
                options.append(arg)
            else:
                words.append(arg)
            continue
        name, equals, _ = arg.partition("=")
        following = _values(profile, name, args, place) if not equals else 0
        if following is None:
            certain = False
            following = 0
        taken = [arg, *args[place : place + following]]
        place += following
        if name not in profile.drops:
            options += _renewed(profile, taken)
    kept = not any(arg.partition("=")[0] in profile.unresumable for arg in options)
    return _Parsed(options, words, certain, kept)


def _values(profile: Profile, name: str, args: Sequence[str], place: int) -> int | None:
    """How many arguments after an option belong to it; None if that cannot be told."""
    free = 0
    while place + free < len(args) and not args[place + free].startswith("-"):
        free += 1
    if name in profile.flags:
        return 0
    if name in profile.valued or name in profile.prompt_options:
        return min(1, len(args) - place)
    if name in profile.optional:
        return min(1, free)
    if name in profile.greedy:
        return free
    return None if free else 0


def _renewed(profile: Profile, taken: list[str]) -> list[str]:
    """An option and its value, with the new prompt if the value was the old one."""
    name, equals, _ = taken[0].partition("=")
    if name not in profile.prompt_options or not profile.continue_with:
        return taken
    if equals:
        return [f"{name}={profile.continue_with}"]
    return [name, profile.continue_with]


def _without(profile: Profile, args: Sequence[str]) -> list[str]:
    """The arguments without the options that must go; the new prompt where an option has it."""
    kept: list[str] = []
    place = 0
    while place < len(args):
        arg = args[place]
        if arg == "--":
            return [*kept, *args[place:]]
        place += 1
        name, equals, _ = arg.partition("=")
        if name in profile.drops or name in profile.prompt_options:
            following = 0 if equals else _values(profile, name, args, place) or 0
            if name not in profile.drops:
                kept += _renewed(profile, [arg, *args[place : place + following]])
            place += following
        else:
            kept.append(arg)
    return kept
