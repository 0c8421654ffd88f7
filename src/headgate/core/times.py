"""Milliseconds and seconds, which mypy does not let anybody mix up.

Whatever is kept or decided is in whole milliseconds, `Ms`: moments on the store's clock, and how
long something takes. Whatever people are told and whatever Python's own functions take is in
`Seconds`. At run time they are `int` and `float`, and cost nothing.

    Ms + Ms, Ms - Ms            an Ms
    Ms + 5                      a plain number, which is no Ms: say `Ms(5)`
    Seconds + Seconds, or 5.0   Seconds, for people write them as plain numbers
    Ms and Seconds              an error, compared too, and each where the other is expected

A plain number is neither where one of them is expected: `Ms(500)`, `Seconds(time.time())`.
An `Ms` passes for an `int`, and thereby for a `float`, where no unit is asked for.
"""

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

    class Number(Protocol):
        """A number without a unit: from a plain one neither `Ms` nor `Seconds` is subtracted."""

        def __rsub__(self, other: int, /) -> float: ...  # type: ignore[misc]

    class Ms(int):
        """Whole milliseconds: a moment on the store's clock, or how long something takes."""

        def __add__(self, other: "Ms", /) -> "Ms": ...  # type: ignore[override]
        def __radd__(self, other: "Ms", /) -> "Ms": ...  # type: ignore[override]
        def __sub__(self, other: "Ms", /) -> "Ms": ...  # type: ignore[override]
        def __rsub__(self, other: "Ms", /) -> "Ms": ...  # type: ignore[override]
        def __mul__(self, other: int, /) -> "Ms": ...
        def __rmul__(self, other: int, /) -> "Ms": ...
        def __floordiv__(self, other: int, /) -> "Ms": ...
        def __mod__(self, other: int, /) -> "Ms": ...
        def __neg__(self) -> "Ms": ...
        def __abs__(self) -> "Ms": ...
        def __eq__(self, other: "Ms | Number | None", /) -> bool: ...  # type: ignore[override]
        def __ne__(self, other: "Ms | Number | None", /) -> bool: ...  # type: ignore[override]
        def __hash__(self) -> int: ...
        def __lt__(self, other: "Ms | Number", /) -> bool: ...
        def __le__(self, other: "Ms | Number", /) -> bool: ...
        def __gt__(self, other: "Ms | Number", /) -> bool: ...
        def __ge__(self, other: "Ms | Number", /) -> bool: ...

    class Seconds(float):
        """Seconds: how long something takes, or a moment since the epoch."""

        def __add__(self, other: "Seconds | Number", /) -> "Seconds": ...
        def __radd__(self, other: "Seconds | Number", /) -> "Seconds": ...
        def __sub__(self, other: "Seconds | Number", /) -> "Seconds": ...
        def __rsub__(self, other: "Seconds", /) -> "Seconds": ...  # type: ignore[override]
        def __mul__(self, other: float, /) -> "Seconds": ...
        def __rmul__(self, other: float, /) -> "Seconds": ...
        def __truediv__(self, other: float, /) -> "Seconds": ...
        def __neg__(self) -> "Seconds": ...
        def __abs__(self) -> "Seconds": ...
        def __eq__(self, other: "Seconds | Number | None", /) -> bool: ...  # type: ignore[override]
        def __ne__(self, other: "Seconds | Number | None", /) -> bool: ...  # type: ignore[override]
        def __hash__(self) -> int: ...
        def __lt__(self, other: "Seconds | Number", /) -> bool: ...
        def __le__(self, other: "Seconds | Number", /) -> bool: ...
        def __gt__(self, other: "Seconds | Number", /) -> bool: ...
        def __ge__(self, other: "Seconds | Number", /) -> bool: ...

else:
    Ms = int
    Seconds = float

NO_TIME = Ms(0)
"""No time at all; as a moment that is kept, none."""


def ms(seconds: Seconds) -> Ms:
    """Milliseconds, to the nearest."""
    return Ms(round(seconds * 1_000))


def ms_up(seconds: Seconds) -> Ms:
    """Milliseconds, rounded up: whoever waits so long has not waited too short."""
    return Ms(math.ceil(seconds * 1_000))


def seconds(ms: Ms) -> Seconds:
    """Seconds."""
    return Seconds(ms / 1_000)
