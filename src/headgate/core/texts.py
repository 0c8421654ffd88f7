"""What is kept as text, and how it is read again, by this version or another.

A value is written as a JSON list of its fields, a `#` and a checksum of the list:

    [2,8,2,2,1,1,0,[[3,1.0,5000,65000]],5000,1,0,0,true,8,true]#5b0c8f1d

Reading it has three outcomes, and each is a type: None (there is no text), the value, or
`Unreadable`. A text is unreadable if it was cut off or damaged, or if a newer version wrote it: a
field more than is known here may change what the others mean. Who reads decides what counts then,
and that is the most careful of what is known. A list without a checksum is read too, since earlier
versions wrote none.

The shape of a text follows from the annotations of its type, so a new field is checked as well.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from zlib import crc32

T = TypeVar("T")
_LARGEST = 2**200
"""Beyond it no number of ours lies, and arithmetic with it may overflow."""
_FIRST = re.compile(r"\[(\d{1,18})[,\]]")
_MARK = re.compile(r"#[0-9a-f]{8}\Z")


class Unreadable(NamedTuple):
    """A text that is kept and cannot be read here."""

    text: str

    @property
    def intact(self) -> bool:
        """Whether it is as its writer left it: then another version wrote it."""
        return _checked(self.text) is not None

    @property
    def first(self) -> int | None:
        """The first number of its list, where no damage can have changed it; else None.

        A text that was cut off lacks its checksum, and begins as it was written. One that has a
        checksum, and a wrong one, may be wrong anywhere.
        """
        if _MARK.search(self.text) and not self.intact:
            return None
        found = _FIRST.match(self.text)
        return int(found[1]) if found else None

    @property
    def why(self) -> str:
        """What is wrong with it, in words."""
        return "another version wrote it" if self.intact else "it is cut off or damaged"


class Shape(Generic[T]):
    """One kind of text: how its values are written and read."""

    def __init__(
        self, kind: object, sound: Callable[[T], bool] = lambda _: True, *, size: int = 64
    ) -> None:
        self._kind = kind
        self._sound = sound
        self._remembered = lru_cache(maxsize=size)(self._read)
        self._written: tuple[str, T | None] = ("", None)

    def read(self, text: str) -> T | Unreadable | None:
        """The value of a text, None if it is empty. Each text is taken apart once at the most."""
        last, value = self._written
        return value if text == last else self._remembered(text)

    def write(self, value: T) -> str:
        """A value as text, to be kept."""
        text = seal(_encoder()(value))
        if self._sound(value):
            self._written = (text, value)  # whoever writes a text reads it next
        return text

    def _read(self, text: str) -> T | Unreadable | None:
        if not text:
            return None
        body = _checked(text)
        try:
            value: T = _reader(self._kind)(_decoder()(text if body is None else body))
        except (ValueError, RecursionError):
            return Unreadable(text)
        return value if self._sound(value) else Unreadable(text)


def seal(body: str) -> str:
    """A text with its checksum."""
    return f"{body}#{_checksum(body)}"


def unseal(text: str) -> str:
    """A text without its checksum, if it has the right one; else the text as it is."""
    body = _checked(text)
    return text if body is None else body


def _checked(text: str) -> str | None:
    body, _, mark = text.rpartition("#")
    return body if body and mark == _checksum(body) else None


def _checksum(body: str) -> str:
    return f"{crc32(body.encode(errors='replace')):08x}"


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
