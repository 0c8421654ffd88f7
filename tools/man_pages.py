"""Write man/headgate.1 and a page for each verb, from the same texts as --help and the reference.

Usage: `make reference`. A test fails while the pages say something else.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path

from headgate import __version__
from headgate.cli import GROUPS, OPTIONS, VERBS, parser_of
from headgate.cli.shared.examples import EXAMPLES
from headgate.cli.shared.exit_codes import EXIT_CODES
from headgate.core.environment import SETTINGS
from tools.reference import _actions, _all, _help, _names, _usage

FOLDER = Path(__file__).resolve().parent.parent / "man"
_ABOUT = (
    "headgate starts AI agents when there is room for them, on this machine and at their providers,"
    " and keeps the others in a line where each has a position and a reason."
)


def pages() -> dict[str, str]:
    """All pages, by the name of their file."""
    found = {"headgate.1": "\n".join(_main())}
    return found | {f"headgate-{verb}.1": "\n".join(_page(verb)) for verb in VERBS}


def _main() -> Iterator[str]:
    yield from _top("headgate", "admits as many AI agents as machines and accounts can take")
    yield from _section("SYNOPSIS", "headgate [--store URL] [--config FILE] VERB ...")
    yield from _section("DESCRIPTION", _ABOUT)
    for heading, verbs in GROUPS.items():
        yield f".SH {heading.upper()}"
        for verb, does in verbs.items():
            yield from _item(f"headgate-{verb}(1)", does)
    yield from _list("OPTIONS", OPTIONS)
    yield from _list("ENVIRONMENT", SETTINGS)
    yield from _list("EXIT STATUS", EXIT_CODES)
    yield ""


def _page(verb: str) -> Iterator[str]:
    parser = parser_of(verb)
    yield from _top(f"headgate-{verb}", VERBS[verb])
    yield from _section("SYNOPSIS", _usage(parser))
    yield from _section("DESCRIPTION", parser.description or "")
    yield from _options(parser, "OPTIONS")
    for action in _all(parser):
        if isinstance(action.choices, Mapping):
            for name, below in action.choices.items():
                if fill := getattr(below, "fill", None):
                    fill()  # what it takes is known only now
                yield from _section(name.upper(), _usage(below))
                yield ".PP"
                yield _plain(below.description or "")
                yield from _options(below)
    if parser.epilog:
        yield from _section("NOTES", parser.epilog)
    yield from _list("EXAMPLES", {one.command: one.does for one in EXAMPLES[verb]})
    yield from _section("SEE ALSO", "headgate(1)")
    yield ""


def _top(name: str, does: str) -> Iterator[str]:
    yield f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "" "headgate {__version__}" "headgate"'
    yield ".SH NAME"
    yield f"{_plain(name)} \\- {_plain(does)}"


def _section(heading: str, text: str) -> Iterator[str]:
    yield f".SH {heading}"
    for number, line in enumerate(text.strip().split("\n")):
        if number and heading == "SYNOPSIS":
            yield ".br"
        yield _plain(line.strip()) if line.strip() else ".PP"


def _options(parser: ArgumentParser, heading: str = "") -> Iterator[str]:
    listed = {_names(action): _help(action) for action in _actions(parser)}
    if listed and heading:
        yield f".SH {heading}"
    for names, does in listed.items():
        yield from _item(names, does)


def _list(heading: str, items: Mapping[str, str]) -> Iterator[str]:
    yield f".SH {heading}"
    for name, does in items.items():
        yield from _item(name, does)


def _item(name: str, does: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_plain(name)}"
    yield _plain(does.replace("`", ""))


def _plain(text: str) -> str:
    """A text in which roff takes nothing for its own."""
    words = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("`", "")
    return f"\\&{words}" if words[:1] in {".", "'"} else words


def main() -> None:
    """Write them, and remove those of verbs that there are no more."""
    FOLDER.mkdir(exist_ok=True)
    found = pages()
    for old in FOLDER.glob("*.1"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
