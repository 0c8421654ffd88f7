"""Agents that are known by their profiles: which command line is one, and what it uses."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from headgate.config import Config
from headgate.config.profiles import profile_of
from headgate.core.agents import find_profile
from headgate.core.agents.command_wrappers import unwrap
from headgate.core.agents.resume_command import free_words
from headgate.core.key_patterns import NO_KEY

_KEPT = 4_096
KeyOf = Callable[[Sequence[str], Callable[[], Mapping[str, str]]], str | None]
"""What tells the key of a command line: empty if nobody knows its model, None if it is no agent."""


def key_of_agents(config: Config) -> KeyOf:
    """A way to tell it, by the profiles that a configuration knows.

    The variables of a process are asked for only if it is an agent.
    """

    @lru_cache(maxsize=_KEPT)  # nearly all are no agents, and the same each second
    def is_agent(argv: tuple[str, ...]) -> bool:
        profile = profile_of(config, argv)
        words = free_words(profile, argv[unwrap(argv).at + 1 :])
        return bool(profile.name) and not (words and words[0] in profile.other_commands)

    def key_of(argv: Sequence[str], environment: Callable[[], Mapping[str, str]]) -> str | None:
        words = _told_apart(argv)
        if not is_agent(words):
            return None
        return find_profile.key(profile_of(config, words), words, environment()) or NO_KEY

    return key_of


def _told_apart(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line; a program that has renamed itself has all of them in one."""
    first, *rest = argv
    if " " in first and not os.path.exists(first):  # noqa: PTH110 - any text
        return (*first.split(), *rest)
    return tuple(argv)
