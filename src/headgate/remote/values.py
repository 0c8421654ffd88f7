"""Frozen values as JSON, and back: what a gate takes and what it gives, wherever it is.

Only values of the types that are listed here are made from what came over the network. A field that
this version does not know is left out, and one that the other side does not know has its default.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Any

from headgate import errors
from headgate.core.jobs.states import Word
from headgate.errors import HeadgateError, ServerError

_MODULES = (
    "headgate.core.display.snapshots",
    "headgate.core.display.deadlock",
    "headgate.core.admission.candidates",
    "headgate.core.admission.pools",
    "headgate.core.admission.seats",
    "headgate.core.host.pressure",
    "headgate.core.jobs.job",
    "headgate.ledger.jobs.lifecycle",
    "headgate.ledger.queries.work_filter",
)
_TYPE = "$"


@lru_cache(maxsize=1)
def _types() -> Mapping[str, Any]:
    """The types of which values are made here, by their names."""
    found: dict[str, Any] = {}
    for module in _MODULES:
        found |= {
            name: one
            for name, one in vars(import_module(module)).items()
            if isinstance(one, type) and one.__module__ == module and hasattr(one, "_fields")
        }
    return found


def encode(value: object) -> Any:  # noqa: ANN401, C901 - any JSON; a case for each kind
    """A value as JSON."""
    match value:
        case Word():
            return {_TYPE: "word", "is": value.value}
        case Enum():
            return encode(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {_TYPE: "float", "is": str(value)}
        case HeadgateError():
            return {_TYPE: "error", "is": type(value).__name__, "text": str(value)}
        case bytes():
            return {_TYPE: "bytes", "is": value.decode("latin-1")}
        case Mapping():
            return {_TYPE: "map", "is": [[encode(key), encode(one)] for key, one in value.items()]}
        case tuple() if hasattr(value, "_fields"):
            fields = {name: encode(getattr(value, name)) for name in value._fields}
            return {_TYPE: type(value).__name__, "is": fields}
        case tuple() | AbstractSet():
            return {_TYPE: "tuple", "is": [encode(one) for one in value]}
        case list():
            return [encode(one) for one in value]
        case _:
            raise TypeError(f"a {type(value).__name__} is no value that can be sent")


def decode(found: Any) -> Any:  # noqa: ANN401, C901 - any value; a case for each kind
    """A value from JSON."""
    if isinstance(found, list):
        return [decode(one) for one in found]
    if not isinstance(found, dict):
        return found
    what = found.get("is")
    match found.get(_TYPE):
        case "float":
            return float(str(what))
        case "error":
            kind = getattr(errors, str(what), HeadgateError)
            known = isinstance(kind, type) and issubclass(kind, HeadgateError)
            return (kind if known else HeadgateError)(str(found.get("text", "")))
        case "word":
            return Word(str(what))
        case "bytes":
            return str(what).encode("latin-1")
        case "map" if isinstance(what, list):
            return {decode(key): decode(one) for key, one in what}
        case "tuple" if isinstance(what, list):
            return tuple(decode(one) for one in what)
        case str(name) if isinstance(what, dict) and (made := _types().get(name)) is not None:
            fields = {field: decode(one) for field, one in what.items() if field in made._fields}
            try:
                return made(**fields)
            except TypeError:
                raise ServerError(f"a {name} of another version cannot be understood") from None
        case _:
            raise ServerError("something came over the network that this version does not know")
