"""Our `NamedTuple` against the one of `typing`: the same class body, made by both."""

import copy
import pickle
import sys
import typing
from typing import Any

import pytest

from headgate.core.named_tuple import NamedTuple

BODY = '''
class Value(NamedTuple):
    """A value."""
    cls: str
    self: int = 2
    named: tuple[int, ...] = ()
    """A field's own words."""

    @property
    def twice(self) -> int:
        """A property."""
        return self.self * 2

class Nothing(NamedTuple):
    """Without fields."""

class Child(Value):
    """Made from another."""
    __slots__ = ()
'''


def made(base: Any) -> dict[str, Any]:  # noqa: ANN401 - either of two special forms
    names: dict[str, Any] = {"NamedTuple": base, "Any": Any, "__name__": __name__}
    exec(BODY, names)  # noqa: S102 - our own text
    return names


OURS, THEIRS = made(NamedTuple), made(typing.NamedTuple)
Value = OURS["Value"]  # where pickle looks for it


EXPRESSIONS = [
    "Value('a')",
    "Value(cls='a', self=3, named=(4,))",
    "Value(*'ab')",
    "Value()",
    "Value('a', 1, (), 5)",
    "Value('a', cls='b')",
    "Value('a', other=1)",
    "Value('a') == ('a', 2, ())",
    "hash(Value('a'))",
    "Value('a') < Value('b')",
    "Value('a').twice",
    "Value('a')._replace(self=7)",
    "Value('a')._asdict()",
    "Value._make(['x', 1, ()])",
    "Value._make('x')",
    "Value._fields",
    "Value._field_defaults",
    "Value.__match_args__",
    "Value.__doc__",
    "Value.__mro__[-2:]",
    "Value('a').__getnewargs__()",
    "Value('a').__slots__",
    "Nothing()",
    "Nothing() == ()",
    "Child('a', 5)",
    "type(Child('a')).__name__",
    "Child('a')._replace(self=1)",
    "isinstance(Child('a'), Value)",
]


def test_it_does_what_the_one_of_typing_does() -> None:
    """The same values come out, and the same kinds of errors, of a new class and of a used one."""
    for text in EXPRESSIONS:
        new = made(NamedTuple)
        found = [outcome(text, names) for names in (new, new, new, OURS)]
        assert found == [outcome(text, THEIRS)] * 4, text


def outcome(expression: str, names: dict[str, Any]) -> object:
    try:
        return repr(eval(expression, names))  # noqa: S307 - our own text
    except (TypeError, ValueError) as error:
        return type(error)


def test_values_can_be_copied_and_pickled() -> None:
    """They come back as the same class."""
    value = Value("a", 5)
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):  # noqa: S301
        assert again == value
        assert type(again) is Value


def test_a_value_has_no_other_attributes() -> None:
    """What is not a field cannot be set, and no field can be changed."""
    value = Value("a")
    for name in ("self", "other"):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)


def test_unknown_names_are_not_replaced() -> None:
    """A typing mistake in `_replace` is an error."""
    with pytest.raises((TypeError, ValueError)):
        Value("a")._replace(others=1)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the one of typing is used there")
def test_a_field_without_default_cannot_follow_one_with() -> None:
    """The class itself is refused, as typing does."""
    body = "class Odd(NamedTuple):\n    a: int = 1\n    b: int\n"
    with pytest.raises(TypeError, match="default"):
        exec(body, {"NamedTuple": NamedTuple})  # noqa: S102 - our own text
