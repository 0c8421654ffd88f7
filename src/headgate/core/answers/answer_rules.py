r"""What a rule for judging an answer or a line can say, and how the configuration says it.

A rule is for answers, or, if it has a `line`, for lines of an agent's output. All the conditions
that it names must hold. In the configuration it is one table of the array `classify`; those
rules come before the built-in ones:

    [[classify]]
    name = "corp-gateway"
    provider = "corp*"            # or several; * and ? as in the names of pools
    status = [429, "500-599"]     # any refusal but 401 and 403 if left out
    header = { "x-reason" = "^seats$" }
    code = ["too_many_sessions"]  # a code or a type in the body, as it stands there
    body = "seats? (taken|gone)"  # a pattern, found anywhere in what the body says
    signal = "concurrency-limited"
    account = true                # for the whole account, not for one model

    [[classify]]
    name = "my-agent"
    profile = "my-agent"          # only in the output of this kind of agent
    line = "FATAL: upstream said (?P<status>\\d+): (?P<body>.*)"   # from the start of the line
    signal = "quoted"             # what the line quotes is judged as an answer

`signal = "none"` says that what the rule describes says nothing about capacity. `retry = false`
says that a refusal's word on when to come back is not to be believed.
"""

import re
from collections.abc import Callable, Mapping

from headgate.core.answers.signals import ACCEPTED, REFUSALS
from headgate.core.key_patterns import HOST, parse_pattern
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import shown
from headgate.core.table_fields import FLAG, Field, FieldRefused, Fields, flag, pattern, read_fields
from headgate.errors import UsageError

NONE = "none"
"""The signal of a rule for what says nothing about capacity."""
QUOTED = "quoted"
"""The signal of a rule for lines that quote an answer: its `status` and `body` are judged."""


class Rule(NamedTuple):
    """What an answer or a line looks like, and what that means."""

    name: str
    signal: str
    provider: tuple[str, ...] = ()
    status: tuple[int | range, ...] = ()
    header: Mapping[str, str] = {}
    """Patterns by the name of the header, in lower case."""
    code: tuple[str, ...] = ()
    """In lower case; one of them is enough."""
    body: str = ""
    profile: str = ""
    line: str = ""
    account: bool = False
    retry: bool = True


def read_rule(
    entry: Mapping[str, object],
    usual_name: str,
    wrong: Callable[[str, str], None],
    shown: Callable[[object], str] = shown,
) -> Rule:
    """A rule from its table; `wrong` is told what is wrong with which field, or with all ("")."""
    said = read_fields(entry, FIELDS, wrong, shown)
    if "line" in entry:
        for name in ("body", "code", "header", "provider", "status"):
            if name in entry:
                wrong(name, "not beside line, which is for output")
    else:
        if not entry.keys() & {"status", "header", "code", "body"}:
            wrong("", "says not when it applies; name a status, header, code, body or line")
        if "profile" in entry:
            wrong("profile", "only beside line, which is for output")
        if said.get("signal") == QUOTED:
            wrong("signal", f'"{QUOTED}" is only for a line')
    return Rule(**{"name": usual_name, "signal": NONE, **said})


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= 200 or not value.isprintable():
        raise UsageError("not a line of text")
    return value.strip()


def _signal(value: object) -> str:
    if value not in _SIGNALS:
        raise UsageError("not a signal")
    return str(value)


def _headers(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not value:
        raise UsageError("not a table")
    found = {}
    for name, text in value.items():
        try:
            found[_text(name).lower()] = pattern(text)
        except re.error as error:
            raise FieldRefused(f"found a bad pattern for {shown(name)} ({error})") from None
    return found


def _provider(value: object) -> str:
    provider = parse_pattern(_text(value))
    if "/" in provider or provider == HOST:
        raise UsageError("not a provider")
    return provider


def _code(value: object) -> str:
    return _text(str(value) if type(value) is int else value).lower()


def _status(value: object) -> int | range:
    if type(value) is int and 100 <= value <= 599:
        return value
    low, _, high = value.partition("-") if isinstance(value, str) else ("", "", "")
    if not re.fullmatch(r"[1-5][0-9]{2}-[1-5][0-9]{2}", f"{low}-{high}") or low > high:
        raise UsageError("not a status")
    return range(int(low), int(high) + 1)


def _some(read: Callable[[object], object]) -> Callable[[object], tuple[object, ...]]:
    def several(value: object) -> tuple[object, ...]:
        if value == []:
            raise UsageError("none at all")
        return tuple(map(read, value if isinstance(value, list) else [value]))

    return several


_SIGNALS = (ACCEPTED, *REFUSALS, NONE, QUOTED)
_SIGNAL = f"one of {', '.join(_SIGNALS)}"
_PATTERN = "a regular expression of at most 1000 characters"
FIELDS: Fields = {
    "name": Field(
        _text,
        "one line of text",
        '"entry 1", "entry 2" … by its place',
        "What the rule is called where its verdict is shown.",
    ),
    "signal": Field(
        _signal,
        _SIGNAL,
        text="What it means; none says nothing about capacity, and with quoted a line quotes an "
        "answer, which is judged.",
        required=True,
    ),
    "provider": Field(
        _some(_provider),
        "a provider or a list of them, with * and ? allowed",
        "any",
        "The providers whose answers it is about.",
    ),
    "status": Field(
        _some(_status),
        'a status from 100 to 599, a range as "500-599", or a list of them',
        "any refusal but 401 and 403",
        "The status of the answer.",
    ),
    "header": Field(
        _headers,
        'a table of regular expressions, as in { "x-reason" = "^busy$" }',
        text="What is found in headers of the answer.",
    ),
    "code": Field(
        _some(_code),
        "a code or a list of them",
        text="A code or a type in the answer's body, as it stands there.",
    ),
    "body": Field(pattern, _PATTERN, text="What is found anywhere in what the body says."),
    "profile": Field(
        _text, "one line of text", "any", "The kind of agent whose output the line is in."
    ),
    "line": Field(
        pattern,
        _PATTERN,
        text="A line of an agent's output, from its start; then the rule is not for answers.",
    ),
    "account": Field(
        flag, FLAG, "false", "Whether it is about the whole account, and not one model."
    ),
    "retry": Field(
        flag, FLAG, "true", "Whether the answer's word on when to come back is to be believed."
    ),
}
