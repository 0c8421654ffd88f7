"""Finds the texts that an expression of the source can be, by reading the code around it."""

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "headgate"


class Place(NamedTuple):
    """A node of a source file, and the functions around it, innermost first."""

    path: Path
    node: ast.AST
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]

    def __str__(self) -> str:
        line = getattr(self.node, "lineno", 0)
        return f"{self.path.relative_to(SOURCE)}:{line}: {ast.unparse(self.node)}"


def places(*folders: str) -> Iterator[Place]:
    """Every node of the modules in some folders of the source."""
    for path in sorted(file for folder in folders for file in (SOURCE / folder).rglob("*.py")):
        yield from _of_file(path)


@cache
def _of_file(path: Path) -> list[Place]:
    return list(_under(path, ast.parse(path.read_text()), ()))


def _under(
    path: Path, node: ast.AST, functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
) -> Iterator[Place]:
    yield Place(path, node, functions)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        functions = (node, *functions)
    for child in ast.iter_child_nodes(node):
        yield from _under(path, child, functions)


def argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    """What a call gives for a parameter; None if it leaves that to the default."""
    for word in call.keywords:
        if word.arg == name:
            return word.value
    return call.args[position] if position is not None and position < len(call.args) else None


class Texts:
    """Which texts an expression can be.

    `known` are expressions that cannot be followed, with the texts that they can be: none if they
    only pass on what is found elsewhere. `passing` are functions whose parameter is such, since
    every call of them is looked at.
    """

    def __init__(self, known: Mapping[str, Collection[str]], passing: Collection[str] = ()) -> None:
        self._known = known
        self._passing = passing

    def of(self, place: Place, node: ast.AST | None) -> set[str]:
        """All of them. An expression that cannot be followed fails the test: it must be named."""
        match node:
            case None:
                return set()
            case ast.Constant(value=None | ""):
                return set()
            case ast.Constant(value=str() as text):
                return {text}
            case ast.IfExp():
                return self.of(place, node.body) | self.of(place, node.orelse)
            case ast.Name():
                return self._named(place, node.id)
            case _:
                pass
        said = ast.unparse(node)
        assert said in self._known, f"{place}: cannot tell what {said} can be"
        return set(self._known[said])

    def _named(self, place: Place, name: str) -> set[str]:
        for function in place.functions:
            found = [value for node in ast.walk(function) for value in _set_to(node, name)]
            parameters = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
            texts = set().union(*(self.of(place, node) for node in found)) if found else set()
            if name in parameters:
                assert function.name in self._passing, f"{place}: who calls {function.name}?"
                return texts | self.of(place, _default(function, name))
            if found:
                return texts
        relative = place.path.relative_to(SOURCE.parent).with_suffix("")
        module = import_module(".".join(relative.parts).removesuffix(".__init__"))
        return {str(getattr(module, name))}


def _set_to(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a node sets a name to, if it does."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == name:
                yield node.value
            if isinstance(target, ast.Tuple):
                same = [node.value] * len(target.elts)
                values = node.value.elts if isinstance(node.value, ast.Tuple) else same
                pairs = zip(target.elts, values, strict=True)
                yield from (
                    v for part, v in pairs if isinstance(part, ast.Name) and part.id == name
                )


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    arguments = function.args
    last = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    found = dict(zip((arg.arg for arg in last), arguments.defaults, strict=True))
    return found.get(name)
