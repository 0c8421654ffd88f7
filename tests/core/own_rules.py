"""Rules for answers as a configuration file has them."""

from headgate.config.check import read_rules
from headgate.config.problems import Notes
from headgate.core.answers.answer_rules import Rule
from headgate.errors import ConfigError


def own_rules(value: object) -> tuple[Rule, ...]:
    """The rules that `classify = …` in a file gives; a ConfigError with all that is wrong."""
    notes = Notes("", "here")
    rules = read_rules(notes, {"classify": value})
    if notes.errors:
        raise ConfigError("\n".join(notes.lines(notes.errors)))
    return rules
