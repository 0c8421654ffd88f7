"""What is kept as text, and how it is read again, by this version or another.

Processes of several versions share one store, and those of version 0.1.0 are what they are. So a
value is written to the byte as that version writes it. There are three forms:

    [2,8,2,2,1,1,0,[[3,1.0,5000,65000]],5000,1,0,0,true,8,true]    `JsonList`: its fields
    1700000000000 17                                               `FieldLine`: fields in a template
    a/b=1700000000000,host@m=1700000000250                         `FieldLines`: several of these

Reading it has three outcomes, and each is a type: None (there is no text), the value, or
`Unreadable`. A text is unreadable if it was cut off or damaged, or if a newer version wrote it: a
field more than is known here may change what the others mean. Who reads decides what counts then,
and that is the most careful of what is known.

Which fields a text has follows from the annotations of its type, so a new one is checked as well.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from math import isfinite
from types import NoneType, UnionType
from typing import (
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
_LARGEST = 2**200
"""Beyond it no number of ours lies, and arithmetic with it may overflow."""
_SMALLEST = -_LARGEST
_FIRST = r"\[([1-9][0-9]{0,17})[,\]]"
_FIELD = r"\{:?([^}]*)\}"


class Unreadable(NamedTuple):
    """A text that is kept and cannot be read here."""

    text: str

    @property
    def first(self) -> int | None:
        """The first number of its list, if it is there to its end; else None."""
        found = re.match(_FIRST, self.text)
        return int(found[1]) if found else None

    @property
    def why(self) -> str:
        """What is wrong with it, in words."""
        try:
            _list(_decoder()(self.text))
        except (ValueError, RecursionError):
            return "it is cut off, damaged, or of another version"
        return "another version wrote it"


class TextForm(Protocol[T]):
    """How values of one type are written."""

    exact: bool
    """Whether reading returns exactly what was written; False if digits may be lost."""

    def write(self, value: T) -> str:
        """A value as text."""

    def parse(self, text: str) -> T:
        """The value of a text; raises ValueError or OverflowError if it has none."""


class StoredText(Generic[T]):
    """One kind of text: its form, and which values of that form can be."""

    def __init__(
        self, form: TextForm[T], sound: Callable[[T], bool] = lambda _: True, *, size: int = 64
    ) -> None:
        self._form = form
        self._sound = sound
        self._remembered = lru_cache(maxsize=size)(self._read)
        self._written: tuple[str, T | None] = ("", None)

    def read(self, text: str) -> T | Unreadable | None:
        """The value of a text, None if it is empty. Each text is taken apart once at the most."""
        last, value = self._written
        return value if text == last else self._remembered(text)

    def write(self, value: T) -> str:
        """A value as text, to be kept."""
        text = self._form.write(value)
        if text and self._form.exact and self._sound(value):
            self._written = (text, value)  # whoever writes a text reads it next
        return text

    def _read(self, text: str) -> T | Unreadable | None:
        if not text:
            return None
        try:
            value = self._form.parse(text)
        except (ValueError, OverflowError, RecursionError):
            return Unreadable(text)
        return value if self._sound(value) else Unreadable(text)


class JsonList(Generic[T]):
    """A JSON list of the fields. It ends with a bracket, so it can be told if it was cut off."""

    exact = True

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def write(self, value: T) -> str:
        """A value as text."""
        return _encoder()(value)

    def parse(self, text: str) -> T:
        """The value of a text."""
        kind: Any = self._kind
        value: T = _reader(kind)(_decoder()(text))
        return value


class FieldLine(Generic[T]):
    """The fields in a template, as in `{} {:.3f}`.

    A text is accepted only if writing its value gives the same text again.
    """

    def __init__(self, kind: type[T], template: str) -> None:
        self._kind = kind
        self._template = template
        self.exact = "{:" not in template

    def write(self, value: T) -> str:
        """A value as text."""
        fields: Any = value
        try:
            return self._template.format(*fields)
        except TypeError:  # a field is None, which has no such format
            return self._template.format(*(_NOTHING if it is None else it for it in fields))

    def parse(self, text: str) -> T:
        """The value of a text."""
        pattern, readers = self._grammar
        found = pattern.fullmatch(text)
        if found is None:
            raise ValueError("other fields")
        value = self._kind(
            *[read(part) for read, part in zip(readers, found.groups(), strict=True)]
        )
        if self.write(value) != text:
            raise ValueError("written otherwise")
        return value

    @cached_property
    def _grammar(self) -> tuple[re.Pattern[str], list[Callable[[str], Any]]]:
        """What a text looks like, and what makes the fields of its parts."""
        literals_and_specs = re.split(_FIELD, self._template)
        hints = list(get_type_hints(self._kind).values())
        pattern = re.escape(literals_and_specs[0])
        readers = []
        for hint, spec, literal in zip(
            hints, literals_and_specs[1::2], literals_and_specs[2::2], strict=True
        ):
            part, read = _part(hint, spec)
            pattern += part + re.escape(literal)
            readers.append(read)
        return re.compile(pattern, re.ASCII), readers


class FieldLines(Generic[T]):
    """Several lines, with a mark between them."""

    def __init__(self, kind: type[T], template: str, between: str) -> None:
        self._line = FieldLine(kind, template)
        self._between = between
        self.exact = self._line.exact

    def write(self, value: Sequence[T]) -> str:
        """A value as text."""
        return self._between.join(map(self._line.write, value))

    def parse(self, text: str) -> tuple[T, ...]:
        """The value of a text."""
        return tuple(map(self._line.parse, text.split(self._between)))


class _Nothing:
    """Written as nothing, whatever the template says."""

    def __format__(self, spec: str) -> str:
        return ""


_NOTHING = _Nothing()


def _part(hint: Any, spec: str) -> tuple[str, Callable[[str], Any]]:  # noqa: ANN401 - any type
    """What a field looks like in a line, and what reads it."""
    if hint is str:
        return r"([^,;=|]*)", str
    if hint is int and not spec:
        return r"(-?\d{1,18})", int
    if hint is int:
        return r"(-?\d[\d.e+]{0,30})", _whole_of
    if hint is float:
        return r"(-?\d[\d.e+-]{0,30})", _float_of
    return r"(-?\d[\d.e+-]{0,30}|)", lambda part: _float_of(part) if part else None


def _float_of(part: str) -> float:
    number = float(part)
    if not _SMALLEST < number < _LARGEST:
        raise ValueError("no number")
    return number


def _whole_of(part: str) -> int:
    return int(part) if part.isdecimal() else int(_float_of(part))


def whole(text: str, most: int) -> int | None:
    """A plain whole number from 0 to `most`; None if the text is none."""
    plain = len(text) <= 19 and text.isascii() and text.isdecimal()
    return number if plain and (number := int(text)) <= most else None


@cache
def _encoder() -> Callable[[object], str]:
    import json

    return json.JSONEncoder(separators=(",", ":")).encode


@cache
def _decoder() -> Callable[[str], object]:
    import json

    return json.JSONDecoder(parse_constant=_refuse).decode


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no number")


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any type at all
    """What makes a value of this type of what JSON has, or raises ValueError."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, UnionType):
        (inner,) = (_reader(one) for one in get_args(kind) if one is not NoneType)
        return lambda found: None if found is None else inner(found)
    if get_origin(kind) is tuple:
        item = _reader(get_args(kind)[0])
        if get_args(kind)[0] is float:
            return lambda found: tuple(_numbers(_list(found)))
        return lambda found: tuple(map(item, _list(found)))
    hints = get_type_hints(kind)
    needed = len(hints) - len(kind._field_defaults)
    readers = [_reader(hint) for hint in hints.values()]
    kinds = list(hints.values())
    plain = set(kinds) <= {int, float}

    def read(found: object) -> object:
        values = _list(found)
        if plain and [*map(type, values)] == kinds:
            return kind._make(_numbers(values))  # as we write them: no need to look at each
        if not needed <= len(values) <= len(readers):
            raise ValueError(f"{len(values)} fields")
        return kind(*[field(value) for field, value in zip(readers, values, strict=False)])

    return read


def _list(found: object) -> list[Any]:
    if type(found) is not list:
        raise ValueError("no list")
    return found


def _numbers(values: list[Any]) -> list[Any]:
    if values and not ({*map(type, values)} <= {int, float} and max(map(abs, values)) <= _LARGEST):
        raise ValueError("not only numbers")
    return values


def _whole_number(found: object) -> int:
    if type(found) is not int or abs(found) > _LARGEST:
        raise ValueError("no whole number")
    return found


def _number(found: object) -> float:
    if type(found) not in {int, float} or not (abs(found) < _LARGEST and isfinite(found)):  # type: ignore[arg-type]
        raise ValueError("no number")
    return found  # type: ignore[return-value]


def _flag(found: object) -> bool:
    if type(found) is not bool:
        raise ValueError("neither true nor false")
    return found


def _text(found: object) -> str:
    if type(found) is not str:
        raise ValueError("no text")
    return found


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole_number,
    float: _number,
    bool: _flag,
    str: _text,
}
