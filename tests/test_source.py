"""What holds for every file of the source, and no linter checks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from headgate.ledger.transaction import rows

ROOT = Path(__file__).parents[1]
MOST = 4
"""So many values may stand in a row without their names; a fifth is easily taken for another."""
LEFT_ALONE = {"src/headgate/core/learning/control_law.py"}
"""The law is kept as it was derived and measured."""
LISTED = re.compile(r"^ *([a-z_]+)  +\S", re.MULTILINE)
"""A line of a docstring that names a module and says what is in it."""
ROWS = {
    f"{made.__module__}.{name}"
    for name, made in vars(rows).items()
    if isinstance(made, type) and issubclass(made, tuple)
    if made.__module__ == rows.__name__ or name == "Job"
}


def test_long_values_are_made_by_name() -> None:
    """No value is made of more than four others that are not named, or of an unknown number."""
    assert [
        where
        for where, call, _ in _makings()
        if len(call.args) > MOST or any(isinstance(value, ast.Starred) for value in call.args)
    ] == []


def test_rows_are_made_by_name() -> None:
    """A row of the ledger is made of named values only, whatever it has of them."""
    assert [where for where, call, made in _makings() if call.args and made in ROWS] == []


def test_packages_list_what_is_in_them() -> None:
    """A package that lists its modules lists all of them, and none that is not there."""
    wrong = {}
    for init in (ROOT / "src").rglob("__init__.py"):
        listed = set(LISTED.findall(ast.get_docstring(ast.parse(init.read_text())) or ""))
        there = {
            path.stem
            for path in init.parent.iterdir()
            if path.suffix == ".py" or (path / "__init__.py").exists()
        } - {"__init__", "__main__"}
        if listed and listed != there:
            wrong[str(init.relative_to(ROOT))] = listed ^ there
    assert wrong == {}


def _makings() -> Iterator[tuple[str, ast.Call, str]]:
    """Each call of a class: where it is, the call, and the class with the module it is from."""
    for folder in ("src", "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name not in LEFT_ALONE:
                yield from _of_file(name, ast.parse(path.read_text()))


def _of_file(name: str, tree: ast.Module) -> Iterator[tuple[str, ast.Call, str]]:
    module = name.removeprefix("src/").removesuffix(".py").replace("/", ".")
    origin = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            last = called.rpartition(".")[2]
            if last.strip("_")[:1].isupper():
                head, dot, rest = called.partition(".")
                made = origin.get(head, f"{module}.{head}") + dot + rest
                yield f"{name}:{node.lineno} {called}", node, made
