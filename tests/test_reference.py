"""The reference says what the code says."""

import os
import shutil
import subprocess

import pytest

from headgate.cli import VERBS, parser_of
from headgate.cli.shared.examples import EXAMPLES
from tools.man_pages import FOLDER, pages
from tools.reference import TARGET, page


def test_the_reference_is_as_the_code_has_it() -> None:
    """The page is what would be written now; else: make reference."""
    written = TARGET.read_text()
    assert written == page(), "docs/reference.md differs from the code; run: make reference"


def test_the_man_pages_are_as_the_code_has_them() -> None:
    """Each page is what would be written now; else: make reference."""
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.1")}
    assert written == pages(), "man/ differs from the code; run: make reference"


def test_every_verb_has_an_example() -> None:
    """One or two, for its help, its man page and the reference; and none has lost its verb."""
    assert set(EXAMPLES) == set(VERBS)
    assert all(one.command.find("headgate ") >= 0 for some in EXAMPLES.values() for one in some)


@pytest.mark.skipif(shutil.which("man") is None, reason="MAN PAGES NOT SHOWN: there is no man")
def test_man_shows_every_page() -> None:
    """The real man formats each page and finds nothing to complain about."""
    for path in sorted(FOLDER.glob("*.1")):
        done = subprocess.run(
            ["man", "--warnings", "-l", str(path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
        )
        assert "NAME" in done.stdout
        assert not done.stderr


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
