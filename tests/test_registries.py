"""The tables that the reference is made of say all that the code does, and nothing else."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

from headgate import errors
from headgate.cli import VERBS
from headgate.cli.shared.exit_codes import EXIT_CODES
from headgate.core import environment, events, reasons
from headgate.core.display import snapshots
from headgate.core.jobs.states import ENDED
from headgate.runner import program_under_lease
from tests.literals import SOURCE, Place, Texts, argument, places

KIND_AT = {
    "ledger.tell": (0, "kind"),
    "tell_of": (2, "kind"),
    "release": (2, "kind"),
    "release.release": (2, "kind"),
    "withdraw": (2, "kind"),
    "release.withdraw": (2, "kind"),
    "_Cut": (2, "kind"),
    "EventRow": (None, "kind"),
    "Event": (None, "event"),
}
"""Calls that make an event, or pass its kind on: where the kind is among what they take."""
KINDS = Texts(
    {
        "job.state.word.value": [word.value for word in ENDED],
        "cut.kind": [],
        "row.kind": [],
    },
    passing=("tell", "tell_of", "release", "withdraw"),
)
CODE_AT = {
    "Reason": 0,
    "Why": 0,
    "WatchVerdict": 0,
    "Pressure": 0,
    "End": 1,
    "EndAsked": 1,
}
CODES = Texts(
    dict.fromkeys(
        (
            "cause.code",
            "end.code",
            "first.code",
            "found.code",
            "job.code",
            "reason.code",
            "reasons[0].code",
            "row.code",
            "spot.code",
            "why.code",
        ),
        (),
    ),
    passing=("read_job",),
)


def test_every_kind_of_event_is_described() -> None:
    """Whatever the code tells of is in the table, and nothing is there that it never tells of."""
    told: set[str] = set()
    for place in places("."):
        if isinstance(place.node, ast.Call):
            told |= KINDS.of(place, _kind(place.node))
    assert told == {*events.KINDS, *events.ONLY_TOLD}


def _kind(call: ast.Call) -> ast.expr | None:
    """The kind of event that a call is given, if it makes one; whoever tells of a text does."""
    match call:
        case ast.Call(func=ast.Attribute(attr="tell"), args=[ast.Constant() as kind, *_]):
            return kind
        case _:
            at = KIND_AT.get(ast.unparse(call.func))
            return None if at is None else argument(call, *at)


def test_every_reason_code_is_described() -> None:
    """Whatever code the code gives is in the table, and none is there that it never gives."""
    used = set().union(*(CODES.of(place, node) for place, node in _codes()))
    known = [code for codes in reasons.REASONS.values() for code in codes]
    assert used == set(known)
    assert len(known) == len(set(known))
    assert set(reasons.WAITING) == set(snapshots._SENTENCES)


def _codes() -> Iterator[tuple[Place, ast.AST]]:
    """Each expression that becomes the code of a reason."""
    for place in places("core", "ledger", "gate", "work", "store"):
        if place.path.is_relative_to(SOURCE / "core" / "answers"):
            continue  # their codes are those of providers
        node = place.node
        if isinstance(node, ast.Call):
            made = argument(node, CODE_AT.get(ast.unparse(node.func)), "code")
            if made is not None:
                yield place, made
        elif (
            isinstance(node, ast.Return) and place.functions[0].name == "write_code" and node.value
        ):
            yield place, node.value


def test_every_variable_is_described() -> None:
    """Each environment variable that the code names is in a table, and no other."""
    known = [name for names in environment.VARIABLES.values() for name in names]
    assert {*_read(), *_named()} == set(known)
    assert len(known) == len(set(known))


def _named() -> Iterator[str]:
    """Our own variables wherever they are mentioned, and what the profiles of agents name."""
    for path in sorted(SOURCE.rglob("*.*")):
        if path.suffix != ".pyc" and path.name != "environment.py":
            yield from re.findall(r"HEADGATE_[A-Z_]+", path.read_text())
    for path in sorted((SOURCE / "config" / "profiles").glob("*.toml")):
        yield from re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', path.read_text())


def _read() -> Iterator[str]:
    """What is looked up in an environment, and what is written like a variable of others."""
    for place in places("."):
        match place.node:
            case ast.Call(
                func=ast.Attribute(value=holder, attr="get"), args=[ast.Constant(name), *_]
            ):
                if ast.unparse(holder).rpartition(".")[2] in {"environ", "environment", "env"}:
                    yield str(name)
            case ast.Constant(value=str() as text) if place.path.name != "environment.py":
                if re.fullmatch(r"[A-Z]+_API_KEY|XDG_[A-Z_]+|https?_proxy|HTTPS?_PROXY", text):
                    yield text


def test_every_exit_code_is_described() -> None:
    """What errors, verbs and the runner end with is in the table, and nothing else is."""
    found = {str(error.exit_code) for error in _errors(errors.HeadgateError)}
    found |= {str(program_under_lease.CANNOT_START), str(program_under_lease.NOT_FOUND)}
    for place in places("cli"):
        if isinstance(place.node, ast.Return) and _is_verb(place):
            found |= set(_numbers(place, place.node.value))
    assert found == {*EXIT_CODES, "130", "141"} - {"128+n"}
    assert "130" in EXIT_CODES["128+n"]
    assert "141" in EXIT_CODES["128+n"]


def _errors(error: type[errors.HeadgateError]) -> Iterator[type[errors.HeadgateError]]:
    yield error
    for more in error.__subclasses__():
        yield from _errors(more)


def _is_verb(place: Place) -> bool:
    """Whether a place is in a function of a verb that gives a number."""
    returns = place.functions[0].returns
    verb = place.path.stem in {*VERBS, "__init__"} and place.path.parent.name == "cli"
    return verb and returns is not None and ast.unparse(returns) == "int"


def _numbers(place: Place, node: ast.AST | None) -> Iterator[str]:
    match node:
        case ast.Constant(value=int() as number):
            yield str(number)
        case ast.IfExp():
            yield from (*_numbers(place, node.body), *_numbers(place, node.orelse))
        case ast.Name(id=name) if name.isupper():
            yield str(getattr(import_module(f"headgate.cli.{place.path.stem}"), name))
