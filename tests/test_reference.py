"""The reference says what the code says."""

from headgate.cli import VERBS, parser_of
from tools.reference import TARGET, page


def test_the_reference_is_as_the_code_has_it() -> None:
    """The page is what would be written now; else: make reference."""
    written = TARGET.read_text()
    assert written == page(), "docs/reference.md differs from the code; run: make reference"


def test_every_option_is_explained() -> None:
    """Nothing that a verb or one of its actions takes is without help."""
    parsers = [parser_of(verb) for verb in VERBS]
    while parsers:
        parser = parsers.pop()
        if fill := getattr(parser, "fill", None):
            fill()
        for action in parser._actions:
            if isinstance(action.choices, dict):
                parsers += action.choices.values()
            else:
                assert action.help, f"{parser.prog}: {action.option_strings or action.metavar}"
