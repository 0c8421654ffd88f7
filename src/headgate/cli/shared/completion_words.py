"""What can stand at a place of a command line: verbs, options, jobs, pools, keys.

The scripts for the shells ask for it. Where only the shell itself knows, the answer is one word
that begins with a colon: `:file`, `:dir`, or `:command N`, where word N is the program to run.
"""

from argparse import REMAINDER, Action, ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from headgate.core.named_tuple import NamedTuple

FILE, DIR, COMMAND = ":file", ":dir", ":command"


class Candidate(NamedTuple):
    """A word, and what it means."""

    word: str
    means: str = ""


Values = Callable[[str, str], Iterable[Candidate]]
"""What there is of a kind (ID, POOL or KEY) for a verb."""

_GLOBAL = ("--store", "--config")
_PLACES = {"FILE": FILE, "DIR": DIR}
_KINDS = {"ID": "ID", "POOL": "POOL", "KEY": "KEY", "PATTERN": "KEY"}


def complete(
    words: Sequence[str],
    verbs: Mapping[str, str],
    options: Mapping[str, str],
    parser_of: Callable[[str], ArgumentParser],
    values: Values,
) -> list[Candidate]:
    """The candidates for the last of some words, which may be empty."""
    *before, current = words or [""]
    at = 0
    while at < len(before) and before[at].startswith("-"):
        at += 2 if before[at] in _GLOBAL else 1
    if at > len(before):
        return [Candidate(FILE)] if before[-1] == "--config" else []
    if at == len(before):
        named = {name.split(" ")[0]: does for name, does in options.items()}
        return _fitting(current, {**named, **verbs} if current.startswith("-") else verbs)
    verb = before[at]
    if verb == "help" and len(before) == at + 1:
        return _fitting(current, verbs)
    if verb not in verbs:
        return []
    return _Line(verb, at + 1, values).complete(parser_of(verb), before[at + 1 :], current)


def _fitting(current: str, words: Mapping[str, str]) -> list[Candidate]:
    start = unquoted(current)
    return [Candidate(word, means) for word, means in words.items() if word.startswith(start)]


def unquoted(text: str) -> str:
    """A word as the shell takes it, though it may not be finished yet."""
    bare = text[1:] if text[:1] in {"'", '"'} else text
    return bare.replace("\\", "").rstrip("'\"") if bare != text or "\\" in text else text


class _Line:
    """The words after a verb."""

    def __init__(self, verb: str, first: int, values: Values) -> None:
        self._verb = verb
        self._at = first
        self._values = values

    def complete(
        self, parser: ArgumentParser, before: Sequence[str], current: str
    ) -> list[Candidate]:
        if fill := getattr(parser, "fill", None):
            fill()  # what it takes is known only now
        known = {name: action for action in _all(parser) for name in action.option_strings}
        open_option, positionals = None, 0
        for number, word in enumerate(before):
            if open_option is not None:
                open_option = None
            elif word == "--" or (not word.startswith("-") and _runs_a_command(parser)):
                first = self._at + number + (word == "--")
                return [Candidate(f"{COMMAND} {first}")] if _runs_a_command(parser) else []
            elif word.startswith("-"):
                action = known.get(word)
                open_option = action if action is not None and _takes_value(action) else None
            elif below := _below(parser).get(word):
                inner = _Line(self._verb, self._at + number + 1, self._values)
                return inner.complete(below, before[number + 1 :], current)
            else:
                positionals += 1
        if open_option is not None:
            return list(self._value(open_option, current))
        if current.startswith("-"):
            return list(_options(parser, current))
        return list(self._positional(parser, positionals, len(before), current))

    def _positional(
        self, parser: ArgumentParser, given: int, count: int, current: str
    ) -> Iterator[Candidate]:
        if below := _below(parser):
            yield from _fitting(
                current, {name: one.description or "" for name, one in below.items()}
            )
            return
        if _runs_a_command(parser):
            yield Candidate(f"{COMMAND} {self._at + count}")
            return
        wanted = [action for action in _all(parser) if not action.option_strings]
        many = [action for action in wanted if action.nargs in {"*", "+"}]
        action = wanted[given] if given < len(wanted) else many[-1] if many else None
        if action is not None:
            yield from self._value(action, current)

    def _value(self, action: Action, current: str) -> Iterator[Candidate]:
        if action.choices:
            yield from _fitting(current, dict.fromkeys(map(str, action.choices), ""))
            return
        name = str(action.metavar or action.dest).upper()
        if name in _PLACES:
            yield Candidate(_PLACES[name])
        elif action.dest == "task":
            return
        elif name in _KINDS:
            start = unquoted(current)
            for found in self._values(_KINDS[name], self._verb):
                if found.word.startswith(start):
                    yield found


def _all(parser: ArgumentParser) -> list[Action]:
    return parser._actions  # noqa: SLF001 - argparse has no other way to list them


def _below(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """The parsers of a verb's actions."""
    found = (action.choices for action in _all(parser))
    return next((dict(choices) for choices in found if isinstance(choices, dict)), {})


def _runs_a_command(parser: ArgumentParser) -> bool:
    return any(action.nargs == REMAINDER and action.metavar == "CMD" for action in _all(parser))


def _takes_value(action: Action) -> bool:
    return action.nargs != 0


def _options(parser: ArgumentParser, current: str) -> Iterator[Candidate]:
    for action in _all(parser):
        for name in action.option_strings:
            if name.startswith(current) and (name.startswith("--") or current == name):
                yield Candidate(name, ((action.help or "") % vars(action)).split("; ")[0])
