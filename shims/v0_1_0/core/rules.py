"""For processes of version 0.1.0 that live on after an upgrade: they load this name late.

It goes with the next version; see "Upgrading" in docs/design.md.
"""

from headgate.core.answers.answer_rules import Rule, read_rule
from headgate.errors import ConfigError

__all__ = ["Rule", "parse_rules"]


def parse_rules(entries: list[dict[str, object]], where: str) -> tuple[Rule, ...]:
    """The rules of these tables; version 0.1.0 asks for one at a time."""
    wrong: list[tuple[str, str]] = []
    rules = tuple(read_rule(entry, "", lambda *said: wrong.append(said)) for entry in entries)
    if wrong:
        lines = (f"{where}: entry 1: {name}{': ' if name else ''}{said}" for name, said in wrong)
        raise ConfigError("\n".join(lines))
    return rules
