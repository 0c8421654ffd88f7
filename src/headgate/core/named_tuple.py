"""`NamedTuple`, as in `typing`, for a sixth of what it costs to make a class of it.

`typing.NamedTuple` compiles a constructor for every class as soon as its module is loaded, about
70 µs each. A command such as `status` loads ninety of them, and makes an instance of a third.
Here the constructor is compiled when the second instance is made. Everything else is the same, and
type checkers see `typing.NamedTuple` itself.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING or sys.version_info >= (3, 14):  # where annotations are kept in another way
    from typing import NamedTuple
else:
    from _collections import _tuplegetter  # what makes the fields of a namedtuple fast

    class _Named(tuple):
        """What every class of values has."""

        __slots__ = ()

        def __new__(cls, /, *args: object, **named: object) -> Self:
            """Make the first instance of a class, often its only one, without a constructor."""
            owner = next(one for one in cls.__mro__ if "_fields" in vars(one))
            owner.__new__ = _compiling(owner)
            fields = owner._fields
            given = dict(zip(fields, args, strict=False))
            values = {**owner._field_defaults, **given, **named}
            if len(args) > len(fields) or given.keys() & named or values.keys() != {*fields}:
                return owner.__new__(cls, *args, **named)  # which says what is wrong
            return tuple.__new__(cls, map(values.__getitem__, fields))

        @classmethod
        def _make(cls, values: Iterable[object]) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **named: object) -> Self:
            made = tuple.__new__(type(self), map(named.pop, self._fields, self))
            if named:
                raise TypeError(f"Got unexpected field names: {list(named)!r}")
            return made

        __replace__ = _replace

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            said = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({said})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    class _Maker(type):
        """Turns the body of a class into a tuple with named fields."""

        def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:  # NamedTuple itself
                return super().__new__(mcs, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"in {name} a field without a default follows one with a default")
            for index, field in enumerate(fields):
                body[field] = _tuplegetter(index, None)
            body |= {"__slots__": (), "__match_args__": fields, "_fields": fields}
            body["_field_defaults"] = defaults
            return type(name, (_Named, *bases[1:]), body)

    class NamedTuple(metaclass=_Maker):
        """The base of classes whose instances are tuples with named fields."""

    def _compiling(owner: type) -> Callable[..., Any]:
        """What compiles the constructor of a class when it is first called, and calls it."""

        def make(cls: type, /, *args: object, **named: object) -> Any:  # noqa: ANN401 - a value
            owner.__new__ = _constructor(owner)
            return owner.__new__(cls, *args, **named)

        return make

    def _constructor(owner: type) -> Callable[..., Any]:
        names = ", ".join(owner._fields)
        code = f"lambda _cls, {names}: _new(_cls, ({names}{',' if names else ''}))"
        make = eval(code, {"_new": tuple.__new__, "__builtins__": {}})  # noqa: S307 - names only
        make.__defaults__ = tuple(owner._field_defaults.values()) or None
        make.__name__ = "__new__"
        make.__qualname__ = f"{owner.__qualname__}.__new__"
        make.__module__ = owner.__module__
        return make


__all__ = ["NamedTuple"]
